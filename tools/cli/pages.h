// Asks for lists that are told in parts (proto/page.h).
#ifndef WARPLINE_TOOLS_CLI_PAGES_H_
#define WARPLINE_TOOLS_CLI_PAGES_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/page.h"

namespace warpline::cli {

// The most bytes that a list may have in all its parts.
inline constexpr size_t kMostListBytes = 256u << 20;

// Calls `ask(request)`, which returns a StatusOr of a part, until the list has ended, and returns
// all parts as one. INTERNAL for a list without an end, RESOURCE_EXHAUSTED for one that has more
// than kMostListBytes.
template <typename Request, typename Ask>
auto AskForAll(Request request, Ask ask) -> decltype(ask(request)) {
  request.mutable_page()->set_most_bytes(kMostPartBytes);
  auto all = ask(request);
  if (!all.ok()) return all;
  size_t bytes = all->ByteSizeLong();
  while (all->has_next()) {
    if (all->next() <= request.page().after()) {
      return absl::InternalError("the list that was told goes back, and so has no end");
    }
    if (bytes > kMostListBytes) {
      return absl::ResourceExhaustedError("the list that was told has no end in sight");
    }
    request.mutable_page()->set_after(all->next());
    const auto part = ask(request);
    if (!part.ok()) return part;
    bytes += part->ByteSizeLong();
    all->MergeFrom(*part);
    if (!part->has_next()) all->clear_next();
  }
  return all;
}

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_PAGES_H_
