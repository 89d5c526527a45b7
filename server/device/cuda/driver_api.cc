#include "server/device/cuda/driver_api.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::device {
namespace {

#define WARPLINE_STRING(text) #text
#define WARPLINE_SYMBOL(name) WARPLINE_STRING(name)

std::string driver_path = "libcuda.so.1";  // NOLINT: written before there are threads.
void* driver_library = nullptr;

absl::StatusOr<const DriverApi*> Load() {
  void* library = dlopen(driver_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat("no NVIDIA driver: ", dlerror()));
  }
  driver_library = library;
  static DriverApi api;
#define WARPLINE_LOAD(name)                                                                       \
  api.p_##name = reinterpret_cast<decltype(api.p_##name)>(dlsym(library, WARPLINE_SYMBOL(name))); \
  if (api.p_##name == nullptr) {                                                                  \
    return absl::UnavailableError(                                                                \
        absl::StrCat("the NVIDIA driver is too old: no ", WARPLINE_SYMBOL(name)));                \
  }
  WARPLINE_DRIVER_FUNCTIONS(WARPLINE_LOAD)
#undef WARPLINE_LOAD
  bool green = true;
#define WARPLINE_LOAD(name)                                                                       \
  api.p_##name = reinterpret_cast<decltype(api.p_##name)>(dlsym(library, WARPLINE_SYMBOL(name))); \
  green = green && api.p_##name != nullptr;
  WARPLINE_GREEN_FUNCTIONS(WARPLINE_LOAD)
#undef WARPLINE_LOAD
#define WARPLINE_DROP(name) api.p_##name = nullptr;
  if (!green) {
    WARPLINE_GREEN_FUNCTIONS(WARPLINE_DROP)
  }
#undef WARPLINE_DROP
  api.p_cuTensorMapEncodeIm2colWide = reinterpret_cast<decltype(api.p_cuTensorMapEncodeIm2colWide)>(
      dlsym(library, "cuTensorMapEncodeIm2colWide"));
  api.p_cuFuncLoad = reinterpret_cast<decltype(api.p_cuFuncLoad)>(dlsym(library, "cuFuncLoad"));
  api.p_cuGraphAddNode = reinterpret_cast<decltype(api.p_cuGraphAddNode)>(
      dlsym(library, WARPLINE_SYMBOL(cuGraphAddNode)));
  api.p_cuGraphConditionalHandleCreate =
      reinterpret_cast<decltype(api.p_cuGraphConditionalHandleCreate)>(
          dlsym(library, WARPLINE_SYMBOL(cuGraphConditionalHandleCreate)));
  const CudaResult init = ToResult(api.p_cuInit(0));
  if (init != CudaResult::kSuccess) {
    return absl::UnavailableError(absl::StrCat("cuInit: ", CudaResultName(init)));
  }
  return &api;
}

}  // namespace

void UseDriverAt(std::string path) { driver_path = std::move(path); }
void* DriverLibrary() { return driver_library; }

absl::StatusOr<const DriverApi*> LoadDriver() {
  static const absl::StatusOr<const DriverApi*>* api = new absl::StatusOr<const DriverApi*>(Load());
  return *api;
}

}  // namespace warpline::device
