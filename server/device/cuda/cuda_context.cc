#include "server/device/cuda/cuda_context.h"

#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"

namespace warpline::device {
namespace {

CUstream Native(StreamId id) {
  return id == kLegacyStream ? CU_STREAM_LEGACY
                             : reinterpret_cast<CUstream>(static_cast<uint64_t>(id));
}
CUevent Native(EventId id) { return reinterpret_cast<CUevent>(static_cast<uint64_t>(id)); }
CUlibrary Native(ModuleId id) { return reinterpret_cast<CUlibrary>(static_cast<uint64_t>(id)); }
CUkernel Native(KernelId id) { return reinterpret_cast<CUkernel>(static_cast<uint64_t>(id)); }

// Kernels of libraries may be used wherever the driver takes a function.
CUfunction NativeFunction(KernelId id) {
  return reinterpret_cast<CUfunction>(static_cast<uint64_t>(id));
}

template <typename Id, typename Handle>
Id ToId(Handle handle) {
  return static_cast<Id>(reinterpret_cast<uint64_t>(handle));
}

thread_local CUcontext t_current = nullptr;

// A launch with attributes in the driver's terms.
class NativeLaunch {
 public:
  NativeLaunch(const LaunchConfig& config, CUstream stream) {
    for (const LaunchAttribute& attribute : config.attributes) {
      CUlaunchAttribute& native = attributes_.emplace_back();
      native.id = static_cast<CUlaunchAttributeID>(attribute.id);
      static_assert(sizeof(native.value) == sizeof(attribute.value));
      std::memcpy(&native.value, attribute.value.data(), sizeof(native.value));
    }
    if (config.cooperative) {
      CUlaunchAttribute& native = attributes_.emplace_back();
      native.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      native.value.cooperative = 1;
    }
    config_.gridDimX = config.grid[0];
    config_.gridDimY = config.grid[1];
    config_.gridDimZ = config.grid[2];
    config_.blockDimX = config.block[0];
    config_.blockDimY = config.block[1];
    config_.blockDimZ = config.block[2];
    config_.sharedMemBytes = config.dynamic_shared_bytes;
    config_.hStream = stream;
    config_.attrs = attributes_.data();
    config_.numAttrs = static_cast<unsigned>(attributes_.size());
  }

  const CUlaunchConfig* config() const { return &config_; }

