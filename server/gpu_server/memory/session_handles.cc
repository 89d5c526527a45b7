// A session's memory handles: how their chunks come, are shared between sessions, and go.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/frames.h"
#include "server/gpu_server/memory/session_memory.h"

namespace warpline::server {
namespace {

constexpr char kOthersCouldNotComeBack[] =
    "memory that is shared cannot be moved, and others could not come back from the host beside it";

using warpline_internal::MemoryGrant;
using warpline_internal::MemoryRequest;

// Handles that one request may ask for.
constexpr uint64_t kMostHandles = 256;

bool IsChunkClass(uint64_t bytes) {
  return std::find(kChunkClasses.begin(), kChunkClasses.end(), bytes) != kChunkClasses.end();
}

// Takes chunks of exactly `bytes` out of `chunks`, which are in order of size, largest first.
// Nothing when they do not add up.
std::vector<Chunk> TakeExactly(uint64_t bytes, std::vector<Chunk>* chunks) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < chunks->size() && bytes > 0; ++i) {
    if ((*chunks)[i].bytes > bytes) continue;
    bytes -= (*chunks)[i].bytes;
    chosen.push_back(i);
  }
  std::vector<Chunk> taken;
  if (bytes > 0) return taken;
  for (const size_t i : chosen) taken.push_back(std::move((*chunks)[i]));
  std::erase_if(*chunks, [](const Chunk& chunk) { return chunk.fd.get() < 0; });
  return taken;
}

}  // namespace

// Why `more` handles cannot be added; nothing where they can.
std::string SessionMemory::WhyNoMoreHandles(uint64_t more) const {
  const uint64_t most = options_.entitlement.slice.max_handles;
  if (more <= most && handles_.size() <= most - more) return "";
  return absl::StrCat("the session holds ", handles_.size(), " memory handles, and may have ", most,
                      " handles");
}

// Whether the handles from `first` on are the device's.
bool SessionMemory::OfDevice(uint64_t first, uint64_t count) const {
  return DeviceOfHandle(first) == options_.device &&
         DeviceOfHandle(first + count - 1) == options_.device;
}

void SessionMemory::StartCreate(const MemoryRequest& request) {
  const uint64_t bytes = request.min_bytes();
  const uint64_t count = bytes == 0 ? 0 : request.want_bytes() / bytes;
  if (request.va() != 0 || bytes % kChunkGranularity != 0 || count == 0 || count > kMostHandles ||
      count * bytes != request.want_bytes() || !OfDevice(request.handle(), count)) {
    return Answer(0, CudaResult::kInvalidValue, "malformed request for handles");
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (handles_.Has(request.handle() + i)) {
      return Answer(0, CudaResult::kInvalidValue, "a handle exists already");
    }
  }
  if (const std::string why = WhyNoMoreHandles(count); !why.empty()) {
    return Answer(0, CudaResult::kOutOfMemory, why);
  }
  // Only those of one chunk each come out even, several at a time.
  uint64_t want = IsChunkClass(bytes) ? request.want_bytes() : bytes;
  if (options_.entitlement.leased()) {
    const uint64_t left = quota_->limit_bytes() - quota_->used_bytes();
    want = std::min(want, std::max(bytes, left / kSharedPart / bytes * bytes));
  }
  TakeKept(want, bytes);
  const uint64_t got = taken_reservation_.bytes();
  if (got >= bytes) return UseTaken();
  const bool room = chunk_count() < options_.max_chunks;
  Reservation reservation;
  if (room) reservation = quota_->Reserve(bytes - got, want - got, kChunkGranularity);
  if (reservation.bytes() == 0) {
    return RunShort(
        /*quota_short=*/true,
        room ? absl::StrCat(QuotaText(), ", ", bytes, " wanted")
             : absl::StrCat("the session holds ", options_.max_chunks, " chunks already"));
  }
  Take(std::move(reservation), bytes - got, bytes);
}

