// Reads the symbols that an ELF file takes from other files and gives to them. Safe for whatever
// bytes; what is read and kept of one file is bounded.
#ifndef WARPLINE_COMMON_ELF_DYNAMIC_SYMBOLS_H_
#define WARPLINE_COMMON_ELF_DYNAMIC_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/elf/elf_header.h"

namespace warpline::elf {

// Bounds on one file. Real ones stay far below.
inline constexpr uint64_t kMostSymbolBytes = uint64_t{64} << 20;
inline constexpr size_t kMostSymbolNameBytes = 4096;
inline constexpr size_t kMostKeptBytes = size_t{64} << 20;  // All names that are returned.

struct DynamicSymbol {
  std::string name;
  bool defined = false;  // The file has it; otherwise it takes it from another one.
  bool weak = false;
};

// Returns the dynamic symbols of a file of `size` bytes whose names start with `prefix`, in the
// file's order; none for a file without any. INVALID_ARGUMENT when the file is no 64-bit ELF file
// for x86, contradicts itself, or goes beyond a bound; the error does not name the file.
// Thread-safe as far as `read` is.
absl::StatusOr<std::vector<DynamicSymbol>> ReadDynamicSymbols(const ReadAt& read, uint64_t size,
                                                              std::string_view prefix);

}  // namespace warpline::elf

#endif  // WARPLINE_COMMON_ELF_DYNAMIC_SYMBOLS_H_