 private:
  std::vector<CUlaunchAttribute> attributes_;
  CUlaunchConfig config_ = {};
};

// As much as the driver may write of its just-in-time compiler's findings.
constexpr size_t kJitLogBytes = 32u << 10;

// A granule of the sink.
constexpr uint64_t kSinkBytes = kChunkGranularity;

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Context>>> CudaContext::Open(
    const DriverApi* api, absl::Span<const int> ordinals) {
  auto group = CudaGroup::Open(api, ordinals);
  if (!group.ok()) return group.status();
  std::vector<std::unique_ptr<Context>> contexts;
  for (uint32_t place = 0; place < ordinals.size(); ++place) {
    contexts.push_back(absl::WrapUnique(new CudaContext(api, *group, place)));
  }
  return contexts;
}

// The group's last one takes the arena with it.
CudaContext::~CudaContext() {
  Enter();
  DropSinks(0, ~uint64_t{0});
  if (sink_ != 0) api_->p_cuMemRelease(sink_);
}

void CudaContext::Enter() {
  if (t_current == context_) return;
  if (api_->p_cuCtxSetCurrent(context_) == CUDA_SUCCESS) t_current = context_;
}

CudaResult CudaContext::ReserveArena(uint64_t base, uint64_t size) {
  Enter();
  return group_->ReserveArena(base, size);
}

CudaResult CudaContext::MapChunk(uint64_t va, uint64_t bytes, int fd) {
  Enter();
  if (!group_->InArena(va, bytes)) return CudaResult::kInvalidValue;
  CUmemGenericAllocationHandle handle;
  CUresult result = api_->p_cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return ToResult(result);
  // The mapping keeps the memory; the handle is not needed beyond it.
  const absl::Cleanup release = [&] { api_->p_cuMemRelease(handle); };
  DropSinks(va, bytes);
  result = api_->p_cuMemMap(va, bytes, 0, handle, 0);
  if (result != CUDA_SUCCESS) return ToResult(result);
  const CudaResult set = SetChunkAccess(va, bytes, MemoryAccess::kReadWrite);
  if (set != CudaResult::kSuccess) {
    api_->p_cuMemUnmap(va, bytes);
    return set;
  }
  group_->OnMapped(va, bytes, place_);
  return CudaResult::kSuccess;
}

// One granule of memory, as often as it takes.
CudaResult CudaContext::MapSink(uint64_t va, uint64_t bytes) {
  Enter();
  if (bytes == 0 || bytes % kSinkBytes != 0 || va % kSinkBytes != 0 ||
      !group_->InArena(va, bytes)) {
    return CudaResult::kInvalidValue;
  }
  MutexLock lock(&sinks_mu_);
  const bool first = sink_ == 0;
  if (first) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = group_->members()[place_].device;
    const CUresult made = api_->p_cuMemCreate(&sink_, kSinkBytes, &properties, 0);
    if (made != CUDA_SUCCESS) return ToResult(made);
  }
  for (uint64_t at = va; at < va + bytes; at += kSinkBytes) {
    if (sinks_.contains(at)) continue;
    const CUresult mapped = api_->p_cuMemMap(at, kSinkBytes, 0, sink_, 0);
    if (mapped != CUDA_SUCCESS) return ToResult(mapped);
    sinks_.insert(at);
  }
  const CudaResult set = SetChunkAccess(va, bytes, MemoryAccess::kReadWrite);
  if (set != CudaResult::kSuccess || !first) return set;
  // The driver does not promise that new memory holds nothing of another process.
  const CUresult zeroed = api_->p_cuMemsetD8(va, 0, kSinkBytes);
  return ToResult(zeroed == CUDA_SUCCESS ? api_->p_cuStreamSynchronize(nullptr) : zeroed);
}

void CudaContext::DropSinks(uint64_t va, uint64_t bytes) {
  MutexLock lock(&sinks_mu_);
  const auto first = sinks_.lower_bound(va);
  const auto end = sinks_.lower_bound(va + bytes);
  for (auto it = first; it != end; ++it) api_->p_cuMemUnmap(*it, kSinkBytes);
  sinks_.erase(first, end);
}

CudaResult CudaContext::SetChunkAccess(uint64_t va, uint64_t bytes, MemoryAccess access) {
  Enter();
  std::vector<CUmemAccessDesc> descriptions;
  const std::vector<CudaGroup::Member>& members = group_->members();
  for (size_t i = 0; i < members.size(); ++i) {
    if ((members[place_].reached_by >> i & 1) == 0) continue;
    CUmemAccessDesc& description = descriptions.emplace_back();
    description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    description.location.id = members[i].device;
    description.flags = static_cast<CUmemAccess_flags>(access);
  }
  return ToResult(api_->p_cuMemSetAccess(va, bytes, descriptions.data(), descriptions.size()));
}

CudaResult CudaContext::UnmapChunk(uint64_t va, uint64_t bytes) {
  Enter();
  const CUresult result = api_->p_cuMemUnmap(va, bytes);
  if (result == CUDA_SUCCESS) group_->OnUnmapped(va);
  return ToResult(result);
}

CudaResult CudaContext::AllocStaging(size_t bytes, void** host) {
  Enter();
  return ToResult(api_->p_cuMemHostAlloc(host, bytes, CU_MEMHOSTALLOC_PORTABLE));
}

void CudaContext::FreeStaging(void* host) {
  Enter();
  api_->p_cuMemFreeHost(host);
}

CudaResult CudaContext::CreateStream(uint32_t flags, int priority, StreamId* stream) {
  Enter();
  CUstream native = nullptr;
  const CUresult result = api_->p_cuStreamCreateWithPriority(&native, flags, priority);
  *stream = ToId<StreamId>(native);
  return ToResult(result);
}

CudaResult CudaContext::DestroyStream(StreamId stream) {
  Enter();
  return ToResult(api_->p_cuStreamDestroy(Native(stream)));
}

CudaResult CudaContext::CreateEvent(uint32_t flags, EventId* event) {
  Enter();
  CUevent native = nullptr;
  const CUresult result = api_->p_cuEventCreate(&native, flags);
  *event = ToId<EventId>(native);
  return ToResult(result);
}

CudaResult CudaContext::DestroyEvent(EventId event) {
  Enter();
  return ToResult(api_->p_cuEventDestroy(Native(event)));
}

CudaResult CudaContext::RecordEvent(EventId event, StreamId stream) {
  Enter();
  return ToResult(api_->p_cuEventRecord(Native(event), Native(stream)));
}

CudaResult CudaContext::WaitEvent(StreamId stream, EventId event) {
  Enter();
  return ToResult(api_->p_cuStreamWaitEvent(Native(stream), Native(event), 0));
}

CudaResult CudaContext::QueryEvent(EventId event) {
  Enter();
  return ToResult(api_->p_cuEventQuery(Native(event)));
}

CudaResult CudaContext::ElapsedMs(EventId start, EventId end, float* ms) {
  Enter();
  return ToResult(api_->p_cuEventElapsedTime(ms, Native(start), Native(end)));
}

CudaResult CudaContext::Launch(KernelId kernel, const LaunchConfig& config,
                               absl::Span<const std::byte> params, StreamId stream) {
  Enter();
  size_t bytes = params.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                   const_cast<std::byte*>(params.data()),  // The driver only reads it.
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  void** const packed = bytes > 0 ? extra : nullptr;
  if (config.cooperative || !config.attributes.empty()) {
    NativeLaunch native(config, Native(stream));
    return ToResult(
        api_->p_cuLaunchKernelEx(native.config(), NativeFunction(kernel), nullptr, packed));
  }
  return ToResult(api_->p_cuLaunchKernel(NativeFunction(kernel), config.grid[0], config.grid[1],
                                         config.grid[2], config.block[0], config.block[1],
                                         config.block[2], config.dynamic_shared_bytes,
                                         Native(stream), nullptr, packed));
}

// A synchronization writes out what complete kernels printed, also that of a stream on which
// nothing runs; unlike that of the context it does not wait for the others.
CudaResult CudaContext::FlushOutput() {
  Enter();
  CUstream idle = idle_stream_.load();
  if (idle == nullptr) {
    const CUresult created = api_->p_cuStreamCreateWithPriority(&idle, CU_STREAM_NON_BLOCKING, 0);
    if (created != CUDA_SUCCESS) return ToResult(created);
    CUstream none = nullptr;
    if (!idle_stream_.compare_exchange_strong(none, idle)) {
      api_->p_cuStreamDestroy(idle);
      idle = none;
    }
  }
  return ToResult(api_->p_cuStreamSynchronize(idle));
}

CudaResult CudaContext::GetLimit(int limit, uint64_t* value) {
  Enter();
  size_t native = 0;
  const CUresult result = api_->p_cuCtxGetLimit(&native, static_cast<CUlimit>(limit));
  *value = native;
  return ToResult(result);
}

CudaResult CudaContext::SetLimit(int limit, uint64_t value) {
  Enter();
  return ToResult(api_->p_cuCtxSetLimit(static_cast<CUlimit>(limit), value));
}

CudaResult CudaContext::CopyToDevice(uint64_t dst, const void* src, size_t bytes, StreamId stream) {
  Enter();
  return ToResult(api_->p_cuMemcpyHtoDAsync(dst, src, bytes, Native(stream)));
}

CudaResult CudaContext::CopyFromDevice(void* dst, uint64_t src, size_t bytes, StreamId stream) {
  Enter();
  return ToResult(api_->p_cuMemcpyDtoHAsync(dst, src, bytes, Native(stream)));
}

CudaResult CudaContext::CopyOnDevice(uint64_t dst, uint64_t src, size_t bytes, StreamId stream) {
  Enter();
  // Host memory that the device reaches is an end like any other.
  if (!group_->InArena(dst, 1) || !group_->InArena(src, 1)) {
    return ToResult(api_->p_cuMemcpyAsync(dst, src, bytes, Native(stream)));
  }
  // Also right where neither device reaches the other's memory.
  if (group_->IsForeign(dst, place_) || group_->IsForeign(src, place_)) {
    return ToResult(api_->p_cuMemcpyPeerAsync(dst, group_->ContextOf(dst, place_), src,
                                              group_->ContextOf(src, place_), bytes,
                                              Native(stream)));
  }
  return ToResult(api_->p_cuMemcpyDtoDAsync(dst, src, bytes, Native(stream)));
}

CudaResult CudaContext::Memset(uint64_t dst, uint32_t value, int width, size_t count,
                               StreamId stream) {
  Enter();
  switch (width) {
    case 1:
      return ToResult(
          api_->p_cuMemsetD8Async(dst, static_cast<uint8_t>(value), count, Native(stream)));
    case 2:
      return ToResult(
          api_->p_cuMemsetD16Async(dst, static_cast<uint16_t>(value), count, Native(stream)));
    case 4:
      return ToResult(api_->p_cuMemsetD32Async(dst, value, count, Native(stream)));
    default:
      return CudaResult::kInvalidValue;
  }
}

CudaResult CudaContext::LoadModule(std::string_view image, ModuleId* module) {
  Enter();
  // PTX must end in NUL, which a view does not promise.
  const std::string terminated(image);
  CUlibrary library = nullptr;
  const CUresult result = api_->p_cuLibraryLoadData(&library, terminated.c_str(), nullptr, nullptr,
                                                    0, nullptr, nullptr, 0);
  *module = ToId<ModuleId>(library);
  return ToResult(result);
}

// As a module first, because that compiles at once and its log is then complete; the library that
// is kept finds the code in the driver's cache.
CudaResult CudaContext::LoadModuleJit(std::string_view image, absl::Span<const JitOption> options,
                                      JitLog* log, ModuleId* module) {
  Enter();
  const std::string terminated(image);
  std::vector<CUjit_option> ids;
  std::vector<void*> values;
  const auto add = [&](CUjit_option id, uint64_t value) {
    ids.push_back(id);
    values.push_back(reinterpret_cast<void*>(value));
  };
  for (const JitOption& option : options) add(static_cast<CUjit_option>(option.id), option.value);
  const size_t asked = ids.size();
  std::string info(kJitLogBytes, '\0');
  std::string errors(kJitLogBytes, '\0');
  add(CU_JIT_WALL_TIME, 0);
  add(CU_JIT_INFO_LOG_BUFFER, reinterpret_cast<uint64_t>(info.data()));
  add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, info.size());
  add(CU_JIT_ERROR_LOG_BUFFER, reinterpret_cast<uint64_t>(errors.data()));
  add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, errors.size());
  CUmodule compiled = nullptr;
  CUresult result = api_->p_cuModuleLoadDataEx(
      &compiled, terminated.c_str(), static_cast<unsigned>(ids.size()), ids.data(), values.data());
  std::memcpy(&log->wall_ms, &values[asked], sizeof(log->wall_ms));
  log->info.assign(info.data(), strnlen(info.data(), info.size()));
  log->errors.assign(errors.data(), strnlen(errors.data(), errors.size()));
  if (result != CUDA_SUCCESS) return ToResult(result);
  api_->p_cuModuleUnload(compiled);
  CUlibrary library = nullptr;
  result = api_->p_cuLibraryLoadData(&library, terminated.c_str(), ids.data(), values.data(),
                                     static_cast<unsigned>(asked), nullptr, nullptr, 0);
  *module = ToId<ModuleId>(library);
  return ToResult(result);
}

