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

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_GATE_LIBRARY_GATE_H_
