#include "common/log/keyed_log_budget.h"

#include <algorithm>
#include <utility>

namespace warpline {

KeyedLogBudget::KeyedLogBudget(KeyedLogBudgetOptions options)
    : options_(std::move(options)), all_(options_.all, options_.owner, options_.clock) {}

KeyedLogBudget::~KeyedLogBudget() {
  MutexLock lock(&mu_);
  for (const auto& [key, entry] : entries_) Forget(entry);
}

LogPermit KeyedLogBudget::Ask(std::string_view key, size_t kind) {
  MutexLock lock(&mu_);
  const LogPermit own = BudgetOf(key)->Ask(kind);
  if (!own) return own;
  const LogPermit all = all_.Ask(kind);
  if (!all) {
    all_.AddLeftOut(kind, own.left_out());
    return all;
  }
  return LogPermit(own.left_out() + all.left_out(), std::max(own.left_out() > 0 ? own.in_ns() : 0,
                                                             all.left_out() > 0 ? all.in_ns() : 0));
}

uint64_t KeyedLogBudget::TakeLeftOut(size_t kind) {
  MutexLock lock(&mu_);
  uint64_t lines = all_.TakeLeftOut(kind);
  for (const auto& [key, entry] : entries_) lines += entry.budget->TakeLeftOut(kind);
  return lines;
}

size_t KeyedLogBudget::keys() const {
  MutexLock lock(&mu_);
  return entries_.size();
}

LogBudget* KeyedLogBudget::BudgetOf(std::string_view key) {
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    if (entries_.size() >= options_.max_keys) {
      const auto oldest = std::min_element(
          entries_.begin(), entries_.end(),
          [](const auto& a, const auto& b) { return a.second.asked < b.second.asked; });
      Forget(oldest->second);
      entries_.erase(oldest);
    }
    Entry entry = {std::make_unique<LogBudget>(options_.each, options_.owner, options_.clock)};
    found = entries_.emplace(std::string(key), std::move(entry)).first;
  }
  found->second.asked = ++asked_;
  return found->second.budget.get();
}

void KeyedLogBudget::Forget(const Entry& entry) {
  for (size_t kind = 0; kind < options_.each.size(); ++kind) {
    const uint64_t lines = entry.budget->TakeLeftOut(kind);
    if (lines > 0) all_.AddLeftOut(kind, lines);
  }
}

}  // namespace warpline
