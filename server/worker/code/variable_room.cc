#include "server/worker/code/variable_room.h"

namespace warpline::worker {
namespace {

uint64_t Blocks(uint64_t bytes) {
  constexpr uint64_t kBlock = device::kBlockBytes;
  return bytes / kBlock * kBlock + (bytes % kBlock == 0 ? 0 : kBlock);
}

}  // namespace

uint64_t VariableRoom::FirstFree(uint64_t bytes) const {
  uint64_t at = base_;
  for (const auto& [address, taken] : taken_) {
    if (address - at >= bytes) return at;
    at = address + taken;
  }
  return end_ - at >= bytes ? at : 0;
}

CudaResult VariableRoom::Take(uint64_t bytes, uint64_t* address) {
  if (bytes == 0 || bytes > end_ - base_) return CudaResult::kOutOfMemory;
  bytes = Blocks(bytes);
  const uint64_t at = FirstFree(bytes);
  if (at == 0) return CudaResult::kOutOfMemory;
  // What is mapped already may have come in other sizes, so blocks are mapped one by one where any
  // of them is, and together where none is.
  const auto mapped = mapped_.lower_bound(at);
  const bool fresh = mapped == mapped_.end() || *mapped >= at + bytes;
  const uint64_t step = fresh ? bytes : device::kBlockBytes;
  for (uint64_t block = at; block < at + bytes; block += step) {
    if (mapped_.contains(block)) continue;
    const CudaResult result = context_->MapOwn(block, step);
    if (result != CudaResult::kSuccess) return result;
    for (uint64_t part = block; part < block + step; part += device::kBlockBytes) {
      mapped_.insert(part);
    }
  }
  taken_[at] = bytes;
  *address = at;
  return CudaResult::kSuccess;
}

CudaResult VariableRoom::TakeAddress(uint64_t* address) {
  const uint64_t at = FirstFree(device::kBlockBytes);
  if (at == 0) return CudaResult::kOutOfMemory;
  taken_[at] = device::kBlockBytes;
  *address = at;
  return CudaResult::kSuccess;
}

void VariableRoom::Give(uint64_t address) { taken_.erase(address); }

}  // namespace warpline::worker
