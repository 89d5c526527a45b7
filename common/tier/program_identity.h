// What a program is known by from one run to the next: the contents of its executable, and, for an
// interpreter, what it was told to run.
#ifndef WARPLINE_COMMON_TIER_PROGRAM_IDENTITY_H_
#define WARPLINE_COMMON_TIER_PROGRAM_IDENTITY_H_

#include <string>
#include <string_view>
#include <vector>

namespace warpline::tier {

// A hash, as 64 hexadecimal digits; empty if the executable cannot be read. `executable` is a path
// and `arguments` the command line, its first word included.
//
// Of an executable whose file name is an interpreter's (python3.12, perl, ...) the words count up
// to the first that is no option and names a file, whose contents count, or up to the word after
// -c, -e or -m. What comes after does not: with other data it is the same program. Of a large file
// the beginning and the size count.
std::string IdentifyProgram(const std::string& executable,
                            const std::vector<std::string>& arguments);

// That of this process.
std::string IdentifySelf();

bool IsInterpreter(std::string_view file_name);

}  // namespace warpline::tier

#endif  // WARPLINE_COMMON_TIER_PROGRAM_IDENTITY_H_
