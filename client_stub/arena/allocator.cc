#include "client_stub/arena/allocator.h"

#include <utility>

#include "client_stub/arena/allocator_impl.h"

namespace warpline::stub {

Allocator::Allocator(Session* session, uint32_t device)
    : Allocator(session, device, [] { return absl::Now(); }) {}

Allocator::Allocator(Session* session, uint32_t device, Clock clock)
    : impl_(std::make_unique<Impl>(session, device, std::move(clock))) {}

Allocator::~Allocator() = default;

CudaResult Allocator::Allocate(uint64_t bytes, uint64_t* address) {
  return impl_->Allocate(bytes, nullptr, address);
}

CudaResult Allocator::Free(uint64_t address) { return impl_->Free(address); }

CudaResult Allocator::AllocateAsync(uint64_t bytes, uint64_t stream, uint64_t* address) {
  return impl_->Allocate(bytes, &stream, address);
}

CudaResult Allocator::FreeAsync(uint64_t address, uint64_t stream) {
  return impl_->FreeAsync(address, stream);
}

void Allocator::ForgetStream(uint64_t stream) { impl_->ForgetStream(stream); }

bool Allocator::Find(uint64_t address, Allocation* allocation) const {
  return impl_->Find(address, allocation);
}

bool Allocator::Contains(uint64_t address, uint64_t bytes) const {
  return impl_->Contains(address, bytes);
}

CudaResult Allocator::ReserveAddresses(uint64_t bytes, uint64_t alignment, uint64_t wanted,
                                       uint64_t* address) {
  return impl_->ReserveAddresses(bytes, alignment, wanted, address);
}

void Allocator::ReleaseAddresses(uint64_t address) { impl_->ReleaseAddresses(address); }

void Allocator::Charge(uint64_t bytes) { impl_->Charge(bytes); }

void Allocator::Discharge(uint64_t bytes) { impl_->Discharge(bytes); }

CudaResult Allocator::ReturnUnused(bool wait) { return impl_->ReturnUnused(wait); }

void Allocator::MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) const {
  impl_->MemoryInfo(free_bytes, total_bytes);
}

}  // namespace warpline::stub
