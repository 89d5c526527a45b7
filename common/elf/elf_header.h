// Reads the header and the segments of an ELF file as data: 64-bit, little-endian, as on x86-64.
// The file may be an opened one or lie in memory. Nothing that it holds is believed, and nothing of
// it is run. sections.h reads its sections.
//
//   const auto header = elf::ReadHeader(read);
//   if (!header.has_value() || !elf::IsForX86_64(*header)) return "it is no program";
//   for (const Elf64_Phdr& segment : elf::ReadSegments(*header, read)) { ... }
#ifndef WARPLINE_COMMON_ELF_ELF_HEADER_H_
#define WARPLINE_COMMON_ELF_ELF_HEADER_H_

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::elf {

// Reads `bytes` at `offset` of a file; fewer where the file ends there.
using ReadAt = std::function<std::string(uint64_t offset, uint64_t bytes)>;

// Reads from `bytes`, which are borrowed.
ReadAt InMemory(std::string_view bytes);

// The system starts no program with larger tables of segments.
inline constexpr size_t kMostSegments = (size_t{64} << 10) / sizeof(Elf64_Phdr);

// The functions of this header are thread-safe as far as `read` is.

// Returns whether the bytes begin as an ELF file of any kind does.
bool IsElf(std::string_view bytes);

// Returns the header, as it is laid out in 64-bit files; nothing for a file that is no ELF file or
// is shorter than that.
std::optional<Elf64_Ehdr> ReadHeader(const ReadAt& read);

// Returns whether the file says that it is 64-bit and little-endian.
bool Is64Bit(const Elf64_Ehdr& header);

// Returns whether it is such a file for x86.
bool IsForX86_64(const Elf64_Ehdr& header);

// Returns the file's segments. None where the table lies outside the file, has entries of another
// size, or more than kMostSegments.
std::vector<Elf64_Phdr> ReadSegments(const Elf64_Ehdr& header, const ReadAt& read);

// Copies a structure out of `bytes`, which has to hold all of it at `at`.
template <typename T>
T LoadAt(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

}  // namespace warpline::elf

#endif  // WARPLINE_COMMON_ELF_ELF_HEADER_H_
