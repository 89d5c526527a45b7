#include "tools/cli/audit.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "audit/files.h"
#include "common/text.h"
#include "tools/cli/operator.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

// Where the service warpline-server keeps it.
constexpr char kDefaultDir[] = "/var/lib/warpline/audit";
constexpr absl::Duration kFollowPause = absl::Milliseconds(200);

int Complain(const absl::Status& status, int code) {
  return cli::Complain("warpline", status.message(), code);
}

std::string DirOf(const CommandLine& line) {
  return line.Has("dir") ? line.Text("dir") : kDefaultDir;
}

// Shows the lines of one file that have come, and counts those that are none.
class Shower {
 public:
  Shower(AuditFilter filter, bool json) : filter_(std::move(filter)), json_(json) {}

  void Begin(uint64_t file) {
    file_ = file;
    line_ = 0;
  }

  void Show(const std::string& text) {
    ++line_;
    const auto line = audit::ParseLine(text);
    if (!line.ok()) {
      ++unreadable_;
      std::fprintf(stderr, "%s:%llu: it is not a record\n", audit::FileName(file_).c_str(),
                   static_cast<unsigned long long>(line_));
    } else if (filter_.Lets(*line)) {
      std::printf("%s\n", json_ ? text.c_str() : AuditText(*line).c_str());
    }
  }

  uint64_t unreadable() const { return unreadable_; }

 private:
  const AuditFilter filter_;
  const bool json_;
  uint64_t file_ = 0;
  uint64_t line_ = 0;
  uint64_t unreadable_ = 0;
};

// Whether the file after `number` has begun.
bool NextIsThere(const std::string& dir, uint64_t number) {
  return access(absl::StrCat(dir, "/", audit::FileName(number + 1)).c_str(), F_OK) == 0;
}

int ShowAll(const std::string& dir, bool follow, Shower* shower) {
  const auto files = audit::ListFiles(dir);
  if (!files.ok()) return Complain(files.status(), kAuditUnreadable);
  if (files->empty()) {
    return Complain(absl::NotFoundError(absl::StrCat("no record is in ", dir)), kAuditUnreadable);
  }
  for (uint64_t number = files->front();; ++number) {
    auto file = audit::OpenFile(dir, number);
    if (!file.ok() && number < files->back()) continue;  // One that is missing: see --verify.
    if (!file.ok()) return Complain(file.status(), kAuditUnreadable);
    audit::LineReader reader(*std::move(file));
    shower->Begin(number);
    while (true) {
      // In this order: what is written until the next file begins is all that there will be.
      const bool last = NextIsThere(dir, number) || number < files->back();
      while (const auto line = reader.Next()) shower->Show(*line);
      std::fflush(stdout);
      if (last) break;
      if (!follow) return shower->unreadable() == 0 ? kAuditWhole : kAuditBroken;
      absl::SleepFor(kFollowPause);
    }
  }
}

// Those that a scheduler has of a server.
absl::StatusOr<std::vector<std::string>> AnchorsOf(const std::string& scheduler,
                                                   const std::string& server) {
  const auto known = FindServer(scheduler, server);
  if (!known.ok()) return known.status();
  if (known->audit_head().empty()) {
    return absl::NotFoundError(absl::StrCat("the scheduler has no anchor of server ", server));
  }
  std::vector<std::string> anchors = {known->audit_head()};
  if (!known->audit_lost().empty()) anchors.push_back(known->audit_lost());
  return anchors;
}

int VerifyAll(const std::string& dir, const CommandLine& line) {
  absl::StatusOr<std::vector<std::string>> texts = std::vector<std::string>();
  if (line.Has("anchor")) texts->push_back(line.Text("anchor"));
  if (line.Has("scheduler")) texts = AnchorsOf(line.Text("scheduler"), line.Text("server"));
  if (!texts.ok()) return Complain(texts.status(), kAuditUnreadable);
  std::vector<std::optional<audit::Anchor>> anchors;
  for (const std::string& text : *texts) {
    auto parsed = audit::ParseAnchor(text);
    if (!parsed.ok()) return Complain(parsed.status(), 2);
    anchors.emplace_back(*std::move(parsed));
  }
  if (anchors.empty()) anchors.emplace_back();
  for (const auto& anchor : anchors) {
    const auto verdict = audit::Verify(dir, anchor);
    if (!verdict.ok()) return Complain(verdict.status(), kAuditUnreadable);
    // What is wrong with one is said; what is whole with all of them is said once.
    if (verdict->faults.empty() && &anchor != &anchors.back()) continue;
    std::fputs(VerdictText(dir, *verdict).c_str(), stdout);
    if (!verdict->faults.empty()) return kAuditBroken;
  }
  return kAuditWhole;
}

}  // namespace

