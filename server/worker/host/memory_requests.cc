#include "server/worker/host/memory_requests.h"

#include <utility>

#include "proto/devices.h"
#include "proto/frames.h"
#include "server/worker/memory/file_copies.h"

namespace warpline::worker {
namespace {

// Null where [va, va + bytes) lies in no device's part of the arena, or not in one alone.
device::Context* ContextOf(uint64_t va, uint64_t bytes, const Worker& worker) {
  const auto devices = static_cast<uint32_t>(worker.contexts.size());
  // Before it is open there is no arena.
  if (worker.arena_bytes == 0 || va + bytes < va) return nullptr;
  const auto device_of = [&](uint64_t address) {
    return DeviceOfAddress(address, worker.arena_base, worker.arena_bytes, devices);
  };
  const uint64_t device = device_of(va);
  if (device >= devices || (bytes > 0 && device_of(va + bytes - 1) != device)) {
    return nullptr;
  }
  return worker.contexts[device].get();
}

// Programs access a little behind their last allocation. Where a chunk lies there is no edge, and
// without a sink a program only gets the fault that it would not get natively.
void MapSinkAt(uint64_t end, device::Context* context, const Worker& worker) {
  if (worker.session == nullptr || ContextOf(end, kChunkGranularity, worker) != context) return;
  (void)context->MapSink(end, kChunkGranularity);
}

// Saturating, so that a sum that overflows is in no part either.
template <typename Sizes>
uint64_t Sum(const Sizes& sizes) {
  uint64_t sum = 0;
  for (const uint64_t bytes : sizes) {
    if (__builtin_add_overflow(sum, bytes, &sum)) return ~uint64_t{0};
  }
  return sum;
}

}  // namespace

CudaResult MapMemory(const warpline_internal::MapMemory& map, const std::vector<UniqueFd>& fds,
                     Worker* worker) {
  if (!worker->opened) return CudaResult::kIllegalState;
  device::Context* const context = ContextOf(map.va(), Sum(map.chunk_bytes()), *worker);
  if (context == nullptr || static_cast<size_t>(map.chunk_bytes_size()) != fds.size()) {
    return CudaResult::kInvalidValue;
  }
  uint64_t va = map.va();
  for (int i = 0; i < map.chunk_bytes_size(); ++i) {
    const CudaResult result =
        context->MapChunk(va, map.chunk_bytes(i), fds[static_cast<size_t>(i)].get());
    if (result != CudaResult::kSuccess) {
      // All or nothing, so that the books agree.
      uint64_t undo = map.va();
      for (int j = 0; j < i; ++j) {
        context->UnmapChunk(undo, map.chunk_bytes(j));
        undo += map.chunk_bytes(j);
      }
      return result;
    }
    va += map.chunk_bytes(i);
  }
  MapSinkAt(va, context, *worker);
  return CudaResult::kSuccess;
}

CudaResult UnmapMemory(const warpline_internal::UnmapMemory& unmap, Worker* worker) {
  if (!worker->opened) return CudaResult::kIllegalState;
  device::Context* const context = ContextOf(unmap.va(), Sum(unmap.chunk_bytes()), *worker);
  if (context == nullptr) return CudaResult::kInvalidValue;
  CudaResult first = CudaResult::kSuccess;
  uint64_t va = unmap.va();
  for (const uint64_t bytes : unmap.chunk_bytes()) {
    const CudaResult result = context->UnmapChunk(va, bytes);
    if (first == CudaResult::kSuccess) first = result;
    va += bytes;
  }
  // Behind what comes before it, if anything does.
  if (first == CudaResult::kSuccess) MapSinkAt(unmap.va(), context, *worker);
  return first;
}

CudaResult HoldMemory(const warpline_internal::HoldMemory& hold, std::vector<UniqueFd> fds,
                      Worker* worker) {
  if (worker->memory == nullptr) return CudaResult::kIllegalState;
  if (static_cast<size_t>(hold.chunk_bytes_size()) != fds.size() ||
      hold.handle_size() != hold.chunk_bytes_size()) {
    return CudaResult::kInvalidValue;
  }
  for (int i = 0; i < hold.handle_size(); ++i) {
    const CudaResult result = worker->memory->Hold(hold.handle(i), hold.chunk_bytes(i),
                                                   std::move(fds[static_cast<size_t>(i)]));
    if (result != CudaResult::kSuccess) return result;
  }
  return CudaResult::kSuccess;
}

CudaResult DropMemory(const warpline_internal::DropMemory& drop, Worker* worker) {
  return worker->memory == nullptr ? CudaResult::kIllegalState
                                   : worker->memory->Drop(drop.handle());
}

// All devices reach it.
CudaResult MapHostMemory(const warpline_internal::HostSegment& segment,
                         const std::vector<UniqueFd>& fds, Worker* worker) {
  if (worker->session == nullptr) return CudaResult::kIllegalState;
  device::Context* const context = worker->contexts[0].get();
  if (segment.unmap()) return context->UnmapHost(segment.va(), segment.bytes());
  if (fds.size() != 1) return CudaResult::kInvalidValue;
  return context->MapHost(segment.va(), segment.bytes(), fds[0].get());
}

CudaResult ReadMemory(const warpline_internal::ReadMemory& read, const std::vector<UniqueFd>& fds,
                      Worker* worker) {
  if (!worker->opened || worker->session != nullptr || fds.size() != 1) {
    return CudaResult::kIllegalState;
  }
  device::Context* const context = ContextOf(read.va(), read.bytes(), *worker);
  if (context == nullptr) return CudaResult::kInvalidValue;
  return FileCopies(context).ToFile(read.va(), read.bytes(), fds[0].get(), 0);
}

}  // namespace warpline::worker
