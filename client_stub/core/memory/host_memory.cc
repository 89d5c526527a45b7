#include "client_stub/core/memory/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace warpline::stub {
namespace {

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

uint64_t MappedBytes(uint64_t bytes) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

CUresult HostMemory::Allocate(uint64_t bytes, unsigned int flags, void** base) {
  *base = nullptr;
  if (bytes == 0) return CUDA_SUCCESS;
  if (bytes > uint64_t{1} << 62) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory =
      mmap(nullptr, MappedBytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  MutexLock lock(&mu_);
  ranges_[AddressOf(memory)] = {memory, bytes, flags, false, next_id_++};
  *base = memory;
  return CUDA_SUCCESS;
}

void HostMemory::Add(void* base, uint64_t bytes, unsigned int flags, uint64_t device, bool shared) {
  MutexLock lock(&mu_);
  Range& range = ranges_[AddressOf(base)];
  range = {base, bytes, flags, false, next_id_++};
  range.kept = true;
  range.device = device;
  range.shared = shared;
}

void HostMemory::SetOwner(void* base, uint32_t owner) {
  MutexLock lock(&mu_);
  const auto it = ranges_.find(AddressOf(base));
  if (it != ranges_.end()) it->second.owner = owner;
}

void HostMemory::SetDevice(void* base, uint64_t device) {
  MutexLock lock(&mu_);
  const auto it = ranges_.find(AddressOf(base));
  if (it != ranges_.end()) it->second.device = device;
}

CUresult HostMemory::Register(void* base, uint64_t bytes, unsigned int flags) {
  const uint64_t begin = AddressOf(base);
  if (base == nullptr || bytes == 0 || begin + bytes < begin) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(&mu_);
  const auto next = ranges_.lower_bound(begin);
  const bool overlaps_next = next != ranges_.end() && next->first < begin + bytes;
  const auto overlapped = overlaps_next ? next : FindLocked(base);
  if (overlapped != ranges_.end()) {
    return overlapped->second.registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                         : CUDA_ERROR_INVALID_VALUE;
  }
  ranges_[begin] = {base, bytes, flags, true, next_id_++};
  return CUDA_SUCCESS;
}

std::map<uint64_t, HostMemory::Range>::const_iterator HostMemory::FindLocked(
    const void* address) const {
  auto it = ranges_.upper_bound(AddressOf(address));
  if (it == ranges_.begin()) return ranges_.end();
  --it;
  return AddressOf(address) - it->first < it->second.bytes ? it : ranges_.end();
}

bool HostMemory::Find(const void* address, Range* range) const {
  MutexLock lock(&mu_);
  const auto it = FindLocked(address);
  if (it == ranges_.end()) return false;
  *range = it->second;
  return true;
}

bool HostMemory::Contains(const void* address, uint64_t bytes) const {
  MutexLock lock(&mu_);
  const auto it = FindLocked(address);
  return it != ranges_.end() && bytes <= it->second.bytes - (AddressOf(address) - it->first);
}

void HostMemory::NoteCopy(const void* address, uint64_t bytes, uint64_t seq) {
  MutexLock lock(&mu_);
  const auto it = FindLocked(address);
  if (it == ranges_.end()) return;
  Range& range = ranges_[it->first];
  range.last_copy = std::max(range.last_copy, seq);
  range.copied_begin = std::min(range.copied_begin, AddressOf(address));
  range.copied_end = std::max(range.copied_end, AddressOf(address) + bytes);
}

bool HostMemory::Remove(void* base) {
  Range range;
  {
    MutexLock lock(&mu_);
    const auto it = ranges_.find(AddressOf(base));
    if (it == ranges_.end()) return false;
    range = it->second;
    ranges_.erase(it);
  }
  if (!range.registered && !range.kept) munmap(range.base, MappedBytes(range.bytes));
  return true;
}

}  // namespace warpline::stub
