#include "common/log/keyed_log_budget.h"

#include <algorithm>
#include <utility>

namespace warpline {
namespace {

// The part of the common budget that is kept for keys that have not had their share of it.
constexpr int64_t kKeptPart = 2;
// A key's share is this part of its own budget, both at once and in the long run.
constexpr int64_t kSharePart = 16;

std::vector<LogKind> SharesOf(absl::Span<const LogKind> each) {
  std::vector<LogKind> shares;
  for (const LogKind& kind : each) {
    shares.push_back(
        {kind.name, std::max<int64_t>(kind.burst / kSharePart, 1), kind.interval * kSharePart});
  }
  return shares;
}

}  // namespace

KeyedLogBudget::KeyedLogBudget(KeyedLogBudgetOptions options)
    : options_(std::move(options)),
      shares_(SharesOf(options_.each)),
      all_(options_.all, options_.owner, options_.clock) {}

KeyedLogBudget::~KeyedLogBudget() {
  MutexLock lock(&mu_);
  for (const auto& [key, entry] : entries_) Forget(entry);
}

LogPermit KeyedLogBudget::Ask(std::string_view key, size_t kind) {
  MutexLock lock(&mu_);
  const Entry& entry = EntryOf(key);
  const LogPermit own = entry.budget->Ask(kind);
  if (!own) return own;
  const LogPermit all = AskAll(entry.share.get(), kind);
  if (!all) {
    all_.AddLeftOut(kind, own.left_out());
    return all;
  }
  return LogPermit(own.left_out() + all.left_out(), std::max(own.left_out() > 0 ? own.in_ns() : 0,
                                                             all.left_out() > 0 ? all.in_ns() : 0));
}

LogPermit KeyedLogBudget::AskAll(LogBudget* share, size_t kind) {
  const int64_t kept = options_.all[kind].burst / kKeptPart;
  // The share is touched only when nothing else is left, so that a peer that has long had lines
  // still has its share when others begin to flood.
  const bool from_share = !all_.HasRoom(kind, kept) && all_.HasRoom(kind) && share->HasRoom(kind);
  if (from_share) share->Ask(kind);
  return all_.Ask(kind, from_share ? 0 : kept);
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

KeyedLogBudget::Entry& KeyedLogBudget::EntryOf(std::string_view key) {
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    if (entries_.size() >= options_.max_keys) {
      const auto oldest = std::min_element(
          entries_.begin(), entries_.end(),
          [](const auto& a, const auto& b) { return a.second.asked < b.second.asked; });
      Forget(oldest->second);
      entries_.erase(oldest);
    }
    Entry entry = {std::make_unique<LogBudget>(options_.each, options_.owner, options_.clock),
                   std::make_unique<LogBudget>(shares_, options_.owner, options_.clock)};
    found = entries_.emplace(std::string(key), std::move(entry)).first;
  }
  found->second.asked = ++asked_;
  return found->second;
}

void KeyedLogBudget::Forget(const Entry& entry) {
  for (size_t kind = 0; kind < options_.each.size(); ++kind) {
    const uint64_t lines = entry.budget->TakeLeftOut(kind);
    if (lines > 0) all_.AddLeftOut(kind, lines);
  }
}

}  // namespace warpline
