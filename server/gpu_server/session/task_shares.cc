#include "server/gpu_server/session/task_shares.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace warpline::server {
namespace {

// The server's own threads and those of gRPC, and some that nobody thought of.
constexpr uint64_t kReserved = 256;
constexpr uint64_t kTasksOfKeeper = 16;
// Of a session without any stream of its own: its channel's thread, and those of its worker and of
// NVIDIA's driver in it.
constexpr uint64_t kTasksOfSession = 24;
constexpr uint64_t kLeastSure = 8;
constexpr uint64_t kMostSure = 32;
// Where the system says nothing.
constexpr uint64_t kUnlimited = 1 << 20;

// The number in a file; nothing for "max" and where there is no such file.
std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  uint64_t number = 0;
  if (!(file >> word) || !absl::SimpleAtoi(word, &number)) return std::nullopt;
  return number;
}

// The least that a control group and those above it leave. `mount` is where the hierarchy is.
uint64_t LeftInGroups(const std::string& mount, std::string group) {
  uint64_t least = kUnlimited;
  while (true) {
    const std::string folder = mount + group;
    if (const auto most = ReadNumber(folder + "/pids.max"); most.has_value()) {
      const uint64_t current = ReadNumber(folder + "/pids.current").value_or(0);
      least = std::min(least, *most - std::min(*most, current));
    }
    const size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return least;
    group.resize(slash);
  }
}

}  // namespace

TaskShares::TaskShares(const TaskShareOptions& options)
    : tasks_per_stream_(std::max<uint64_t>(options.tasks_per_stream, 1)) {
  const auto sessions = static_cast<uint64_t>(std::max(options.max_sessions, 1));
  const auto warm = static_cast<uint64_t>(std::max(options.warm_workers, 0));
  const auto devices = static_cast<uint64_t>(std::max(options.devices, 1));
  const uint64_t reserved = kReserved + devices * (kTasksOfKeeper + warm * kTasksOfSession);
  const uint64_t free = options.tasks - std::min(options.tasks, reserved);
  const uint64_t each = free / sessions;
  const uint64_t streams = (each - std::min(each, kTasksOfSession)) / tasks_per_stream_;
  suffices_ = streams >= kLeastSure;
  sure_streams_ = std::clamp(streams, kLeastSure, kMostSure);
  const uint64_t sure = sessions * (kTasksOfSession + sure_streams_ * tasks_per_stream_);
  left_ = (free - std::min(free, sure)) / tasks_per_stream_;
}

TaskShares::Share TaskShares::Take() {
  Share share;
  share.from_ = this;
  share.extra_ = std::min(kMostStreams - sure_streams_, left_ / 4);
  share.streams_ = sure_streams_ + share.extra_;
  left_ -= share.extra_;
  return share;
}

TaskShares::Share& TaskShares::Share::operator=(Share&& other) noexcept {
  GiveBack();
  from_ = std::exchange(other.from_, nullptr);
  streams_ = std::exchange(other.streams_, 0);
  extra_ = std::exchange(other.extra_, 0);
  return *this;
}

void TaskShares::Share::GiveBack() {
  if (from_ == nullptr) return;
  control_loop.AssertOnLoop();
  std::exchange(from_, nullptr)->left_ += extra_;
}

uint64_t SystemTaskLimit(const std::string& root) {
  uint64_t least = kUnlimited;
  rlimit limit = {};
  // It does not bind root.
  if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    least = std::min<uint64_t>(least, limit.rlim_cur);
  }
  for (const char* file : {"/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"}) {
    if (const auto most = ReadNumber(root + file); most.has_value()) least = std::min(least, *most);
  }
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" or "12:pids:/path".
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    const bool second = parts[0] == "0" && parts[1].empty();
    const bool first =
        std::find(controllers.begin(), controllers.end(), "pids") != controllers.end();
    if (second) least = std::min(least, LeftInGroups(root + "/sys/fs/cgroup", parts[2]));
    if (first) least = std::min(least, LeftInGroups(root + "/sys/fs/cgroup/pids", parts[2]));
  }
  return least;
}

}  // namespace warpline::server
