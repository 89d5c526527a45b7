#include "server/worker/host/arena_memory.h"

#include <algorithm>
#include <utility>

#include "common/log/log.h"
#include "proto/devices.h"
#include "proto/frames.h"
#include "proto/memory_span.h"
#include "server/worker/memory/file_copies.h"

namespace warpline::worker {
namespace {

// The sum saturates, so that one that overflows lies in no part either.
template <typename Sizes>
uint64_t SumOf(const Sizes& sizes) {
  uint64_t sum = 0;
  for (const uint64_t bytes : sizes) sum = Sum(sum, bytes);
  return sum;
}

}  // namespace

ArenaMemory::ArenaMemory(std::vector<device::Context*> contexts, uint64_t base, uint64_t bytes)
    : contexts_(std::move(contexts)), base_(base), bytes_(bytes) {}

// Returns null when [va, va + bytes) does not lie in exactly one device's part of the arena.
device::Context* ArenaMemory::ContextOf(uint64_t va, uint64_t bytes) const {
  const auto devices = static_cast<uint32_t>(contexts_.size());
  if (va + bytes < va) return nullptr;
  const uint64_t device = DeviceOfAddress(va, base_, bytes_, devices);
  if (device >= devices) return nullptr;
  if (bytes > 0 && DeviceOfAddress(va + bytes - 1, base_, bytes_, devices) != device) {
    return nullptr;
  }
  return contexts_[device];
}

void ArenaMemory::MapSinks(uint64_t bytes) {
  sinks_ = true;
  const auto devices = static_cast<uint32_t>(contexts_.size());
  const uint64_t part = DeviceArenaBytes(bytes_, devices);
  if (bytes == 0 || bytes > std::min(part, kMostSinkBytes)) return;
  for (uint32_t i = 0; i < devices; ++i) {
    const CudaResult mapped = contexts_[i]->MapSink(base_ + i * part, bytes);
    if (mapped == CudaResult::kSuccess) continue;
    LogWarning("no memory for stray accesses before the first allocation gpu=", i,
               " error=", CudaResultName(mapped));
  }
}

CudaResult ArenaMemory::Seal() {
  const CudaResult result = contexts_[0]->Seal();
  if (result == CudaResult::kSuccess) sealed_.store(true, std::memory_order_release);
  return result;
}

// A place where a chunk lies is no edge. Without a sink, a program only gets a fault that it would
// not get without Warpline.
void ArenaMemory::MapSinkAt(uint64_t end, device::Context* context) {
  if (!sinks_ || ContextOf(end, kChunkGranularity) != context) return;
  (void)context->MapSink(end, kChunkGranularity);
}

CudaResult ArenaMemory::Map(const warpline_internal::MapMemory& map,
                            const std::vector<UniqueFd>& fds) {
  device::Context* const context = ContextOf(map.va(), SumOf(map.chunk_bytes()));
  if (context == nullptr || static_cast<size_t>(map.chunk_bytes_size()) != fds.size()) {
    return CudaResult::kInvalidValue;
  }
  uint64_t va = map.va();
  for (int i = 0; i < map.chunk_bytes_size(); ++i) {
    const CudaResult result =
        context->MapChunk(va, map.chunk_bytes(i), fds[static_cast<size_t>(i)].get());
    if (result != CudaResult::kSuccess) {
      // All or nothing is mapped, so that the books agree.
      uint64_t undo = map.va();
      for (int j = 0; j < i; ++j) {
        context->UnmapChunk(undo, map.chunk_bytes(j));
        undo += map.chunk_bytes(j);
      }
      return result;
    }
    va += map.chunk_bytes(i);
  }
  MapSinkAt(va, context);
  return CudaResult::kSuccess;
}

CudaResult ArenaMemory::Unmap(const warpline_internal::UnmapMemory& unmap) {
  device::Context* const context = ContextOf(unmap.va(), SumOf(unmap.chunk_bytes()));
  if (context == nullptr) return CudaResult::kInvalidValue;
  if (sealed()) {
    const CudaResult unsealed = context->Unseal();
    if (unsealed != CudaResult::kSuccess) return unsealed;
    sealed_.store(false, std::memory_order_release);
  }
  CudaResult first = CudaResult::kSuccess;
  uint64_t va = unmap.va();
  for (const uint64_t bytes : unmap.chunk_bytes()) {
    const CudaResult result = context->UnmapChunk(va, bytes);
    if (first == CudaResult::kSuccess) first = result;
    va += bytes;
  }
  // The sink then lies after what comes before the range, if anything does.
  if (first == CudaResult::kSuccess) MapSinkAt(unmap.va(), context);
  return first;
}

// All devices reach the memory.
CudaResult ArenaMemory::MapHost(const warpline_internal::HostSegment& segment,
                                const std::vector<UniqueFd>& fds) {
  if (segment.window() != 0) return ShowWindow(segment, fds);
  device::Context* const context = contexts_[0];
  if (segment.unmap()) return context->UnmapHost(segment.va(), segment.bytes());
  if (fds.size() != 1) return CudaResult::kInvalidValue;
  if (!maps_host_) return CudaResult::kNotSupported;
  return context->MapHost(segment.va(), segment.bytes(), fds[0].get());
}

// The session has it until its end: what is queued may name it.
CudaResult ArenaMemory::ShowWindow(const warpline_internal::HostSegment& segment,
                                   const std::vector<UniqueFd>& fds) {
  if (windows_ == nullptr || has_window_ || segment.unmap() || fds.size() > 1) {
    return CudaResult::kInvalidValue;
  }
  if (!fds.empty()) {
    const absl::Status opened = windows_->Open(segment.window(), fds[0].get(), segment.bytes());
    if (!opened.ok()) {
      LogWarning("no host window window=", segment.window(), " error=", opened.ToString());
      return CudaResultFromStatus(opened);
    }
  }
  const auto memory = windows_->Find(segment.window());
  if (!memory || memory->bytes != segment.bytes()) return CudaResult::kInvalidValue;
  const CudaResult shown = contexts_[0]->ShowHost(segment.va(), memory->bytes, memory->host);
  has_window_ = shown == CudaResult::kSuccess;
  return shown;
}

CudaResult ArenaMemory::Read(const warpline_internal::ReadMemory& read,
                             const std::vector<UniqueFd>& fds) {
  device::Context* const context = ContextOf(read.va(), read.bytes());
  if (context == nullptr || fds.size() != 1) return CudaResult::kInvalidValue;
  return FileCopies(context).ToFile(read.va(), read.bytes(), fds[0].get(), 0);
}

}  // namespace warpline::worker
