// Reads what an ELF file tells the dynamic loader: which libraries it needs and where they lie.
// Safe for whatever bytes; what is read and kept of one file is bounded.
#ifndef WARPLINE_COMMON_ELF_DYNAMIC_SECTION_H_
#define WARPLINE_COMMON_ELF_DYNAMIC_SECTION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/elf/elf_header.h"

namespace warpline::elf {

// Bounds on one file. Real ones stay far below.
inline constexpr size_t kMostDynamicEntries = 4096;
inline constexpr size_t kMostNeeded = 1024;
// A name or a path of one library, and a list of folders.
inline constexpr size_t kMostNameBytes = 4096;
inline constexpr size_t kMostListBytes = size_t{64} << 10;

struct DynamicSection {
  // The loader loads these with the file, in the file's order: the libraries that it needs
  // (DT_NEEDED), those that it filters (DT_FILTER, DT_AUXILIARY), and the auditors that it names
  // (DT_AUDIT, DT_DEPAUDIT), which the loader even runs when it is asked to list libraries.
  std::vector<std::string> libraries;
  std::string soname;  // The file's own name as a library; empty without one.
  // Lists of folders with ':' between them. The loader takes no rpath where there is a runpath.
  std::string rpath;
  std::string runpath;
  bool has_runpath = false;         // Also when it is empty
  bool no_default_folders = false;  // DF_1_NODEFLIB
};

// Returns an empty section for a file that has none, such as a static program. INVALID_ARGUMENT
// when the file is no 64-bit ELF file for x86, contradicts itself, or goes beyond a bound; the
// error does not name the file. Thread-safe as far as `read` is.
absl::StatusOr<DynamicSection> ReadDynamicSection(const ReadAt& read);

}  // namespace warpline::elf

#endif  // WARPLINE_COMMON_ELF_DYNAMIC_SECTION_H_
