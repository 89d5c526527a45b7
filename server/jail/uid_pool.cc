#include "server/jail/uid_pool.h"

#include <linux/capability.h>

#include <fstream>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/jail/kernel_calls.h"

namespace warpline::jail {
namespace {

// Where "auto" takes its ids from: above those that systems give to people, services and
// containers (https://systemd.io/UIDS-GIDS/), and below 2^31, which some file systems need. A
// server takes so many of them, at a place of chance, so that servers on one host have different
// ones.
constexpr uint32_t kAutoFirst = 1'900'000'000;
constexpr uint32_t kAutoEach = 2048;
constexpr uint32_t kAutoServers = 65536;

// Whether the process's user namespace has all ids of the range, by a map such as
// /proc/self/uid_map: lines with the first id inside, outside, and their number.
bool IsMapped(const UidRange& range, const char* map) {
  std::ifstream file(map);
  uint64_t inside = 0, outside = 0, count = 0;
  while (file >> inside >> outside >> count) {
    if (range.first >= inside && range.last < inside + count) return true;
  }
  return false;
}

bool CanUse(const UidRange& range) {
  return HasCapabilities(1u << CAP_SETUID | 1u << CAP_SETGID) &&
         IsMapped(range, "/proc/self/uid_map") && IsMapped(range, "/proc/self/gid_map");
}

}  // namespace

uint32_t UidPool::Take() {
  MutexLock lock(&mu_);
  const uint64_t size = range_.empty() ? 0 : uint64_t{range_.last} - range_.first + 1;
  if (taken_.size() >= size) return 0;
  while (true) {
    const uint32_t uid = next_;
    next_ = uid == range_.last ? range_.first : uid + 1;
    if (taken_.insert(uid).second) return uid;
  }
}

void UidPool::GiveBack(uint32_t uid) {
  MutexLock lock(&mu_);
  taken_.erase(uid);
}

absl::StatusOr<UidRange> ParseWorkerUids(absl::string_view text) {
  if (text == "none") return UidRange{};
  if (text == "auto") {
    absl::BitGen random;
    const uint32_t first = kAutoFirst + absl::Uniform(random, 0u, kAutoServers) * kAutoEach;
    const UidRange range = {first, first + kAutoEach - 1};
    return CanUse(range) ? range : UidRange{};
  }
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  UidRange range;
  if (!absl::SimpleAtoi(ends.first, &range.first) || !absl::SimpleAtoi(ends.second, &range.last) ||
      range.first == 0 || range.last < range.first || range.last == ~uint32_t{0}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text,
        "\" is no range of user ids: FIRST-LAST, such as 700000-700999, auto, or none"));
  }
  if (!CanUse(range)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this process may not become the users ", text,
        ": it needs CAP_SETUID and CAP_SETGID, and they must be in its user namespace"));
  }
  return range;
}

}  // namespace warpline::jail
