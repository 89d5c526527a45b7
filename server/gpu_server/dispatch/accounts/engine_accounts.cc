#include "server/gpu_server/dispatch/accounts/engine_accounts.h"

#include <algorithm>
#include <utility>

namespace warpline::dispatch {
namespace {

// An account that has not wanted the engine for this long has no share of others' use.
constexpr int64_t kActiveNs = 100'000'000;
constexpr int64_t kMostCreditNs = 100'000'000;
constexpr int64_t kMostDebtNs = 1'000'000'000;

}  // namespace

EngineAccount* EngineAccounts::Join(const ContenderTerms& terms) {
  if (!terms.account.empty()) {
    for (const auto& account : accounts_) {
      if (account->terms_.account != terms.account) continue;
      ++account->contenders_;
      return account.get();
    }
  }
  EngineAccount* const account =
      accounts_.emplace_back(std::make_unique<EngineAccount>(terms)).get();
  account->now_ns_ = now_ns_;
  account->contenders_ = 1;
  if (!terms.account.empty()) TakeOverDebts(account);
  return account;
}

void EngineAccounts::TakeOverDebts(EngineAccount* account) {
  for (const auto& left : accounts_) {
    if (left->contenders_ != 0 || left->terms_.tenant != account->terms_.tenant) continue;
    if (left->credit_ns_ >= 0) continue;
    account->credit_ns_ = std::max(account->credit_ns_ + left->credit_ns_, -kMostDebtNs);
    left->credit_ns_ = 0;
  }
}

void EngineAccounts::Leave(EngineAccount* account) {
  if (--account->contenders_ != 0) return;
  const bool is_kept = !account->terms_.account.empty() && !Settled(*account);
  if (!is_kept) {
    std::erase_if(accounts_, [account](const auto& one) { return one.get() == account; });
    return;
  }
  const auto is_left = [](const auto& one) { return one->contenders_ == 0; };
  if (std::count_if(accounts_.begin(), accounts_.end(), is_left) <=
      static_cast<ptrdiff_t>(kMostLeft)) {
    return;
  }
  accounts_.erase(std::min_element(accounts_.begin(), accounts_.end(),
                                   [&is_left](const auto& a, const auto& b) {
                                     if (is_left(a) != is_left(b)) return is_left(a);
                                     return a->credit_ns_ > b->credit_ns_;
                                   }));
}

bool EngineAccounts::Settled(const EngineAccount& account) {
  const ReservationAccount& reservation = account.reservation_;
  return account.credit_ns_ >= 0 && reservation.left_ns() >= reservation.budget_ns();
}

void EngineAccounts::See(EngineAccount* account, bool wants, uint64_t bytes, uint32_t sessions) {
  account->seen_sessions_ += sessions;
  account->wants_ |= wants;
  account->moved_.Add(now_ns_, static_cast<int64_t>(bytes));
}

void EngineAccounts::EndLook(int64_t passed_ns) {
  active_weight_ = 0;
  active_ = 0;
  moved_bytes_ = 0;
  for (const auto& account : accounts_) {
    account->now_ns_ = now_ns_;
    account->sessions_ = std::exchange(account->seen_sessions_, 0);
    const bool was_active = account->wanted_ns_ != 0 && now_ns_ - account->wanted_ns_ < kActiveNs;
    const bool wants = std::exchange(account->wants_, false);
    if (wants) {
      if (!was_active) {
        account->active_since_ns_ = now_ns_;
        account->attained_ns_ = 0;
      }
      account->wanted_ns_ = now_ns_;
    } else if (!was_active) {
      Rest(account.get(), passed_ns);
    }
    account->reservation_.See(wants, now_ns_);
    account->active_ = account->contenders_ != 0 && (wants || was_active);
    if (account->active_) {
      active_weight_ += account->terms_.weight;
      ++active_;
    }
    moved_bytes_ += account->moved_bytes();
  }
  std::erase_if(accounts_,
                [](const auto& account) { return account->contenders_ == 0 && Settled(*account); });
}

void EngineAccounts::Rest(EngineAccount* account, int64_t passed_ns) {
  account->active_since_ns_ = 0;
  // A debt fades while the account rests.
  if (account->credit_ns_ < 0) {
    account->credit_ns_ = std::min<int64_t>(account->credit_ns_ + passed_ns / 2, 0);
  }
}

void EngineAccounts::Use(EngineAccount* account, int64_t used_ns, bool owed) {
  account->used_.Add(now_ns_, used_ns);
  account->attained_ns_ += used_ns;
  if (!owed) return;
  account->credit_ns_ = std::max(account->credit_ns_ - used_ns, -kMostDebtNs);
  account->reservation_.Charge(used_ns);
  owed_ns_ += used_ns;
}

void EngineAccounts::ChargeStolen(EngineAccount* account, int64_t stolen_ns) {
  account->used_.Add(now_ns_, stolen_ns);
  account->credit_ns_ = std::max(account->credit_ns_ - stolen_ns, -kMostDebtNs);
  // Time that does not fit into the others' credits must not come back to this account.
  Replenish(stolen_ns, account);
}

void EngineAccounts::GiveOut() { Replenish(std::exchange(owed_ns_, 0), nullptr); }

// Time that does not fit into one credit goes to the others, so that they keep their distances.
void EngineAccounts::Replenish(int64_t total_ns, const EngineAccount* except) {
  const auto gets = [&](const EngineAccount& account) {
    return &account != except && account.active_ && account.credit_ns_ < kMostCreditNs;
  };
  for (int round = 0; round < 3 && total_ns > 0; ++round) {
    int64_t weights = 0;
    for (const auto& account : accounts_) {
      if (gets(*account)) weights += account->terms_.weight;
    }
    if (weights == 0) return;
    int64_t given_ns = 0;
    for (const auto& account : accounts_) {
      if (!gets(*account)) continue;
      const int64_t part_ns = std::min(total_ns * account->terms_.weight / weights,
                                       kMostCreditNs - account->credit_ns_);
      account->credit_ns_ += part_ns;
      given_ns += part_ns;
    }
    total_ns -= given_ns;
    if (total_ns < static_cast<int64_t>(accounts_.size())) return;
  }
}

uint32_t EngineAccounts::ShareOf(const EngineAccount& account) const {
  const uint64_t weight = account.terms_.weight;
  const uint64_t weights = active_weight_ + (account.active_ ? 0 : weight);
  return static_cast<uint32_t>(std::max<uint64_t>(1, 1000 * weight / weights));
}

}  // namespace warpline::dispatch
