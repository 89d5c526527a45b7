#include "client_stub/core/registered/registered_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "client_stub/core/managed/fault_handler.h"
#include "client_stub/core/memory/process_maps.h"
#include "client_stub/core/registered/fault_blocking.h"
#include "client_stub/core/registered/page_exchange.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace warpline::stub {
namespace {

constexpr uint64_t kPage = 4096;
// Pages are moved so many at once: writers wait no longer than their copy takes.
constexpr uint64_t kPart = 512 << 10;
// A thread's control block, at most.
constexpr uint64_t kControlBlock = 4096;
// What the stack must have below the pages that are moved, so that the kernel can go on growing it.
constexpr size_t kStackBelow = 128 << 10;
// So much of the stack above a fork's handlers may still be written before they end.
constexpr uint64_t kStackAbove = 64 << 10;

RegisteredMemory* g_memory = nullptr;

uint64_t Down(uint64_t address) { return address / kPage * kPage; }
uint64_t Up(uint64_t address) { return Down(address + kPage - 1); }

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// Whether the process has locked memory, or had devices pin some: a page that is moved would be so
// no more, and a network card would go on with the former one.
bool LocksMemory() {
  std::ifstream status("/proc/self/status");
  std::string line;
  int told = 0;
  while (std::getline(status, line)) {
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "VmLck: %" SCNu64, &kib) != 1 &&
        std::sscanf(line.c_str(), "VmPin: %" SCNu64, &kib) != 1) {
      continue;
    }
    if (kib != 0) return true;
    ++told;
  }
  return told != 2;
}

// The kernel writes to the control block of a thread that it moves to another processor, and ends
// the thread when it cannot.
bool HoldsControlBlock(uint64_t begin, uint64_t end) {
  const auto block = reinterpret_cast<uint64_t>(__builtin_thread_pointer());
  return begin < block + kControlBlock && block < end;
}

// Called on the first thread's stack alone: others may be smaller.
__attribute__((noinline)) void GrowStack() {
  char below[kStackBelow];
  below[0] = 0;
  asm volatile("" : : "r"(below) : "memory");  // It is used, says this.
}

// Another mapping of shared memory, anywhere.
uint64_t MapAgain(uint64_t shared, uint64_t bytes) {
  void* const got = mremap(Pointer(shared), 0, bytes, MREMAP_MAYMOVE);
  if (got == MAP_FAILED) return 0;
  // Its child must have the heap's pages.
  if (madvise(got, bytes, MADV_DOFORK) != 0) {
    munmap(got, bytes);
    return 0;
  }
  return reinterpret_cast<uint64_t>(got);
}

uint64_t MapOwn(uint64_t bytes) {
  void* const got =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return got == MAP_FAILED ? 0 : reinterpret_cast<uint64_t>(got);
}

// Puts the mapping at `with` in the place of [at, at + bytes) part by part, with the bytes that are
// there. Returns how many bytes came to be there; the rest of the mapping is gone.
uint64_t Exchange(uint64_t at, uint64_t with, uint64_t bytes) {
  const SignalsBlocked blocked;
  uint64_t done = 0;
  while (done < bytes) {
    const uint64_t part = std::min(kPart, bytes - done);
    // Otherwise the copy would fault at each page while writers wait. Kernels before 5.14 refuse.
    madvise(Pointer(with + done), part, MADV_POPULATE_WRITE);
    const WritesHeld held(at + done, at + done + part);
    if (!ExchangePages(at + done, with + done, part)) break;
    done += part;
  }
  if (done < bytes) munmap(Pointer(with + done), bytes - done);
  return done;
}

// Makes the shared pages in [begin, end) the process's own. Returns false when some are still
// shared.
bool ExchangeForOwn(uint64_t begin, uint64_t end) {
  const uint64_t own = MapOwn(end - begin);
  return own != 0 && Exchange(begin, own, end - begin) == end - begin;
}

}  // namespace

