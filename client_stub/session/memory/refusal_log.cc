#include "client_stub/session/memory/refusal_log.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/text.h"

namespace warpline::stub {
namespace {

// Returns the text with a # for each number in it.
std::string KindOf(std::string_view text) {
  std::string kind;
  for (const char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      kind.push_back(c);
    } else if (kind.empty() || kind.back() != '#') {
      kind.push_back('#');
    }
  }
  return kind;
}

}  // namespace

std::string RefusalLog::LineFor(CudaResult error, std::string_view why) {
  const std::string text = why.empty()
                               ? "no reason given"
                               : FitText(absl::string_view(why.data(), why.size()), kMostText);
  const std::string name = CudaResultName(error);
  size_t kinds;
  {
    MutexLock lock(&mu_);
    if (seen_.size() >= kMostKinds || !seen_.insert(absl::StrCat(name, " ", KindOf(text))).second) {
      return "";
    }
    kinds = seen_.size();
  }
  return absl::StrCat(
      "memory was refused: ", text, " (", name, "); ",
      kinds < kMostKinds ? "said once for this reason" : "no further reason is shown",
      ", WARPLINE_STAT=1 counts");
}

}  // namespace warpline::stub
