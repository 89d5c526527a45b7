#include "server/worker/commands/families.h"

namespace warpline::worker {

void LibraryCommands::On(const cmd::LibraryFind& command, std::string_view tail) {
  if (command.device >= parts_.devices->size()) return Refuse(CudaResult::kInvalidDevice);
  order().ToControl<cmd::LibraryFind>(NewTask(command, tail));
}

void LibraryCommands::On(const cmd::LibraryAsk& command, std::string_view tail) {
  if (command.device >= parts_.devices->size()) return Refuse(CudaResult::kInvalidDevice);
  order().ToControl<cmd::LibraryAsk>(NewTask(command, tail));
}

void LibraryCommands::On(const cmd::LibraryCall& command, std::string_view tail) {
  ToStream(command, tail);
}

}  // namespace warpline::worker
