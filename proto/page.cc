#include "proto/page.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

constexpr size_t kLeastBytes = 4u << 10;

}  // namespace

std::string PageKey(uint64_t number) { return absl::StrCat(absl::Dec(number, absl::kZeroPad20)); }

PageCut::PageCut(const warpline_internal::Page& asked)
    : after_(asked.after()),
      knows_parts_(asked.most_bytes() != 0),
      most_bytes_(knows_parts_ ? std::clamp<size_t>(asked.most_bytes(), kLeastBytes, kMostPartBytes)
                               : kMostPartBytes) {}

bool PageCut::Takes(const std::string& key) {
  if (cut_ || key <= after_) return false;
  // At least one item is told, however large it is.
  if (bytes_ >= most_bytes_) {
    cut_ = true;
    return false;
  }
  last_ = key;
  return true;
}

absl::Status PageCut::Check() const {
  if (!cut_ || knows_parts_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "the list is longer than one answer can be: ask with a newer warpline, which is told it in "
      "parts");
}

}  // namespace warpline
