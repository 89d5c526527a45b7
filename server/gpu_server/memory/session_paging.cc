// The part of SessionMemory that moves what a session has mapped to the host and back.
//
// While the worker is at rest, the pager copies the chunks. Then the worker unmaps them, and they
// are given back like those of a worker that is gone. An error before the last step leaves all as
// it was. Other chunks are filled before the worker maps them at the same addresses. Chunks that
// other sessions have, or may open, stay where they are: those sessions go on.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/packets/packet_socket.h"
#include "proto/frames.h"
#include "server/gpu_server/memory/session_memory.h"
#include "server/gpu_server/memory/share_book.h"

namespace warpline::server {
namespace {

// The most bytes that a session's worker may have said to have unmapped without the device showing
// them to be free. The device's count is uncertain by so much when contexts of others open at that
// time (memory/quarantine.cc).
constexpr uint64_t kMostUnseen = uint64_t{1} << 30;
// Handles in one message, which fits into a packet.
constexpr int kMostReleased = 1000;

// The chunks of its arena that a session shares or offers, for questions in order of address.
class Staying {
 public:
  // `shares` may be null; otherwise it stays as it is meanwhile.
  Staying(const ShareBook* shares, const SessionMemory* owner, const Quota* quota)
      RUNS_ON(control_loop)
      : quota_(quota) {
    if (shares != nullptr) offered_ = shares->OfferedRanges(owner);
  }
  // Returns true if `chunk` at `va` is among them. REQUIRES: `va` is not below that of an earlier
  // question.
  bool Has(uint64_t va, const Chunk& chunk) {
    while (!offered_.empty() && offered_.front().base + offered_.front().bytes <= va) {
      offered_.remove_prefix(1);
    }
    const bool offered = !offered_.empty() && offered_.front().base < va + chunk.bytes;
    return offered || IsShared(chunk, quota_);
  }

