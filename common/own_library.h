// Finds libraries that are loaded at run time and belong to this installation.
#ifndef WARPLINE_COMMON_OWN_LIBRARY_H_
#define WARPLINE_COMMON_OWN_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"

namespace warpline {

// The path of library `name`: beside the library or program that this function is in, in its
// installation's lib/ folder, or where Bazel builds it (`package` is then its package). NOT_FOUND
// names the places.
absl::StatusOr<std::string> FindBeside(const std::string& name, const std::string& package);

}  // namespace warpline

#endif  // WARPLINE_COMMON_OWN_LIBRARY_H_
