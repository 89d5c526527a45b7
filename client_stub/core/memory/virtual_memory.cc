#include "client_stub/core/memory/virtual_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "proto/frames.h"

namespace warpline::stub {

VirtualMemory::VirtualMemory(Session* session, std::vector<Allocator*> allocators)
    : terms_(session->terms()),
      commands_(&session->commands()),
      status_(&session->status()),
      memory_(&session->memory()),
      notices_(&session->notices()),
      allocators_(std::move(allocators)) {
  notices_->SetUnmappedCallback([this](uint64_t token) {
    MutexLock lock(&done_mu_);
    done_.push_back(token);
  });
}

VirtualMemory::~VirtualMemory() { notices_->SetUnmappedCallback(nullptr); }

// --- Addresses.

Allocator* VirtualMemory::AllocatorAt(uint64_t address) const {
  const auto count = static_cast<uint32_t>(allocators_.size());
  const uint64_t device = DeviceOfAddress(address, terms_.arena_base, terms_.arena_bytes, count);
  return device < count ? allocators_[device] : nullptr;
}

CudaResult VirtualMemory::Reserve(uint32_t device, uint64_t bytes, uint64_t alignment,
                                  uint64_t wanted, uint64_t* address) {
  if (bytes == 0 || bytes % kChunkGranularity != 0 || (alignment & (alignment - 1)) != 0) {
    return CudaResult::kInvalidValue;
  }
  MutexLock lock(&mu_);
  Collect();
  Allocator* first = AllocatorAt(wanted);
  if (first == nullptr) first = allocators_[device];
  alignment = std::max(alignment, kChunkGranularity);
  CudaResult result = first->ReserveAddresses(bytes, alignment, wanted, address);
  for (Allocator* const other : allocators_) {
    if (result != CudaResult::kOutOfMemory) break;
    if (other != first) result = other->ReserveAddresses(bytes, alignment, 0, address);
  }
  if (result == CudaResult::kSuccess) reservations_[*address].bytes = bytes;
  return result;
}

CudaResult VirtualMemory::FreeAddresses(uint64_t address, uint64_t bytes) {
  MutexLock lock(&mu_);
  Collect();
  const auto it = reservations_.find(address);
  if (it == reservations_.end() || it->second.freed || it->second.bytes != bytes ||
      AnyMapped(address, bytes)) {
    return CudaResult::kInvalidValue;
  }
  if (it->second.leaving > 0) {
    it->second.freed = true;
    return CudaResult::kSuccess;
  }
  AllocatorAt(address)->ReleaseAddresses(address);
  reservations_.erase(it);
  return CudaResult::kSuccess;
}

VirtualMemory::Reservations::iterator VirtualMemory::ReservationOf(uint64_t address,
                                                                   uint64_t bytes) {
  auto it = reservations_.upper_bound(address);
  if (it == reservations_.begin()) return reservations_.end();
  --it;
  const uint64_t offset = address - it->first;
  if (it->second.freed || offset > it->second.bytes || bytes > it->second.bytes - offset) {
    return reservations_.end();
  }
  return it;
}

// --- Mappings.

VirtualMemory::Mappings::const_iterator VirtualMemory::MappingAt(uint64_t address) const {
  auto it = mappings_.upper_bound(address);
  if (it == mappings_.begin()) return mappings_.end();
  --it;
  return address - it->first < it->second.bytes ? it : mappings_.end();
}

bool VirtualMemory::AnyMapped(uint64_t address, uint64_t bytes) const {
  const auto next = mappings_.lower_bound(address);
  return (next != mappings_.end() && next->first - address < bytes) ||
         MappingAt(address) != mappings_.end();
}

bool VirtualMemory::AnyLeaving(uint64_t address, uint64_t bytes) const {
  const auto next = leaving_ranges_.lower_bound(address);
  if (next != leaving_ranges_.end() && next->first - address < bytes) return true;
  return next != leaving_ranges_.begin() &&
         address - std::prev(next)->first < std::prev(next)->second;
}

CudaResult VirtualMemory::Map(uint64_t address, uint64_t bytes, uint64_t handle) {
  while (true) {
    {
      MutexLock lock(&mu_);
      Collect();
      const auto it = handles_.find(handle);
      if (it == handles_.end() || it->second.references == 0) return CudaResult::kInvalidValue;
      if (bytes == 0 || bytes % kChunkGranularity != 0 || address % kChunkGranularity != 0 ||
          bytes > it->second.bytes || ReservationOf(address, bytes) == reservations_.end() ||
          AnyMapped(address, bytes)) {
        return CudaResult::kInvalidValue;
      }
      if (bytes < it->second.bytes) return CudaResult::kNotSupported;
      if (!AnyLeaving(address, bytes)) {
        ++it->second.mapped;
        mappings_[address] = {bytes, handle, next_id_++};
        changes_.fetch_add(1, std::memory_order_release);
        return CudaResult::kSuccess;
      }
    }
    // The former mapping may still be in use.
    if (const CudaResult result = WaitForUnmaps(); result != CudaResult::kSuccess) return result;
  }
}

std::vector<VirtualMemory::Mappings::iterator> VirtualMemory::Whole(uint64_t address,
                                                                    uint64_t bytes) {
  std::vector<Mappings::iterator> whole;
  uint64_t covered = 0;
  for (auto it = mappings_.find(address);
       it != mappings_.end() && it->first == address + covered && covered < bytes; ++it) {
    whole.push_back(it);
    covered += it->second.bytes;
  }
  if (bytes == 0 || covered != bytes) whole.clear();
  return whole;
}

CudaResult VirtualMemory::Unmap(uint64_t address, uint64_t bytes) {
  MutexLock lock(&mu_);
  const auto whole = Whole(address, bytes);
  if (whole.empty()) {
    // As in the driver, unmapping reserved addresses with nothing mapped succeeds.
    const bool nothing =
        bytes > 0 && bytes % kChunkGranularity == 0 && address % kChunkGranularity == 0 &&
        ReservationOf(address, bytes) != reservations_.end() && !AnyMapped(address, bytes);
    return nothing ? CudaResult::kSuccess : CudaResult::kInvalidValue;
  }
  for (const auto it : whole) {
    const auto [va, mapped] = *it;
    mappings_.erase(it);
    changes_.fetch_add(1, std::memory_order_release);
    Handle& handle = handles_[mapped.handle];
    --handle.mapped;
    if (mapped.sent) {
      const uint64_t token = next_token_++;
      ++handle.leaving;
      leaving_[token] = {va, mapped.handle};
      leaving_ranges_[va] = mapped.bytes;
      ++ReservationOf(va, mapped.bytes)->second.leaving;
      if (commands_->Send(cmd::MemoryUnmap{va, token}) == 0) return status_->error();
    }
    Settle(mapped.handle);
  }
  Collect();
  return CudaResult::kSuccess;
}

// The worker has no use for a mapping that nothing may access.
CudaResult VirtualMemory::Send(Mappings::iterator mapping) {
  Mapped& mapped = mapping->second;
  uint32_t access = kNoAccess;
  for (const uint8_t each : mapped.access) access |= each;  // Writing includes reading.
  if (access == mapped.access_sent) return CudaResult::kSuccess;
  const uint64_t seq =
      mapped.sent
          ? commands_->Send(cmd::MemoryAccess{mapping->first, access, 0})
          : commands_->Send(cmd::MemoryMap{mapping->first, mapped.bytes, mapped.handle, access, 0});
  if (seq == 0) return status_->error();
  mapped.sent = true;
  mapped.access_sent = access;
  return CudaResult::kSuccess;
}

CudaResult VirtualMemory::SetAccess(uint64_t address, uint64_t bytes, uint32_t device,
                                    uint32_t access) {
  MutexLock lock(&mu_);
  const auto whole = Whole(address, bytes);
  if (whole.empty()) return CudaResult::kInvalidValue;
  const RemoteDevice& remote = terms_.device(device);
  for (const auto it : whole) {
    const uint32_t owner = DeviceOfHandle(it->second.handle);
    const bool able = owner == device || (remote.peers >> owner & 1) != 0;
    if (access != kNoAccess && !able) return CudaResult::kInvalidDevice;
  }
  for (const auto it : whole) {
    it->second.access[device] = static_cast<uint8_t>(access);
    if (const CudaResult result = Send(it); result != CudaResult::kSuccess) return result;
  }
  return CudaResult::kSuccess;
}

bool VirtualMemory::Find(uint64_t address, Mapping* mapping) const {
  MutexLock lock(&mu_);
  const auto it = MappingAt(address);
  if (it == mappings_.end()) return false;
  const Mapped& mapped = it->second;
  *mapping = {it->first, mapped.bytes, mapped.access, mapped.handle};
  mapping->id = mapped.id;
  if (const auto handle = handles_.find(mapped.handle); handle != handles_.end()) {
    mapping->handle_types = handle->second.handle_types;
  }
  return true;
}

std::vector<CheckedRange> VirtualMemory::MappedRanges() const {
  MutexLock lock(&mu_);
  std::vector<CheckedRange> ranges;
  for (const auto& [address, mapped] : mappings_) {
    ranges.push_back({address, address + mapped.bytes});
  }
  return ranges;
}

bool VirtualMemory::Contains(uint64_t address, uint64_t bytes) const {
  MutexLock lock(&mu_);
  const uint64_t end = address + bytes;
  if (end < address) return false;
  auto it = MappingAt(address);
  for (uint64_t at = address; it != mappings_.end() && it->first <= at; ++it) {
    if (it->second.access_sent == kNoAccess) return false;
    at = it->first + it->second.bytes;
    if (at >= end) return true;
  }
  return false;
}

CudaResult VirtualMemory::WaitForUnmaps() {
  const CudaResult result = commands_->Call(WaitKind::kFree, cmd::ContextSync{});
  if (result != CudaResult::kSuccess) return result;
  MutexLock lock(&mu_);
  Collect();
  return CudaResult::kSuccess;
}

}  // namespace warpline::stub