CudaResult CudaContext::CheckModule(ModuleId module) {
  Enter();
  CUmodule native = nullptr;
  return ToResult(api_->p_cuLibraryGetModule(&native, Native(module)));
}

CudaResult CudaContext::UnloadModule(ModuleId module) {
  Enter();
  return ToResult(api_->p_cuLibraryUnload(Native(module)));
}

CudaResult CudaContext::Kernels(ModuleId module, std::vector<std::string>* names) {
  Enter();
  unsigned count = 0;
  CUresult result = api_->p_cuLibraryGetKernelCount(&count, Native(module));
  if (result != CUDA_SUCCESS) return ToResult(result);
  std::vector<CUkernel> kernels(count);
  result = api_->p_cuLibraryEnumerateKernels(kernels.data(), count, Native(module));
  if (result != CUDA_SUCCESS) return ToResult(result);
  for (CUkernel kernel : kernels) {
    const char* name = nullptr;
    result = api_->p_cuKernelGetName(&name, kernel);
    if (result != CUDA_SUCCESS) return ToResult(result);
    names->push_back(name);
  }
  return CudaResult::kSuccess;
}

CudaResult CudaContext::FindKernel(ModuleId module, const std::string& name, KernelId* kernel) {
  Enter();
  CUkernel native = nullptr;
  const CUresult result = api_->p_cuLibraryGetKernel(&native, Native(module), name.c_str());
  *kernel = ToId<KernelId>(native);
  return ToResult(result);
}

