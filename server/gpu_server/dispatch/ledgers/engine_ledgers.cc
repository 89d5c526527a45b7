#include "server/gpu_server/dispatch/ledgers/engine_ledgers.h"

#include <algorithm>
#include <utility>

namespace warpline::dispatch {
namespace {

// A ledger that has not wanted the engine for this long has no share of others' use.
constexpr int64_t kActiveNs = 100'000'000;
constexpr int64_t kMostCreditNs = 100'000'000;
constexpr int64_t kMostDebtNs = 1'000'000'000;

}  // namespace

EngineLedger* EngineLedgers::Join(const ContenderTerms& terms) {
  if (!terms.ledger.empty()) {
    for (const auto& ledger : ledgers_) {
      if (ledger->terms_.ledger != terms.ledger) continue;
      ++ledger->contenders_;
      return ledger.get();
    }
  }
  EngineLedger* const ledger = ledgers_.emplace_back(std::make_unique<EngineLedger>(terms)).get();
  ledger->now_ns_ = now_ns_;
  ledger->contenders_ = 1;
  if (!terms.ledger.empty()) TakeOverDebts(ledger);
  return ledger;
}

void EngineLedgers::TakeOverDebts(EngineLedger* ledger) {
  for (const auto& left : ledgers_) {
    if (left->contenders_ != 0 || left->terms_.tenant != ledger->terms_.tenant) continue;
    if (left->credit_ns_ >= 0) continue;
    ledger->credit_ns_ = std::max(ledger->credit_ns_ + left->credit_ns_, -kMostDebtNs);
    left->credit_ns_ = 0;
  }
}

void EngineLedgers::Leave(EngineLedger* ledger) {
  if (--ledger->contenders_ != 0) return;
  const bool is_kept = !ledger->terms_.ledger.empty() && !Settled(*ledger);
  if (!is_kept) {
    std::erase_if(ledgers_, [ledger](const auto& one) { return one.get() == ledger; });
    return;
  }
  const auto is_left = [](const auto& one) { return one->contenders_ == 0; };
  if (std::count_if(ledgers_.begin(), ledgers_.end(), is_left) <=
      static_cast<ptrdiff_t>(kMostLeft)) {
    return;
  }
  ledgers_.erase(
      std::min_element(ledgers_.begin(), ledgers_.end(), [&is_left](const auto& a, const auto& b) {
        if (is_left(a) != is_left(b)) return is_left(a);
        return a->credit_ns_ > b->credit_ns_;
      }));
}

bool EngineLedgers::Settled(const EngineLedger& ledger) {
  const ReservationLedger& reservation = ledger.reservation_;
  return ledger.credit_ns_ >= 0 && reservation.left_ns() >= reservation.budget_ns();
}

void EngineLedgers::See(EngineLedger* ledger, const Seen& seen) {
  ledger->seen_sessions_ += seen.sessions;
  ledger->wants_ |= seen.wants;
  if (seen.wants) ledger->seen_niceness_ = std::min(ledger->seen_niceness_, seen.niceness);
  ledger->moved_.Add(now_ns_, static_cast<int64_t>(seen.bytes));
}

void EngineLedgers::EndLook(int64_t passed_ns) {
  active_weight_ = 0;
  active_ = 0;
  moved_bytes_ = 0;
  for (const auto& ledger : ledgers_) {
    ledger->now_ns_ = now_ns_;
    ledger->sessions_ = std::exchange(ledger->seen_sessions_, 0);
    const bool was_active = ledger->wanted_ns_ != 0 && now_ns_ - ledger->wanted_ns_ < kActiveNs;
    const bool wants = std::exchange(ledger->wants_, false);
    const uint32_t niceness = std::exchange(ledger->seen_niceness_, kMostNiceness);
    if (wants) {
      ledger->niceness_ = niceness;
      if (!was_active) {
        ledger->active_since_ns_ = now_ns_;
        ledger->attained_ns_ = 0;
      }
      ledger->wanted_ns_ = now_ns_;
    } else if (!was_active) {
      Rest(ledger.get(), passed_ns);
    }
    ledger->reservation_.See(wants, now_ns_);
    ledger->active_ = ledger->contenders_ != 0 && (wants || was_active);
    if (ledger->active_) {
      active_weight_ += ledger->weight();
      ++active_;
    }
    moved_bytes_ += ledger->moved_bytes();
  }
  std::erase_if(ledgers_,
                [](const auto& ledger) { return ledger->contenders_ == 0 && Settled(*ledger); });
}

void EngineLedgers::Rest(EngineLedger* ledger, int64_t passed_ns) {
  ledger->active_since_ns_ = 0;
  // A debt fades while the ledger rests.
  if (ledger->credit_ns_ < 0) {
    ledger->credit_ns_ = std::min<int64_t>(ledger->credit_ns_ + passed_ns / 2, 0);
  }
}

void EngineLedgers::Use(EngineLedger* ledger, int64_t used_ns, bool owed) {
  ledger->used_.Add(now_ns_, used_ns);
  ledger->attained_ns_ += used_ns;
  if (!owed) return;
  ledger->credit_ns_ = std::max(ledger->credit_ns_ - used_ns, -kMostDebtNs);
  ledger->reservation_.Charge(used_ns);
  owed_ns_ += used_ns;
}

void EngineLedgers::ChargeStolen(EngineLedger* ledger, int64_t stolen_ns) {
  ledger->used_.Add(now_ns_, stolen_ns);
  ledger->credit_ns_ = std::max(ledger->credit_ns_ - stolen_ns, -kMostDebtNs);
  // Time that does not fit into the others' credits must not come back to this ledger.
  Replenish(stolen_ns, ledger);
}

void EngineLedgers::GiveOut() { Replenish(std::exchange(owed_ns_, 0), nullptr); }

// Time that does not fit into one credit goes to the others, so that they keep their distances.
void EngineLedgers::Replenish(int64_t total_ns, const EngineLedger* except) {
  const auto gets = [&](const EngineLedger& ledger) {
    return &ledger != except && ledger.active_ && ledger.credit_ns_ < kMostCreditNs;
  };
  for (int round = 0; round < 3 && total_ns > 0; ++round) {
    int64_t weights = 0;
    for (const auto& ledger : ledgers_) {
      if (gets(*ledger)) weights += static_cast<int64_t>(ledger->weight());
    }
    if (weights == 0) return;
    int64_t given_ns = 0;
    for (const auto& ledger : ledgers_) {
      if (!gets(*ledger)) continue;
      const int64_t part_ns = std::min(total_ns * static_cast<int64_t>(ledger->weight()) / weights,
                                       kMostCreditNs - ledger->credit_ns_);
      ledger->credit_ns_ += part_ns;
      given_ns += part_ns;
    }
    total_ns -= given_ns;
    if (total_ns < static_cast<int64_t>(ledgers_.size())) return;
  }
}

uint32_t EngineLedgers::ShareOf(const EngineLedger& ledger) const {
  const uint64_t weight = ledger.weight();
  const uint64_t weights = active_weight_ + (ledger.active_ ? 0 : weight);
  return static_cast<uint32_t>(std::max<uint64_t>(1, 1000 * weight / weights));
}

}  // namespace warpline::dispatch
