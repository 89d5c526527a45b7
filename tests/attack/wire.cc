#include "tests/attack/wire.h"

#include <dirent.h>
#include <sys/stat.h>

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/cuda/cuda_numbers.h"
#include "tests/attack/wire_session.h"

namespace warpline::attack {
namespace {

std::string Describe(const Footprint& grown) {
  return absl::StrCat("the server grew by ", grown.resident_kib, " KiB, ", grown.descriptors,
                      " descriptors, ", grown.threads, " threads, ", grown.log_bytes,
                      " bytes of log");
}

}  // namespace

WireResult Stopped(std::string detail) { return {WireOutcome::kStopped, std::move(detail)}; }
WireResult Succeeded(std::string detail) { return {WireOutcome::kSucceeded, std::move(detail)}; }
WireResult NotHere(std::string detail) { return {WireOutcome::kNotHere, std::move(detail)}; }
WireResult Unprepared(const absl::Status& why) {
  return Succeeded(absl::StrCat("not prepared: ", why.ToString()));
}

Footprint Measure(const WireTarget& target) {
  const std::string folder = absl::StrCat("/proc/", target.pid);
  Footprint now;
  std::ifstream status(folder + "/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> now.resident_kib;
    if (word == "Threads:") status >> now.threads;
  }
  if (DIR* const fds = opendir((folder + "/fd").c_str()); fds != nullptr) {
    while (readdir(fds) != nullptr) ++now.descriptors;
    closedir(fds);
  }
  struct stat log = {};
  if (stat(target.log.c_str(), &log) == 0) now.log_bytes = log.st_size;
  return now;
}

WireResult JudgeGrowth(const WireTarget& target, const Footprint& before, const Footprint& most) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (true) {
    Footprint grown = Measure(target);
    grown.resident_kib -= before.resident_kib;
    grown.descriptors -= before.descriptors;
    grown.threads -= before.threads;
    grown.log_bytes -= before.log_bytes;
    if (grown.resident_kib <= most.resident_kib && grown.descriptors <= most.descriptors &&
        grown.threads <= most.threads && grown.log_bytes <= most.log_bytes) {
      return Stopped(Describe(grown));
    }
    if (absl::Now() > deadline) return Succeeded(Describe(grown));
    absl::SleepFor(absl::Milliseconds(100));
  }
}

absl::Status HonestSession(const WireTarget& target) {
  const absl::Time start = absl::Now();
  auto session = WireSession::Open(target);
  if (!session.ok()) return session.status();
  const std::string written = "an honest client's bytes";
  const auto copied = (*session)->Do(cmd::CopyToDevice{kLegacyStreamHandle, kOwn}, written);
  if (!copied.ok()) return copied.status();
  const auto read = (*session)->Read(kOwn, written.size());
  if (!read.ok()) return read.status();
  if (*read != written) return absl::DataLossError("other bytes than were written");
  (*session)->client()->Close();
  if (absl::Now() - start > kPatience) return absl::DeadlineExceededError("it took too long");
  return absl::OkStatus();
}

WireResult JudgeNeighbour(const WireTarget& target, const std::string& meanwhile) {
  const absl::Status served = HonestSession(target);
  if (served.ok()) return Stopped(absl::StrCat("an honest client was served beside ", meanwhile));
  return Succeeded(absl::StrCat("an honest client beside ", meanwhile, ": ", served.ToString()));
}

}  // namespace warpline::attack