CudaResult CudaContext::Params(KernelId kernel, std::vector<ParamLayout>* params) {
  Enter();
  for (size_t i = 0;; ++i) {
    size_t offset = 0;
    size_t size = 0;
    const CUresult result = api_->p_cuKernelGetParamInfo(Native(kernel), i, &offset, &size);
    // The documented way to learn that there are no more.
    if (result == CUDA_ERROR_INVALID_VALUE) return CudaResult::kSuccess;
    if (result != CUDA_SUCCESS) return ToResult(result);
    params->push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(size)});
  }
}

CudaResult CudaContext::GetKernelAttribute(KernelId kernel, int attribute, int* value) {
  Enter();
  return ToResult(api_->p_cuKernelGetAttribute(value, static_cast<CUfunction_attribute>(attribute),
                                               Native(kernel), device_));
}

CudaResult CudaContext::SetKernelAttribute(KernelId kernel, int attribute, int value) {
  Enter();
  return ToResult(api_->p_cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value,
                                               Native(kernel), device_));
}

CudaResult CudaContext::FindGlobal(ModuleId module, const std::string& name, uint64_t* address,
                                   uint64_t* bytes) {
  Enter();
  CUdeviceptr native = 0;
  size_t size = 0;
  CUresult result = api_->p_cuLibraryGetGlobal(&native, &size, Native(module), name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    result = api_->p_cuLibraryGetManaged(&native, &size, Native(module), name.c_str());
  }
  *address = native;
  *bytes = size;
  return ToResult(result);
}

