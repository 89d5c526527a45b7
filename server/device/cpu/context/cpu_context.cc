#include "server/device/cpu/context/cpu_context.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/device/cpu/machine/device_info.h"
#include "server/device/cpu/machine/device_limits.h"
#include "server/device/cpu/memory/copy_bytes.h"
#include "server/device/cpu/modules/cpu_log.h"

namespace warpline::cpu {
namespace {

using device::EventId;
using device::KernelId;
using device::LaunchConfig;
using device::ModuleId;
using device::StreamId;

template <typename Id>
uint64_t Number(Id id) {
  return static_cast<uint64_t>(id);
}

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

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// What kernels' threads may take at least, and what copies that wait may.
constexpr uint64_t kMinThreadMemory = uint64_t{1} << 30;
constexpr uint64_t kMaxKeptBytes = uint64_t{256} << 20;
// Parameters up to here are not counted: a stream's queue has a bounded length.
constexpr size_t kSmallParams = 1024;

// In which the blocks of a cooperative launch meet; cooperative_groups lays it out.
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

// Takes the attributes into the configuration; most are hints for hardware.
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
        // A cluster of one block is none.
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

CpuContext::CpuContext(int cores, std::shared_ptr<CpuGroup> group, uint32_t place)
    : cores_(cores),
      group_(std::move(group)),
      place_(place),
      memory_(group_->memory),
      arrays_(group_->arrays),
      streams_(group_->streams),
      grids_(std::max(cores - 1, 0)),
      budget_(std::max(kMinThreadMemory,
                       HostMemoryBytes() / 4 / static_cast<uint64_t>(group_->devices))),
      kept_(kMaxKeptBytes),
      stack_bytes_(kDefaultStackBytes),
      pending_launches_(kDefaultPendingLaunches),
      l2_fetch_bytes_(kDefaultL2Fetch) {}

// The streams' threads use the rest.
CpuContext::~CpuContext() { streams_.Stop(); }

uint64_t CpuContext::NumberOf(StreamId stream) const {
  return stream == device::kLegacyStream ? StreamSet::LegacyOf(place_) : Number(stream);
}

CudaResult CpuContext::ReserveArena(uint64_t base, uint64_t size) {
  return memory_.ReserveArena(base, size);
}
CudaResult CpuContext::MapChunk(uint64_t va, uint64_t bytes, int fd) {
  return memory_.MapChunk(va, bytes, fd);
}
CudaResult CpuContext::UnmapChunk(uint64_t va, uint64_t bytes) {
  return memory_.UnmapChunk(va, bytes);
}

CudaResult CpuContext::AllocStaging(size_t bytes, void** host) {
  void* const at =
      bytes == 0 ? MAP_FAILED
                 : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return CudaResult::kOutOfMemory;
  *host = at;
  MutexLock lock(&mu_);
  staging_[at] = bytes;
  return CudaResult::kSuccess;
}

void CpuContext::FreeStaging(void* host) {
  MutexLock lock(&mu_);
  const auto it = staging_.find(host);
  if (it == staging_.end()) return;
  munmap(host, it->second);
  staging_.erase(it);
}

CudaResult CpuContext::CreateStream(uint32_t flags, int, StreamId* stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  uint64_t id = 0;
  const CudaResult result = streams_.CreateStream(place_, flags, &id);
  *stream = StreamId{id};
  return result;
}
CudaResult CpuContext::DestroyStream(StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return streams_.DestroyStream(NumberOf(stream));
}
CudaResult CpuContext::CreateEvent(uint32_t flags, EventId* event) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  uint64_t id = 0;
  const CudaResult result = streams_.CreateEvent(flags, &id);
  *event = EventId{id};
  return result;
}
CudaResult CpuContext::DestroyEvent(EventId event) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return streams_.DestroyEvent(Number(event));
}
CudaResult CpuContext::RecordEvent(EventId event, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return streams_.RecordEvent(Number(event), NumberOf(stream));
}
CudaResult CpuContext::WaitEvent(StreamId stream, EventId event) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return streams_.WaitEvent(NumberOf(stream), Number(event));
}
CudaResult CpuContext::QueryEvent(EventId event) { return streams_.QueryEvent(Number(event)); }
CudaResult CpuContext::ElapsedMs(EventId start, EventId end, float* ms) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return streams_.ElapsedMs(Number(start), Number(end), ms);
}

std::shared_ptr<CpuModule> CpuContext::FindModule(ModuleId module) {
  MutexLock lock(&mu_);
  const auto it = modules_.find(Number(module));
  return it == modules_.end() ? nullptr : it->second;
}

