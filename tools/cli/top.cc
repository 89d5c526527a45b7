#include "tools/cli/top.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/steady_time.h"
#include "tools/cli/report.h"
#include "tools/cli/table.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::SessionStat;
using warpline_internal::StatReply;

// Moves the cursor home. The new text then overwrites the old line by line, so that nothing
// flickers, and the rest is erased.
constexpr char kHome[] = "\x1b[H";
constexpr char kEraseLine[] = "\x1b[K\n";
constexpr char kEraseRest[] = "\x1b[J";

TerminalSize SizeOfTerminal() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_row, size.ws_col};
}

// The first lines of `text`, and a note of how many more there are.
std::string CutToRows(const std::string& text, size_t rows) {
  const std::vector<absl::string_view> lines = absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  if (rows < 3 || lines.size() < rows) return text;
  const size_t kept = rows - 2;
  return absl::StrCat(
      absl::StrJoin(lines.begin(), lines.begin() + static_cast<ptrdiff_t>(kept), "\n"),
      "\n... and ", lines.size() - kept, " more\n");
}

std::string OnTerminal(const std::string& report) {
  return absl::StrCat(kHome, absl::StrReplaceAll(report, {{"\n", kEraseLine}}), kEraseRest);
}

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
    rates.bytes =
        PerSecond(from.command_bytes() + from.reply_bytes() + from.bulk_bytes(),
                  session.command_bytes() + session.reply_bytes() + session.bulk_bytes(), seconds);
    all.push_back(rates);
  }
  std::stable_sort(all.begin(), all.end(), [](const Rates& a, const Rates& b) {
    return std::pair(a.commands, a.bytes) > std::pair(b.commands, b.bytes);
  });
  return all;
}

}  // namespace

std::string TopReport(StatReply before, StatReply now, double seconds, const TerminalSize& size) {
  MakeShown(&before);
  MakeShown(&now);
  const std::vector<Rates> all = RatesOf(before, now, seconds);
  double commands = 0;
  double bytes = 0;
  for (const Rates& rates : all) {
    commands += rates.commands;
    bytes += rates.bytes;
  }
  std::string out = absl::StrFormat("%s%s: %d sessions, %.0f commands/s, %s/s\n", now.server(),
                                    now.draining() ? " (draining)" : "", now.sessions_size(),
                                    commands, ShownBytes(static_cast<uint64_t>(bytes)));
  Table devices({{"SERVER", false, true},
                 {"GPU", true},
                 {"SESSIONS", true},
                 {"GRANTED", true},
                 {"CAPACITY", true},
                 {"NAME"}});
  for (const auto& device : now.devices()) {
    devices.Add({device.server(), absl::StrCat(device.gpu()), absl::StrCat(device.sessions()),
                 ShownBytes(device.granted_bytes()), ShownBytes(device.capacity_bytes()),
                 device.name()});
  }
  absl::StrAppend(&out, "\n", devices.Text(size.columns), "\n");
  Table sessions({{"SESSION", true},
                  {"SERVER", false, true},
                  {"GPU", true},
                  {"TENANT", false, true},
                  {"STATE"},
                  {"AGE", true},
                  {"MEMORY", true},
                  {"QUOTA_LEFT", true},
                  {"COMMANDS/S", true},
                  {"BYTES/S", true},
                  {"PROGRAM"}});
  for (const Rates& rates : all) {
    const SessionStat& session = *rates.session;
    const uint64_t left =
        session.quota_bytes() - std::min(session.quota_bytes(), session.quota_used_bytes());
    sessions.Add({absl::StrCat(session.id()), session.server(), ShownGpus(session),
                  session.tenant(), session.state(), ShownAge(session.age_seconds()),
                  ShownBytes(session.memory_bytes()), ShownBytes(left),
                  absl::StrFormat("%.0f", rates.commands),
                  ShownBytes(static_cast<uint64_t>(rates.bytes)), session.program()});
  }
  absl::StrAppend(&out, sessions.Text(size.columns));
  return CutToRows(out, size.rows);
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
      return Complain("warpline", now.status().message(), 1);
    }
    const absl::Time time = SteadyNow();
    if (round > 0) {
      const double seconds = absl::ToDoubleSeconds(time - then);
      const std::string report =
          TopReport(before, *now, seconds, terminal ? SizeOfTerminal() : TerminalSize());
      std::fputs((terminal ? OnTerminal(report) : report).c_str(), stdout);
      if (std::fflush(stdout) != 0) return 1;
      if (line.Has("once")) return 0;
    }
    before = *std::move(now);
    then = time;
    absl::SleepFor(interval);
  }
}

}  // namespace warpline::cli
