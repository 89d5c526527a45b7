// Bounds how often a line is said that an untrusted peer can cause again and again.
//
// Each kind of line is a token bucket: the first `burst` lines are said at once, and one more in
// every `interval`. A line that is not said is counted, and the next line of its kind that is said
// ends in "(and 41 more in 300 s)". Finish(), or the destructor, says what is pending at the end.
#ifndef WARPLINE_COMMON_LOG_LOG_BUDGET_H_
#define WARPLINE_COMMON_LOG_LOG_BUDGET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/log/log.h"

namespace warpline {

// A kind of line. Its name comes from the program, never from a peer.
struct LogKind {
  const char* name;
  int64_t burst;  // At least 1.
  absl::Duration interval;
};

// Tells whether a line may be said, and how many of its kind were not said before it. Asking first
// means that a line that is not said is never put together.
class LogPermit {
 public:
  LogPermit() = default;
  explicit LogPermit(uint64_t left_out, int64_t in_ns = 0)
      : granted_(true), left_out_(left_out), in_ns_(in_ns) {}

  explicit operator bool() const { return granted_; }
  uint64_t left_out() const { return left_out_; }
  int64_t in_ns() const { return in_ns_; }

  // Say exactly one line with a permit that is granted.
  template <typename... Args>
  void Info(const Args&... args) const {
    LogLine(LogLevel::kInfo, absl::StrCat(args...), Tail());
  }
  template <typename... Args>
  void Warning(const Args&... args) const {
    LogLine(LogLevel::kWarning, absl::StrCat(args...), Tail());
  }
  template <typename... Args>
  void Error(const Args&... args) const {
    LogLine(LogLevel::kError, absl::StrCat(args...), Tail());
  }

  // Returns " (and 41 more in 300 s)", or nothing.
  std::string Tail() const;

 private:
  bool granted_ = false;
  uint64_t left_out_ = 0;
  int64_t in_ns_ = 0;
};

// Thread-safe, and lock-free except for Finish(). A line that is not said costs a look at the clock
// and two additions.
class LogBudget {
 public:
  // Returns the nanoseconds of a clock that starts at 0 or later and does not go back. Thread-safe.
  using Clock = std::function<int64_t()>;

  // `kinds` must outlive the budget, and each must have a name of its own. `owner` tells in the
  // line of Finish() whose lines they were.
  explicit LogBudget(absl::Span<const LogKind> kinds, std::string owner = "",
                     Clock clock = &CoarseNanos);
  ~LogBudget() { Finish(); }
  LogBudget(const LogBudget&) = delete;
  LogBudget& operator=(const LogBudget&) = delete;

  // Asks for the right to say a line of the kind at index `kind` of `kinds`. The permit is refused
  // also when fewer than `keep` further lines could be said at once after this one.
  LogPermit Ask(size_t kind, int64_t keep = 0);
  // Returns true if Ask() would grant a permit now. Takes no token, and counts nothing as left out.
  bool HasRoom(size_t kind, int64_t keep = 0) const;
  // Notes that `lines` of a kind were not said elsewhere. The next one that is said here mentions
  // them.
  void AddLeftOut(size_t kind, uint64_t lines);
  // Takes what is pending of a kind, so that another budget can say it.
  uint64_t TakeLeftOut(size_t kind);
  // Says in one line what is pending for all kinds, if anything is.
  void Finish();

  // From now on, every line that any budget of the process does not say is also counted in `total`.
  // It is borrowed; null stops the counting.
  static void CountAllIn(std::atomic<uint64_t>* total);

  // CLOCK_MONOTONIC_COARSE, which has a resolution of some milliseconds and costs next to nothing.
  static int64_t CoarseNanos();

 private:
  struct Bucket {
    // The time at which the bucket is full again.
    std::atomic<int64_t> full_at_ns{0};
    std::atomic<int64_t> said_ns{0};
    std::atomic<uint64_t> left_out{0};
  };

  // Returns true if a bucket that is full again at `from_ns` has room for one line and `keep` more.
  bool Fits(size_t kind, int64_t keep, int64_t from_ns, int64_t now_ns) const;

  const absl::Span<const LogKind> kinds_;
  const std::string owner_;
  const Clock clock_;
  const int64_t start_ns_;
  const std::unique_ptr<Bucket[]> buckets_;
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_LOG_LOG_BUDGET_H_
