// UCX, loaded when it is first wanted. Private to transport/ucx.
//
// Nothing of ours is linked with it: a process that never goes on over UCX has none of it, and one
// where it is missing says so instead of not starting.
#ifndef WARPLINE_TRANSPORT_UCX_UCX_LIBRARY_H_
#define WARPLINE_TRANSPORT_UCX_UCX_LIBRARY_H_

#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline::ucx_internal {

// UCX's functions under their own names.
struct UcxLibrary {
#define UCX_FUNCTION(name) decltype(&::name) name;
#include "transport/ucx/ucx_functions.inc"
#undef UCX_FUNCTION

  // Runs `call`, which calls UCX alone and has nothing to clean up. Returns false when UCX would
  // have ended the process instead of returning (ucx_shim.c). The caller leaves what UCX was
  // working at as it is from then on, and Get() finds no UCX any more. Thread-safe.
  template <typename Call>
  bool Guard(Call call) const {
    static_assert(std::is_trivially_destructible_v<Call>);
    return Guard([](void* which) { (*static_cast<Call*>(which))(); }, &call);
  }

  // Loads it. UNAVAILABLE, saying what is missing, where it cannot be, and once UCX has given up in
  // this process. Thread-safe; loads once.
  static absl::StatusOr<const UcxLibrary*> Get();

  // Modules of the system's UCX fit this one. They do not fit the copy of a bundle, whose libraries
  // have names of their own (deploy/bundle/bundle.py): modules would load another UCX beside it.
  bool fits_modules() const { return fits_modules_; }

  // UNAVAILABLE for what UCX returned, in its words; OK for UCS_OK.
  absl::Status ToStatus(ucs_status_t status, absl::string_view what) const;

 private:
  friend absl::StatusOr<const UcxLibrary*> LoadUcx();
  bool Guard(void (*call)(void*), void* argument) const;
  int (*guard_)(void (*call)(void*), void* argument) = nullptr;
  bool fits_modules_ = false;
};

}  // namespace warpline::ucx_internal

#endif  // WARPLINE_TRANSPORT_UCX_UCX_LIBRARY_H_
