#include "server/device/cuda/shared/cuda_shared_memory.h"

#include <algorithm>
#include <iterator>

#include "absl/cleanup/cleanup.h"
#include "proto/frames.h"

namespace warpline::device {
namespace {

// The smaller granule of sinks, which fits everywhere. Few of the larger ones make an arena's
// sealing short.
constexpr uint64_t kSmallBytes = kChunkGranularity;
static_assert(kSmallBytes == kBlockBytes);

}  // namespace

CudaSharedMemory::~CudaSharedMemory() {
  Enter();
  for (void* const host : staging_.TakeAll()) share_->staging->GiveBack(host);
  MutexLock lock(&mu_);
  for (const auto& [va, mapping] : mappings_) api_->p_cuMemUnmap(va, mapping.bytes);
  for (const Sink& sink : {small_, large_}) {
    if (sink.memory != 0) api_->p_cuMemRelease(sink.memory);
  }
  // The arena's own addresses are the group's, and end with it.
  for (const Range& zone : zones_) api_->p_cuMemAddressFree(zone.start, zone.end - zone.start);
}

CudaResult CudaSharedMemory::ReserveArena(uint64_t base, uint64_t size) {
  Enter();
  MutexLock lock(&mu_);
  if (gate().arena_bytes() != 0 || base < kZoneBytes || size < kZoneBytes ||
      base > ~uint64_t{0} - size - kZoneBytes) {
    return CudaResult::kInvalidValue;
  }
  CudaResult result = CudaResult::kSuccess;
  for (const uint64_t zone : {base - kZoneBytes, base + size}) {
    result = group_->ReserveAt(zone, kZoneBytes);
    if (result != CudaResult::kSuccess) break;
    zones_.push_back({zone, zone + kZoneBytes});
  }
  if (result == CudaResult::kSuccess) result = group_->ReserveArena(base, size);
  if (result == CudaResult::kSuccess) return result;
  for (const Range& zone : zones_) api_->p_cuMemAddressFree(zone.start, kZoneBytes);
  zones_.clear();
  return result;
}

bool CudaSharedMemory::IsOfGranules(uint64_t va, uint64_t bytes) const {
  return bytes != 0 && bytes % kSmallBytes == 0 && va % kSmallBytes == 0 &&
         gate().InArena(va, bytes);
}

CUresult CudaSharedMemory::Create(uint64_t bytes, CUmemGenericAllocationHandle* memory) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_;
  const CUresult result = api_->p_cuMemCreate(memory, bytes, &properties, 0);
  if (result == CUDA_SUCCESS) own_bytes_ += bytes;
  return result;
}

CUresult CudaSharedMemory::Map(uint64_t va, uint64_t bytes, CUmemGenericAllocationHandle memory,
                               Use use) {
  const CUresult result = api_->p_cuMemMap(va, bytes, 0, memory, 0);
  if (result == CUDA_SUCCESS) mappings_[va] = {bytes, use};
  return result;
}

void CudaSharedMemory::Unmap(uint64_t va) {
  const auto found = mappings_.find(va);
  api_->p_cuMemUnmap(va, found->second.bytes);
  mappings_.erase(found);
}

CUresult CudaSharedMemory::SetAccess(uint64_t va, uint64_t bytes, MemoryAccess access) {
  CUmemAccessDesc description = {};
  description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  description.location.id = device_;
  description.flags = static_cast<CUmemAccess_flags>(access);
  return api_->p_cuMemSetAccess(va, bytes, &description, 1);
}

// By a copy from the host, which needs no multiprocessor: a fill would wait for the kernels of
// others.
CUresult CudaSharedMemory::Zero(uint64_t va, uint64_t bytes) {
  CUstream stream = nullptr;
  CUresult result = api_->p_cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
  if (result != CUDA_SUCCESS) return result;
  const absl::Cleanup destroy = [&] { api_->p_cuStreamDestroy(stream); };
  const absl::Span<const std::byte> zeros = share_->zeros;
  for (uint64_t at = 0; at < bytes && result == CUDA_SUCCESS; at += zeros.size()) {
    result = api_->p_cuMemcpyHtoDAsync(va + at, zeros.data(),
                                       std::min<uint64_t>(zeros.size(), bytes - at), stream);
  }
  // Also after an error: what was issued still writes there.
  const CUresult done = api_->p_cuStreamSynchronize(stream);
  return result == CUDA_SUCCESS ? done : result;
}

