#include "common/log/log_budget.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace warpline {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

std::atomic<std::atomic<uint64_t>*> g_total{nullptr};

}  // namespace

std::string LogPermit::Tail() const {
  if (left_out_ == 0) return "";
  return absl::StrCat(" (and ", left_out_, " more in ", in_ns_ / kNanosPerSecond, " s)");
}

LogBudget::LogBudget(absl::Span<const LogKind> kinds, std::string owner, Clock clock)
    : kinds_(kinds),
      owner_(std::move(owner)),
      clock_(std::move(clock)),
      start_ns_(clock_()),
      buckets_(std::make_unique<Bucket[]>(kinds.size())) {
  for (size_t i = 0; i < kinds.size(); ++i) buckets_[i].said_ns.store(start_ns_);
}

bool LogBudget::Fits(size_t kind, int64_t keep, int64_t from_ns, int64_t now_ns) const {
  const int64_t interval = absl::ToInt64Nanoseconds(kinds_[kind].interval);
  return from_ns - now_ns <= (kinds_[kind].burst - 1 - keep) * interval;
}

bool LogBudget::HasRoom(size_t kind, int64_t keep) const {
  const int64_t now = clock_();
  const int64_t full_at = buckets_[kind].full_at_ns.load(std::memory_order_relaxed);
  return Fits(kind, keep, std::max(full_at, now), now);
}

LogPermit LogBudget::Ask(size_t kind, int64_t keep) {
  Bucket& bucket = buckets_[kind];
  const int64_t interval = absl::ToInt64Nanoseconds(kinds_[kind].interval);
  const int64_t now = clock_();
  int64_t full_at = bucket.full_at_ns.load(std::memory_order_relaxed);
  int64_t from;
  do {
    from = std::max(full_at, now);
    if (!Fits(kind, keep, from, now)) {
      AddLeftOut(kind, 1);
      std::atomic<uint64_t>* const total = g_total.load(std::memory_order_acquire);
      if (total != nullptr) total->fetch_add(1, std::memory_order_relaxed);
      return LogPermit();
    }
  } while (!bucket.full_at_ns.compare_exchange_weak(full_at, from + interval,
                                                    std::memory_order_relaxed));
  const int64_t said = bucket.said_ns.exchange(now, std::memory_order_relaxed);
  return LogPermit(TakeLeftOut(kind), std::max<int64_t>(now - said, 0));
}

void LogBudget::AddLeftOut(size_t kind, uint64_t lines) {
  buckets_[kind].left_out.fetch_add(lines, std::memory_order_relaxed);
}

void LogBudget::CountAllIn(std::atomic<uint64_t>* total) {
  g_total.store(total, std::memory_order_release);
}

uint64_t LogBudget::TakeLeftOut(size_t kind) {
  // Loads first, which is cheaper: most lines follow none that was left out.
  std::atomic<uint64_t>& left_out = buckets_[kind].left_out;
  return left_out.load(std::memory_order_relaxed) == 0
             ? 0
             : left_out.exchange(0, std::memory_order_relaxed);
}

void LogBudget::Finish() {
  std::string counts;
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const uint64_t lines = TakeLeftOut(i);
    if (lines > 0) absl::StrAppend(&counts, " ", kinds_[i].name, "=", lines);
  }
  if (counts.empty()) return;
  LogInfo("log lines left out", owner_.empty() ? "" : " ", owner_, counts,
          " seconds=", (clock_() - start_ns_) / kNanosPerSecond);
}

int64_t LogBudget::CoarseNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * kNanosPerSecond + now.tv_nsec;
}

}  // namespace warpline
