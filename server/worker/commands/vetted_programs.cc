#include "server/worker/commands/vetted_programs.h"

namespace warpline::worker {

bool VettedPrograms::Has(std::string_view image) const {
  ContentHash hash;
  return HashContent(image, &hash) && images_.contains(hash);
}

// Commands that link or compile are not among them: what comes out of them nobody vetted.
bool VettedPrograms::Allow(CommandId id) {
  switch (id) {
    case CommandId::kImageData:
    case CommandId::kImageZstd:
    case CommandId::kImageFind:
    case CommandId::kModuleLoad:
    case CommandId::kModuleLoadJit:
    case CommandId::kModuleCheck:
    case CommandId::kModuleUnload:
    case CommandId::kModuleJitLog:
    case CommandId::kModuleKernels:
    case CommandId::kKernelFind:
    case CommandId::kKernelSetAttribute:
    case CommandId::kMaxActiveBlocks:
    case CommandId::kClusterOccupancy:
    case CommandId::kGlobalFind:
    case CommandId::kVariableFind:
    case CommandId::kVariableBlockFind:
    case CommandId::kGraphCreate:
    case CommandId::kGraphCreateIn:
    case CommandId::kGraphDestroy:
    case CommandId::kConditionalCreate:
    case CommandId::kConditionalDestroy:
      return true;
    default:
      return false;
  }
}

}  // namespace warpline::worker