void SessionMemory::BeginHolding() {
  const MemoryRequest& request = queue_.front().request;
  std::vector<Chunk> chunks = std::exchange(taken_, {});
  Reservation reservation = std::exchange(taken_reservation_, Reservation());
  std::sort(chunks.begin(), chunks.end(),
            [](const Chunk& a, const Chunk& b) { return a.bytes > b.bytes; });
  std::vector<Chunk> complete;
  std::vector<uint64_t> handles;
  const uint64_t count = request.want_bytes() / request.min_bytes();
  for (uint64_t i = 0; i < count; ++i) {
    std::vector<Chunk> taken = TakeExactly(request.min_bytes(), &chunks);
    if (taken.empty()) break;
    handles.insert(handles.end(), taken.size(), request.handle() + i);
    std::move(taken.begin(), taken.end(), std::back_inserter(complete));
  }
  Reservation part = reservation.Split(TotalBytes(complete));
  // What is left over serves another time.
  Keep(std::move(chunks), std::move(reservation));
  if (complete.empty()) {
    return Answer(0, CudaResult::kOutOfMemory,
                  "the device's memory is in pieces that do not add up");
  }
  StartHolding(std::move(complete), std::move(handles), std::move(part));
}

void SessionMemory::StartHolding(std::vector<Chunk> chunks, std::vector<uint64_t> handles,
                                 Reservation reservation) {
  transfer_ = std::make_unique<Transfer>();
  transfer_->kind = Transfer::Kind::kHold;
  transfer_->chunks = std::move(chunks);
  transfer_->handles = std::move(handles);
  transfer_->reservations.push_back(std::move(reservation));
  SendBatch();
}

void SessionMemory::FinishHolding() {
  Transfer& transfer = *transfer_;
  Reservation reservation = std::move(transfer.reservations.front());
  const uint64_t bytes = TotalBytes(transfer.chunks);
  HeldMemory memory;
  for (size_t i = 0; i < transfer.chunks.size(); ++i) {
    memory.chunks.push_back(std::move(transfer.chunks[i]));
    if (i + 1 < transfer.chunks.size() && transfer.handles[i + 1] == transfer.handles[i]) continue;
    memory.reservation = reservation.Split(memory.bytes());
    // A new handle, since that was checked and nothing else of this session came in between.
    handles_.Add(transfer.handles[i], std::exchange(memory, HeldMemory()));
  }
  Answer(bytes, CudaResult::kSuccess, "");
}

void SessionMemory::StartDrop(uint64_t handle) {
  if (options_.shares != nullptr) options_.shares->RemoveHandle(this, handle);
  std::optional<HeldMemory> memory = handles_.Remove(handle);
  if (!memory.has_value()) {
    Done();
    return links_.client->Violated(
        absl::InvalidArgumentError(absl::StrCat("return of handle ", handle, ", not held")));
  }
  transfer_ = std::make_unique<Transfer>();
  transfer_->kind = Transfer::Kind::kDrop;
  transfer_->va = handle;
  transfer_->chunks = std::move(memory->chunks);
  transfer_->reservations.push_back(std::move(memory->reservation));
  SendBatch();
}

// --- Between sessions.

void SessionMemory::StartShare(const MemoryRequest& request) {
  const auto& share = request.share();
  if (options_.shares == nullptr) {
    return Answer(0, CudaResult::kNotSupported, "nothing can be shared here");
  }
  if (share.withdrawn_size() > kMostWithdrawn) {
    Done();
    return links_.client->Violated(
        absl::InvalidArgumentError(absl::StrCat(share.withdrawn_size(), " tokens at once")));
  }
  for (const std::string& token : share.withdrawn()) options_.shares->Remove(token, this);
  Offer offer;
  offer.domain = options_.entitlement.lease;
  offer.device = options_.device_uuid;
  offer.owner = weak_from_this();
  MemoryGrant grant;
  if (share.handle() != 0) {
    offer.handle = share.handle();
    offer.bytes = handles_.BytesOf(share.handle());
    if (offer.bytes == 0) return Answer(0, CudaResult::kInvalidValue, "no such handle");
  } else if (share.bytes() != 0) {
    const auto range = book_.ShareableRange(share.va(), share.bytes());
    if (!range.ok()) {
      return Answer(0, CudaResult::kInvalidValue, std::string(range.status().message()));
    }
    offer.va = range->base;
    offer.bytes = range->bytes;
  }
  const bool stays_already = offer.is_event() || options_.shares->Knows(offer);
  if (!stays_already && !links_.chunks->MayStay(offer.bytes)) {
    return Answer(0, CudaResult::kOutOfMemory, kOthersCouldNotComeBack);
  }
  grant.set_id(request.id());
  grant.set_va(offer.va);
  // An event has none, but an answer without bytes is a refusal.
  grant.set_bytes(std::max(offer.bytes, kChunkGranularity));
  const uint64_t bytes = offer.bytes;
  auto token = options_.shares->Add(std::move(offer));
  if (!token.ok()) {
    return Answer(0, CudaResult::kOutOfMemory, std::string(token.status().message()));
  }
  RecordShare(audit::Event::kMemoryShared, *token, bytes);
  grant.set_token(*std::move(token));
  Done();
  links_.client->Push(std::move(grant));
}

