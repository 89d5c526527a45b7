#include "client_stub/arena/allocator_impl.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/devices.h"
#include "proto/frames.h"
#include "proto/guard.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kLargestStep = 1024 * kMiB;
constexpr uint64_t kSmallestStep = 64 * kMiB;

// One fence is under way at a time, unless this much has been freed since.
constexpr uint64_t kMaxUnfencedBlocks = 32;
constexpr uint64_t kMaxUnfencedBytes = 32 * kMiB;

// Grants of this size go back when this much else is free, and nothing was requested for a while: a
// program that frees and allocates in turns must not pay two round trips for it.
constexpr uint64_t kLeastReturned = 64 * kMiB;
constexpr uint64_t kKeptFree = 1024 * kMiB;
constexpr absl::Duration kQuietBeforeReturn = absl::Seconds(10);
constexpr absl::Duration kBetweenReturns = absl::Seconds(1);

uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Returns the size of each device's part of the arena.
uint64_t PartBytes(const SessionTerms& terms) {
  return DeviceArenaBytes(terms.arena_bytes, static_cast<uint32_t>(terms.devices.size()));
}

// Returns how much of that the client has for itself.
uint64_t HeapBytes(const SessionTerms& terms) {
  const uint64_t part = PartBytes(terms);
  const bool guarded = (terms.features & kFeatureGuard) != 0;
  return part - (guarded ? ModuleRoomBytes(part) : 0) - 2 * kArenaMargin;
}

}  // namespace

Allocator::Impl::Impl(Session* session, uint32_t device, Clock clock)
    : commands_(&session->commands()),
      memory_(&session->memory()),
      notices_(&session->notices()),
      counters_(&session->counters()),
      device_(device),
      returns_memory_(!session->terms().HasAllMemory()),
      clock_(std::move(clock)),
      quota_bytes_(session->terms().device(device).total_bytes),
      shown_bytes_(session->terms().device(device).ShownBytes()),
      heap_(session->terms().arena_base + device * PartBytes(session->terms()) + kArenaMargin,
            HeapBytes(session->terms())),
      last_growth_(absl::InfinitePast()),
      last_trim_(absl::InfinitePast()) {
  if (device == 0) heap_.AddGrant(session->terms().initial_grant);
  notices_->SetFreedCallback(device, [this](uint64_t of_device) {
    const uint64_t token = of_device - HandleOnDevice(device_, 0);
    // Only the session's loop writes it.
    if (token > freed_token_.load(std::memory_order_relaxed)) {
      freed_token_.store(token, std::memory_order_release);
    }
  });
}

Allocator::Impl::~Impl() { notices_->SetFreedCallback(device_, nullptr); }

CudaResult Allocator::Impl::Allocate(uint64_t bytes, const uint64_t* stream, uint64_t* address) {
  if (bytes == 0) return CudaResult::kInvalidValue;
  if (bytes > quota_bytes_) {
    NoteRefused(bytes);
    return CudaResult::kOutOfMemory;
  }
  const uint64_t needed = Round(bytes);
  Block* block = nullptr;
  // Only this thread uses a block under construction, but Find() walks past it.
  const auto finish = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    block->asked_bytes = bytes;
    block->stream_ordered = stream != nullptr;
    live_bytes_ += block->bytes;
    *address = block->base;
  };
  bool found = false;
  {
    SpinMutexLock lock(&mu_);
    if (stream != nullptr) block = TakeFromStream(needed, *stream);
    if (block == nullptr) {
      ReclaimFenced();
      block = TakeFree(needed, HasOwn(needed));
    }
    if (block != nullptr) {
      finish();
      found = true;
    }
  }
  if (!found) {
    const CudaResult result = Obtain(needed, &block);
    if (result != CudaResult::kSuccess) return result;
    SpinMutexLock lock(&mu_);
    finish();
  }
  counters_->allocated_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return CudaResult::kSuccess;
}

