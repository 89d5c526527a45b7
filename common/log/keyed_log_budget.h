// A log budget for each peer or tenant, and one more for all of them together.
//
// A line must pass both budgets. A peer that floods the log uses up its own budget, and the lines
// of others still arrive. Half of the common budget is kept for peers that have not had their share
// of it: a sixteenth of a peer's own budget, which comes back sixteen times as slowly. However many
// peers have used up the other half, the first lines of another peer still arrive. Only peers that
// give themselves new names all the time use up the common budget.
#ifndef WARPLINE_COMMON_LOG_KEYED_LOG_BUDGET_H_
#define WARPLINE_COMMON_LOG_KEYED_LOG_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"

namespace warpline {

struct KeyedLogBudgetOptions {
  // Both hold the same kinds in the same order. They must outlive the budget.
  absl::Span<const LogKind> each;
  absl::Span<const LogKind> all;
  // The number of keys that are remembered. Beyond it the key that asked longest ago is forgotten,
  // and gets a full budget of its own when it comes back; the common budget still bounds it.
  size_t max_keys = 256;
  std::string owner;  // See LogBudget.
  LogBudget::Clock clock = &LogBudget::CoarseNanos;
};

// Thread-safe.
class KeyedLogBudget {
 public:
  explicit KeyedLogBudget(KeyedLogBudgetOptions options);
  // Says in one line what is pending for all keys.
  ~KeyedLogBudget();
  KeyedLogBudget(const KeyedLogBudget&) = delete;
  KeyedLogBudget& operator=(const KeyedLogBudget&) = delete;

  // Asks for the right to say a line. The key is only compared, so it may come from a peer. The
  // permit counts what was left out of the key's own lines, and of those for which the common
  // budget had no room.
  LogPermit Ask(std::string_view key, size_t kind) ABSL_LOCKS_EXCLUDED(mu_);

  // Takes what is pending of a kind, of all keys, so that it can be said elsewhere.
  uint64_t TakeLeftOut(size_t kind) ABSL_LOCKS_EXCLUDED(mu_);

  size_t keys() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Entry {
    std::unique_ptr<LogBudget> budget;
    std::unique_ptr<LogBudget> share;  // What it may have of the half that is kept.
    uint64_t asked = 0;                // The value of `asked_` when it last asked.
  };

  Entry& EntryOf(std::string_view key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  LogPermit AskAll(LogBudget* share, size_t kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Moves what is pending for the entry to the common budget.
  void Forget(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const KeyedLogBudgetOptions options_;
  const std::vector<LogKind> shares_;  // Of each key, by kind.
  mutable Mutex mu_;
  uint64_t asked_ ABSL_GUARDED_BY(mu_) = 0;
  LogBudget all_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_LOG_KEYED_LOG_BUDGET_H_
