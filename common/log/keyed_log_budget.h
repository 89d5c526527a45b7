// A LogBudget for each peer or tenant, and one for all of them together.
//
// One peer that floods uses up its own budget, and others' lines still arrive. Peers that make
// themselves new names all the time meet the budget of all together. A line has to pass both.
#ifndef WARPLINE_COMMON_LOG_KEYED_LOG_BUDGET_H_
#define WARPLINE_COMMON_LOG_KEYED_LOG_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"

namespace warpline {

struct KeyedLogBudgetOptions {
  // The same kinds in both, in the same order. They outlive the budget.
  absl::Span<const LogKind> each;
  absl::Span<const LogKind> all;
  // Keys that are known at a time. Beyond that the one that asked longest ago is forgotten: it gets
  // a full budget when it comes back, of which the budget of all is the bound.
  size_t max_keys = 256;
  std::string owner;  // See LogBudget.
  LogBudget::Clock clock = &LogBudget::CoarseNanos;
};

// Thread-safe.
class KeyedLogBudget {
 public:
  explicit KeyedLogBudget(KeyedLogBudgetOptions options);
  // Says what is pending of all keys, in one line.
  ~KeyedLogBudget();
  KeyedLogBudget(const KeyedLogBudget&) = delete;
  KeyedLogBudget& operator=(const KeyedLogBudget&) = delete;

  // The key is only compared; it may come from a peer. What a permit says was left out is the key's
  // own lines, and those that the budget of all had no room for.
  LogPermit Ask(std::string_view key, size_t kind) ABSL_LOCKS_EXCLUDED(mu_);

  size_t keys() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Entry {
    std::unique_ptr<LogBudget> budget;
    uint64_t asked = 0;  // In the order of all that were asked.
  };

  LogBudget* BudgetOf(std::string_view key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What is pending of the entry becomes pending of all.
  void Forget(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const KeyedLogBudgetOptions options_;
  mutable Mutex mu_;
  uint64_t asked_ ABSL_GUARDED_BY(mu_) = 0;
  LogBudget all_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_LOG_KEYED_LOG_BUDGET_H_