uint64_t Allocator::Impl::Round(uint64_t bytes) const {
  const uint64_t rounded = RoundUp(bytes, kAllocationUnit);
  return HasOwn(rounded) ? RoundUp(rounded, kChunkGranularity) : rounded;
}

Block* Allocator::Impl::TakeFree(uint64_t bytes, bool own) {
  return own ? heap_.TakeOwn(bytes) : heap_.Take(bytes);
}

Block* Allocator::Impl::TakeFromStream(uint64_t bytes, uint64_t stream) {
  if (stream_free_blocks_ == 0) return nullptr;
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return nullptr;
  Block* block = it->second->Take(bytes);
  if (block != nullptr) --stream_free_blocks_;
  return block;
}

CudaResult Allocator::Impl::Obtain(uint64_t bytes, Block** block) {
  MutexLock grow(&grow_mu_);
  bool asked = false;
  const auto out_of_memory = [&] {
    if (!asked) NoteRefused(bytes);
    return CudaResult::kOutOfMemory;
  };
  for (bool waited = false;; waited = true) {
    for (bool returned = false;; returned = true) {
      const CudaResult result = Grow(bytes, block, &asked);
      if (result != CudaResult::kOutOfMemory || returned) {
        if (result != CudaResult::kOutOfMemory) return result;
        break;
      }
      SpinMutexLock lock(&mu_);
      if (!ReturnForGrowth(bytes)) break;
    }
    if (waited) return out_of_memory();
    bool waits;
    {
      SpinMutexLock lock(&mu_);
      waits = !retiring_.empty() || stream_free_blocks_ != 0;
    }
    if (!waits) return out_of_memory();
    if (const CudaResult result = WaitForRetirement(); result != CudaResult::kSuccess) {
      return result;
    }
  }
}

// The second attempt may get what the first does not: behind other free memory, and in pieces that
// the server keeps for the session and that are too large for less.
CudaResult Allocator::Impl::Grow(uint64_t bytes, Block** block, bool* asked) {
  const CudaResult result = GrowBy(bytes, HasOwn(bytes) ? Kind::kOwn : Kind::kShared, block, asked);
  if (result != CudaResult::kOutOfMemory) return result;
  return GrowBy(bytes, Kind::kAny, block, asked);
}

// Makes one attempt: takes memory that has retired meanwhile, and otherwise requests some.
CudaResult Allocator::Impl::GrowBy(uint64_t bytes, Kind kind, Block** block, bool* asked) {
  const bool own = kind == Kind::kOwn;
  Heap::Growth growth;
  {
    SpinMutexLock lock(&mu_);
    *block = TakeFree(bytes, own);  // Another thread may have got more.
    if (*block != nullptr) return CudaResult::kSuccess;
    ReclaimAll();
    *block = TakeFree(bytes, own);
    if (*block != nullptr) return CudaResult::kSuccess;
    // Free grants of other sizes are of no use to this one.
    if (own) {
      for (const Grant& unused : heap_.TakeReturnable(kLeastOwn, kKeptFree)) {
        memory_->ReturnMemory(unused);
      }
      // The server makes it a part of the next grant, so that a process of a lease holds no idle
      // grant beside a large allocation.
      for (const Grant& unused : heap_.TakeUnusedShared(kLeastOwn)) memory_->ReturnMemory(unused);
    }
    growth = Plan(bytes, kind);
  }
  if (growth.space == nullptr) return CudaResult::kOutOfMemory;
  Grant grant;
  *asked = true;
  const CudaResult result =
      memory_->RequestMemory(growth.space->base, growth.min_bytes, growth.want_bytes, &grant);
  SpinMutexLock lock(&mu_);
  if (result != CudaResult::kSuccess) {
    heap_.CancelGrowth(growth);
    return result;
  }
  last_growth_ = clock_();
  *block = heap_.CommitGrowth(growth, grant.bytes, bytes);
  return CudaResult::kSuccess;
}

