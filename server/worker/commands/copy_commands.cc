#include "server/device/device.h"
#include "server/worker/commands/families.h"

namespace warpline::worker {

void CopyCommands::On(const cmd::Memset& command, std::string_view tail) {
  ToStream(command, tail);
}
void CopyCommands::On(const cmd::MemsetRows& command, std::string_view tail) {
  ToStream(command, tail);
}

void CopyCommands::On(const cmd::CopyToDevice& command, std::string_view tail) {
  ToStream(command, tail);
}
void CopyCommands::On(const cmd::CopyFromDevice& command, std::string_view tail) {
  ToStreamForData(command, tail);
}
void CopyCommands::On(const cmd::CopyOnDevice& command, std::string_view tail) {
  ToStream(command, tail);
}

void CopyCommands::On(const cmd::CopyBoxToDevice& command, std::string_view tail) {
  ToStream(command, tail);
}
void CopyCommands::On(const cmd::CopyBoxFromDevice& command, std::string_view tail) {
  ToStreamForData(command, tail);
}
void CopyCommands::On(const cmd::CopyBoxOnDevice& command, std::string_view tail) {
  ToStream(command, tail);
}

void CopyCommands::On(const cmd::StreamMemOps& command, std::string_view tail) {
  if (tail.empty() || tail.size() % sizeof(device::MemOp) != 0 ||
      tail.size() / sizeof(device::MemOp) > device::kMaxMemOps) {
    return Refuse(CudaResult::kInvalidValue);
  }
  ToStream(command, tail);
}

}  // namespace warpline::worker