void SessionMemory::RecordShare(audit::Event event, const std::string& token, uint64_t bytes) {
  if (options_.audit == nullptr) return;
  options_.audit->Shared(event, token, bytes, options_.device_uuid);
}

absl::StatusOr<std::vector<Chunk>> SessionMemory::HoldsOf(const Offer& offer) {
  if (ended_) return absl::NotFoundError("its session is over");
  has_shared_ = true;
  if (offer.handle != 0) return handles_.Share(offer.handle);
  auto shared = book_.Share(offer.va, offer.bytes);
  if (!shared.ok()) return shared.status();
  return std::move(shared->chunks);
}

void SessionMemory::StartOpen(const MemoryRequest& request) {
  const auto refuse = [this](absl::string_view why) {
    control_loop.AssertOnLoop();
    Answer(0, CudaResult::kInvalidValue, std::string(why));
  };
  if (options_.shares == nullptr) return refuse("nothing can be shared here");
  const auto offer = options_.shares->Find(request.open(), options_.entitlement.lease);
  if (!offer.ok()) return refuse(offer.status().message());
  if (request.handle() == 0) {
    if (!offer->is_event()) return refuse("the token is not that of an event");
    RecordShare(audit::Event::kMemoryOpened, request.open(), 0);
    return Answer(kChunkGranularity, CudaResult::kSuccess, "");
  }
  const std::shared_ptr<SessionMemory> owner = offer->owner.lock();
  if (owner == nullptr || offer->is_event() || handles_.Has(request.handle())) {
    return refuse("what was offered is gone");
  }
  if (offer->device != options_.device_uuid || !OfDevice(request.handle(), 1)) {
    return refuse("what was offered is memory of another device");
  }
  if (const std::string why = WhyNoMoreHandles(1); !why.empty()) {
    return Answer(0, CudaResult::kOutOfMemory, why);
  }
  if (chunk_count() >= options_.max_chunks) {
    return Answer(0, CudaResult::kOutOfMemory, "the session holds too many chunks already");
  }
  if (!links_.chunks->MayStay(offer->bytes)) {
    return Answer(0, CudaResult::kOutOfMemory, kOthersCouldNotComeBack);
  }
  auto chunks = owner->HoldsOf(*offer);
  if (!chunks.ok()) return refuse(chunks.status().message());
  if (TotalBytes(*chunks) != request.min_bytes() || chunks->empty()) {
    // Holds that are given up again at once; its owner has the chunks.
    return refuse("what was offered is of another size");
  }
  Reservation pieces = quota_->pieces()->Reserve(chunks->size(), chunks->size(), 1);
  if (pieces.bytes() == 0) {
    return RunShort(/*quota_short=*/true, "the quota holds too many chunks already");
  }
  // The quota that covers them may be that of a session which ends before this one.
  uint64_t foreign_bytes = 0;
  for (Chunk& chunk : *chunks) {
    chunk.piece = pieces.Split(1);
    if (chunk.share->quota() != quota_.get()) foreign_bytes += chunk.bytes;
  }
  Reservation reservation = quota_->Reserve(foreign_bytes, foreign_bytes, 1);
  if (reservation.bytes() != foreign_bytes) {
    return RunShort(/*quota_short=*/true,
                    absl::StrCat(QuotaText(), ", and what was offered has ", foreign_bytes));
  }
  has_shared_ = true;
  RecordShare(audit::Event::kMemoryOpened, request.open(), request.min_bytes());
  std::vector<uint64_t> handles(chunks->size(), request.handle());
  StartHolding(*std::move(chunks), std::move(handles), std::move(reservation));
}

}  // namespace warpline::server