 private:
  const Quota* const quota_;
  absl::Span<const ArenaRange> offered_;
};

CudaResult ResultOfReturn(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return CudaResult::kOutOfMemory;
  if (absl::IsUnavailable(status)) return CudaResult::kDeviceUnavailable;
  return CudaResult::kLaunchFailed;
}

}  // namespace

uint64_t SessionMemory::away_bytes() const {
  uint64_t bytes = 0;
  if (paged_ == nullptr) return bytes;
  for (const Paged::Range& range : paged_->ranges) bytes += range.bytes;
  return bytes;
}

uint64_t SessionMemory::total_bytes() const {
  uint64_t bytes = backed_bytes() + kept_bytes_ + away_bytes() + asked_bytes_;
  bytes += taken_reservation_.bytes();
  if (transfer_ != nullptr && transfer_->giving()) bytes += TotalBytes(transfer_->chunks);
  return bytes;
}

uint64_t SessionMemory::held_bytes() const {
  uint64_t bytes = book_.backed_bytes() + handles_.bytes() + kept_bytes_ + asked_bytes_;
  bytes += TotalBytes(taken_);
  if (transfer_ != nullptr) bytes += TotalBytes(transfer_->chunks);
  if (paged_ != nullptr) bytes += TotalBytes(*paged_->chunks);
  return bytes;
}

bool SessionMemory::Backs(uint64_t va, uint64_t bytes) const {
  if (paged_ == nullptr) return book_.Backs(va, bytes);
  const uint64_t end = va + bytes;
  if (end < va) return false;
  auto range = paged_->ranges.begin();
  while (va < end) {
    uint64_t next = book_.EndOfGrant(va);
    while (range != paged_->ranges.end() && range->handle == 0 && range->va + range->bytes <= va) {
      ++range;
    }
    if (range != paged_->ranges.end() && range->handle == 0 && range->va <= va) {
      next = range->va + range->bytes;
    }
    if (next == va) return false;
    va = next;
  }
  return true;
}

bool SessionMemory::HandleStays(uint64_t handle, const HeldMemory& memory) const {
  // Another session could not open it while it is away.
  if (options_.shares != nullptr && options_.shares->OffersHandle(this, handle)) return true;
  return std::any_of(memory.chunks.begin(), memory.chunks.end(),
                     [this](const Chunk& chunk) { return IsShared(chunk, quota_.get()); });
}

uint64_t SessionMemory::StayingBytes(SharesSeen* seen) const {
  const bool offers = options_.shares != nullptr && options_.shares->OffersMemory(this);
  uint64_t bytes = 0;
  if (!offers && !has_shared_) return bytes;
  const auto count = [&](const Chunk& chunk) {
    const bool counted =
        seen != nullptr && chunk.share != nullptr && !seen->insert(chunk.share.get()).second;
    if (!counted) bytes += chunk.bytes;
  };
  Staying staying(options_.shares, this, quota_.get());
  book_.ForEachChunk([&](uint64_t va, const Chunk& chunk) {
    if (staying.Has(va, chunk)) count(chunk);
  });
  handles_.ForEach([&](uint64_t handle, const HeldMemory& memory) {
    control_loop.AssertOnLoop();
    if (!HandleStays(handle, memory)) return;
    for (const Chunk& chunk : memory.chunks) count(chunk);
  });
  for (const auto& [share, chunk] : kept_shared_) count(chunk);
  return bytes;
}

std::string SessionMemory::WhyNotPageable() const {
  if (paged_ != nullptr) return "its memory is on its way already";
  if (suspended_) return "its worker is being replaced";
  if (busy_ && !short_) return "it is asking for memory or gives some back";
  return WhyNotMovable();
}

std::string SessionMemory::WhyNotMovable() const {
  if (abandoned_ || ended_) return "it has ended";
  return limbo_.empty() ? "" : "its worker failed to map some of its memory";
}

void SessionMemory::PageOut(std::function<void(absl::Status)> done) {
  const std::string why = WhyNotPageable();
  if (!why.empty()) return done(absl::FailedPreconditionError(why));
  if (chunk_bytes() == TotalBytes(kept_)) {
    GiveUpKept(/*worker_gone=*/false);
    return done(absl::OkStatus());
  }
  suspended_ = true;
  if (std::exchange(short_, false)) {
    // The request is tried again once the memory is back.
    ++try_;
    busy_ = false;
    links_.chunks->StopWaiting();
  }
  paged_ = std::make_unique<Paged>();
  paged_->done = std::move(done);
  const auto add = [this](uint64_t va, uint64_t handle, std::vector<Chunk> chunks,
                          Reservation reservation) {
    control_loop.AssertOnLoop();
    paged_->ranges.push_back(
        {va, handle, TotalBytes(chunks), chunks.size(), std::move(reservation)});
    std::move(chunks.begin(), chunks.end(), std::back_inserter(*paged_->chunks));
  };
  book_.EndShares(quota_.get());
  handles_.EndShares(quota_.get());
  Staying staying(options_.shares, this, quota_.get());
  for (Grant& grant :
       book_.TakeIf([&](uint64_t va, const Chunk&chunk) { return !staying.Has(va, chunk); })) {
    add(grant.va, 0, std::move(grant.chunks), std::move(grant.reservation));
  }
  for (auto& [handle, memory] : handles_.TakeIf([&](uint64_t handle, const HeldMemory&memory) {
         control_loop.AssertOnLoop();
         return !HandleStays(handle, memory);
       })) {
    add(0, handle, std::move(memory.chunks), std::move(memory.reservation));
  }
  links_.chunks->MoveOut(paged_->chunks, paged_->away,
                         [self = shared_from_this()](const absl::Status& status) {
                           control_loop.AssertOnLoop();
                           self->OnMovedOut(status);
                         });
}

std::unique_ptr<SessionMemory::Paged> SessionMemory::Restore() {
  std::unique_ptr<Paged> paged = std::move(paged_);
  auto chunk = std::make_move_iterator(paged->chunks->begin());
  for (Paged::Range& range : paged->ranges) {
    const auto end = chunk + static_cast<std::ptrdiff_t>(range.chunks);
    std::vector<Chunk> chunks(chunk, end);
    chunk = end;
    // Accepted, since nothing else of this session came in between.
    if (range.handle != 0) {
      handles_.Add(range.handle, {std::move(chunks), std::move(range.reservation)});
    } else {
      (void)book_.Add({range.va, std::move(chunks), std::move(range.reservation)});
    }
  }
  return paged;
}

void SessionMemory::OnMovedOut(const absl::Status& status) {
  if (ended_) return EndPaged();
  if (status.ok() && !paged_->worker_lost) {
    paged_->phase = Paged::Phase::kUnmapping;
    return SendUnmapping();
  }
  const auto paged = Restore();
  if (paged->worker_lost) {
    paged->done(absl::AbortedError("its worker was lost meanwhile"));
    return paged->worker_lost(absl::OkStatus());
  }
  suspended_ = false;
  paged->done(status);
  Next();
}

void SessionMemory::SendUnmapping() {
  Paged& paged = *paged_;
  warpline_internal::ToWorker message;
  paged.in_batch = 0;
  // Finds the next range that is still mapped, and the first chunk in it that is.
  size_t index = paged.unmapped;
  auto range = paged.ranges.begin();
  for (; index >= range->chunks; ++range) index -= range->chunks;
  if (range->handle != 0) {
    auto* const release = message.mutable_release();
    release->set_id(++transfer_id_);
    for (; range != paged.ranges.end() && release->handle_size() < kMostReleased; ++range) {
      release->add_handle(range->handle);
      paged.in_batch += range->chunks;
    }
    (void)links_.worker->Send(message, {});
    return;
  }
  auto* const unmap = message.mutable_unmap();
  unmap->set_id(++transfer_id_);
  const auto first = paged.chunks->begin() + static_cast<std::ptrdiff_t>(paged.unmapped - index);
  unmap->set_va(range->va);
  for (size_t i = 0; i < index; ++i) unmap->set_va(unmap->va() + first[i].bytes);
  for (size_t i = index; i < range->chunks && paged.in_batch < kMaxPacketFds; ++i) {
    unmap->add_chunk_bytes(first[i].bytes);
    ++paged.in_batch;
  }
  // Where it fails the worker is lost, which is about to be told.
  (void)links_.worker->Send(message, {});
}

void SessionMemory::OnUnmapped(CudaResult result) {
  // A guarded worker, which is trusted, does nothing while it cannot tell that no kernel runs.
  if (result == CudaResult::kNotReady && options_.at_once && paged_->unmapped == 0) {
    const auto paged = Restore();
    suspended_ = false;
    paged->done(absl::FailedPreconditionError("its kernels do not seem to be complete yet"));
    return Next();
  }
  if (result != CudaResult::kSuccess) {
    return Restore()->done(absl::InternalError(
        absl::StrCat("its worker cannot unmap its memory: ", CudaResultName(result))));
  }
  paged_->unmapped += paged_->in_batch;
  if (paged_->unmapped < paged_->chunks->size()) return SendUnmapping();
  paged_->phase = Paged::Phase::kAway;
  for (Chunk& chunk : *paged_->chunks) paged_->pieces.push_back(std::move(chunk.piece));
  std::vector<Chunk> chunks = std::exchange(*paged_->chunks, {});
  links_.chunks->ReturnUnmapped(std::move(chunks), [self = shared_from_this()](uint64_t missing) {
    control_loop.AssertOnLoop();
    self->unseen_bytes_ += missing;
    if (self->ended_ || self->unseen_bytes_ <= kMostUnseen) return;
    self->links_.client->Violated(absl::PermissionDeniedError(absl::StrCat(
        "its worker keeps ", self->unseen_bytes_, " bytes that it said it had unmapped")));
  });
  // It was unmapped by the worker's word alone, too.
  GiveUpKept(/*worker_gone=*/false);
  std::exchange(paged_->done, nullptr)(absl::OkStatus());
}

void SessionMemory::ShowAway(std::function<void(absl::StatusOr<AwayShown>)> shown) {
  if (paged_ != nullptr && paged_->phase == Paged::Phase::kStoring) {
    // Called again once the file is left alone.
    paged_->away->wanted = true;
    paged_->shows = std::move(shown);
    return;
  }
  const bool in_file =
      paged_ != nullptr && paged_->phase == Paged::Phase::kAway && paged_->away->file != nullptr;
  if (!in_file) return shown(Shown());
  paged_->phase = Paged::Phase::kFetching;
  links_.chunks->Fetch(paged_->away, [self = shared_from_this(),
                                      shown = std::move(shown)](const absl::Status& status) {
    control_loop.AssertOnLoop();
    if (self->ended_) return self->EndPaged();
    self->paged_->phase = Paged::Phase::kAway;
    shown(status.ok() ? self->Shown() : status);
    if (self->paged_ != nullptr && self->paged_->worker_lost) self->Come();
  });
}

absl::StatusOr<SessionMemory::AwayShown> SessionMemory::Shown() const {
  if (!queue_.empty()) return absl::AbortedError("its client asks for memory");
  if (book_.backed_bytes() + handles_.bytes() + kept_bytes_ > 0 || !limbo_.empty()) {
    return absl::FailedPreconditionError("other sessions have some of its memory, too");
  }
  AwayShown shown;
  if (paged_ == nullptr) return shown;
  if (paged_->phase != Paged::Phase::kAway || paged_->comes) {
    return absl::AbortedError("its memory is on its way");
  }
  for (const Paged::Range& range : paged_->ranges) {
    shown.ranges.push_back({range.va, range.handle, range.bytes});
  }
  shown.memory = paged_->away;
  return shown;
}

absl::Status SessionMemory::AdoptAway(const AwayShown& from) {
  suspended_ = true;
  if (from.ranges.empty()) return absl::OkStatus();
  auto paged = std::make_unique<Paged>();
  paged->phase = Paged::Phase::kAway;
  std::set<uint64_t> handles;
  uint64_t bytes = 0;
  uint64_t end = options_.arena.base;
  for (const AwayRange& range : from.ranges) {
    const bool in_arena = range.handle == 0;
    // In the order of PageOut().
    const bool fits = in_arena
                          ? handles.empty() && range.va >= end &&
                                book_.CheckRequest(range.va, range.bytes, range.bytes).ok()
                          : range.bytes % kChunkGranularity == 0 && range.bytes > 0 &&
                                OfDevice(range.handle, 1) && handles.insert(range.handle).second;
    if (!fits) return absl::InvalidArgumentError("memory that no session has");
    if (in_arena) end = range.va + range.bytes;
    Reservation reservation = quota_->Reserve(range.bytes, range.bytes, kChunkGranularity);
    if (reservation.bytes() < range.bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("its memory does not fit into the quota of ", quota_->limit_bytes()));
    }
    paged->ranges.push_back({range.va, range.handle, range.bytes, 0, std::move(reservation)});
    bytes += range.bytes;
  }
  if (from.memory == nullptr || from.memory->bytes() != bytes) {
    return absl::InvalidArgumentError("memory of another size than its ranges");
  }
  paged->away = from.memory;
  paged_ = std::move(paged);
  return absl::OkStatus();
}

