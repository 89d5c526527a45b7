#include "transport/grpc/unary/leader_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/steady_time.h"
#include "proto/leader_hint.h"
#include "proto/refusal.h"

namespace warpline {
namespace {

using warpline_internal::Refusal;

// After all addresses were tried.
constexpr absl::Duration kPause = absl::Milliseconds(100);
// How often in a row an answer may send the call elsewhere.
constexpr size_t kMaxHints = 3;
constexpr size_t kMaxKnown = 16;

// Returns whether this is what the method has to say, and not that another scheduler may say it.
bool IsOfMethod(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return true;
  const Refusal::Reason reason = RefusalOf(status).reason();
  return reason != Refusal::UNSPECIFIED && reason != Refusal::ANOTHER_LEADS;
}

}  // namespace

std::vector<std::string> ParseAddresses(absl::string_view text) {
  std::vector<std::string> addresses;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::string_view address = absl::StripAsciiWhitespace(part);
    if (!address.empty()) addresses.emplace_back(address);
  }
  return addresses;
}

LeaderClient::LeaderClient(std::vector<std::string> addresses, Targets targets,
                           absl::Duration attempt)
    : addresses_(std::move(addresses)), targets_(std::move(targets)), attempt_(attempt) {
  if (!addresses_.empty()) current_ = addresses_.front();
}

std::string LeaderClient::address() const {
  MutexLock lock(&mu_);
  return current_;
}

GrpcTarget LeaderClient::TargetFor(const std::string& address) const {
  MutexLock lock(&mu_);
  const auto found = known_.find(address);
  if (found != known_.end()) return found->second;
  // Who answers may name any address.
  if (known_.size() >= kMaxKnown) known_.clear();
  return known_[address] = targets_(address);
}

absl::StatusOr<std::string> LeaderClient::Call(const std::string& method,
                                               const std::string& request,
                                               absl::Duration deadline) const {
  const absl::Time until = SteadyNow() + deadline;
  std::string address = this->address();
  // Which of the addresses is tried after this one.
  size_t next = 0;
  size_t hints = 0;
  size_t failures = 0;
  while (true) {
    const absl::Duration left = until - SteadyNow();
    const bool only = addresses_.size() <= 1;
    auto answer = UnaryClient(TargetFor(address))
                      .Call(method, request, only ? left : std::min(left, attempt_));
    const std::string leader = LeaderIn(answer.status());
    if (IsOfMethod(answer.status())) {
      MutexLock lock(&mu_);
      current_ = address;
      return answer;
    }
    if (!leader.empty() && leader != address && hints < kMaxHints) {
      ++hints;
      address = leader;
    } else if (only) {
      return answer;
    } else {
      hints = 0;
      if (addresses_[next % addresses_.size()] == address) ++next;
      address = addresses_[next++ % addresses_.size()];
      if (++failures % addresses_.size() == 0) absl::SleepFor(kPause);
    }
    if (SteadyNow() + kPause >= until) return answer;
  }
}

}  // namespace warpline