CpuContext::KernelHandle CpuContext::Find(KernelId kernel) {
  MutexLock lock(&mu_);
  const auto it = kernels_.find(Number(kernel));
  return it == kernels_.end() ? KernelHandle() : it->second;
}

CudaResult CpuContext::LoadModule(std::string_view image, ModuleId* module) {
  device::JitLog log;
  return LoadModuleJit(image, {}, &log, module);
}

CudaResult CpuContext::LoadModuleJit(std::string_view image, absl::Span<const device::JitOption>,
                                     device::JitLog* log, ModuleId* module) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  std::shared_ptr<CpuModule> loaded;
  const CudaResult result = CpuModule::Load(image, &memory_, &loaded, &log->errors);
  if (result != CudaResult::kSuccess) {
    if (const LogPermit permit = CpuLog().Ask(kModuleLine)) {
      permit.Warning("cpu device: module refused: ", log->errors);
    }
    return result;
  }
  MutexLock lock(&mu_);
  const uint64_t id = next_id_++;
  modules_[id] = std::move(loaded);
  *module = ModuleId{id};
  return CudaResult::kSuccess;
}

CudaResult CpuContext::UnloadModule(ModuleId module) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  std::shared_ptr<CpuModule> unloaded = FindModule(module);
  if (unloaded == nullptr) return CudaResult::kInvalidHandle;
  unloaded->WaitForLaunches();
  MutexLock lock(&mu_);
  modules_.erase(Number(module));
  for (auto it = kernel_ids_.begin(); it != kernel_ids_.end();) {
    if (it->first.first == Number(module)) {
      kernels_.erase(it->second);
      it = kernel_ids_.erase(it);
    } else {
      ++it;
    }
  }
  return streams_.error();
}

CudaResult CpuContext::Kernels(ModuleId module, std::vector<std::string>* names) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const std::shared_ptr<CpuModule> found = FindModule(module);
  if (found == nullptr) return CudaResult::kInvalidHandle;
  *names = found->KernelNames();
  return CudaResult::kSuccess;
}

CudaResult CpuContext::FindKernel(ModuleId module, const std::string& name, KernelId* kernel) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  KernelHandle handle;
  handle.module = Number(module);
  handle.owner = FindModule(module);
  if (handle.owner == nullptr) return CudaResult::kInvalidHandle;
  const CudaResult result = handle.owner->FindKernel(name, &handle.kernel);
  if (result != CudaResult::kSuccess) return result;
  MutexLock lock(&mu_);
  const auto [it, added] = kernel_ids_.emplace(std::make_pair(handle.module, name), next_id_);
  if (added) kernels_[next_id_++] = std::move(handle);
  *kernel = KernelId{it->second};
  return CudaResult::kSuccess;
}

CudaResult CpuContext::Params(KernelId kernel, std::vector<device::ParamLayout>* params) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const KernelHandle handle = Find(kernel);
  if (handle.kernel == nullptr) return CudaResult::kInvalidHandle;
  *params = handle.kernel->params;
  return CudaResult::kSuccess;
}

CudaResult CpuContext::FindGlobal(ModuleId module, const std::string& name, uint64_t* address,
                                  uint64_t* bytes) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const std::shared_ptr<CpuModule> found = FindModule(module);
  if (found == nullptr) return CudaResult::kInvalidHandle;
  return found->FindGlobal(name, address, bytes);
}

CudaResult CpuContext::CheckLaunch(const Kernel& kernel, const LaunchConfig& config,
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
    const uint64_t room = static_cast<uint64_t>(cores_) *
                          ResidentBlocks(kernel, threads, config.dynamic_shared_bytes);
    // Without an overflow: a grid has fewer than 2^63 blocks.
    if (uint64_t{grid[0]} * grid[1] > room || uint64_t{grid[0]} * grid[1] * grid[2] > room) {
      return CudaResult::kCooperativeLaunchTooLarge;
    }
  }
  return CudaResult::kSuccess;
}

CudaResult CpuContext::Launch(KernelId kernel, const LaunchConfig& config,
                              absl::Span<const std::byte> params, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  KernelHandle handle = Find(kernel);
  if (handle.kernel == nullptr) return CudaResult::kInvalidHandle;
  LaunchConfig checked_config = config;
  CudaResult checked = ApplyAttributes(&checked_config);
  if (checked != CudaResult::kSuccess) return checked;
  checked = CheckLaunch(*handle.kernel, checked_config, params.size());
  if (checked != CudaResult::kSuccess) return checked;
  // Aligned for any parameter; a vector's memory is.
  std::vector<std::byte> copy(params.begin(), params.begin() + handle.kernel->param_bytes);
  auto token = std::make_shared<LaunchToken>(handle.owner);
  std::shared_ptr<KeptBytes::Claim> claim;
  if (copy.size() > kSmallParams) claim = kept_.Take(copy.size());
  return streams_.Submit(NumberOf(stream), StreamSet::When::kQueued,
                         [this, handle = std::move(handle), config = std::move(checked_config),
                          copy = std::move(copy), token = std::move(token),
                          claim = std::move(claim)] { return RunKernel(handle, config, copy); });
}