void SessionMemory::PageIn(std::function<void(absl::Status)> done) {
  BeginTaking(/*maps=*/true, std::move(done));
}

void SessionMemory::BringBack(std::function<void(absl::Status)> done) {
  BeginTaking(/*maps=*/false, std::move(done));
}

void SessionMemory::BeginTaking(bool maps, std::function<void(absl::Status)> done) {
  if (paged_ == nullptr) return done(absl::OkStatus());
  if (paged_->phase != Paged::Phase::kAway && paged_->phase != Paged::Phase::kStoring) {
    return done(absl::FailedPreconditionError("its memory is on its way already"));
  }
  paged_->done = std::move(done);
  paged_->maps = maps;
  Come();
}

void SessionMemory::Store(std::function<void(absl::Status)> stored) {
  if (paged_ == nullptr || paged_->phase != Paged::Phase::kAway) return;
  if (paged_->away->file != nullptr || paged_->away->held_bytes() == 0) return;
  paged_->phase = Paged::Phase::kStoring;
  paged_->away->wanted = false;
  links_.chunks->Store(paged_->away, [self = shared_from_this(),
                                      stored = std::move(stored)](const absl::Status& status) {
    control_loop.AssertOnLoop();
    if (self->ended_) return self->EndPaged();
    self->paged_->phase = Paged::Phase::kAway;
    stored(status);
    if (self->paged_->shows) return self->ShowAway(std::exchange(self->paged_->shows, nullptr));
    if (self->paged_->comes) self->Come();
  });
}

