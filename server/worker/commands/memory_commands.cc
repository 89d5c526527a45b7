// Memory handles that the client maps (memory/virtual_memory.h) are mapped as their commands are
// decoded, so that whatever comes later, on any stream, finds them mapped.
#include "server/worker/commands/families.h"
#include "server/worker/executors/session_log.h"

namespace warpline::worker {

void MemoryCommands::On(const cmd::MemoryMap& command, std::string_view) {
  if (parts_.memory == nullptr) return Refuse(CudaResult::kNotSupported);
  if (!HandlesLeft()) return;
  const CudaResult result =
      parts_.memory->Map(command.mapping, command.bytes, command.handle, command.access);
  if (result != CudaResult::kSuccess) return Refuse(result);
  RetireHere();
}

void MemoryCommands::On(const cmd::MemoryAccess& command, std::string_view) {
  if (parts_.memory == nullptr) return Refuse(CudaResult::kNotSupported);
  const CudaResult result = parts_.memory->SetAccess(command.mapping, command.access);
  if (result != CudaResult::kSuccess) return Refuse(result);
  RetireHere();
}

// In CUDA this does not wait, and a kernel that still runs faults. Here it must wait, because
// commands that are submitted later may concern other memory at that address.
void MemoryCommands::On(const cmd::MemoryUnmap& command, std::string_view) {
  if (parts_.memory == nullptr) return Refuse(CudaResult::kNotSupported);
  const CudaResult result = parts_.memory->BeginUnmap(command.mapping);
  if (result != CudaResult::kSuccess) return Refuse(result);
  RetireHere();
  parts_.completion->WhenAllRetired([this, va = command.mapping, token = command.token] {
    const CudaResult unmapped = parts_.memory->FinishUnmap(va);
    // After a sticky error nothing can be unmapped; the memory goes with the process then.
    if (unmapped != CudaResult::kSuccess && parts_.completion->fault() == CudaResult::kSuccess) {
      if (const LogPermit permit = parts_.log->Ask(kNotUnmappedLine)) {
        permit.Warning("cannot unmap: ", CudaResultName(unmapped));
      }
    }
    parts_.sink->Unmapped(token);
  });
}

void MemoryCommands::On(const cmd::FreeFence& command, std::string_view) {
  RetireHere();
  parts_.completion->WhenAllRetired([this, token = command.token] { parts_.sink->Freed(token); });
}

void MemoryCommands::On(const cmd::VariableBlockFind& command, std::string_view tail) {
  order().ToControl<cmd::VariableBlockFind>(NewTask(command, tail));
}

void MemoryCommands::On(const cmd::LimitGet& command, std::string_view tail) {
  if (command.device >= parts_.devices->size()) return Refuse(CudaResult::kInvalidDevice);
  order().ToControl<cmd::LimitGet>(NewTask(command, tail));
}

void MemoryCommands::On(const cmd::LimitSet& command, std::string_view tail) {
  if (command.device >= parts_.devices->size()) return Refuse(CudaResult::kInvalidDevice);
  order().ToControl<cmd::LimitSet>(NewTask(command, tail));
}

}  // namespace warpline::worker
