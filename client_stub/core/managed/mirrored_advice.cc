// The part of MirroredMemory that handles the hints of applications.
#include <algorithm>
#include <system_error>

#include "client_stub/core/managed/mirrored_memory.h"
#include "transport/loop_thread.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kPage = Mirror::kPageBytes;
// The bytes that are fetched at a time, while a touch of other pages may have to wait.
constexpr uint64_t kBroughtBytes = 4ull << 20;

uint64_t Up(uint64_t offset) { return (offset + kPage - 1) / kPage * kPage; }

}  // namespace

bool MirroredMemory::FindPages(uint64_t address, uint64_t bytes, Pages* pages) const {
  const Entry* const entry = FindAny(address);
  if (entry == nullptr || !entry->range.managed() || bytes == 0) return false;
  const Range& range = entry->range;
  const Mirror& mirror = *entry->mirror;
  const bool by_host = address - range.host < range.bytes;
  const uint64_t offset = address - (by_host ? mirror.host() : mirror.device());
  if (bytes > mirror.bytes() - offset) return false;
  *pages = {mirror.host(), range.id, offset / kPage * kPage, Up(offset + bytes), 0};
  return true;
}

CUresult MirroredMemory::CheckManaged(uint64_t address, uint64_t bytes) const {
  MutexLock lock(&mu_);
  Pages pages;
  return FindPages(address, bytes, &pages) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult MirroredMemory::Advise(uint64_t address, uint64_t bytes,
                                const std::function<void(Advice*)>& change) {
  MutexLock lock(&mu_);
  Pages pages;
  if (!FindPages(address, bytes, &pages)) return CUDA_ERROR_INVALID_VALUE;
  entries_[pages.range].advice.Change(pages.begin, pages.end, change);
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::AdviceOf(uint64_t address, uint64_t bytes, Advice* advice) const {
  MutexLock lock(&mu_);
  Pages pages;
  if (!FindPages(address, bytes, &pages)) return CUDA_ERROR_INVALID_VALUE;
  *advice = entries_.at(pages.range).advice.Common(pages.begin, pages.end);
  return CUDA_SUCCESS;
}

CUresult MirroredMemory::Prefetch(uint64_t address, uint64_t bytes, const CUmemLocation& to) {
  const CUresult begun = StartPrefetch(address, bytes, to);
  if (begun != CUDA_ERROR_INVALID_VALUE) Renew();
  return begun;
}

CUresult MirroredMemory::StartPrefetch(uint64_t address, uint64_t bytes, const CUmemLocation& to) {
  const Turn turn(this);
  Pages pages;
  Mirror* mirror = nullptr;
  {
    MutexLock lock(&mu_);
    if (!FindPages(address, bytes, &pages)) return CUDA_ERROR_INVALID_VALUE;
    Entry& entry = entries_[pages.range];
    mirror = entry.mirror.get();
    entry.advice.Change(pages.begin, pages.end, [&to](Advice* advice) { advice->prefetched = to; });
    if (to.type != CU_MEM_LOCATION_TYPE_DEVICE) {
      if (mirror->AnyOnDevice(pages.begin, pages.end - pages.begin)) BringLater(pages);
      return CUDA_SUCCESS;
    }
    std::erase_if(coming_, [&](const Pages& coming) {
      return coming.id == pages.id && coming.begin < pages.end && pages.begin < coming.end;
    });
  }
  const CUresult given = mirror->GiveToDevice(pages.begin, pages.end - pages.begin);
  const CUresult ordered = streams_.Order();
  return given == CUDA_SUCCESS ? ordered : given;
}

CUresult MirroredMemory::Discard(uint64_t address, uint64_t bytes, bool to_host) {
  const Turn turn(this);
  MutexLock lock(&mu_);
  Pages pages;
  if (!FindPages(address, bytes, &pages)) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t offset = pages.begin + address % kPage;
  const uint64_t begin = Up(offset);
  const uint64_t end = (offset + bytes) / kPage * kPage;
  if (begin < end) entries_[pages.range].mirror->Discard(begin, end - begin, to_host);
  return CUDA_SUCCESS;
}

// ---- Prefetches to the host.

void MirroredMemory::BringLater(const Pages& pages) {
  if (!prefetches_) {
    try {
      StartLoopThread("wl-prefetch", [this] { RunPrefetches(); }).detach();
      prefetches_ = true;
    } catch (const std::system_error&) {
      return;  // The pages come when they are touched.
    }
  }
  coming_.push_back(pages);
  coming_.back().seq = commands_->last_seq();
  CountLocked();
  any_coming_.NotifyOne();
}

// Fetches pages as a touch of them would, but earlier.
void MirroredMemory::RunPrefetches() {
  while (true) {
    {
      MutexLock lock(&mu_);
      while (coming_.empty()) any_coming_.Wait(&mu_);
    }
    // Waits at least for the work that was asked for before the prefetch. Later work that may write
    // the pages ends the prefetch.
    AwaitWork();
    MutexLock lock(&mu_);
    if (status_->error() != CudaResult::kSuccess) {
      coming_.clear();
      CountLocked();
    }
    // Another prefetch may have taken its place.
    if (!coming_.empty() && commands_->Retired(kNoStream, coming_.front().seq)) BringSome();
  }
}

void MirroredMemory::BringSome() {
  const Pages next = coming_.front();
  const auto same = [&next](const Pages& pages) {
    return pages.id == next.id && pages.end == next.end && pages.seq == next.seq;
  };
  Wish wish(this, /*wanted=*/true);
  Entry* const entry = Await(wish, next.range);
  if (!WorkComplete()) return;
  // Work may have ended it meanwhile.
  if (coming_.empty() || !same(coming_.front()) || coming_.front().begin != next.begin) return;
  if (entry == nullptr || entry->range.id != next.id) {
    coming_.pop_front();
    CountLocked();
    return;
  }
  const uint64_t bytes = std::min(next.end - next.begin, kBroughtBytes);
  coming_.front().begin += bytes;
  if (coming_.front().begin == next.end) coming_.pop_front();
  const CUresult fetched = Fetch(
      entry, [&](Mirror* mirror) { return mirror->Fetch(next.begin, bytes, /*write=*/false); });
  if (fetched == CUDA_SUCCESS) return;
  std::erase_if(coming_, same);
  CountLocked();
}

}  // namespace warpline::stub