void SessionMemory::Come() {
  paged_->comes = true;
  if (paged_->phase == Paged::Phase::kStoring) {
    paged_->away->wanted = true;  // Come() is called again once the file is left alone.
    return;
  }
  if (paged_->away->file == nullptr) {
    paged_->phase = Paged::Phase::kTaking;
    return TakeRange(0);
  }
  paged_->phase = Paged::Phase::kFetching;
  links_.chunks->Fetch(paged_->away, [self = shared_from_this()](const absl::Status& status) {
    control_loop.AssertOnLoop();
    self->OnFetched(status);
  });
}

void SessionMemory::OnFetched(const absl::Status& status) {
  if (ended_) return EndPaged();
  if (status.ok()) return Come();
  // Host memory is free again some time. Otherwise the session's memory is lost.
  StayAway(absl::IsResourceExhausted(status)
               ? status
               : absl::InternalError(absl::StrCat("its memory cannot be read back: ",
                                                  std::string(status.message()))));
}

void SessionMemory::TakeRange(size_t index) {
  if (index == paged_->ranges.size()) {
    if (absl::Status taken = TakePieces(); !taken.ok()) return StayAway(taken);
    paged_->phase = Paged::Phase::kMovingIn;
    return links_.chunks->MoveIn(paged_->chunks, paged_->away,
                                 [self = shared_from_this()](const absl::Status& status) {
                                   control_loop.AssertOnLoop();
                                   self->OnMovedIn(status);
                                 });
  }
  const uint64_t bytes = paged_->ranges[index].bytes;
  links_.chunks->Take(bytes, bytes, kChunkClasses.front(),
                      [self = shared_from_this(), index](absl::StatusOr<std::vector<Chunk>> taken) {
                        control_loop.AssertOnLoop();
                        if (!taken.ok()) {
                          return self->ended_ ? self->EndPaged() : self->StayAway(taken.status());
                        }
                        self->paged_->ranges[index].chunks = taken->size();
                        std::move(taken->begin(), taken->end(),
                                  std::back_inserter(*self->paged_->chunks));
                        return self->ended_ ? self->EndPaged() : self->TakeRange(index + 1);
                      });
}

