#include "client_stub/core/occupancy.h"

#include "client_stub/core/runtime.h"
#include "proto/wire.h"

namespace warpline::stub {

CUresult MaxActiveBlocks(Kernel* kernel, int block_threads, uint64_t dynamic_shared_bytes,
                         unsigned int flags, int* blocks) {
  if (blocks == nullptr || block_threads <= 0 ||
      (flags & ~static_cast<unsigned int>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Kernel::OccupancyKey key = {static_cast<uint32_t>(block_threads), dynamic_shared_bytes,
                                    flags};
  {
    MutexLock lock(&kernel->occupancy_mu);
    if (const auto it = kernel->occupancy.find(key); it != kernel->occupancy.end()) {
      *blocks = it->second;
      return CUDA_SUCCESS;
    }
  }
  std::string reply;
  WARPLINE_TRY(ToCu(
      runtime().session->Call(WaitKind::kRoundTrip,
                              cmd::MaxActiveBlocks{kernel->wire, dynamic_shared_bytes,
                                                   static_cast<uint32_t>(block_threads), flags},
                              {}, &reply)));
  std::string_view rest = reply;
  cmd::MaxActiveBlocksReply answer;
  if (!TakeStruct(&rest, &answer)) return CUDA_ERROR_UNKNOWN;
  MutexLock lock(&kernel->occupancy_mu);
  kernel->occupancy[key] = answer.blocks;
  *blocks = answer.blocks;
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