CudaResult CudaSharedMemory::MapChunk(uint64_t va, uint64_t bytes, int fd) {
  Enter();
  MutexLock lock(&mu_);
  if (sealed_) return CudaResult::kNotSupported;
  if (!IsOfGranules(va, bytes)) return CudaResult::kInvalidValue;
  CUmemGenericAllocationHandle memory = 0;
  CUresult result = api_->p_cuMemImportFromShareableHandle(
      &memory, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return ToResult(result);
  // The mapping keeps the memory; the handle is not needed beyond it.
  const absl::Cleanup release = [&] { api_->p_cuMemRelease(memory); };
  DropSinks({va, va + bytes});
  result = Map(va, bytes, memory, Use::kChunk);
  if (result != CUDA_SUCCESS) return ToResult(result);
  result = SetAccess(va, bytes, MemoryAccess::kReadWrite);
  if (result != CUDA_SUCCESS) Unmap(va);
  return ToResult(result);
}

CudaResult CudaSharedMemory::UnmapChunk(uint64_t va, uint64_t bytes) {
  Enter();
  MutexLock lock(&mu_);
  if (sealed_) return CudaResult::kNotSupported;
  const auto found = mappings_.find(va);
  if (found == mappings_.end() || found->second.bytes != bytes ||
      found->second.use != Use::kChunk) {
    return CudaResult::kInvalidValue;
  }
  const CUresult result = api_->p_cuMemUnmap(va, bytes);
  if (result == CUDA_SUCCESS) mappings_.erase(found);
  return ToResult(result);
}

CudaResult CudaSharedMemory::SetChunkAccess(uint64_t va, uint64_t bytes, MemoryAccess access) {
  Enter();
  MutexLock lock(&mu_);
  if (sealed_) return CudaResult::kNotSupported;
  const auto found = mappings_.find(va);
  if (found == mappings_.end() || found->second.bytes != bytes ||
      found->second.use != Use::kChunk) {
    return CudaResult::kInvalidValue;
  }
  return ToResult(SetAccess(va, bytes, access));
}

CudaResult CudaSharedMemory::MapOwn(uint64_t va, uint64_t bytes) {
  Enter();
  MutexLock lock(&mu_);
  if (sealed_) return CudaResult::kNotSupported;
  if (!IsOfGranules(va, bytes)) return CudaResult::kInvalidValue;
  CUmemGenericAllocationHandle memory = 0;
  CUresult result = Create(bytes, &memory);
  if (result != CUDA_SUCCESS) return ToResult(result);
  result = Map(va, bytes, memory, Use::kOwn);
  // The mapping keeps it.
  api_->p_cuMemRelease(memory);
  if (result == CUDA_SUCCESS) {
    result = SetAccess(va, bytes, MemoryAccess::kReadWrite);
    if (result == CUDA_SUCCESS) result = Zero(va, bytes);
    if (result != CUDA_SUCCESS) Unmap(va);
  }
  if (result != CUDA_SUCCESS) own_bytes_ -= bytes;
  return ToResult(result);
}

CudaResult CudaSharedMemory::MapSink(uint64_t va, uint64_t bytes) {
  Enter();
  MutexLock lock(&mu_);
  if (sealed_) return CudaResult::kNotSupported;
  if (!IsOfGranules(va, bytes)) return CudaResult::kInvalidValue;
  auto next = mappings_.upper_bound(va);
  if (next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > va) {
    --next;
  }
  for (; next != mappings_.end() && next->first < va + bytes; ++next) {
    if (next->second.use != Use::kSink) return CudaResult::kInvalidValue;
  }
  for (const Range& hole : Holes({va, va + bytes})) {
    const CUresult result = Fill(hole, /*may_be_large=*/false);
    if (result != CUDA_SUCCESS) return ToResult(result);
  }
  return CudaResult::kSuccess;
}

// Each range is one reservation, whose holes a call for access does not cross.
CudaResult CudaSharedMemory::Seal() {
  Enter();
  MutexLock lock(&mu_);
  if (sealed_) return CudaResult::kNotSupported;
  const uint64_t base = gate().arena_base();
  const uint64_t bytes = gate().arena_bytes();
  if (bytes == 0) return CudaResult::kInvalidValue;
  std::vector<Range> holes;
  for (const Range& range : {zones_[0], Range{base, base + bytes}, zones_[1]}) {
    for (const Range& hole : Holes(range)) holes.push_back(hole);
  }
  for (const Range& hole : holes) {
    const CUresult result = Fill(hole, /*may_be_large=*/true);
    if (result == CUDA_SUCCESS) continue;
    for (const Range& filled : holes) DropSinks(filled);
    return ToResult(result);
  }
  sealed_ = true;
  return CudaResult::kSuccess;
}

// A kernel that still ran would fault in a hole, and end the work of all sessions.
CudaResult CudaSharedMemory::Unseal() {
  Enter();
  MutexLock lock(&mu_);
  if (!sealed_) return CudaResult::kNotSupported;
  const CUresult idle = share_->streams->QueryIdle();
  if (idle != CUDA_SUCCESS) return ToResult(idle);
  sealed_ = false;
  return CudaResult::kSuccess;
}

std::vector<CudaSharedMemory::Range> CudaSharedMemory::Holes(const Range& range) const {
  std::vector<Range> holes;
  uint64_t at = range.start;
  auto next = mappings_.upper_bound(at);
  if (next != mappings_.begin()) --next;
  for (; next != mappings_.end() && next->first < range.end; ++next) {
    if (next->first > at) holes.push_back({at, next->first});
    at = std::max(at, next->first + next->second.bytes);
  }
  if (at < range.end) holes.push_back({at, range.end});
  return holes;
}

CUresult CudaSharedMemory::Fill(const Range& hole, bool may_be_large) {
  for (uint64_t at = hole.start; at < hole.end;) {
    const uint64_t large_bytes = share_->sink_granule_bytes;
    const bool large = may_be_large && large_bytes > kSmallBytes && at % large_bytes == 0 &&
                       hole.end - at >= large_bytes;
    const uint64_t bytes = large ? large_bytes : kSmallBytes;
    Sink* const sink = large ? &large_ : &small_;
    sink->bytes = bytes;
    const CUresult result = MapGranule(at, sink);
    if (result != CUDA_SUCCESS) return result;
    at += bytes;
  }
  return SetAccess(hole.start, hole.end - hole.start, MemoryAccess::kReadWrite);
}

// The driver does not promise that new memory holds no data of another process.
CUresult CudaSharedMemory::MapGranule(uint64_t va, Sink* sink) {
  if (sink->memory != 0) return Map(va, sink->bytes, sink->memory, Use::kSink);
  CUmemGenericAllocationHandle memory = 0;
  CUresult result = Create(sink->bytes, &memory);
  if (result != CUDA_SUCCESS) return result;
  result = Map(va, sink->bytes, memory, Use::kSink);
  if (result == CUDA_SUCCESS) result = SetAccess(va, sink->bytes, MemoryAccess::kReadWrite);
  if (result == CUDA_SUCCESS) result = Zero(va, sink->bytes);
  if (result == CUDA_SUCCESS) {
    sink->memory = memory;
    return result;
  }
  DropSinks({va, va + sink->bytes});
  api_->p_cuMemRelease(memory);
  own_bytes_ -= sink->bytes;
  return result;
}

void CudaSharedMemory::DropSinks(const Range& range) {
  for (auto it = mappings_.lower_bound(range.start);
       it != mappings_.end() && it->first < range.end;) {
    if (it->second.use != Use::kSink) {
      ++it;
      continue;
    }
    api_->p_cuMemUnmap(it->first, it->second.bytes);
    it = mappings_.erase(it);
  }
}

CudaResult CudaSharedMemory::ShowHost(uint64_t va, uint64_t bytes, void* host) {
  if (bytes == 0 || bytes > ~uint64_t{0} - va || gate().InArena(va, 0)) {
    return CudaResult::kInvalidValue;
  }
  group_->gate().AddHost(va, bytes, reinterpret_cast<uint64_t>(host));
  return CudaResult::kSuccess;
}

CudaResult CudaSharedMemory::AllocStaging(size_t bytes, void** host) {
  if (bytes == 0) return CudaResult::kInvalidValue;
  void* const taken = share_->staging->Take(bytes);
  if (taken == nullptr) return CudaResult::kOutOfMemory;
  staging_.Add(taken);
  *host = taken;
  return CudaResult::kSuccess;
}

void CudaSharedMemory::FreeStaging(void* host) {
  if (staging_.Remove(host)) share_->staging->GiveBack(host);
}

}  // namespace warpline::device
