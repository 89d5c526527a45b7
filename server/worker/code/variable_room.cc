#include "server/worker/code/variable_room.h"

#include <algorithm>

namespace warpline::worker {
namespace {

// As much as any variable wants to be aligned to, and more.
constexpr uint64_t kSmallPiece = 4096;

}  // namespace

uint64_t VariableRoom::Pieces(uint64_t bytes) const {
  return bytes / piece_bytes_ * piece_bytes_ + (bytes % piece_bytes_ == 0 ? 0 : piece_bytes_);
}

uint64_t VariableRoom::FirstFree(uint64_t bytes) const {
  uint64_t at = base_;
  for (const auto& [address, taken] : taken_) {
    if (address - at >= bytes) return at;
    at = address + taken;
  }
  return end_ - at >= bytes ? at : 0;
}

CudaResult VariableRoom::MapAtOnce(uint64_t bytes) {
  bytes = std::min(bytes, end_ - base_);
  const CudaResult result = context_->MapOwn(base_, bytes);
  end_ = result == CudaResult::kSuccess ? base_ + bytes : base_;
  piece_bytes_ = kSmallPiece;
  return result;
}

CudaResult VariableRoom::Take(uint64_t bytes, uint64_t* address) {
  if (bytes == 0 || bytes > end_ - base_) return CudaResult::kOutOfMemory;
  bytes = Pieces(bytes);
  const uint64_t at = FirstFree(bytes);
  if (at == 0) return CudaResult::kOutOfMemory;
  if (piece_bytes_ != device::kBlockBytes) {
    taken_[at] = bytes;
    *address = at;
    return CudaResult::kSuccess;
  }
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
