#include "server/worker/commands/command_handler.h"

namespace warpline::worker {

uint64_t CountHandles(const CommandParts& parts) {
  return parts.order->handles() + parts.tables->size() +
         (parts.memory == nullptr ? 0 : parts.memory->mappings());
}

bool CommandHandler::HandlesLeft() {
  const uint64_t most = parts_.limits->max_handles;
  if (CountHandles(parts_) < most) return true;
  parts_.current->RefuseBeyond(Limit::kHandles, most);
  return false;
}

}  // namespace warpline::worker
