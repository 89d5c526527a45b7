// Finds the other programs and files of an installation.
#ifndef WARPLINE_COMMON_SIBLING_PROGRAM_H_
#define WARPLINE_COMMON_SIBLING_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"

namespace warpline {

// Returns the folder of the running executable, without a slash at its end. INTERNAL when the
// system does not tell it.
absl::StatusOr<std::string> OwnFolder();

// Finds the program `name` ("warpline-worker") that belongs to the running executable: beside it,
// or where Bazel builds it (`folder` is then its package under server/). NOT_FOUND names the
// places.
absl::StatusOr<std::string> FindSibling(const std::string& name, const std::string& folder);

}  // namespace warpline

#endif  // WARPLINE_COMMON_SIBLING_PROGRAM_H_
