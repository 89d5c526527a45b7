// The accounts of an engine: what each slice, or tenant, was promised of it, and what it has had.
//
// Each has a credit: what is used while others want the engine is taken from it, and given out to
// all that are active by weight. So who has more than its share falls behind those who have less.
// Who comes back finds its account as it left it, if it owed anything, and a slice's debt is also
// its tenant's, whatever slice comes next: nobody pays by leaving.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_ENGINE_ACCOUNTS_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_ENGINE_ACCOUNTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/gpu_server/dispatch/accounts/contender_terms.h"
#include "server/gpu_server/dispatch/accounts/engine_account.h"

namespace warpline::dispatch {

// Thread-compatible. Its clock is what BeginLook() is told.
class EngineAccounts {
 public:
  // A contender comes, which has the account that it names until Leave(). The account is opened if
  // there is none.
  EngineAccount* Join(const ContenderTerms& terms);
  void Leave(EngineAccount* account);

  // A look begins at `now_ns`, which does not go backwards.
  void BeginLook(int64_t now_ns) { now_ns_ = now_ns; }
  // A contender, of so many sessions, wants the engine, or does not, and has copied so much since
  // the last look.
  void See(EngineAccount* account, bool wants, uint64_t bytes, uint32_t sessions = 1);
  // All contenders were seen. `passed_ns` since the last look.
  void EndLook(int64_t passed_ns);

  // It has had the engine for so long; `owed` if others wanted it.
  void Use(EngineAccount* account, int64_t used_ns, bool owed);
  // It has used the engine without having been given it: that is its debt, and the others' credit.
  void ChargeStolen(EngineAccount* account, int64_t stolen_ns);
  // What was owed since the last call is given out again.
  void GiveOut();

  // What it was promised among those that are active and it, in thousandths, at least one.
  uint32_t ShareOf(const EngineAccount& account) const;
  uint32_t active() const { return active_; }
  // Copied by all in the last second.
  int64_t moved_bytes() const { return moved_bytes_; }
  // How many accounts there are, also of those that have left.
  size_t size() const { return accounts_.size(); }

  // Of how many that have left accounts are kept.
  static constexpr size_t kMostLeft = 64;

 private:
  // Nothing is owed, so that it could be opened anew.
  static bool Settled(const EngineAccount& account);
  // Debts of the tenant's accounts that have left are this one's.
  void TakeOverDebts(EngineAccount* account);
  void Replenish(int64_t total_ns, const EngineAccount* except);
  void Rest(EngineAccount* account, int64_t passed_ns);

  std::vector<std::unique_ptr<EngineAccount>> accounts_;
  int64_t now_ns_ = 0;
  int64_t owed_ns_ = 0;
  uint64_t active_weight_ = 0;  // Of those that are active, together.
  uint32_t active_ = 0;
  int64_t moved_bytes_ = 0;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_ACCOUNTS_ENGINE_ACCOUNTS_H_
