// The program and the libraries of this process, as files.
#ifndef WARPLINE_CLIENT_STUB_CORE_TIER_LOADED_FILES_H_
#define WARPLINE_CLIENT_STUB_CORE_TIER_LOADED_FILES_H_

#include <istream>
#include <string>
#include <vector>

namespace warpline::stub {

// The paths of what is mapped to be executed, each once, in the order of their addresses. Data that
// a program maps is not among them.
std::vector<std::string> LoadedFiles();

// The same, of the text of a /proc/PID/maps.
std::vector<std::string> ExecutableFiles(std::istream& maps);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TIER_LOADED_FILES_H_