absl::Status SessionMemory::TakePieces() {
  const size_t count = paged_->chunks->size();
  if (count > paged_->pieces.size()) {
    const uint64_t more = count - paged_->pieces.size();
    Reservation pieces = quota_->pieces()->Reserve(more, more, 1);
    if (pieces.bytes() < more) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the quota of ", quota_->limit_bytes(), " bytes may be held in ",
                       quota_->pieces()->limit_bytes(), " chunks, which are in use"));
    }
    for (uint64_t i = 0; i < more; ++i) paged_->pieces.push_back(pieces.Split(1));
  }
  for (size_t i = 0; i < count; ++i) (*paged_->chunks)[i].piece = std::move(paged_->pieces[i]);
  paged_->pieces.clear();
  return absl::OkStatus();
}

void SessionMemory::StayAway(const absl::Status& status) {
  paged_->phase = Paged::Phase::kAway;
  paged_->comes = false;
  for (Chunk& chunk : *paged_->chunks) {
    if (chunk.piece.bytes() > 0) paged_->pieces.push_back(std::move(chunk.piece));
  }
  std::vector<Chunk> chunks = std::exchange(*paged_->chunks, {});
  links_.chunks->ReturnUnused(std::move(chunks));
  const auto done = std::exchange(paged_->done, nullptr);
  const auto worker_lost = std::exchange(paged_->worker_lost, nullptr);
  if (done) done(status);
  if (worker_lost) worker_lost(status);
}

