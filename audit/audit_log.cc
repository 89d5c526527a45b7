#include "audit/audit_log.h"

#include <syslog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log/log.h"
#include "common/serving/listen_address.h"
#include "common/steady_time.h"
#include "transport/loop_thread.h"

namespace warpline::audit {
namespace {

constexpr absl::Duration kRetry = absl::Seconds(1);

constexpr size_t kBoundCount = static_cast<size_t>(Bound::kBoundCount);
constexpr size_t kFirstBudget = static_cast<size_t>(Bound::kSessions);

// In the order of Bound; the first two never ask. Of one tenant or peer: with lines of some 400
// bytes at most 23 MB a day in the long run, where the files by default hold 1 GiB.
constexpr LogKind kEach[kBoundCount] = {
    {"none", 1, absl::Hours(1)},           {"with_opening", 1, absl::Hours(1)},
    {"sessions", 1000, absl::Seconds(10)}, {"revocations", 1000, absl::Seconds(30)},
    {"refused", 100, absl::Minutes(1)},    {"credential.refused", 100, absl::Minutes(1)},
    {"modules", 5000, absl::Seconds(5)},   {"shares", 2000, absl::Seconds(10)},
    {"workers", 200, absl::Seconds(30)},   {"admin.refused", 100, absl::Minutes(1)},
    {"policies", 100, absl::Minutes(1)},   {"policy_notes", 100, absl::Minutes(1)},
};
// The budgets that all peers share. KeyedLogBudget keeps half of each one for peers that have not
// had their share.
constexpr LogKind kAll[kBoundCount] = {
    {"none", 1, absl::Hours(1)},
    {"with_opening", 1, absl::Hours(1)},
    {"sessions", 20'000, absl::Seconds(1)},
    {"revocations", 20'000, absl::Seconds(1)},
    {"refused", 2000, absl::Seconds(5)},
    {"credential.refused", 2000, absl::Seconds(5)},
    {"modules", 50'000, absl::Milliseconds(500)},
    {"shares", 20'000, absl::Seconds(1)},
    {"workers", 2000, absl::Seconds(5)},
    {"admin.refused", 2000, absl::Seconds(5)},
    {"policies", 1000, absl::Seconds(10)},
    {"policy_notes", 1000, absl::Seconds(10)},
};
// The part of the room for records that wait which is kept for those that ask no budget.
constexpr size_t kKeptPart = 4;

enum AuditLine : size_t { kFailingLine, kAuditLineCount };
constexpr LogKind kLines[kAuditLineCount] = {{"audit_failing", 20, absl::Minutes(1)}};

std::string KeyOf(const Record& record) {
  return record.tenant.empty() ? PeerUnit(record.peer) : absl::StrCat("tenant ", record.tenant);
}

}  // namespace

KeyedLogBudgetOptions BudgetOptions() {
  KeyedLogBudgetOptions options;
  options.each = kEach;
  options.all = kAll;
  options.max_keys = 1024;
  options.owner = "audit";
  return options;
}

void AnchorInLogs(const std::string& dir, const Anchor& anchor) {
  const std::string text = FormatAnchor(anchor);
  syslog(LOG_AUTHPRIV | LOG_NOTICE, "warpline audit anchor=%s dir=%s", text.c_str(), dir.c_str());
  LogInfo("audit anchor=", text, " dir=", dir);
}

absl::StatusOr<std::unique_ptr<AuditLog>> OpenAudit(const AuditLogOptions& options) {
  if (options.writer.dir.empty()) {
    LogInfo("no audit is recorded: --audit_dir names no folder");
    return nullptr;
  }
  auto log = AuditLog::Open(options);
  if (!log.ok() && options.required) return log.status();
  if (!log.ok()) {
    LogWarning("no audit is recorded: ", log.status().message());
    return nullptr;
  }
  LogInfo("audit dir=", options.writer.dir, " records=", (*log)->head().seq,
          " required=", options.required ? "true" : "false");
  return log;
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(AuditLogOptions options) {
  auto writer = AuditWriter::Open(options.writer);
  if (!writer.ok()) return writer.status();
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(options), *std::move(writer)));
}

AuditLog::AuditLog(AuditLogOptions options, std::unique_ptr<AuditWriter> writer)
    : options_(std::move(options)),
      budget_(options_.budget),
      writer_(std::move(writer)),
      log_(kLines),
      head_(writer_->head()) {
  thread_ = StartLoopThread("wl-audit", [this] { Run(); });
}

AuditLog::~AuditLog() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

bool AuditLog::Add(Record record) {
  const Bound bound = BoundOf(record);
  if (static_cast<size_t>(bound) >= kFirstBudget) {
    const LogPermit permit = budget_.Ask(KeyOf(record), static_cast<size_t>(bound));
    if (!permit) return false;
    if (permit.left_out() > 0) record.numbers.emplace_back("left_out", permit.left_out());
  }
  if (record.time == absl::InfinitePast()) record.time = options_.writer.clock();
  MutexLock lock(&mu_);
  if (!HasRoom(bound)) {
    ++lost_;
    ++lost_unsaid_;
    return false;
  }
  waiting_.push_back(std::move(record));
  changed_.NotifyAll();
  return true;
}

bool AuditLog::HasRoom(Bound bound) const {
  const size_t kept = bound == Bound::kNone ? 0 : options_.max_waiting / kKeptPart;
  return waiting_.size() + writing_ < options_.max_waiting - kept;
}

bool AuditLog::takes() const {
  MutexLock lock(&mu_);
  return !options_.required || (!failing_ && HasRoom(Bound::kSessions));
}

bool AuditLog::takes_operators() const {
  MutexLock lock(&mu_);
  return !options_.required || (!failing_ && HasRoom(Bound::kNone));
}

Anchor AuditLog::head() const {
  MutexLock lock(&mu_);
  return head_;
}

uint64_t AuditLog::lost() const {
  MutexLock lock(&mu_);
  return lost_;
}

void AuditLog::Run() {
  absl::Time next_anchor = SteadyNow() + options_.anchor_interval;
  std::deque<Record> records;
  bool stopping = false;
  while (!stopping) {
    {
      MutexLock lock(&mu_);
      const absl::Time wake = failing_ ? std::min(next_anchor, SteadyNow() + kRetry) : next_anchor;
      while (!stopping_ && (failing_ || waiting_.empty()) && SteadyNow() < wake) {
        changed_.WaitWithTimeout(&mu_, std::min(wake - SteadyNow(), absl::Hours(1)));
      }
      stopping = stopping_;
      std::move(waiting_.begin(), waiting_.end(), std::back_inserter(records));
      waiting_.clear();
      writing_ = records.size();
    }
    const bool anchor = stopping || SteadyNow() >= next_anchor;
    if (anchor) AddCounts(&records);
    Write(&records);
    if (!anchor) continue;
    SayAnchor();
    next_anchor = SteadyNow() + options_.anchor_interval;
  }
  if (!records.empty()) LogError("audit: records are lost at the end: ", records.size());
}

void AuditLog::AddCounts(std::deque<Record>* records) {
  for (size_t kind = kFirstBudget; kind < options_.budget.each.size(); ++kind) {
    const uint64_t left_out = budget_.TakeLeftOut(kind);
    if (left_out == 0) continue;
    records->push_back({.event = Event::kLeftOut,
                        .time = options_.writer.clock(),
                        .texts = {{"kind", options_.budget.each[kind].name}},
                        .numbers = {{"left_out", left_out}}});
  }
}

void AuditLog::Write(std::deque<Record>* records) {
  absl::Status status;
  while (!records->empty() && status.ok()) {
    uint64_t lost = 0;
    {
      MutexLock lock(&mu_);
      std::swap(lost, lost_unsaid_);
    }
    if (lost > 0) {
      status = writer_->Append({.event = Event::kLost, .numbers = {{"records", lost}}});
      MutexLock lock(&mu_);
      if (!status.ok()) lost_unsaid_ += lost;
    }
    if (status.ok()) status = writer_->Append(records->front());
    if (status.ok()) records->pop_front();
  }
  // A disk that is full shows with the last line, not only with the next one.
  if (status.ok()) status = writer_->Flush();
  SetFailing(status);
  MutexLock lock(&mu_);
  writing_ = records->size();
  head_ = writer_->head();
}

void AuditLog::SetFailing(const absl::Status& status) {
  bool was = false;
  {
    MutexLock lock(&mu_);
    was = std::exchange(failing_, !status.ok());
  }
  if (was == !status.ok()) return;
  if (const LogPermit permit = log_.Ask(kFailingLine)) {
    if (status.ok()) {
      permit.Info("audit: the record is written again lost=", lost());
    } else {
      permit.Error(status.message(), ": ",
                   options_.required ? absl::StrCat(options_.refuses, " are refused")
                                     : "what happens meanwhile may be missing in it");
    }
  }
}

void AuditLog::SayAnchor() {
  writer_->Sync().IgnoreError();
  const Anchor& head = writer_->head();
  if (head.seq == anchored_) return;
  anchored_ = head.seq;
  options_.say_anchor(writer_->dir(), head);
}

}  // namespace warpline::audit