RegisteredMemory::PagesMap::iterator RegisteredMemory::PagesOf(uint64_t begin, uint64_t end) {
  const auto next = pages_.upper_bound(begin);
  if (next == pages_.begin()) return pages_.end();
  const auto pages = std::prev(next);
  return end <= pages->first + pages->second.bytes ? pages : pages_.end();
}

CudaResult RegisteredMemory::Move(uint64_t begin, uint64_t end, PagesMap::iterator* moved) {
  std::vector<ProcessMapping> mappings;
  if (!MappingsAt(begin, end, &mappings) || !IsPlainMemory(mappings, begin, end) ||
      HoldsControlBlock(begin, end) || LocksMemory()) {
    return CudaResult::kNotSupported;
  }
  Pages pages;
  pages.bytes = end - begin;
  const CudaResult allocated = shared_->AllocateForProgram(pages.bytes, &pages.shared);
  if (allocated != CudaResult::kSuccess) return allocated;
  if (MayBeFirstStack(begin, end) && RunsOnFirstStack()) GrowStack();
  const uint64_t with = MapAgain(pages.shared, pages.bytes);
  const uint64_t done = with == 0 ? 0 : Exchange(begin, with, pages.bytes);
  if (done == pages.bytes) {
    WatchForks();
    *moved = pages_.emplace(begin, pages).first;
    return CudaResult::kSuccess;
  }
  if (done == 0 || ExchangeForOwn(begin, begin + done)) {
    shared_->Free(pages.shared);
  } else {
    // What cannot come back either stays shared for good.
    WatchForks();
    pages.bytes = done;
    pages_.emplace(begin, pages);
  }
  return CudaResult::kNotSupported;
}

CudaResult RegisteredMemory::Share(uint64_t host, uint64_t bytes, uint64_t* device) {
  const bool there = IsShared(host, bytes);
  // It may take a while, in which other memory is registered and used.
  const bool may_move = !there && AwaitFaultsUnblocked();
  const uint64_t begin = Down(host);
  const uint64_t end = Up(host + bytes);
  MutexLock lock(&mu_);
  if (const auto known = ranges_.find(host); known != ranges_.end()) {
    *device = known->second.device;  // Two threads asked at the same time.
    return CudaResult::kSuccess;
  }
  auto pages = PagesOf(begin, end);
  if (pages == pages_.end()) {
    if (!may_move) return CudaResult::kNotSupported;
    const CudaResult moved = Move(begin, end, &pages);
    if (moved != CudaResult::kSuccess) return moved;
  } else if (!AllStillShared(*pages)) {
    return CudaResult::kNotSupported;
  }
  ++pages->second.ranges;
  *device = pages->second.shared + (host - pages->first);
  ranges_[host] = {host, *device, bytes};
  any_.fetch_add(1);
  return CudaResult::kSuccess;
}

bool RegisteredMemory::IsShared(uint64_t host, uint64_t bytes) {
  MutexLock lock(&mu_);
  return PagesOf(Down(host), Up(host + bytes)) != pages_.end();
}

std::vector<RegisteredMemory::Extent> RegisteredMemory::StillShared(uint64_t begin,
                                                                    const Pages& pages) {
  std::vector<Extent> extents;
  std::vector<ProcessMapping> shared, mappings;
  if (!MappingsAt(pages.shared, pages.shared + 1, &shared) ||
      !MappingsAt(begin, begin + pages.bytes, &mappings)) {
    return {{begin, begin + pages.bytes}};
  }
  if (shared.empty()) return extents;  // In the child of a fork.
  const uint64_t first = shared[0].offset + (pages.shared - shared[0].begin);
  for (const ProcessMapping& mapping : mappings) {
    const uint64_t from = std::max(begin, mapping.begin);
    const uint64_t offset = mapping.offset + (from - mapping.begin);
    if (!mapping.is_private && mapping.inode == shared[0].inode &&
        offset == first + (from - begin)) {
      extents.push_back({from, std::min(begin + pages.bytes, mapping.end)});
    }
  }
  return extents;
}

bool RegisteredMemory::AllStillShared(const PagesMap::value_type& pages) {
  uint64_t bytes = 0;
  for (const Extent& extent : StillShared(pages.first, pages.second)) {
    bytes += extent.end - extent.begin;
  }
  return bytes == pages.second.bytes;
}

