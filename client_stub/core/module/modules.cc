#include "client_stub/core/module/modules.h"

#include <deque>
#include <memory>
#include <utility>

#include "client_stub/core/runtime/runtime.h"
#include "common/mutex.h"

namespace warpline::stub {
namespace {

// More than the number of calls that may be under way with an unloaded module.
constexpr size_t kKeptModules = 256;

template <typename T>
struct Graveyard {
  Mutex mu;
  std::deque<std::unique_ptr<T>> dead ABSL_GUARDED_BY(mu);
};

// `T` is Module or Library.
template <typename T>
void UnloadAndKeep(T* unloaded) {
  static Graveyard<T>* const graveyard = new Graveyard<T>;
  unloaded->Unload();
  std::unique_ptr<T> oldest;
  MutexLock lock(&graveyard->mu);
  graveyard->dead.emplace_back(unloaded);
  if (graveyard->dead.size() <= kKeptModules) return;
  oldest = std::move(graveyard->dead.front());
  graveyard->dead.pop_front();
}

}  // namespace

Module* FindModule(CUmodule handle) {
  const ModuleRef* ref = runtime().modules.Find(NumberOf(handle));
  return ref == nullptr ? nullptr : ref->module;
}

Library* FindLibrary(CUlibrary handle) {
  const LibraryRef* ref = runtime().libraries.Find(NumberOf(handle));
  return ref == nullptr ? nullptr : ref->library;
}

CUresult AddModule(const Context* context, std::string_view image, JitOptions* options,
                   CUmodule* module) {
  Module* const added =
      new Module(context->device, context, nullptr, {image, nullptr}, options->wire());
  CUresult result = added->Check();
  if (options->wants_log()) added->WriteLog(options);
  if (result != CUDA_SUCCESS) {
    added->Unload();
    delete added;
    return result;
  }
  *module = added->ModuleHandle();
  return *module == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult AddLibrary(std::string_view image, bool preserved, JitOptions* options,
                    CUlibrary* library) {
  ModuleImage kept = {image, nullptr};
  if (!preserved) {
    kept.copy = std::make_shared<const std::string>(image);
    kept.bytes = *kept.copy;
  }
  Library* const added = new Library(std::move(kept), options->wire());
  const uint64_t handle = runtime().libraries.Add([added](LibraryRef& ref, uint64_t number) {
    added->handle = HandleOf<CUlibrary>(number);
    ref.library = added;
  });
  if (handle == 0) {
    delete added;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // The first look-up returns the error with which loading ended.
  if (options->wants_log()) added->On(&CurrentDevice())->WriteLog(options);
  *library = added->handle;
  return CUDA_SUCCESS;
}

CUresult RemoveModule(CUmodule handle) {
  Module* const module = FindModule(handle);
  // A library's module ends with the library.
  if (module == nullptr || module->context() == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!runtime().modules.Remove(NumberOf(handle), [](ModuleRef&) {})) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  UnloadAndKeep(module);
  return CUDA_SUCCESS;
}

CUresult RemoveLibrary(CUlibrary handle) {
  Library* const library = FindLibrary(handle);
  if (library == nullptr || !runtime().libraries.Remove(NumberOf(handle), [](LibraryRef&) {})) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  UnloadAndKeep(library);
  return CUDA_SUCCESS;
}

void ResetLibraries(const Device& device) {
  runtime().libraries.ForEach([&](const LibraryRef& ref, uint64_t) {
    ref.library->Reset(device);
    return true;
  });
}

void UnloadModulesOf(const Context* context) {
  runtime().modules.ForEach([context](const ModuleRef& ref, uint64_t handle) {
    if (ref.module->context() == context) RemoveModule(HandleOf<CUmodule>(handle));
    return true;
  });
}

}  // namespace warpline::stub
