// Memory handles that the client maps (virtual_memory.h). Done as they are decoded: whatever comes
// later, on any stream, finds them done.
#include "server/worker/lanes/session_log.h"
#include "server/worker/session/session.h"

namespace warpline::worker {

void Session::On(const cmd::MemoryMap& command, std::string_view) {
  if (virtual_memory_ == nullptr) return Refuse(CudaResult::kNotSupported);
  if (!HandlesLeft()) return;
  const CudaResult result =
      virtual_memory_->Map(command.mapping, command.bytes, command.handle, command.access);
  if (result != CudaResult::kSuccess) return Refuse(result);
  RetireHere();
}

void Session::On(const cmd::MemoryAccess& command, std::string_view) {
  if (virtual_memory_ == nullptr) return Refuse(CudaResult::kNotSupported);
  const CudaResult result = virtual_memory_->SetAccess(command.mapping, command.access);
  if (result != CudaResult::kSuccess) return Refuse(result);
  RetireHere();
}

// Natively this does not wait, and a kernel that still runs faults. Here it must wait: what is
// submitted later may be on its way to other memory at that address.
void Session::On(const cmd::MemoryUnmap& command, std::string_view) {
  if (virtual_memory_ == nullptr) return Refuse(CudaResult::kNotSupported);
  const CudaResult result = virtual_memory_->BeginUnmap(command.mapping);
  if (result != CudaResult::kSuccess) return Refuse(result);
  RetireHere();
  WhenAllRetired([this, va = command.mapping, token = command.token] {
    const CudaResult unmapped = virtual_memory_->FinishUnmap(va);
    // After a sticky error nothing can be; the memory goes with the process then.
    if (unmapped != CudaResult::kSuccess && fault() == CudaResult::kSuccess) {
      if (const LogPermit permit = log_.Ask(kNotUnmappedLine)) {
        permit.Warning("cannot unmap: ", CudaResultName(unmapped));
      }
    }
    sink_.Unmapped(token);
  });
}

}  // namespace warpline::worker
