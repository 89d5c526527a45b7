#include "server/gpu_server/leases/epoch_fence.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace warpline::server {

absl::Status EpochFence::Pass(const std::string& lease, uint64_t epoch) {
  const auto found = newest_.find(lease);
  if (found != newest_.end()) {
    if (epoch < found->second) {
      return absl::UnauthenticatedError(
          absl::StrCat("the token of lease ", lease, " is of term ", epoch, ", and one of term ",
                       found->second, " has replaced it: read it again from WARPLINE_TOKEN_FILE"));
    }
    found->second = epoch;
    return absl::OkStatus();
  }
  if (epoch == 0) return absl::OkStatus();
  if (order_.size() >= max_leases_) {
    newest_.erase(order_.front());
    order_.pop_front();
  }
  order_.push_back(lease);
  newest_[lease] = epoch;
  return absl::OkStatus();
}

}  // namespace warpline::server
