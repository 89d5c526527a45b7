#include "server/device/gate/library_gate.h"

namespace warpline::device {

std::optional<std::vector<uint64_t>> AdmitLibraryCall(const AddressGate& gate,
                                                      const LibraryRequest& request,
                                                      uint64_t unused) {
  std::vector<uint64_t> values(request.values.begin(), request.values.end());
  for (const LibraryRequest::Operand& operand : request.operands) {
    if (operand.slot >= values.size()) return std::nullopt;
    uint64_t& address = values[operand.slot];
    if (operand.bytes == 0) {
      address = unused;
      continue;
    }
    const auto span =
        gate.Admit(address, operand.bytes, operand.writes ? MemoryUse::kWrite : MemoryUse::kRead);
    if (!span || span->kind() != MemoryKind::kArena) return std::nullopt;
    address = span->address();
  }
  return values;
}

std::optional<AddressBounds> BoundsOfAddresses(const AddressGate& gate, uint64_t bytes) {
  if (bytes > gate.arena_bytes()) return std::nullopt;
  return AddressBounds{gate.arena_base(), gate.arena_base() + (gate.arena_bytes() - bytes)};
}

}  // namespace warpline::device
