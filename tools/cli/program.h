// `warpline program`: the folder of vetted programs, which sessions may run that may bring no code
// (common/vetted/program_folder.h). It needs no server.
#ifndef WARPLINE_TOOLS_CLI_PROGRAM_H_
#define WARPLINE_TOOLS_CLI_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/vetted/program_folder.h"
#include "tools/cli/command_line.h"

namespace warpline::cli {

// Returns the images of device code of a program, library, fatbin, cubin or PTX text, as the client
// library sends them: each container, and each PTX text that it sends in a container's place. The
// file is read as data, and may be hostile. INVALID_ARGUMENT for a file without device code, and
// the errors of PlainFile::Open().
absl::StatusOr<std::vector<VettedImage>> ImagesOf(const std::string& path);

// Carries out the action of a `warpline program` command line, and returns what it prints.
absl::StatusOr<std::string> Program(const CommandLine& line);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_PROGRAM_H_
