#include "server/device/cuda/native_mem_ops.h"

#include <cstdint>
#include <cstring>

namespace warpline::device {

CUresult Translate(const AddressGate& gate, absl::Span<const MemOp> operations,
                   std::vector<CUstreamBatchMemOpParams>* native) {
  if (operations.empty() || operations.size() > kMaxMemOps) return CUDA_ERROR_INVALID_VALUE;
  native->resize(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) {
    const MemOp& op = operations[i];
    CUstreamBatchMemOpParams& to = (*native)[i];
    std::memset(&to, 0, sizeof(to));
    to.operation = static_cast<CUstreamBatchMemOpType>(op.kind);
    if (op.kind == MemOp::kBarrier) {
      to.memoryBarrier.flags = op.flags;
      continue;
    }
    const bool wide = op.kind == MemOp::kWait64 || op.kind == MemOp::kWrite64;
    if (!gate.AdmitsWord(op)) return CUDA_ERROR_INVALID_VALUE;
    switch (op.kind) {
      case MemOp::kWait32:
      case MemOp::kWait64:
        to.waitValue.address = op.address;
        to.waitValue.value64 = wide ? op.value : static_cast<uint32_t>(op.value);
        to.waitValue.flags = op.flags;
        break;
      case MemOp::kWrite32:
      case MemOp::kWrite64:
        to.writeValue.address = op.address;
        to.writeValue.value64 = wide ? op.value : static_cast<uint32_t>(op.value);
        to.writeValue.flags = op.flags;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace warpline::device