void RegisteredMemory::GiveBack(uint64_t host) {
  MutexLock lock(&mu_);
  const auto range = ranges_.find(host);
  if (range == ranges_.end()) return;
  const auto pages = PagesOf(Down(host), Up(host + range->second.bytes));
  ranges_.erase(range);
  any_.fetch_sub(1);
  if (pages == pages_.end() || --pages->second.ranges > 0) return;
  for (const Extent& extent : StillShared(pages->first, pages->second)) {
    // What cannot come back stays shared, until another range in these pages ends.
    if (!ExchangeForOwn(extent.begin, extent.end)) return;
  }
  shared_->Free(pages->second.shared);
  pages_.erase(pages);
}

bool RegisteredMemory::Find(uint64_t address, Range* range) const {
  if (any_.load(std::memory_order_relaxed) == 0) return false;
  MutexLock lock(&mu_);
  const auto found = std::find_if(ranges_.begin(), ranges_.end(), [address](const auto& entry) {
    const Range& candidate = entry.second;
    return address - candidate.host < candidate.bytes ||
           address - candidate.device < candidate.bytes;
  });
  if (found == ranges_.end()) return false;
  *range = found->second;
  return true;
}

uint64_t RegisteredMemory::Translate(uint64_t address) const {
  MutexLock lock(&mu_);
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return address;
  const Range& range = std::prev(next)->second;
  return address - range.host < range.bytes ? range.device + (address - range.host) : address;
}

// ---- Forks. The lock is held from before a fork until after it.

void RegisteredMemory::WatchForks() {
  if (watches_forks_) return;
  watches_forks_ = true;
  g_memory = this;
  pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild);
}

void RegisteredMemory::BeforeFork() {
  RegisteredMemory& memory = *g_memory;
  memory.mu_.Lock();
  memory.to_copy_.clear();
  memory.in_use_.clear();
  // Parent and child go on from here on this part of the stack, before the child can copy anything.
  const uint64_t stack = Down(reinterpret_cast<uint64_t>(__builtin_frame_address(0)));
  for (const auto& [begin, pages] : memory.pages_) {
    for (const Extent& extent : StillShared(begin, pages)) {
      const bool in_use = extent.begin < stack + kStackAbove && stack < extent.end + kStackBelow;
      if (in_use && ExchangeForOwn(extent.begin, extent.end)) {
        memory.in_use_.push_back({extent, pages.shared + (extent.begin - begin)});
      } else {
        memory.to_copy_.push_back(extent);
      }
    }
  }
  if (memory.to_copy_.empty() || pipe2(memory.copied_, O_CLOEXEC) != 0) {
    memory.copied_[0] = memory.copied_[1] = -1;
  }
}

void RegisteredMemory::AfterForkInParent() {
  RegisteredMemory& memory = *g_memory;
  if (memory.copied_[1] >= 0) {
    close(memory.copied_[1]);
    // Ends when the child has its copy, and when there is no child.
    char none;
    while (read(memory.copied_[0], &none, sizeof(none)) < 0 && errno == EINTR) {
    }
    close(memory.copied_[0]);
  }
  for (const InUse& pages : memory.in_use_) {
    const uint64_t bytes = pages.extent.end - pages.extent.begin;
    const uint64_t with = MapAgain(pages.shared, bytes);
    if (with != 0) Exchange(pages.extent.begin, with, bytes);
  }
  memory.mu_.Unlock();
}

// The child has no part in what was registered (initialization.h), so nothing is looked up here any
// more. Its own children find nothing shared.
void RegisteredMemory::AfterForkInChild() {
  RegisteredMemory& memory = *g_memory;
  for (const Extent& extent : memory.to_copy_) ExchangeForOwn(extent.begin, extent.end);
  if (memory.copied_[1] >= 0) {
    close(memory.copied_[0]);
    close(memory.copied_[1]);
  }
  memory.any_.store(0);
  memory.mu_.Unlock();
}

}  // namespace warpline::stub
