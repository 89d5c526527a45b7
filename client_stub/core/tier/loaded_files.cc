#include "client_stub/core/tier/loaded_files.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <set>
#include <string_view>

namespace warpline::stub {
namespace {

constexpr size_t kMostFiles = 4096;

// The rest of the text after so many words and the blanks behind them.
std::string_view AfterWords(std::string_view text, int words) {
  for (int i = 0; i < words; ++i) {
    text.remove_prefix(std::min(text.find(' '), text.size()));
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  return text;
}

}  // namespace

std::vector<std::string> ExecutableFiles(std::istream& maps) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  std::string line;
  while (files.size() < kMostFiles && std::getline(maps, line)) {
    // Addresses, rights, offset, device, inode, path: a path may have blanks.
    const std::string_view rights = AfterWords(line, 1);
    if (rights.size() < 4 || rights[2] != 'x') continue;
    const std::string_view path = AfterWords(line, 5);
    if (!path.starts_with('/')) continue;
    if (seen.emplace(path).second) files.emplace_back(path);
  }
  return files;
}

std::vector<std::string> LoadedFiles() {
  std::ifstream maps("/proc/self/maps");
  return ExecutableFiles(maps);
}

}  // namespace warpline::stub
