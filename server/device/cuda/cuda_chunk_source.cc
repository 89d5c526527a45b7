#include "server/device/cuda/cuda_chunk_source.h"

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"

namespace warpline::device {
namespace {

constexpr unsigned kFinderThreads = 256;

// Each block of threads looks at one granule of 2 MiB, 16 bytes a thread at a time, and writes 1
// for it where it finds a bit.
constexpr char kFinderPtx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry find_used(.param .u64 memory, .param .u64 flags) {
  .reg .pred %p<3>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [memory];
  ld.param.u64 %rd2, [flags];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd3, %r1, 2097152;
  mul.wide.u32 %rd4, %r2, 16;
  add.u64 %rd5, %rd1, %rd3;
  add.u64 %rd6, %rd5, %rd4;
  add.u64 %rd7, %rd5, 2097152;
  mov.u32 %r3, 0;
next:
  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd6];
  or.b32 %r4, %r4, %r5;
  or.b32 %r6, %r6, %r7;
  or.b32 %r3, %r3, %r4;
  or.b32 %r3, %r3, %r6;
  add.u64 %rd6, %rd6, 4096;
  setp.lt.u64 %p1, %rd6, %rd7;
  @%p1 bra next;
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra none;
  mul.wide.u32 %rd8, %r1, 4;
  add.u64 %rd9, %rd2, %rd8;
  mov.u32 %r8, 1;
  st.global.u32 [%rd9], %r8;
none:
  ret;
}
)";

}  // namespace

absl::StatusOr<std::unique_ptr<ChunkSource>> CudaChunkSource::Open(const DriverApi* api,
                                                                   int ordinal) {
  CUdevice device;
  CUresult result = api->p_cuDeviceGet(&device, ordinal);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuDeviceGet");
  CUcontext context;
  result = api->p_cuDevicePrimaryCtxRetain(&context, device);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "primary context");
  return absl::WrapUnique(new CudaChunkSource(api, device, context));
}

CudaChunkSource::~CudaChunkSource() { api_->p_cuDevicePrimaryCtxRelease(device_); }

