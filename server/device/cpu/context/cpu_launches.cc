#include "server/device/cpu/context/cpu_launches.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "server/device/cpu/machine/device_info.h"
#include "server/device/cpu/machine/device_limits.h"
#include "server/device/cpu/memory/kept_bytes.h"
#include "server/device/cpu/modules/cpu_log.h"

namespace warpline::cpu {
namespace {

using device::KernelId;
using device::LaunchConfig;
using device::StreamId;

// Counts a launch of its module for as long as it lives.
class LaunchToken {
 public:
  explicit LaunchToken(std::shared_ptr<CpuModule> module) : module_(std::move(module)) {
    module_->BeginLaunch();
  }
  LaunchToken(const LaunchToken&) = delete;
  LaunchToken& operator=(const LaunchToken&) = delete;
  ~LaunchToken() { module_->EndLaunch(); }

 private:
  const std::shared_ptr<CpuModule> module_;
};

// The least bound on the memory that kernels' threads may take.
constexpr uint64_t kMinThreadMemory = uint64_t{1} << 30;
// Parameters of up to this size are not counted, because a stream's queue has a bounded length.
constexpr size_t kSmallParams = 1024;

// The memory in which the blocks of a cooperative launch meet; cooperative_groups lays it out.
constexpr uint64_t kWorkspaceBytes = 4096;

// Numbers of CUlaunchAttributeID.
enum LaunchAttributeId : uint32_t {
  kCooperative = 2,
  kClusterDimension = 4,
  kProgrammaticEvent = 7,
  kLaunchCompletionEvent = 12,
  kDeviceUpdatableNode = 13,
  kPreferredClusterDimension = 11,
  kLastAttribute = 16,
};

// Puts the attributes into the configuration; most are hints for hardware.
CudaResult ApplyAttributes(LaunchConfig* config) {
  for (const device::LaunchAttribute& attribute : config->attributes) {
    std::array<uint32_t, 3> words;
    std::memcpy(words.data(), attribute.value.data(), sizeof(words));
    switch (attribute.id) {
      case kCooperative:
        config->cooperative = config->cooperative || words[0] != 0;
        break;
      case kClusterDimension:
      case kPreferredClusterDimension:
        // A cluster of one block is no cluster.
        if (words != std::array<uint32_t, 3>{1, 1, 1} && words != std::array<uint32_t, 3>{}) {
          return CudaResult::kNotSupported;
        }
        break;
      case kProgrammaticEvent:
      case kLaunchCompletionEvent:
      case kDeviceUpdatableNode:
        return CudaResult::kNotSupported;
      default:
        if (attribute.id > kLastAttribute) return CudaResult::kInvalidValue;
        break;
    }
  }
  return CudaResult::kSuccess;
}

}  // namespace

CpuLaunches::CpuLaunches(CpuShared* shared)
    : shared_(shared),
      memory_(shared->memory()),
      streams_(shared->streams()),
      grids_(std::max(shared->cores() - 1, 0)),
      budget_(std::max(kMinThreadMemory,
                       HostMemoryBytes() / 4 / static_cast<uint64_t>(shared->group().devices))),
      stack_bytes_(kDefaultStackBytes),
      pending_launches_(kDefaultPendingLaunches),
      l2_fetch_bytes_(kDefaultL2Fetch) {}

CudaResult CpuLaunches::Params(KernelId kernel, std::vector<device::ParamLayout>* params) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const KernelHandle handle = shared_->modules().Find(kernel);
  if (handle.kernel == nullptr) return CudaResult::kInvalidHandle;
  *params = handle.kernel->params;
  return CudaResult::kSuccess;
}