bool AuditFilter::Lets(const audit::Line& line) const {
  if (line.time < since) return false;
  if (session != 0 && line.Field("session") != absl::StrCat(session)) return false;
  if (!tenant.empty() && line.Field("tenant") != tenant) return false;
  return event.empty() || line.event == event ||
         absl::StartsWith(line.event, absl::StrCat(event, "."));
}

absl::StatusOr<AuditFilter> FilterOf(const CommandLine& line, absl::Time now) {
  AuditFilter filter;
  filter.session = line.Number("session");
  filter.tenant = line.Text("tenant");
  filter.event = line.Text("event");
  if (!line.Has("since")) return filter;
  const std::string since = line.Text("since");
  absl::Time time;
  absl::Duration ago;
  std::string error;
  if (absl::ParseDuration(since, &ago) && ago >= absl::ZeroDuration()) {
    time = now - ago;
  } else if (!absl::ParseTime(absl::RFC3339_full, since, &time, &error) &&
             !absl::ParseTime("%Y-%m-%d", since, &time, &error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--since=", since, ": expected 2026-11-22T15:00:00Z, 2026-11-22 or 90m"));
  }
  filter.since = audit::FormatRecordTime(time);
  return filter;
}

std::string AuditText(const audit::Line& line) {
  std::string text = absl::StrCat(Shown(line.time), " ", line.seq, " ", Shown(line.event));
  for (const auto& [name, value] : line.fields) {
    const bool plain = IsPlainName(value, value.size() + 1, "-_.:/+[]@");
    absl::StrAppend(&text, " ", Shown(name), "=", plain ? value : Quoted(Shown(value)));
  }
  return text;
}

std::string VerdictText(const std::string& dir, const audit::Verdict& verdict) {
  std::string text;
  for (const audit::Fault& fault : verdict.faults) {
    absl::StrAppend(&text, Shown(fault.Text()), "\n");
  }
  for (const std::string& note : verdict.notes) {
    absl::StrAppend(&text, "note: ", Shown(note), "\n");
  }
  absl::StrAppend(&text, "audit: ", verdict.faults.empty() ? "whole" : "BROKEN", ": ",
                  verdict.lines, " lines in ", verdict.files, " files of ", dir,
                  verdict.head.seq == 0 ? "" : " anchor=", audit::FormatAnchor(verdict.head), "\n");
  return text;
}

int Audit(const CommandLine& line) {
  const bool verify = line.Has("verify") || line.Has("anchor") || line.Has("scheduler");
  const bool shows = line.Has("follow") || line.Has("json") || line.Has("since") ||
                     line.Has("session") || line.Has("tenant") || line.Has("event");
  if (verify && shows) {
    return Complain(absl::InvalidArgumentError("--verify checks the whole record: it goes with "
                                               "--dir and an anchor alone; see warpline --help"),
                    2);
  }
  if (line.Has("scheduler") != line.Has("server") ||
      (line.Has("scheduler") && line.Has("anchor"))) {
    return Complain(
        absl::InvalidArgumentError(
            "--scheduler goes with --server, in place of --anchor; see warpline --help"),
        2);
  }
  if (verify) return VerifyAll(DirOf(line), line);
  auto filter = FilterOf(line, absl::Now());
  if (!filter.ok()) return Complain(filter.status(), 2);
  Shower shower(*std::move(filter), line.Has("json"));
  return ShowAll(DirOf(line), line.Has("follow"), &shower);
}

}  // namespace warpline::cli
