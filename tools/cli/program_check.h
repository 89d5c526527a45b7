// Finds what keeps Warpline's libcuda.so.1 from being loaded into a program.
#ifndef WARPLINE_TOOLS_CLI_PROGRAM_CHECK_H_
#define WARPLINE_TOOLS_CLI_PROGRAM_CHECK_H_

#include <string>

#include "absl/status/statusor.h"

namespace warpline::cli {

// Finds `name` where a shell would find it. NOT_FOUND or PERMISSION_DENIED.
absl::StatusOr<std::string> FindProgram(const std::string& name);

// Returns a sentence about what is wrong with the file (it is static, 32-bit, setuid or the like),
// which may yet start other programs that are sound. Empty when nothing is wrong, or when it is no
// ELF file.
std::string WhatIsWrongWith(const std::string& path);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_PROGRAM_CHECK_H_
