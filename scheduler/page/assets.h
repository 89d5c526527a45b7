// The files of the page, which are part of the program.
#ifndef WARPLINE_SCHEDULER_PAGE_ASSETS_H_
#define WARPLINE_SCHEDULER_PAGE_ASSETS_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace warpline::scheduler::page {

struct Asset {
  absl::string_view path;  // "/" is the page itself.
  absl::string_view type;  // As in Content-Type.
  absl::string_view content;
  absl::string_view etag;
};

// All of them. embed_assets.py makes the table when the program is built.
const std::vector<Asset>& Assets();

}  // namespace warpline::scheduler::page

#endif  // WARPLINE_SCHEDULER_PAGE_ASSETS_H_