absl::StatusOr<UniqueFd> CudaChunkSource::CreateChunk(uint64_t bytes) {
  api_->p_cuCtxSetCurrent(context_);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_;
  CUmemGenericAllocationHandle handle;
  CUresult result = api_->p_cuMemCreate(&handle, bytes, &properties, 0);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemCreate");
  const absl::Cleanup release = [&] { api_->p_cuMemRelease(handle); };
  int fd = -1;
  result = api_->p_cuMemExportToShareableHandle(&fd, handle,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemExport");
  return UniqueFd(fd);
}

absl::Status CudaChunkSource::WhileMapped(int fd, uint64_t bytes,
                                          const std::function<absl::Status(CUdeviceptr va)>& use) {
  api_->p_cuCtxSetCurrent(context_);
  CUmemGenericAllocationHandle handle;
  CUresult result = api_->p_cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemImport");
  const absl::Cleanup release = [&] { api_->p_cuMemRelease(handle); };
  CUdeviceptr va = 0;
  result = api_->p_cuMemAddressReserve(&va, bytes, 0, 0, 0);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemAddressReserve");
  const absl::Cleanup unreserve = [&] { api_->p_cuMemAddressFree(va, bytes); };
  result = api_->p_cuMemMap(va, bytes, 0, handle, 0);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemMap");
  const absl::Cleanup unmap = [&] { api_->p_cuMemUnmap(va, bytes); };
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  result = api_->p_cuMemSetAccess(va, bytes, &access, 1);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemSetAccess");
  const absl::Status used = use(va);
  result = api_->p_cuStreamSynchronize(nullptr);
  return used.ok() ? StatusFromCudaResult(ToResult(result), "cuStreamSynchronize") : used;
}

absl::Status CudaChunkSource::ScrubChunk(int fd, uint64_t bytes) {
  MutexLock lock(&mapping_mu_);
  return WhileMapped(fd, bytes, [&](CUdeviceptr va) {
    return StatusFromCudaResult(ToResult(api_->p_cuMemsetD8(va, 0, bytes)), "cuMemsetD8");
  });
}

absl::Status CudaChunkSource::AddHost(void* host, uint64_t bytes) {
  api_->p_cuCtxSetCurrent(context_);
  return StatusFromCudaResult(ToResult(api_->p_cuMemHostRegister(host, bytes, 0)),
                              "cuMemHostRegister");
}

absl::Status CudaChunkSource::LoadFinder() {
  if (finder_ != nullptr) return absl::OkStatus();
  api_->p_cuCtxSetCurrent(context_);
  CUmodule module;  // Unloaded with the context.
  CUresult result = api_->p_cuModuleLoadDataEx(&module, kFinderPtx, 0, nullptr, nullptr);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuModuleLoadData");
  result = api_->p_cuModuleGetFunction(&finder_, module, "find_used");
  return StatusFromCudaResult(ToResult(result), "cuModuleGetFunction");
}

absl::StatusOr<std::vector<bool>> CudaChunkSource::FindUsed(int fd, uint64_t bytes) {
  MutexLock lock(&mapping_mu_);
  if (absl::Status loaded = LoadFinder(); !loaded.ok()) return loaded;
  const size_t count = bytes / kUsedGranule;
  CUdeviceptr flags = 0;
  CUresult result = api_->p_cuMemAlloc_v2(&flags, count * sizeof(uint32_t));
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemAlloc");
  const absl::Cleanup free = [&] { api_->p_cuMemFree_v2(flags); };
  std::vector<uint32_t> found(count);
  const CUfunction finder = finder_;
  const absl::Status looked = WhileMapped(fd, bytes, [&](CUdeviceptr va) {
    CUresult done = api_->p_cuMemsetD8(flags, 0, count * sizeof(uint32_t));
    if (done != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(done), "cuMemsetD8");
    void* arguments[] = {&va, &flags};
    done = api_->p_cuLaunchKernel(finder, static_cast<unsigned>(count), 1, 1, kFinderThreads, 1, 1,
                                  0, nullptr, arguments, nullptr);
    if (done != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(done), "cuLaunchKernel");
    done = api_->p_cuMemcpyDtoHAsync(found.data(), flags, count * sizeof(uint32_t), nullptr);
    return StatusFromCudaResult(ToResult(done), "cuMemcpyDtoH");
  });
  if (!looked.ok()) return looked;
  std::vector<bool> used(count);
  for (size_t i = 0; i < count; ++i) used[i] = found[i] != 0;
  return used;
}

absl::Status CudaChunkSource::CopyOut(int fd, uint64_t bytes, absl::Span<const Part> parts) {
  MutexLock lock(&mapping_mu_);
  return WhileMapped(fd, bytes, [&](CUdeviceptr va) {
    for (const Part& part : parts) {
      const CUresult result =
          api_->p_cuMemcpyDtoHAsync(part.host, va + part.offset, part.bytes, nullptr);
      if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemcpyDtoH");
    }
    return absl::OkStatus();
  });
}

absl::Status CudaChunkSource::CopyIn(int fd, uint64_t bytes, absl::Span<const Part> parts) {
  MutexLock lock(&mapping_mu_);
  return WhileMapped(fd, bytes, [&](CUdeviceptr va) {
    for (const Part& part : parts) {
      const CUresult result =
          api_->p_cuMemcpyHtoDAsync(va + part.offset, part.host, part.bytes, nullptr);
      if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemcpyHtoD");
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::optional<uint64_t>> CudaChunkSource::FreeBytes() {
  api_->p_cuCtxSetCurrent(context_);
  size_t free = 0;
  size_t total = 0;
  const CUresult result = api_->p_cuMemGetInfo(&free, &total);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuMemGetInfo");
  return std::optional<uint64_t>(free);
}

}  // namespace warpline::device
