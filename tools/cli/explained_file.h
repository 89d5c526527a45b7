// Finds for `warpline explain` which kernels of one file can be guarded, and the reasons why others
// cannot. The file is read as data, in parts. It may be hostile: whatever it holds, time and memory
// are bounded.
//
//   FileExplainer explainer(/*hardened=*/false);
//   const absl::StatusOr<ExplainedFile> file = explainer.Explain(read, size);
#ifndef WARPLINE_TOOLS_CLI_EXPLAINED_FILE_H_
#define WARPLINE_TOOLS_CLI_EXPLAINED_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/elf/elf_header.h"

namespace warpline::cli {

struct ExplainedKernel {
  std::string name;
  std::string reason;  // Why it cannot be guarded; empty if it can.
};

struct ExplainedFile {
  enum class Kind {
    kElf,         // A program or a library
    kDeviceCode,  // A fatbin, PTX text, or something else with device code in it
    kScript,      // It names its interpreter in its first line.
    kOther,
  };
  Kind kind = Kind::kOther;
  std::string interpreter;  // The interpreter that a script names, with its arguments
  std::vector<ExplainedKernel>
      kernels;                // Each name once; it can be guarded if one of its forms can.
  uint64_t machine_code = 0;  // Modules without PTX: nothing can be said of their kernels.
  // The parts that were not looked into, and why, one sentence each.
  std::vector<std::string> doubts;
};

// Explains files one after the other, and counts the bytes that it reads of all. Thread-compatible.
class FileExplainer {
 public:
  struct Bounds {
    // Only the sections for device code are read of a larger file.
    uint64_t file_bytes = uint64_t{4} << 30;
    uint64_t all_files_bytes = uint64_t{16} << 30;
    // PTX, when it is decompressed: one text, and all of them.
    uint64_t text_bytes = uint64_t{64} << 20;
    uint64_t all_texts_bytes = uint64_t{1} << 30;
  };
  explicit FileExplainer(bool hardened) : FileExplainer(hardened, Bounds()) {}
  FileExplainer(bool hardened, const Bounds& bounds);

  // `read` reads a file of `size` bytes. RESOURCE_EXHAUSTED for one that is too large to be looked
  // into, or comes after too many others; the message does not name the file.
  absl::StatusOr<ExplainedFile> Explain(const elf::ReadAt& read, uint64_t size);

 private:
  const bool hardened_;
  const Bounds bounds_;
  uint64_t left_bytes_;
  uint64_t left_text_bytes_;
};

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_EXPLAINED_FILE_H_
