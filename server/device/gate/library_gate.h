// The gate for calls of libraries: their operands are admitted whole, and nothing else of a call is
// an address.
#ifndef WARPLINE_SERVER_DEVICE_GATE_LIBRARY_GATE_H_
#define WARPLINE_SERVER_DEVICE_GATE_LIBRARY_GATE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "server/device/facets/libraries.h"
#include "server/device/gate/address_gate.h"

namespace warpline::device {

// Returns the values of a call whose operands all lie in the session's arena, or nothing. The
// address of an operand that the call does not touch becomes `unused`, which is never read.
// Variables of modules are not admitted: a worker that takes over could not know what was written.
std::optional<std::vector<uint64_t>> AdmitLibraryCall(const AddressGate& gate,
                                                      const LibraryRequest& request,
                                                      uint64_t unused);

// The addresses of so many bytes that all lie in the arena.
struct AddressBounds {
  uint64_t first = 0;
  uint64_t last = 0;
};

// Returns nothing when the arena does not have as many bytes.
std::optional<AddressBounds> BoundsOfAddresses(const AddressGate& gate, uint64_t bytes);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_GATE_LIBRARY_GATE_H_
