// The ledgers of an engine: the share that each slice or tenant was promised, and its use.
//
// Each ledger has a credit. Time that it uses while others want the engine is taken from its
// credit and given out to all active ledgers by weight. So a ledger with more than its share
// falls behind those with less. A ledger whose sessions at work are all nice has less weight. A
// slice that comes back finds its ledger as it left it, if it owed anything. The next slice of the
// same tenant takes over the debt of one that has left. So leaving pays no debt.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_ENGINE_LEDGERS_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_ENGINE_LEDGERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/gpu_server/dispatch/ledgers/contender_terms.h"
#include "server/gpu_server/dispatch/ledgers/engine_ledger.h"

namespace warpline::dispatch {

// Thread-compatible. Its time is the one that BeginLook() is given.
class EngineLedgers {
 public:
  // Adds a contender, and returns the ledger that it names, which it has until Leave(). Opens the
  // ledger if there is none.
  EngineLedger* Join(const ContenderTerms& terms);
  void Leave(EngineLedger* ledger);

  // Begins a look at `now_ns`, which must not go backwards.
  void BeginLook(int64_t now_ns) { now_ns_ = now_ns; }
  // A contender at a look.
  struct Seen {
    bool wants = false;  // It wants the engine.
    uint64_t bytes = 0;  // Copied since the last look.
    uint32_t sessions = 1;
    uint32_t niceness = 0;  // The least one of its sessions that want the engine.
  };
  // Notes a contender.
  void See(EngineLedger* ledger, const Seen& seen);
  // Ends the look, once all contenders were seen. `passed_ns` is the time since the last look.
  void EndLook(int64_t passed_ns);

  // Notes that the ledger has had the engine for `used_ns`. It owes the time to others if `owed`,
  // which says that others wanted the engine.
  void Use(EngineLedger* ledger, int64_t used_ns, bool owed);
  // Charges the ledger for time that it used the engine without having been given it. The time
  // becomes its debt and the others' credit.
  void ChargeStolen(EngineLedger* ledger, int64_t stolen_ns);
  // Gives out the time that was owed since the last call.
  void GiveOut();

  // Returns the share, in thousandths and at least 1, that the ledger was promised among itself
  // and the active ledgers.
  uint32_t ShareOf(const EngineLedger& ledger) const;
  uint32_t active() const { return active_; }
  // Bytes that all ledgers have copied in the last second.
  int64_t moved_bytes() const { return moved_bytes_; }
  // Number of ledgers, with those whose contenders have left.
  size_t size() const { return ledgers_.size(); }

  // The most ledgers that are kept after their contenders have left.
  static constexpr size_t kMostLeft = 64;

 private:
  // Returns whether the ledger owes nothing, so that it could as well be opened anew.
  static bool Settled(const EngineLedger& ledger);
  // Moves the debts of the tenant's ledgers that have left to this ledger.
  void TakeOverDebts(EngineLedger* ledger);
  void Replenish(int64_t total_ns, const EngineLedger* except);
  void Rest(EngineLedger* ledger, int64_t passed_ns);

  std::vector<std::unique_ptr<EngineLedger>> ledgers_;
  int64_t now_ns_ = 0;
  int64_t owed_ns_ = 0;
  uint64_t active_weight_ = 0;  // The sum over active ledgers.
  uint32_t active_ = 0;
  int64_t moved_bytes_ = 0;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_LEDGERS_ENGINE_LEDGERS_H_