CudaResult CpuLaunches::CheckLaunch(const Kernel& kernel, const LaunchConfig& config,
                                    size_t param_bytes) const {
  const auto& grid = config.grid;
  const auto& block = config.block;
  for (size_t i = 0; i < 3; ++i) {
    if (grid[i] == 0 || block[i] == 0) return CudaResult::kInvalidValue;
  }
  if (grid[0] > kMaxGridX || grid[1] > kMaxGridY || grid[2] > kMaxGridZ || block[0] > kMaxBlockX ||
      block[1] > kMaxBlockY || block[2] > kMaxBlockZ ||
      uint64_t{block[0]} * block[1] * block[2] > kernel.max_threads) {
    return CudaResult::kInvalidValue;
  }
  if (config.dynamic_shared_bytes > kernel.max_dynamic_shared_bytes.load() ||
      kernel.code.static_shared_bytes > kSharedPerBlockOptIn) {
    return CudaResult::kInvalidValue;
  }
  if (param_bytes < kernel.param_bytes) return CudaResult::kInvalidValue;
  if (config.cooperative) {
    const uint64_t threads = uint64_t{block[0]} * block[1] * block[2];
    const uint64_t room = static_cast<uint64_t>(shared_->cores()) *
                          ResidentBlocks(kernel, threads, config.dynamic_shared_bytes);
    // This does not overflow, because a grid has fewer than 2^63 blocks.
    if (uint64_t{grid[0]} * grid[1] > room || uint64_t{grid[0]} * grid[1] * grid[2] > room) {
      return CudaResult::kCooperativeLaunchTooLarge;
    }
  }
  return CudaResult::kSuccess;
}

CudaResult CpuLaunches::Launch(KernelId kernel, const LaunchConfig& config,
                               absl::Span<const std::byte> params, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  KernelHandle handle = shared_->modules().Find(kernel);
  if (handle.kernel == nullptr) return CudaResult::kInvalidHandle;
  LaunchConfig checked_config = config;
  CudaResult checked = ApplyAttributes(&checked_config);
  if (checked != CudaResult::kSuccess) return checked;
  checked = CheckLaunch(*handle.kernel, checked_config, params.size());
  if (checked != CudaResult::kSuccess) return checked;
  // It must be aligned for any parameter, which a vector's memory is.
  std::vector<std::byte> copy(params.begin(), params.begin() + handle.kernel->param_bytes);
  auto token = std::make_shared<LaunchToken>(handle.owner);
  std::shared_ptr<KeptBytes::Claim> claim;
  if (copy.size() > kSmallParams) claim = shared_->kept().Take(copy.size());
  return streams_.Submit(shared_->NumberOf(stream), StreamSet::When::kQueued,
                         [this, handle = std::move(handle), config = std::move(checked_config),
                          copy = std::move(copy), token = std::move(token),
                          claim = std::move(claim)] { return RunKernel(handle, config, copy); });
}

CudaResult CpuLaunches::RunKernel(const KernelHandle& handle, const LaunchConfig& config,
                                  absl::Span<const std::byte> params) {
  LaunchShape shape;
  shape.code = &handle.kernel->code;
  shape.memory = &memory_;
  shape.params = params;
  shape.variables_address = handle.owner->variables_address();
  shape.variables_bytes = handle.owner->variables_bytes();
  shape.grid = config.grid;
  shape.block = config.block;
  shape.dynamic_shared_bytes = config.dynamic_shared_bytes;
  shape.grid_id = next_grid_.fetch_add(1);
  shape.multiprocessors = static_cast<uint32_t>(shared_->cores());
  shape.stack_bytes = stack_bytes_.load();
  shape.output = &output_;
  shape.heap = &heap_;
  shape.budget = &budget_;
  if (config.cooperative) {
    const CudaResult allocated =
        memory_.AllocateRegion(kWorkspaceBytes, RegionUse::kKernels, &shape.workspace);
    if (allocated != CudaResult::kSuccess) return CudaResult::kLaunchOutOfResources;
  }
  std::string fault;
  const CudaResult result = grids_.Run(shape, streams_.stopping(), &fault);
  if (shape.workspace != 0) memory_.FreeRegion(shape.workspace);
  output_.Flush();
  if (result != CudaResult::kSuccess && !streams_.stopping()) {
    if (const LogPermit permit = CpuLog().Ask(kFaultLine)) {
      permit.Warning("cpu device: ", CudaResultName(result), ": ", fault);
    }
  }
  return result;
}

// What a kernel printed is written when the kernel ends, before the stream passes it.
CudaResult CpuLaunches::FlushOutput() {
  output_.Flush();
  return streams_.error();
}

}  // namespace warpline::cpu