CudaResult CpuContext::RunKernel(const KernelHandle& handle, const LaunchConfig& config,
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
  shape.multiprocessors = static_cast<uint32_t>(cores_);
  shape.stack_bytes = stack_bytes_.load();
  shape.output = &output_;
  shape.heap = &heap_;
  shape.budget = &budget_;
  if (config.cooperative) {
    const CudaResult allocated = memory_.AllocateRegion(kWorkspaceBytes, &shape.workspace);
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

// What a kernel printed is written when it ends, before the stream passes it.
CudaResult CpuContext::FlushOutput() {
  output_.Flush();
  return streams_.error();
}

CudaResult CpuContext::CopyToDevice(uint64_t dst, const void* src, size_t bytes, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  if (!memory_.Contains(dst, bytes, kWrites)) return CudaResult::kInvalidValue;
  if (bytes == 0) return CudaResult::kSuccess;
  const bool done = streams_.RunIfIdle(NumberOf(stream), [dst, src, bytes] {
    CopyBytes(Pointer(dst), src, bytes);
    return CudaResult::kSuccess;
  });
  if (done) return streams_.error();
  // It has to wait, and the source may go when this returns.
  auto claim = kept_.Take(bytes);
  std::vector<char> kept(static_cast<const char*>(src), static_cast<const char*>(src) + bytes);
  return streams_.Submit(NumberOf(stream), StreamSet::When::kNowIfPossible,
                         [this, dst, claim = std::move(claim), kept = std::move(kept)] {
                           if (!memory_.Contains(dst, kept.size(), kWrites))
                             return CudaResult::kIllegalAddress;
                           CopyBytes(Pointer(dst), kept.data(), kept.size());
                           return CudaResult::kSuccess;
                         });
}

CudaResult CpuContext::CopyFromDevice(void* dst, uint64_t src, size_t bytes, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  if (!memory_.Contains(src, bytes)) return CudaResult::kInvalidValue;
  if (bytes == 0) return CudaResult::kSuccess;
  return streams_.Submit(NumberOf(stream), StreamSet::When::kNowIfPossible,
                         [this, dst, src, bytes] {
                           if (!memory_.Contains(src, bytes)) return CudaResult::kIllegalAddress;
                           CopyBytes(dst, Pointer(src), bytes);
                           return CudaResult::kSuccess;
                         });
}

CudaResult CpuContext::CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes, StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  if (!memory_.Contains(src, bytes) || !memory_.Contains(dst, bytes, kWrites)) {
    return CudaResult::kInvalidValue;
  }
  if (bytes == 0) return CudaResult::kSuccess;
  return streams_.Submit(
      NumberOf(stream), StreamSet::When::kNowIfPossible, [this, dst, src, bytes] {
        if (!memory_.Contains(src, bytes) || !memory_.Contains(dst, bytes, kWrites)) {
          return CudaResult::kIllegalAddress;
        }
        CopyBytes(Pointer(dst), Pointer(src), bytes);
        return CudaResult::kSuccess;
      });
}

CudaResult CpuContext::Memset(uint64_t dst, uint32_t value, int width, size_t count,
                              StreamId stream) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  if (width != 1 && width != 2 && width != 4) return CudaResult::kInvalidValue;
  const auto unit = static_cast<size_t>(width);
  size_t bytes;
  if (__builtin_mul_overflow(count, unit, &bytes) || dst % unit != 0 ||
      !memory_.Contains(dst, bytes, kWrites)) {
    return CudaResult::kInvalidValue;
  }
  if (count == 0) return CudaResult::kSuccess;
  return streams_.Submit(
      NumberOf(stream), StreamSet::When::kNowIfPossible, [this, dst, value, width, count, bytes] {
        if (!memory_.Contains(dst, bytes, kWrites)) return CudaResult::kIllegalAddress;
        switch (width) {
          case 1:
            std::memset(Pointer(dst), static_cast<int>(value & 0xff), count);
            break;
          case 2:
            std::fill_n(static_cast<uint16_t*>(Pointer(dst)), count, static_cast<uint16_t>(value));
            break;
          default:
            std::fill_n(static_cast<uint32_t*>(Pointer(dst)), count, value);
            break;
        }
        return CudaResult::kSuccess;
      });
}

}  // namespace warpline::cpu