CudaResult CudaContext::TakeBlock(uint64_t* address) {
  Enter();
  CUdeviceptr block = 0;
  const CUresult result = api_->p_cuMemAlloc_v2(&block, kBlockBytes);
  *address = block;
  return ToResult(result);
}

void CudaContext::FreeBlock(uint64_t address) {
  Enter();
  api_->p_cuMemFree_v2(address);
}

CudaResult CudaContext::MaxActiveBlocks(KernelId kernel, int block_threads,
                                        size_t dynamic_shared_bytes, uint32_t flags, int* blocks) {
  Enter();
  return ToResult(api_->p_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, NativeFunction(kernel), block_threads, dynamic_shared_bytes, flags));
}

CudaResult CudaContext::MaxActiveClusters(KernelId kernel, const LaunchConfig& config,
                                          int* clusters) {
  Enter();
  NativeLaunch native(config, nullptr);
  return ToResult(
      api_->p_cuOccupancyMaxActiveClusters(clusters, NativeFunction(kernel), native.config()));
}

CudaResult CudaContext::MaxClusterSize(KernelId kernel, const LaunchConfig& config, int* size) {
  Enter();
  NativeLaunch native(config, nullptr);
  return ToResult(
      api_->p_cuOccupancyMaxPotentialClusterSize(size, NativeFunction(kernel), native.config()));
}

}  // namespace warpline::device
