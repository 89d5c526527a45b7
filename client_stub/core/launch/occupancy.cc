#include "client_stub/core/launch/occupancy.h"

#include "client_stub/core/module/module.h"
#include "client_stub/core/runtime/runtime.h"
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
  uint64_t wire;
  WARPLINE_TRY(kernel->module->Bind(kernel, &wire));
  std::string reply;
  WARPLINE_TRY(ToCu(runtime().commands->Call(
      WaitKind::kRoundTrip,
      cmd::MaxActiveBlocks{wire, dynamic_shared_bytes, static_cast<uint32_t>(block_threads), flags},
      {}, &reply)));
  std::string_view rest = reply;
  cmd::MaxActiveBlocksReply answer;
  if (!TakeStruct(&rest, &answer)) return CUDA_ERROR_UNKNOWN;
  MutexLock lock(&kernel->occupancy_mu);
  kernel->occupancy[key] = answer.blocks;
  *blocks = answer.blocks;
  return CUDA_SUCCESS;
}

CUresult AskClusters(Kernel* kernel, const LaunchGeometry& launch,
                     const LaunchAttributes& attributes, ClusterQuestion question, int* answer) {
  uint64_t wire;
  WARPLINE_TRY(kernel->module->Bind(kernel, &wire));
  const cmd::ClusterOccupancy command = {wire,
                                         launch.grid[0],
                                         launch.grid[1],
                                         launch.grid[2],
                                         launch.block[0],
                                         launch.block[1],
                                         launch.block[2],
                                         launch.dynamic_shared_bytes,
                                         static_cast<uint32_t>(question)};
  std::string reply;
  WARPLINE_TRY(
      ToCu(runtime().commands->Call(WaitKind::kRoundTrip, command, attributes.wire, &reply)));
  std::string_view rest = reply;
  cmd::ClusterOccupancyReply fields;
  if (!TakeStruct(&rest, &fields)) return CUDA_ERROR_UNKNOWN;
  *answer = fields.value;
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
