#include "server/hostlink/handover/variable_file.h"

#include "common/sealed_memory.h"

namespace warpline {

absl::StatusOr<UniqueFd> CreateVariableFile() {
  return NewSealedMemory("warpline-variables", kVariableFileBytes);
}

}  // namespace warpline