Heap::Growth Allocator::Impl::Plan(uint64_t bytes, Kind kind) {
  const uint64_t left = QuotaLeft();
  switch (kind) {
    case Kind::kOwn:
      return heap_.PlanOwn(bytes, left);
    case Kind::kShared:
      // A session with much in small allocations asks for much, so that requests grow scarcer than
      // the memory does, and one with little holds little in vain.
      return heap_.PlanGrowth(
          bytes, std::clamp(std::min(left / 8, heap_.shared_bytes()), kSmallestStep, kLargestStep),
          left);
    case Kind::kAny:
      break;
  }
  return heap_.PlanGrowth(bytes, RoundUp(bytes, kLargestStep), left);
}

void Allocator::Impl::NoteRefused(uint64_t bytes) {
  uint64_t used;
  bool within_quota;
  {
    SpinMutexLock lock(&mu_);
    used = heap_.granted_bytes();
    within_quota = bytes <= QuotaLeft();
  }
  memory_->NoteRefusedMemory(
      CudaResult::kOutOfMemory,
      within_quota ? absl::StrCat("no range of the arena is free for ", bytes, " bytes")
                   : absl::StrCat("quota of ", quota_bytes_, " bytes: ", used, " in use, ", bytes,
                                  " wanted"));
}

uint64_t Allocator::Impl::QuotaLeft() const {
  const uint64_t granted = heap_.granted_bytes();
  const uint64_t left = quota_bytes_ > granted ? quota_bytes_ - granted : 0;
  return left - left % kChunkGranularity;
}

// Called when memory is free but in pieces: gives whole grants back so that a contiguous one can be
// asked for.
bool Allocator::Impl::ReturnForGrowth(uint64_t bytes) {
  if (!returns_memory_) return false;
  const uint64_t returnable = heap_.ReturnableBytes(kChunkGranularity);
  if (returnable == 0 || QuotaLeft() + returnable < bytes) return false;
  for (const Grant& grant : heap_.TakeReturnable(kChunkGranularity, 0)) {
    memory_->ReturnMemory(grant);
  }
  return true;
}

CudaResult Allocator::Impl::WaitForRetirement() {
  const uint64_t seq = commands_->last_seq();
  const CudaResult result = commands_->Call(WaitKind::kFree, cmd::ContextSync{});
  if (result != CudaResult::kSuccess) return result;
  SpinMutexLock lock(&mu_);
  retired_seq_ = std::max(retired_seq_, seq);
  return CudaResult::kSuccess;
}

Block* Allocator::Impl::EndAllocation(uint64_t address) {
  Block* block = heap_.Find(address);
  if (block == nullptr || block->base != address || block->state != BlockState::kLive) {
    return nullptr;
  }
  live_bytes_ -= block->bytes;
  return block;
}

CudaResult Allocator::Impl::Free(uint64_t address) {
  uint64_t token = 0;
  {
    SpinMutexLock lock(&mu_);
    Block* block = EndAllocation(address);
    if (block == nullptr) return CudaResult::kInvalidValue;
    const uint64_t seq = commands_->last_seq();
    if (commands_->Retired(kNoStream, seq)) {
      Reclaim(block);  // The session is idle.
    } else {
      Retire(block, seq);
      token = DueFence();
    }
  }
  SendFence(token);
  return CudaResult::kSuccess;
}

void Allocator::Impl::Retire(Block* block, uint64_t seq) {
  block->state = BlockState::kRetiring;
  block->seq = seq;
  block->token = next_token_;
  retiring_.PushBack(block);
  ++unfenced_blocks_;
  unfenced_bytes_ += block->bytes;
}

uint64_t Allocator::Impl::DueFence() {
  const bool under_way = freed_token_.load(std::memory_order_acquire) + 1 < next_token_;
  if (unfenced_blocks_ == 0 ||
      (under_way && unfenced_blocks_ < kMaxUnfencedBlocks && unfenced_bytes_ < kMaxUnfencedBytes)) {
    return 0;
  }
  unfenced_blocks_ = 0;
  unfenced_bytes_ = 0;
  return next_token_++;
}

