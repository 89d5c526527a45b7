// Expands the lists of folders in which the dynamic loader searches libraries. Thread-safe.
#ifndef WARPLINE_COMMON_ELF_SEARCH_FOLDERS_H_
#define WARPLINE_COMMON_ELF_SEARCH_FOLDERS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::elf {

// A list yields at most this many folders, and at most kMostListBytes of names. Folders whose names
// are longer than kMostNameBytes are left out.
inline constexpr size_t kMostFolders = 512;

// Returns what `text` may mean once $ORIGIN, $LIB and $PLATFORM (also ${ORIGIN} and so on) are
// replaced: one text, or several where the loader's value depends on how it was built. `origin` is
// the folder of the file that the text stands in. Empty when it would be too long.
std::vector<std::string> ExpandTokens(std::string_view text, std::string_view origin);

// Returns the folders of a list that one of `separators` divides. An empty item is the working
// folder, and an empty list has none.
std::vector<std::string> FoldersOf(std::string_view list, std::string_view separators,
                                   std::string_view origin);

}  // namespace warpline::elf

#endif  // WARPLINE_COMMON_ELF_SEARCH_FOLDERS_H_
