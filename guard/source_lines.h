// Which line of its source a line of PTX was made from, as far as the directives .file and .loc say
// it (nvcc -lineinfo and -G write them).
#ifndef WARPLINE_GUARD_SOURCE_LINES_H_
#define WARPLINE_GUARD_SOURCE_LINES_H_

#include <string_view>
#include <vector>

#include "guard/rewrite/checks.h"

namespace warpline::guard {

// Fills in CheckSite::source of sites that lie in the module `text`.
void NameSources(std::string_view text, std::vector<CheckSite>* sites);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_SOURCE_LINES_H_