void SessionMemory::OnMovedIn(const absl::Status& status) {
  if (ended_) return EndPaged();
  if (!status.ok()) {
    // They are not zeroed any more, so nobody else gets them.
    std::vector<Chunk> chunks = std::exchange(*paged_->chunks, {});
    for (Chunk& chunk : chunks) paged_->pieces.push_back(std::move(chunk.piece));
    links_.chunks->Return(std::move(chunks), {});
    return StayAway(status);
  }
  const auto paged = Restore();
  if (paged->worker_lost) {
    if (paged->done) paged->done(absl::AbortedError("its worker was lost meanwhile"));
    return paged->worker_lost(absl::OkStatus());
  }
  if (!paged->maps) return paged->done(absl::OkStatus());
  BeginAgain(/*go_on=*/true, /*handles=*/true, [done = paged->done](CudaResult result) {
    done(result == CudaResult::kSuccess
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat("its worker cannot map its memory again: ",
                                                CudaResultName(result))));
  });
  // The worker has what stayed.
  std::map<uint64_t, uint64_t> ends;  // By address.
  std::set<uint64_t> handles;
  for (const Paged::Range& range : paged->ranges) {
    if (range.handle != 0) {
      handles.insert(range.handle);
    } else {
      ends[range.va] = range.va + range.bytes;
    }
  }
  std::erase_if(again_->chunks, [&](const Again::Item& item) {
    if (item.handle != 0) return !handles.contains(item.handle);
    const auto next = ends.upper_bound(item.va);
    return next == ends.begin() || std::prev(next)->second <= item.va;
  });
  SendAgain();
}

void SessionMemory::MapAgainAfterPaging(bool go_on, std::function<void(CudaResult)> done) {
  const auto go_on_with = [self = shared_from_this(), go_on,
                           done = std::move(done)](const absl::Status& status) {
    control_loop.AssertOnLoop();
    if (self->ended_) return;
    if (!status.ok()) return done(ResultOfReturn(status));
    self->MapAgain(go_on, done);
  };
  switch (paged_->phase) {
    case Paged::Phase::kMovingOut:
    case Paged::Phase::kFetching:
    case Paged::Phase::kTaking:
    case Paged::Phase::kMovingIn:
      paged_->worker_lost = go_on_with;
      return;
    case Paged::Phase::kUnmapping:
      Restore()->done(absl::AbortedError("its worker was lost meanwhile"));
      return go_on_with(absl::OkStatus());
    case Paged::Phase::kAway:
    case Paged::Phase::kStoring:
      paged_->worker_lost = go_on_with;
      return Come();
  }
}

void SessionMemory::EndPaged() {
  if (paged_ == nullptr) return;
  paged_->away->wanted = true;
  // Otherwise called again once nobody uses the chunks.
  if (std::exchange(paged_->ends, true) || paged_->phase == Paged::Phase::kUnmapping ||
      paged_->phase == Paged::Phase::kAway) {
    const auto paged = std::move(paged_);
    std::vector<Reservation> bill;
    for (Paged::Range& range : paged->ranges) bill.push_back(std::move(range.reservation));
    links_.chunks->Return(std::move(*paged->chunks), std::move(bill));
  }
}

}  // namespace warpline::server
