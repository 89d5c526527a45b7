// The allocator's part in memory that the application maps itself.
#include "client_stub/arena/allocator_impl.h"
#include "proto/frames.h"

namespace warpline::stub {

CudaResult Allocator::Impl::ReserveAddresses(uint64_t bytes, uint64_t alignment, uint64_t wanted,
                                             uint64_t* address) {
  SpinMutexLock lock(&mu_);
  const Block* block = heap_.Reserve(bytes, alignment, wanted);
  if (block == nullptr) return CudaResult::kOutOfMemory;
  *address = block->base;
  return CudaResult::kSuccess;
}

void Allocator::Impl::ReleaseAddresses(uint64_t address) {
  SpinMutexLock lock(&mu_);
  Block* block = heap_.Find(address);
  if (block == nullptr || block->base != address || block->state != BlockState::kReserved) return;
  heap_.Unreserve(block);
}

void Allocator::Impl::Charge(uint64_t bytes) {
  SpinMutexLock lock(&mu_);
  live_bytes_ += bytes;
}

void Allocator::Impl::Discharge(uint64_t bytes) {
  SpinMutexLock lock(&mu_);
  live_bytes_ -= bytes;
}

CudaResult Allocator::Impl::ReturnUnused(bool wait) {
  MutexLock grow(&grow_mu_);
  if (wait) {
    if (const CudaResult result = WaitForRetirement(); result != CudaResult::kSuccess) {
      return result;
    }
  }
  SpinMutexLock lock(&mu_);
  ReclaimAll();
  if (!returns_memory_) return CudaResult::kSuccess;
  for (const Grant& grant : heap_.TakeReturnable(kChunkGranularity, 0)) {
    memory_->ReturnMemory(grant);
  }
  return CudaResult::kSuccess;
}

}  // namespace warpline::stub
