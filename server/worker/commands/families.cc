#include "server/worker/commands/families.h"

#include "proto/command_spans.h"
#include "proto/dispatch.h"

namespace warpline::worker {

CommandFamilies::CommandFamilies(const CommandParts* parts)
    : current_(parts->current),
      streams_(parts),
      events_(parts),
      copies_(parts),
      images_(parts),
      modules_(parts),
      kernels_(parts),
      links_(parts),
      arrays_(parts),
      graphs_(parts),
      memory_(parts),
      partitions_(parts),
      libraries_(parts) {}

void CommandFamilies::Dispatch(CommandId id, std::string_view body) {
  // No device has memory there, whatever its driver would do with it.
  if (!EndsInAddressSpace(ReadsOf(id, body)) || !EndsInAddressSpace(WritesOf(id, body))) {
    return current_->Refuse(CudaResult::kInvalidValue);
  }
  DispatchCommand(id, body, *this);
}

}  // namespace warpline::worker
