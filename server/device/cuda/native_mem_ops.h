// Translates operations on words into the driver's terms.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_NATIVE_MEM_OPS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_NATIVE_MEM_OPS_H_

#include <cuda.h>

#include <vector>

#include "absl/types/span.h"
#include "server/device/facets/types.h"
#include "server/device/gate/address_gate.h"

namespace warpline::device {

// CUDA_ERROR_INVALID_VALUE for an operation on a word that the gate does not admit.
CUresult Translate(const AddressGate& gate, absl::Span<const MemOp> operations,
                   std::vector<CUstreamBatchMemOpParams>* native);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_NATIVE_MEM_OPS_H_
