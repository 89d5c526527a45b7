#include "tests/attack/wire.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/cuda/cuda_numbers.h"
#include "tests/attack/wire_session.h"

namespace warpline::attack {
namespace {

Footprint StatusOf(pid_t pid) {
  Footprint now;
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> now.resident_kib;
    if (word == "Threads:") status >> now.threads;
  }
  return now;
}

void AddDescendants(pid_t pid, std::set<pid_t>* found) {
  const std::string folder = absl::StrCat("/proc/", pid, "/task");
  DIR* const tasks = opendir(folder.c_str());
  if (tasks == nullptr) return;
  while (const dirent* const task = readdir(tasks)) {
    std::ifstream children(absl::StrCat(folder, "/", task->d_name, "/children"));
    for (pid_t child; children >> child;) {
      if (found->insert(child).second) AddDescendants(child, found);
    }
  }
  closedir(tasks);
}

std::string Describe(const Footprint& grown) {
  return absl::StrCat("the server grew by ", grown.resident_kib, " KiB, ", grown.descriptors,
                      " descriptors, ", grown.threads, " threads, ", grown.log_bytes,
                      " bytes of log");
}

}  // namespace

WireResult Stopped(std::string detail) { return {WireOutcome::kStopped, std::move(detail)}; }
WireResult Succeeded(std::string detail) { return {WireOutcome::kSucceeded, std::move(detail)}; }
WireResult NotHere(std::string detail) { return {WireOutcome::kNotHere, std::move(detail)}; }
WireResult Unprepared(std::string why) { return {WireOutcome::kUnprepared, std::move(why)}; }
WireResult Unprepared(const absl::Status& why) { return Unprepared(why.ToString()); }

bool SaysCrashed(const std::string& why) {
  return absl::StrContains(why, "signal") || absl::StrContains(why, "worker died: it ended");
}

std::set<pid_t> Workers(const WireTarget& target) {
  std::set<pid_t> found;
  AddDescendants(target.pid, &found);
  return found;
}

bool AwaitThat(const std::function<bool()>& reached, absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  while (!reached()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return true;
}

WireResult JudgeLeftovers(const WireTarget& target, const std::set<pid_t>& before) {
  std::set<pid_t> left = Workers(target);
  const auto none_left = [&] {
    const std::set<pid_t> present = Workers(target);
    std::erase_if(left, [&](pid_t pid) { return before.contains(pid) || !present.contains(pid); });
    return left.empty();
  };
  if (AwaitThat(none_left, kLeaving)) return Stopped("nothing of it is left");
  return Succeeded(absl::StrCat(left.size(), " processes are left of it"));
}

int64_t MostThreads(const WireTarget& target) {
  int64_t most = 0;
  for (const pid_t pid : Workers(target)) most = std::max(most, StatusOf(pid).threads);
  return most;
}

void Flood(int64_t times, std::function<void(int64_t)> send) {
  auto sent = std::make_shared<std::atomic<int64_t>>(0);
  std::thread([times, sent, send = std::move(send)] {
    for (int64_t i = 0; i < times; sent->store(++i)) send(i);
  }).detach();
  const absl::Time deadline = absl::Now() + kPatience;
  absl::Time moved = absl::Now();
  for (int64_t known = 0; known < times; absl::SleepFor(absl::Milliseconds(20))) {
    const absl::Time now = absl::Now();
    if (now > deadline || now - moved > kStalled) return;
    if (const int64_t current = sent->load(); current != known) {
      known = current;
      moved = now;
    }
  }
}

bool IsOpen(const UniqueFd& fd) {
  char bytes[4096];
  ssize_t n = 1;
  while (n > 0) n = recv(fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

int64_t PeakKib(const WireTarget& target) {
  std::ifstream status(absl::StrCat("/proc/", target.pid, "/status"));
  int64_t peak = 0;
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") status >> peak;
  }
  return peak;
}

Footprint Measure(const WireTarget& target) {
  const std::string folder = absl::StrCat("/proc/", target.pid);
  Footprint now = StatusOf(target.pid);
  if (DIR* const fds = opendir((folder + "/fd").c_str()); fds != nullptr) {
    while (readdir(fds) != nullptr) ++now.descriptors;
    closedir(fds);
  }
  struct stat log = {};
  if (stat(target.log.c_str(), &log) == 0) now.log_bytes = log.st_size;
  now.at = absl::Now();
  return now;
}

WireResult JudgeGrowth(const WireTarget& target, const Footprint& before, const Footprint& most) {
  const auto log_bytes =
      most.log_bytes +
      static_cast<int64_t>(kLogBytesASecond * absl::ToDoubleSeconds(absl::Now() - before.at));
  Footprint grown;
  const auto within = [&] {
    grown = Measure(target);
    grown.resident_kib -= before.resident_kib;
    grown.descriptors -= before.descriptors;
    grown.threads -= before.threads;
    grown.log_bytes -= before.log_bytes;
    return grown.resident_kib <= most.resident_kib && grown.descriptors <= most.descriptors &&
           grown.threads <= most.threads && grown.log_bytes <= log_bytes;
  };
  return AwaitThat(within) ? Stopped(Describe(grown)) : Succeeded(Describe(grown));
}

absl::Status HonestSession(const WireTarget& target) {
  auto session = WireSession::OpenWith(target, HonestHello());
  if (!session.ok()) return session.status();
  const std::string written = "an honest client's bytes";
  const auto copied = (*session)->Do(cmd::CopyToDevice{kLegacyStreamHandle, kOwn}, written);
  if (!copied.ok()) return copied.status();
  const auto read = (*session)->Read(kOwn, written.size());
  if (!read.ok()) return read.status();
  if (*read != written) return absl::DataLossError("other bytes than were written");
  (*session)->client()->Close();
  return absl::OkStatus();
}

WireResult JudgeNeighbour(const WireTarget& target, const std::string& meanwhile) {
  const absl::Status served = HonestSession(target);
  if (served.ok()) return Stopped(absl::StrCat("an honest client was served beside ", meanwhile));
  return Succeeded(absl::StrCat("an honest client beside ", meanwhile, ": ", served.ToString()));
}

WireResult JudgeSilent(const WireTarget& target, const std::string& what, size_t count, size_t most,
                       const StreamEnded& ended) {
  const WireResult served = JudgeNeighbour(target, absl::StrCat(count, " ", what));
  if (served.outcome != WireOutcome::kStopped) return served;
  size_t kept = 0;
  const bool enough = AwaitThat([&] {
    kept = 0;
    for (size_t i = 0; i < count; ++i) {
      const std::optional<absl::Status> end = ended(i);
      if (!end.has_value() || absl::IsDeadlineExceeded(*end)) ++kept;
    }
    return kept <= most;
  });
  const std::string detail =
      absl::StrCat(served.detail, ", of which ", kept, " are kept, of at most ", most);
  return enough ? Stopped(detail) : Succeeded(detail);
}

}  // namespace warpline::attack
