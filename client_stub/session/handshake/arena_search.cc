#include "client_stub/session/handshake/arena_search.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/refusal.h"

namespace warpline::stub {

using warpline_internal::Refusal;

std::optional<ArenaCandidate> ArenaSearch::Next() {
  if (refusals_ >= kMostRefusals) return std::nullopt;
  while (next_ < candidates_.size()) {
    const ArenaCandidate& candidate = candidates_[next_++];
    if (candidate.bytes <= most_bytes_) return candidate;
  }
  return std::nullopt;
}

bool ArenaSearch::OnRefused(const absl::Status& status) {
  const Refusal refusal = RefusalOf(status);
  switch (refusal.reason()) {
    case Refusal::ARENA_UNAVAILABLE:
      break;
    case Refusal::ARENA_TOO_LARGE:
      most_bytes_ = std::min<uint64_t>(most_bytes_, refusal.most_arena_bytes());
      break;
    default:
      return false;
  }
  ++refusals_;
  last_refusal_ = std::string(status.message());
  return true;
}

absl::Status ArenaSearch::Failure() const {
  if (refusals_ == 0) {
    return absl::ResourceExhaustedError(
        "no range of 4 GiB or more of this process's address space is free for device memory");
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "no range of addresses for device memory is free both in this process and in the server's "
      "worker; ",
      refusals_, " were tried, and of the last one the server said: ", last_refusal_));
}

}  // namespace warpline::stub
