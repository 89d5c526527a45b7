// What of a program keeps Warpline's libcuda.so.1 from being loaded into it.
#ifndef WARPLINE_TOOLS_CLI_PROGRAM_CHECK_H_
#define WARPLINE_TOOLS_CLI_PROGRAM_CHECK_H_

#include <string>

#include "absl/status/statusor.h"

namespace warpline::cli {

// Where a shell would find `name`. NOT_FOUND or PERMISSION_DENIED.
absl::StatusOr<std::string> FindProgram(const std::string& name);

// A sentence about the file, which may start other programs that are better: it is static, 32-bit,
// setuid or the like. Empty when nothing is wrong, or it is no ELF file.
std::string WhatIsWrongWith(const std::string& path);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_PROGRAM_CHECK_H_
