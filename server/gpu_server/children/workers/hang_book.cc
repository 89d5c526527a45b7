#include "server/gpu_server/children/workers/hang_book.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace warpline::server {

void HangBook::OnHang(const std::string& payer, absl::Time now) {
  if (first_ <= absl::ZeroDuration()) return;
  Record& record = records_[payer];
  const bool again = record.pause > absl::ZeroDuration() && now < record.until + kMostPause;
  record.pause = std::min(again ? 2 * record.pause : first_, kMostPause);
  record.until = now + record.pause;
  if (records_.size() <= kMostPayers) return;
  records_.erase(std::min_element(
      records_.begin(), records_.end(),
      [](const auto& a, const auto& b) { return a.second.until < b.second.until; }));
}

absl::Status HangBook::Check(const std::string& payer, absl::Time now) const {
  const auto found = records_.find(payer);
  if (found == records_.end() || now >= found->second.until) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "work of ", payer, " on a shared device did not end, so that it has no sessions of the tier ",
      "guarded until ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", found->second.until, absl::UTCTimeZone()),
      "; the isolated tier is open to it"));
}

}  // namespace warpline::server
