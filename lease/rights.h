// What a token allows its sessions to do. A right is a capability of the table of calls
// (proto/calls.toml); what every session may do ("stream") needs none.
#ifndef WARPLINE_LEASE_RIGHTS_H_
#define WARPLINE_LEASE_RIGHTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/commands.h"

namespace warpline {

// A set of rights, as tokens carry it. The bits mean the same in every version.
using Rights = uint64_t;

inline constexpr Rights kAllRights = 1u << 0;     // Everything that a session can do.
inline constexpr Rights kLaunchRight = 1u << 1;   // Run kernels.
inline constexpr Rights kLoadRight = 1u << 2;     // Bring code, and ask what it has.
inline constexpr Rights kCopyInRight = 1u << 3;   // Copy to the device.
inline constexpr Rights kCopyOutRight = 1u << 4;  // Copy from the device.
inline constexpr Rights kMemoryRight = 1u << 5;   // Hold device memory, and work in it.
// Those that this version can enforce.
inline constexpr Rights kKnownRights = (1u << 6) - 1;

// Whether `rights` allow what needs `capability`.
constexpr bool Allows(Rights rights, Capability capability) {
  if ((rights & kAllRights) != 0) return true;
  switch (capability) {
    case Capability::kLaunch:
      return (rights & kLaunchRight) != 0;
    case Capability::kLoad:
      return (rights & kLoadRight) != 0;
    case Capability::kCopyIn:
      return (rights & kCopyInRight) != 0;
    case Capability::kCopyOut:
      return (rights & kCopyOutRight) != 0;
    case Capability::kMemory:
      return (rights & kMemoryRight) != 0;
    case Capability::kStream:
      return true;
  }
  return false;
}

// "all", "none", or names separated by commas: launch, load, copy_in, copy_out, memory.
// INVALID_ARGUMENT, naming what was wrong.
absl::StatusOr<Rights> ParseRights(absl::string_view text);
// What ParseRights() takes.
std::string FormatRights(Rights rights);

}  // namespace warpline

#endif  // WARPLINE_LEASE_RIGHTS_H_
