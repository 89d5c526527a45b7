// Small things that several layers ask of the kernel.
#ifndef WARPLINE_SERVER_JAIL_KERNEL_CALLS_H_
#define WARPLINE_SERVER_JAIL_KERNEL_CALLS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace warpline::jail {

// Writes `text`, in one piece, into a file of the kernel's that is there. The error names the file.
absl::Status WriteSystemFile(const std::string& path, absl::string_view text);

// Whether the calling thread has all of these capabilities, given as bits of their numbers (those
// below 32), such as 1u << CAP_SETUID.
bool HasCapabilities(uint32_t bits);

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_KERNEL_CALLS_H_
