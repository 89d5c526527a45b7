#include "client_stub/core/modules.h"

#include <deque>
#include <memory>
#include <utility>

#include "client_stub/core/runtime.h"
#include "common/mutex.h"

namespace warpline::stub {
namespace {

// More than calls that take their time between two steps.
constexpr size_t kKeptModules = 256;

struct Graveyard {
  Mutex mu;
  std::deque<std::unique_ptr<Module>> modules ABSL_GUARDED_BY(mu);
};

void UnloadAndKeep(Module* module) {
  static Graveyard* const graveyard = new Graveyard;
  module->Unload();
  std::unique_ptr<Module> oldest;
  MutexLock lock(&graveyard->mu);
  graveyard->modules.emplace_back(module);
  if (graveyard->modules.size() <= kKeptModules) return;
  oldest = std::move(graveyard->modules.front());
  graveyard->modules.pop_front();
}

}  // namespace

Module* FindModule(CUmodule handle) {
  const ModuleRef* ref = runtime().modules.Find(NumberOf(handle));
  return ref == nullptr ? nullptr : ref->module;
}

Module* FindLibrary(CUlibrary handle) {
  const ModuleRef* ref = runtime().libraries.Find(NumberOf(handle));
  return ref == nullptr ? nullptr : ref->module;
}

CUresult AddModule(const Context* context, std::string_view image, JitOptions* options,
                   CUmodule* module) {
  Module* const added = new Module(context, image, /*preserved=*/true, options->wire());
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
  Module* const added = new Module(nullptr, image, preserved, options->wire());
  const uint64_t handle =
      runtime().libraries.Add([added](ModuleRef& ref, uint64_t) { ref.module = added; });
  if (handle == 0) {
    delete added;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // What loading ended with is the first look-up's to return.
  if (options->wants_log()) added->WriteLog(options);
  *library = HandleOf<CUlibrary>(handle);
  return CUDA_SUCCESS;
}

CUlibrary LibraryOf(const Module* module) {
  CUlibrary found = nullptr;
  runtime().libraries.ForEach([&](const ModuleRef& ref, uint64_t handle) {
    if (ref.module == module) found = HandleOf<CUlibrary>(handle);
    return found == nullptr;
  });
  return found;
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
  Module* const module = FindLibrary(handle);
  if (module == nullptr || !runtime().libraries.Remove(NumberOf(handle), [](ModuleRef&) {})) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  UnloadAndKeep(module);
  return CUDA_SUCCESS;
}

void ResetLibraries() {
  runtime().libraries.ForEach([](const ModuleRef& ref, uint64_t) {
    ref.module->Reset();
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
