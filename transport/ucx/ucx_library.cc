#include "transport/ucx/ucx_library.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/own_library.h"

// Where this library's own descriptors are, if it is a guest (common/guest_descriptors.c). A server
// has no such variable.
extern "C" int warpline_descriptors_from __attribute__((weak));

namespace warpline::ucx_internal {
namespace {

constexpr char kShim[] = "libwarpline_ucx.so";

absl::StatusOr<const UcxLibrary*> Load() {
  const auto path = FindBeside(kShim, "transport/ucx");
  if (!path.ok()) return absl::UnavailableError(path.status().message());
  int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  // Sanitizer runtimes end a process that uses RTLD_DEEPBIND.
  if (dlsym(RTLD_DEFAULT, "__asan_init") == nullptr &&
      dlsym(RTLD_DEFAULT, "__tsan_init") == nullptr) {
    flags |= RTLD_DEEPBIND;
  }
  void* const shim = dlopen(path->c_str(), flags);
  if (shim == nullptr) return absl::UnavailableError(absl::StrCat("cannot load UCX: ", dlerror()));
  auto* const from = static_cast<int*>(dlsym(shim, "warpline_descriptors_from"));
  if (from != nullptr && &warpline_descriptors_from != nullptr) *from = warpline_descriptors_from;
  auto* const library = new UcxLibrary();
#define UCX_FUNCTION(name)                                                 \
  library->name = reinterpret_cast<decltype(&::name)>(dlsym(shim, #name)); \
  if (library->name == nullptr) {                                          \
    delete library;                                                        \
    return absl::UnavailableError("this UCX has no " #name);               \
  }
#include "transport/ucx/ucx_functions.inc"
#undef UCX_FUNCTION
  return library;
}

}  // namespace

absl::StatusOr<const UcxLibrary*> UcxLibrary::Get() {
  static const absl::StatusOr<const UcxLibrary*>* const library =
      new absl::StatusOr<const UcxLibrary*>(Load());
  return *library;
}

absl::Status UcxLibrary::ToStatus(ucs_status_t status, absl::string_view what) const {
  if (status == UCS_OK) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(status)));
}

}  // namespace warpline::ucx_internal
