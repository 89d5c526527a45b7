#include "tools/cli/top.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/steady_time.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::SessionStat;
using warpline_internal::StatReply;

constexpr char kClear[] = "\x1b[H\x1b[J";

struct Rates {
  const SessionStat* session = nullptr;
  double commands = 0;
  double bytes = 0;
};

double PerSecond(uint64_t before, uint64_t now, double seconds) {
  return now > before && seconds > 0 ? static_cast<double>(now - before) / seconds : 0;
}

std::vector<Rates> RatesOf(const StatReply& before, const StatReply& now, double seconds) {
  std::map<std::pair<std::string, uint64_t>, const SessionStat*> known;
  for (const SessionStat& session : before.sessions()) {
    known[{session.server(), session.id()}] = &session;
  }
  std::vector<Rates> all;
  for (const SessionStat& session : now.sessions()) {
    Rates rates;
    rates.session = &session;
    const auto old = known.find({session.server(), session.id()});
    const SessionStat none;
    const SessionStat& from = old == known.end() ? none : *old->second;
    rates.commands = PerSecond(from.commands(), session.commands(), seconds);
    rates.bytes = PerSecond(from.command_bytes() + from.reply_bytes(),
                            session.command_bytes() + session.reply_bytes(), seconds);
    all.push_back(rates);
  }
  std::stable_sort(all.begin(), all.end(), [](const Rates& a, const Rates& b) {
    return std::pair(a.commands, a.bytes) > std::pair(b.commands, b.bytes);
  });
  return all;
}

}  // namespace

std::string TopReport(const StatReply& before, const StatReply& now, double seconds) {
  std::string out = absl::StrCat(Shown(now.server()), ": ", now.sessions_size(), " sessions\n");
  for (const auto& device : now.devices()) {
    absl::StrAppendFormat(&out, "gpu %-3d %12s of %-12s %s\n", device.gpu(),
                          ShownBytes(device.granted_bytes()), ShownBytes(device.capacity_bytes()),
                          Shown(device.name()));
  }
  absl::StrAppendFormat(&out, "\n%8s %4s %-12s %-8s %12s %12s %11s %13s  %s\n", "SESSION", "GPU",
                        "TENANT", "STATE", "MEMORY", "QUOTA_LEFT", "COMMANDS/S", "BYTES/S",
                        "PROGRAM");
  for (const Rates& rates : RatesOf(before, now, seconds)) {
    const SessionStat& session = *rates.session;
    const uint64_t left =
        session.quota_bytes() - std::min(session.quota_bytes(), session.quota_used_bytes());
    absl::StrAppendFormat(
        &out, "%8d %4d %-12s %-8s %12s %12s %11.0f %13s  %s%s\n", session.id(), session.gpu(),
        session.tenant().empty() ? "-" : Shown(session.tenant()), session.state(),
        ShownBytes(session.memory_bytes()), ShownBytes(left), rates.commands,
        ShownBytes(static_cast<uint64_t>(rates.bytes)), Shown(session.program()),
        session.server().empty() ? "" : absl::StrCat(" on ", Shown(session.server())));
  }
  return out;
}

int Top(const CommandLine& line, const std::string& endpoint) {
  const absl::Duration interval = absl::Seconds(
      line.Has("interval") ? std::clamp<uint64_t>(line.Number("interval"), 1, 3600) : 1);
  StatReply before;
  absl::Time then = SteadyNow();
  const bool terminal = isatty(STDOUT_FILENO) != 0 && !line.Has("once");
  for (int round = 0;; ++round) {
    auto now = AskServer(endpoint);
    if (!now.ok()) {
      std::fprintf(stderr, "warpline: %s\n", std::string(now.status().message()).c_str());
      return 1;
    }
    const absl::Time time = SteadyNow();
    if (round > 0) {
      const double seconds = absl::ToDoubleSeconds(time - then);
      std::printf("%s%s", terminal ? kClear : "", TopReport(before, *now, seconds).c_str());
      if (std::fflush(stdout) != 0) return 1;
      if (line.Has("once")) return 0;
    }
    before = *std::move(now);
    then = time;
    absl::SleepFor(interval);
  }
}

}  // namespace warpline::cli
