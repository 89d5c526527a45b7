#include "client_stub/core/memory/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

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
  WatchLocked(ranges_[AddressOf(memory)]);
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

void HostMemory::AddInArena(void* base, uint64_t bytes, unsigned int flags) {
  MutexLock lock(&mu_);
  Range& range = ranges_[AddressOf(base)];
  range = {base, bytes, flags, false, next_id_++};
  range.kept = true;
  range.in_arena = true;
  WatchLocked(range);
}

void HostMemory::WatchLocked(const Range& range) {
  const uint64_t begin = AddressOf(range.base);
  const uint64_t end = begin + range.bytes + 1;
  Span& span = IsApart(range) ? apart_span_ : arena_span_;
  if (begin < span.low.load()) span.low.store(begin);
  if (end > span.high.load()) span.high.store(end);
  (IsApart(range) ? apart_ : in_arena_).fetch_add(1);
  additions_.fetch_add(1, std::memory_order_release);
}

void HostMemory::SetOwner(void* base, uint32_t owner, const Context* context) {
  MutexLock lock(&mu_);
  const auto it = ranges_.find(AddressOf(base));
  if (it == ranges_.end()) return;
  it->second.owner = owner;
  it->second.context = context;
}

std::vector<HostMemory::Range> HostMemory::RangesOf(const Context* context) const {
  std::vector<Range> found;
  MutexLock lock(&mu_);
  for (const auto& [address, range] : ranges_) {
    if (range.context == context) found.push_back(range);
  }
  return found;
}

// ---- Memory that is the host's alone.

bool HostMemory::FindHosts(uint64_t address, Range* range) const {
  MutexLock lock(&mu_);
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return false;
  const Range& before = std::prev(after)->second;
  if (before.refused || (!IsApart(before) && before.device != 0)) return false;
  if (address - AddressOf(before.base) > before.bytes) return false;
  *range = before;
  return true;
}

bool HostMemory::HostsArena(uint64_t address) const {
  if (!arena_span_.Holds(address)) return false;
  MutexLock lock(&mu_);
  const auto it = FindLocked(reinterpret_cast<const void*>(address));
  return it != ranges_.end() && it->second.in_arena && it->second.device == 0;
}

HostMemory::Use::Use(HostMemory* memory, uint64_t address) : memory_(memory) {
  if (!memory->MayBeHosts(address)) return;
  MutexLock lock(&memory->mu_);
  while (true) {
    const auto it = memory->FindLocked(reinterpret_cast<const void*>(address));
    if (it == memory->ranges_.end() || it->second.device != 0) return;
    if (!it->second.leaving) {
      base_ = it->first;
      ++memory->ranges_[base_].uses;
      return;
    }
    memory->changed_.Wait(&memory->mu_);
  }
}

HostMemory::Use::~Use() {
  if (base_ == 0) return;
  MutexLock lock(&memory_->mu_);
  const auto it = memory_->ranges_.find(base_);
  if (it == memory_->ranges_.end() || it->second.uses == 0) return;
  if (--it->second.uses == 0) memory_->changed_.NotifyAll();
}

bool HostMemory::BeginGive(uint64_t base, Range* range) {
  MutexLock lock(&mu_);
  while (true) {
    const auto it = ranges_.find(base);
    if (it == ranges_.end() || it->second.device != 0) return false;
    if (it->second.uses == 0 && !it->second.leaving) {
      it->second.leaving = true;
      *range = it->second;
      return true;
    }
    changed_.Wait(&mu_);
  }
}

void HostMemory::EndGive(uint64_t base, uint64_t device, bool refused) {
  MutexLock lock(&mu_);
  const auto it = ranges_.find(base);
  if (it == ranges_.end()) return;
  it->second.leaving = false;
  it->second.device = device;
  it->second.refused = refused;
  if (device != 0 && it->second.in_arena) in_arena_.fetch_sub(1);
  changed_.NotifyAll();
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
  WatchLocked(ranges_[begin]);
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
    if (IsApart(range)) apart_.fetch_sub(1);
    if (range.in_arena && range.device == 0) in_arena_.fetch_sub(1);
    ranges_.erase(it);
    changed_.NotifyAll();
  }
  if (!range.registered && !range.kept) munmap(range.base, MappedBytes(range.bytes));
  return true;
}

}  // namespace warpline::stub
