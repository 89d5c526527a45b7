// Formats the printf of kernels: the conversions that CUDA documents, as on the host. Thread-safe.
#ifndef WARPLINE_COMMON_CUDA_PRINT_FORMAT_H_
#define WARPLINE_COMMON_CUDA_PRINT_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace warpline {

inline constexpr int kMaxPrintArguments = 32;

// Where arguments come from. Both functions return false when memory may not be read.
struct PrintSource {
  // Reads `bytes` (4 or 8) at `offset` of the argument buffer.
  absl::FunctionRef<bool(uint64_t offset, uint32_t bytes, uint64_t* value)> argument;
  // Reads the string at a device address.
  absl::FunctionRef<bool(uint64_t address, std::string* text)> string;
};

// Appends the formatted text to `*out`, and sets `*arguments` to how many were used. What is no
// conversion is copied. Returns false when `source` does. Widths and precisions are bounded.
bool FormatPrint(std::string_view format, const PrintSource& source, std::string* out,
                 int* arguments);

}  // namespace warpline

#endif  // WARPLINE_COMMON_CUDA_PRINT_FORMAT_H_
