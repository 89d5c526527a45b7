// Puts a module's variables where a former worker had them.
//
// The driver gives a module's variables the first free block of its own device memory, from which
// it also cuts streams, staging buffers and the like. Which of those existed when the former worker
// loaded the module is no longer known. But a new worker has taken nothing yet, so the wanted block
// is still free, and fillers that take the blocks before it move the variables there (measured with
// driver 580: blocks of 2 MiB).
#ifndef WARPLINE_SERVER_WORKER_CONTINUITY_VARIABLE_PLACER_H_
#define WARPLINE_SERVER_WORKER_CONTINUITY_VARIABLE_PLACER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/log/log_budget.h"
#include "server/device/device.h"

namespace warpline::worker {

// Thread-compatible.
class VariablePlacer {
 public:
  // Variables' names, and where they must lie.
  using Wanted = std::vector<std::pair<std::string, uint64_t>>;

  // Both are borrowed; `log` has the kinds of session_log.h.
  VariablePlacer(device::Modules* code, LogBudget* log) : code_(code), log_(log) {}
  // Gives the fillers back.
  ~VariablePlacer();
  VariablePlacer(const VariablePlacer&) = delete;
  VariablePlacer& operator=(const VariablePlacer&) = delete;

  // `*module` has just been loaded, and no kernel of it has been found; `reload` loads it anew.
  // Sets `*in_place` to whether all variables lie where they are wanted. `*module` is loaded
  // afterwards, unless reloading failed, whose error is then the result.
  CudaResult Place(const Wanted& wanted, const std::function<CudaResult(device::ModuleId*)>& reload,
                   device::ModuleId* module, bool* in_place);

 private:
  // Sets `*at` to where the first variable lies that is not in place, or to 0 when all are.
  CudaResult FirstMisplaced(const Wanted& wanted, device::ModuleId module, uint64_t* wanted_at,
                            uint64_t* at);
  // Frees the filler that lies at `address`; returns false when there is none.
  bool FreeFillerAt(uint64_t address);

  device::Modules* const code_;
  LogBudget* const log_;
  std::vector<uint64_t> fillers_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CONTINUITY_VARIABLE_PLACER_H_
