// `warpline explain`: which kernels of a program, and of the libraries that it is linked with, can
// be guarded, and what stands in the way of the others.
#ifndef WARPLINE_TOOLS_CLI_EXPLAIN_H_
#define WARPLINE_TOOLS_CLI_EXPLAIN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/command_line.h"

namespace warpline::cli {

struct ExplainedKernel {
  std::string name;
  std::string reason;  // Why it cannot be guarded; empty if it can.
};

// What one file has.
struct ExplainedFile {
  std::string path;
  std::vector<ExplainedKernel>
      kernels;                // Each name once; it can be guarded if one of its forms can.
  uint64_t machine_code = 0;  // Modules without PTX: nothing can be said of their kernels.
};

// `bytes` are a program, a library, a fatbin or PTX. Whatever they are, this is safe.
ExplainedFile ExplainFile(const std::string& path, std::string_view bytes, bool hardened);

// One line: which tier --tier=auto would choose for the program, and why. `words` are the program
// and the script that it runs, if it is an interpreter; `files` are its files and libraries; the
// record of earlier runs is in `cache_folder`. What a program loads while it runs and the server's
// word are not known here.
std::string ExplainChoice(const std::string& program, const std::vector<std::string>& words,
                          const std::vector<std::string>& files, const std::string& cache_folder);

// Returns the exit code: 0 when all kernels can be guarded, 1 when some cannot, 2 without a file.
int Explain(const CommandLine& line);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_EXPLAIN_H_
