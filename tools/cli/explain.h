// `warpline explain`: which kernels of a program, and of the libraries that it is linked with, can
// be guarded, and what stands in the way of the others. The program and its libraries are read as
// data: nothing of them is run, and neither are their interpreter, their loader or their auditors.
#ifndef WARPLINE_TOOLS_CLI_EXPLAIN_H_
#define WARPLINE_TOOLS_CLI_EXPLAIN_H_

#include <set>
#include <string>
#include <vector>

#include "tools/cli/command_line.h"

namespace warpline::cli {

// Returns one line: the tier that --tier=auto would choose for the program, and why. `words` are
// the program and the script that it runs, if it is an interpreter. `files` are its files and
// libraries. `needed` are the names of further libraries, whose functions the server executes on
// the guarded tier alone. The record of earlier runs is in `cache_folder`. Code that a program
// loads while it runs and the server's answer are not known here.
std::string ExplainChoice(const std::string& program, const std::vector<std::string>& words,
                          const std::vector<std::string>& files,
                          const std::set<std::string>& needed, const std::string& cache_folder);

// Returns the exit code: 0 when all kernels can be guarded and the server executes the functions of
// libraries that are used. 1 when some cannot, when it does not execute one, or when a part was not
// looked into. 2 when the first file cannot be explained: there is no such file, or it is a folder,
// a pipe, a device, a script, or too large. It must be a program, a library, a fatbin or PTX; the
// files behind it may be data or scripts.
int Explain(const CommandLine& line);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_EXPLAIN_H_
