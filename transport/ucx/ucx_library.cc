#include "transport/ucx/ucx_library.h"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/own_library.h"

// Where this library's own descriptors are, if it is a guest (common/guest_descriptors.c). A server
// has no such variable.
extern "C" int warpline_descriptors_from __attribute__((weak));

namespace warpline::ucx_internal {
namespace {

constexpr char kShim[] = "libwarpline_ucx.so";

// Set once UCX has left a call in the middle, so that its state is no longer what it takes it for.
std::atomic<bool> gave_up = false;

}  // namespace

absl::StatusOr<const UcxLibrary*> LoadUcx() {
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
  library->guard_ = reinterpret_cast<decltype(library->guard_)>(dlsym(shim, "warpline_ucx_guard"));
  if (library->guard_ == nullptr) {
    delete library;
    return absl::UnavailableError(absl::StrCat(kShim, " is of another version"));
  }
  Dl_info found = {};
  library->fits_modules_ =
      dladdr(reinterpret_cast<const void*>(library->ucp_cleanup), &found) != 0 &&
      absl::StrContains(found.dli_fname, "/libucp.so");
  return library;
}

absl::StatusOr<const UcxLibrary*> UcxLibrary::Get() {
  static const absl::StatusOr<const UcxLibrary*>* const library =
      new absl::StatusOr<const UcxLibrary*>(LoadUcx());
  if (gave_up.load()) return absl::UnavailableError("UCX has given up in this process");
  return *library;
}

bool UcxLibrary::Guard(void (*call)(void*), void* argument) const {
  if (guard_(call, argument) != 0) return true;
  gave_up.store(true);
  return false;
}

absl::Status UcxLibrary::ToStatus(ucs_status_t status, absl::string_view what) const {
  if (status == UCS_OK) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(what, ": ", ucs_status_string(status)));
}

}  // namespace warpline::ucx_internal
