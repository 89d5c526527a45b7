// What a token allows its sessions to do. The rights and their bits are rows of the table of
// commands (`[[capability]]` in proto/calls.toml); what every session may do needs no right.
#ifndef WARPLINE_LEASE_RIGHTS_H_
#define WARPLINE_LEASE_RIGHTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/commands.h"

namespace warpline {

// A set of rights, as tokens carry it. A bit means the same in every version.
using Rights = uint64_t;

inline constexpr Rights kAllRights = 1u << 0;  // Everything that a session can do.

// The right that a capability needs; 0 for one that every session has.
constexpr Rights RightOf(Capability capability) {
  for (const CapabilityInfo& row : kCapabilityTable) {
    if (row.capability == capability) return row.right;
  }
  return kAllRights;
}

// The rights that this version can enforce.
inline constexpr Rights kKnownRights = [] {
  Rights rights = kAllRights;
  for (const CapabilityInfo& row : kCapabilityTable) rights |= row.right;
  return rights;
}();

// Whether `rights` allow what needs `capability`.
constexpr bool Allows(Rights rights, Capability capability) {
  const Rights right = RightOf(capability);
  return right == 0 || (rights & (kAllRights | right)) != 0;
}

// Reads "all", "none", or names of capabilities separated by commas, such as "launch,load,memory".
// INVALID_ARGUMENT names what was wrong.
absl::StatusOr<Rights> ParseRights(absl::string_view text);
// Writes what ParseRights() reads.
std::string FormatRights(Rights rights);

}  // namespace warpline

#endif  // WARPLINE_LEASE_RIGHTS_H_
