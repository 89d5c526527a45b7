#include "server/device/cuda/cuda_memory.h"

#include <sys/mman.h>

#include <vector>

#include "absl/cleanup/cleanup.h"
#include "proto/frames.h"

namespace warpline::device {
namespace {

// A granule of the sink.
constexpr uint64_t kSinkBytes = kChunkGranularity;

}  // namespace

// The arena ends with the last context of the group.
CudaMemory::~CudaMemory() {
  Enter();
  DropSinks(0, ~uint64_t{0});
  if (sink_ != 0) api_->p_cuMemRelease(sink_);
}

CudaResult CudaMemory::ReserveArena(uint64_t base, uint64_t size) {
  Enter();
  return group_->ReserveArena(base, size);
}

CudaResult CudaMemory::MapChunk(uint64_t va, uint64_t bytes, int fd) {
  Enter();
  if (!gate().InArena(va, bytes)) return CudaResult::kInvalidValue;
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

// Maps one granule of memory as often as the range needs.
CudaResult CudaMemory::MapSink(uint64_t va, uint64_t bytes) {
  Enter();
  if (bytes == 0 || bytes % kSinkBytes != 0 || va % kSinkBytes != 0 || !gate().InArena(va, bytes)) {
    return CudaResult::kInvalidValue;
  }
  MutexLock lock(&sinks_mu_);
  const bool first = sink_ == 0;
  if (first) {
    const CUresult made = Create(kSinkBytes, &sink_);
    if (made != CUDA_SUCCESS) return ToResult(made);
    own_bytes_ += kSinkBytes;
  }
  for (uint64_t at = va; at < va + bytes; at += kSinkBytes) {
    if (sinks_.contains(at)) continue;
    const CUresult mapped = api_->p_cuMemMap(at, kSinkBytes, 0, sink_, 0);
    if (mapped != CUDA_SUCCESS) return ToResult(mapped);
    sinks_.insert(at);
  }
  const CudaResult set = SetChunkAccess(va, bytes, MemoryAccess::kReadWrite);
  return set != CudaResult::kSuccess || !first ? set : Zero(va, kSinkBytes);
}

CudaResult CudaMemory::MapOwn(uint64_t va, uint64_t bytes) {
  Enter();
  if (bytes == 0 || bytes % kSinkBytes != 0 || va % kSinkBytes != 0 || !gate().InArena(va, bytes)) {
    return CudaResult::kInvalidValue;
  }
  CUmemGenericAllocationHandle memory = 0;
  const CUresult made = Create(bytes, &memory);
  if (made != CUDA_SUCCESS) return ToResult(made);
  const CUresult mapped = api_->p_cuMemMap(va, bytes, 0, memory, 0);
  // The mapping keeps it.
  api_->p_cuMemRelease(memory);
  if (mapped != CUDA_SUCCESS) return ToResult(mapped);
  own_bytes_ += bytes;
  const CudaResult set = SetChunkAccess(va, bytes, MemoryAccess::kReadWrite);
  return set == CudaResult::kSuccess ? Zero(va, bytes) : set;
}

CUresult CudaMemory::Create(uint64_t bytes, CUmemGenericAllocationHandle* memory) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = group_->members()[place_].device;
  return api_->p_cuMemCreate(memory, bytes, &properties, 0);
}

CudaResult CudaMemory::Zero(uint64_t va, uint64_t bytes) {
  const CUresult zeroed = api_->p_cuMemsetD8(va, 0, bytes);
  return ToResult(zeroed == CUDA_SUCCESS ? api_->p_cuStreamSynchronize(nullptr) : zeroed);
}

void CudaMemory::DropSinks(uint64_t va, uint64_t bytes) {
  MutexLock lock(&sinks_mu_);
  const auto first = sinks_.lower_bound(va);
  const auto end = sinks_.lower_bound(va + bytes);
  for (auto it = first; it != end; ++it) api_->p_cuMemUnmap(*it, kSinkBytes);
  sinks_.erase(first, end);
}

CudaResult CudaMemory::SetChunkAccess(uint64_t va, uint64_t bytes, MemoryAccess access) {
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

CudaResult CudaMemory::UnmapChunk(uint64_t va, uint64_t bytes) {
  Enter();
  const CUresult result = api_->p_cuMemUnmap(va, bytes);
  if (result == CUDA_SUCCESS) group_->OnUnmapped(va);
  return ToResult(result);
}

CudaResult CudaMemory::AllocStaging(size_t bytes, void** host) {
  Enter();
  return ToResult(api_->p_cuMemHostAlloc(host, bytes, CU_MEMHOSTALLOC_PORTABLE));
}

void CudaMemory::FreeStaging(void* host) {
  Enter();
  api_->p_cuMemFreeHost(host);
}

CudaResult CudaMemory::MapHost(uint64_t va, uint64_t bytes, int fd) {
  Enter();
  void* const wanted = reinterpret_cast<void*>(va);
  void* const at =
      mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
  if (at == MAP_FAILED) return CudaResult::kInvalidValue;
  CUresult result = at == wanted ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    result = api_->p_cuMemHostRegister(at, bytes,
                                       CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE);
  }
  if (result != CUDA_SUCCESS) {
    munmap(at, bytes);
    return ToResult(result);
  }
  CUdeviceptr device = 0;
  result = api_->p_cuMemHostGetDevicePointer(&device, at, 0);
  group_->gate().AddHost(va, bytes);
  if (result == CUDA_SUCCESS && device == va) return CudaResult::kSuccess;
  UnmapHost(va, bytes);
  return CudaResult::kNotSupported;
}

CudaResult CudaMemory::UnmapHost(uint64_t va, uint64_t bytes) {
  Enter();
  if (!group_->gate().RemoveHost(va, bytes)) return CudaResult::kInvalidValue;
  void* const at = reinterpret_cast<void*>(va);
  const CUresult result = api_->p_cuMemHostUnregister(at);
  munmap(at, bytes);
  return ToResult(result);
}

}  // namespace warpline::device
