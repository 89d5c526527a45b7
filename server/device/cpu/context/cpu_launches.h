// The kernels of the CPU device: launches, attributes, occupancy, limits, output.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_LAUNCHES_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_LAUNCHES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cpu/context/cpu_shared.h"
#include "server/device/cpu/execution/grid_runner.h"
#include "server/device/cpu/memory/device_heap.h"
#include "server/device/cpu/memory/host_budget.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/modules/cpu_module.h"
#include "server/device/cpu/modules/module_table.h"
#include "server/device/cpu/output/print_buffer.h"
#include "server/device/cpu/streams/stream_set.h"
#include "server/device/facets/launches.h"

namespace warpline::cpu {

// Thread-safe.
class CpuLaunches : public virtual device::Launches {
 public:
  explicit CpuLaunches(CpuShared* shared);

  CudaResult Launch(device::KernelId kernel, const device::LaunchConfig& config,
                    absl::Span<const std::byte> params, device::StreamId stream) override;
  CudaResult Params(device::KernelId kernel, std::vector<device::ParamLayout>* params) override;
  CudaResult GetKernelAttribute(device::KernelId kernel, int attribute, int* value) override;
  CudaResult SetKernelAttribute(device::KernelId kernel, int attribute, int value) override;
  CudaResult MaxActiveBlocks(device::KernelId kernel, int block_threads,
                             size_t dynamic_shared_bytes, uint32_t flags, int* blocks) override;
  CudaResult MaxActiveClusters(device::KernelId, const device::LaunchConfig&, int*) override {
    return device::Lacks(device::Capability::kClusters);
  }
  CudaResult MaxClusterSize(device::KernelId, const device::LaunchConfig&, int*) override {
    return device::Lacks(device::Capability::kClusters);
  }
  CudaResult GetLimit(int limit, uint64_t* value) override;
  CudaResult SetLimit(int limit, uint64_t value) override;
  CudaResult FlushOutput() override;

 private:
  CudaResult CheckLaunch(const Kernel& kernel, const device::LaunchConfig& config,
                         size_t param_bytes) const;
  // The number of blocks that one multiprocessor holds.
  static uint64_t ResidentBlocks(const Kernel& kernel, uint64_t threads, uint64_t dynamic_shared);
  CudaResult RunKernel(const KernelHandle& handle, const device::LaunchConfig& config,
                       absl::Span<const std::byte> params);

  CpuShared* const shared_;
  MemoryMap& memory_;
  StreamSet& streams_;
  GridRunner grids_;
  PrintBuffer output_;
  DeviceHeap heap_{&memory_};
  HostBudget budget_;
  std::atomic<uint64_t> stack_bytes_;
  std::atomic<uint64_t> pending_launches_;
  std::atomic<uint64_t> l2_fetch_bytes_;
  std::atomic<uint64_t> next_grid_{1};
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_LAUNCHES_H_