// Fences of two threads may change places on their way. Each was numbered after the blocks that it
// covers were freed, so a later number still covers all blocks before it.
void Allocator::Impl::SendFence(uint64_t token) {
  if (token != 0) commands_->Send(cmd::FreeFence{HandleOnDevice(device_, token)});
}

bool Allocator::Impl::Retired(const Block& block, uint64_t stream) const {
  return block.seq <= retired_seq_ || commands_->Retired(stream, block.seq);
}

void Allocator::Impl::Reclaim(Block* block) {
  heap_.Put(block);
  if (heap_.free_bytes() > kKeptFree + kLeastReturned) Trim();
}

void Allocator::Impl::Trim() {
  if (!returns_memory_) return;
  const absl::Time now = clock_();
  if (now - last_growth_ < kQuietBeforeReturn || now - last_trim_ < kBetweenReturns) return;
  last_trim_ = now;
  for (const Grant& grant : heap_.TakeReturnable(kLeastReturned, kKeptFree)) {
    memory_->ReturnMemory(grant);
  }
}

void Allocator::Impl::ReclaimFenced() {
  if (retiring_.empty()) return;
  // A token that was never sent proves nothing.
  const uint64_t freed = std::min(freed_token_.load(std::memory_order_acquire), next_token_ - 1);
  while (Block* block = retiring_.front()) {
    if (block->token > freed) return;
    retiring_.Remove(block);
    Reclaim(block);
  }
}

void Allocator::Impl::ReclaimAll() {
  ReclaimFenced();
  while (Block* block = retiring_.front()) {
    if (!Retired(*block, kNoStream)) break;
    retiring_.Remove(block);
    Reclaim(block);
  }
  if (stream_free_blocks_ == 0) return;
  for (auto& [stream, cache] : streams_) {
    while (Block* block = cache->oldest()) {
      if (!Retired(*block, stream)) break;
      cache->Remove(block);
      --stream_free_blocks_;
      Reclaim(block);
    }
  }
}

CudaResult Allocator::Impl::FreeAsync(uint64_t address, uint64_t stream) {
  SpinMutexLock lock(&mu_);
  Block* block = EndAllocation(address);
  if (block == nullptr) return CudaResult::kInvalidValue;
  std::unique_ptr<StreamCache>& cache = streams_[stream];
  if (cache == nullptr) cache = std::make_unique<StreamCache>();
  cache->Put(block, commands_->last_seq());
  ++stream_free_blocks_;
  return CudaResult::kSuccess;
}

void Allocator::Impl::ForgetStream(uint64_t stream) {
  uint64_t token;
  {
    SpinMutexLock lock(&mu_);
    const auto it = streams_.find(stream);
    if (it == streams_.end()) return;
    const uint64_t seq = commands_->last_seq();
    while (Block* block = it->second->oldest()) {
      it->second->Remove(block);
      --stream_free_blocks_;
      Retire(block, seq);
    }
    streams_.erase(it);
    token = DueFence();
  }
  SendFence(token);
}

bool Allocator::Impl::Find(uint64_t address, Allocation* allocation) const {
  SpinMutexLock lock(&mu_);
  const Block* block = heap_.Find(address);
  if (block == nullptr || block->state != BlockState::kLive) return false;
  if (address - block->base >= block->asked_bytes) return false;
  *allocation = {block->base, block->asked_bytes, block->stream_ordered};
  return true;
}

bool Allocator::Impl::Contains(uint64_t address, uint64_t bytes) const {
  Allocation allocation;
  return Find(address, &allocation) && bytes <= allocation.bytes - (address - allocation.base);
}

void Allocator::Impl::MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) const {
  SpinMutexLock lock(&mu_);
  *total_bytes = shown_bytes_;
  *free_bytes = shown_bytes_ > live_bytes_ ? shown_bytes_ - live_bytes_ : 0;
}

}  // namespace warpline::stub
