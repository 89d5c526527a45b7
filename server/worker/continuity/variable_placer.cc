#include "server/worker/continuity/variable_placer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/worker/executors/session_log.h"

namespace warpline::worker {
namespace {

// At most half a GiB of fillers. A worker has some hundreds of streams and a few staging buffers.
constexpr size_t kMostFillers = 256;
// The attempts for one module, each of which loads it again.
constexpr int kMostAttempts = 512;

}  // namespace

VariablePlacer::~VariablePlacer() {
  for (const uint64_t filler : fillers_) code_->FreeBlock(filler);
}

bool VariablePlacer::FreeFillerAt(uint64_t address) {
  const auto found = std::find_if(fillers_.begin(), fillers_.end(), [&](uint64_t filler) {
    return address - filler < device::kBlockBytes;
  });
  if (found == fillers_.end()) return false;
  code_->FreeBlock(*found);
  fillers_.erase(found);
  return true;
}

CudaResult VariablePlacer::FirstMisplaced(const Wanted& wanted, device::ModuleId module,
                                          uint64_t* wanted_at, uint64_t* at) {
  *wanted_at = *at = 0;
  for (const auto& [name, address] : wanted) {
    uint64_t found = 0;
    uint64_t bytes = 0;
    const CudaResult result = code_->FindGlobal(module, name, &found, &bytes);
    if (result != CudaResult::kSuccess) return result;
    if (found != address) {
      *wanted_at = address;
      *at = found;
      return CudaResult::kSuccess;
    }
  }
  return CudaResult::kSuccess;
}

CudaResult VariablePlacer::Place(const Wanted& wanted,
                                 const std::function<CudaResult(device::ModuleId*)>& reload,
                                 device::ModuleId* module, bool* in_place) {
  *in_place = false;
  uint64_t wanted_at = 0;
  uint64_t at = 0;
  for (int attempt = 0;; ++attempt) {
    CudaResult result = FirstMisplaced(wanted, *module, &wanted_at, &at);
    if (result != CudaResult::kSuccess) return result;
    if (at == 0) {
      if (attempt > 0) {
        if (const LogPermit permit = log_->Ask(kVariablesLine)) {
          permit.Info("variables back in place attempts=", attempt + 1);
        }
      }
      *in_place = true;
      return CudaResult::kSuccess;
    }
    if (attempt == kMostAttempts) break;
    // The filler must get the block that the module had, so the module is unloaded first.
    result = code_->UnloadModule(*module);
    if (result != CudaResult::kSuccess) return result;
    bool moved = FreeFillerAt(wanted_at);
    uint64_t filler = 0;
    if (!moved && fillers_.size() < kMostFillers &&
        code_->TakeBlock(&filler) == CudaResult::kSuccess) {
      fillers_.push_back(filler);
      moved = true;
    }
    result = reload(module);
    if (result != CudaResult::kSuccess) return result;
    if (!moved) break;
  }
  if (const LogPermit permit = log_->Ask(kVariablesLine)) {
    permit.Warning("a variable cannot be put back where it was address=", absl::Hex(at),
                   " wanted=", absl::Hex(wanted_at), " fillers=", fillers_.size());
  }
  return CudaResult::kSuccess;
}

}  // namespace warpline::worker
