// The names that operators give to tenants, slices, servers and policies.
#ifndef WARPLINE_COMMON_GIVEN_NAME_H_
#define WARPLINE_COMMON_GIVEN_NAME_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace warpline {

// INVALID_ARGUMENT, which says what a name of `kind` ("tenant") looks like, for one that is not of
// 1 to `max_bytes` letters, digits and characters of `others`, or that something else reads as more
// than a name: "." and ".." are folders, "-x" is an option, and "any", "all" and "none" are words
// of lists and command lines. A name that was given by a version without this check may be there
// all the same: what changes or removes something does not ask.
//
//   if (auto status = CheckGivenName("slice", name, 64, "-_."); !status.ok()) return status;
absl::Status CheckGivenName(absl::string_view kind, absl::string_view name, size_t max_bytes,
                            absl::string_view others);

}  // namespace warpline

#endif  // WARPLINE_COMMON_GIVEN_NAME_H_
