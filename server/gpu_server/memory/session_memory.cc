#include "server/gpu_server/memory/session_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/packets/packet_socket.h"
#include "common/steady_time.h"
#include "proto/frames.h"

namespace warpline::server {

using warpline_internal::MemoryGrant;
using warpline_internal::MemoryRequest;
using warpline_internal::MemoryReturn;
using warpline_internal::ToWorker;

void SessionMemory::TakeOwn(uint64_t bytes, const std::function<void(absl::Status)>& taken) {
  TryTakeOwn(bytes, std::make_shared<Operation>(), taken);
}

void SessionMemory::TryTakeOwn(uint64_t bytes, std::shared_ptr<Operation> operation,
                               std::function<void(absl::Status)> taken) {
  const auto run_short = [self = shared_from_this(), bytes, operation, taken](bool quota_short,
                                                                              std::string why) {
    control_loop.AssertOnLoop();
    const MemoryRelief relief =
        self->Relieve(bytes, quota_short, operation.get(),
                      [self, bytes, operation, taken](const absl::Status& moved) {
                        control_loop.AssertOnLoop();
                        if (!moved.ok()) operation->nothing_moves = std::string(moved.message());
                        if (!self->ended_) self->TryTakeOwn(bytes, operation, taken);
                      });
    if (relief.kind == MemoryRelief::Kind::kNone || relief.kind == MemoryRelief::Kind::kRefused) {
      taken(absl::ResourceExhaustedError(why));
    }
  };
  if (links_.chunks->MostGrowth(/*stays=*/true) < bytes) {
    return taken(absl::ResourceExhaustedError(
        "others could not come back from the host beside what cannot be moved"));
  }
  // Shared, since functions must be copyable.
  const auto own = std::make_shared<Reservation>(quota_->Reserve(bytes, bytes, 1));
  if (own->bytes() < bytes) return run_short(/*quota_short=*/true, QuotaText());
  links_.chunks->Claim(bytes, [self = shared_from_this(), own, taken, run_short](bool claimed) {
    control_loop.AssertOnLoop();
    if (!claimed) {
      own->ShrinkTo(0);
      return run_short(/*quota_short=*/false, "the device has too little left");
    }
    self->own_ = std::move(*own);
    taken(absl::OkStatus());
  });
}

void SessionMemory::Request(MemoryRequest request) {
  Operation operation;
  operation.request = std::move(request);
  Enqueue(std::move(operation));
}

void SessionMemory::Return(const MemoryReturn& request) {
  Operation operation;
  operation.is_return = true;
  operation.returned = request;
  Enqueue(std::move(operation));
}

void SessionMemory::Enqueue(Operation operation) {
  if (ended_) return;
  if (abandoned_) return links_.client->Done();
  queue_.push_back(std::move(operation));
  if (!busy_) Next();
}

void SessionMemory::Abandon() {
  if (ended_ || abandoned_) return;
  abandoned_ = true;
  Suspend();
  again_.reset();
  for (; !queue_.empty(); queue_.pop_front()) links_.client->Done();
}

void SessionMemory::BeginAgain(bool go_on, bool handles, std::function<void(CudaResult)> done) {
  again_ = std::make_unique<Again>();
  again_->go_on = go_on;
  again_->finished = std::move(done);
  book_.ForEachChunk([this](uint64_t va, const Chunk& chunk) {
    control_loop.AssertOnLoop();
    again_->chunks.push_back({va, 0, &chunk});
  });
  if (handles) {
    handles_.ForEachChunk([this](uint64_t handle, const Chunk& chunk) {
      control_loop.AssertOnLoop();
      again_->chunks.push_back({0, handle, &chunk});
    });
  }
}

void SessionMemory::MapAgain(bool go_on, std::function<void(CudaResult)> done) {
  suspended_ = true;
  if (paged_ != nullptr) return MapAgainAfterPaging(go_on, std::move(done));
  BeginAgain(go_on, /*handles=*/go_on, std::move(done));
  // Nobody maps what the former worker failed to unmap, or only said that it had.
  std::move(limbo_.begin(), limbo_.end(), std::back_inserter(kept_));
  limbo_.clear();
  for (Reservation& part : limbo_reservations_) kept_reservation_.Merge(std::move(part));
  limbo_reservations_.clear();
  GiveUpKept(/*worker_gone=*/true);
  SendAgain();
}

CudaResult SessionMemory::Charge(uint64_t bytes) {
  return ended_ ? CudaResult::kInvalidValue : outside_.Charge(bytes);
}

bool SessionMemory::Recharge(uint64_t bytes) { return ended_ || outside_.Replace(bytes); }

bool SessionMemory::Uncharge(uint64_t bytes) { return ended_ || outside_.Uncharge(bytes); }

void SessionMemory::SendAgain() {
  Again& again = *again_;
  const size_t first = again.done;
  if (first == again.chunks.size()) return FinishAgain(CudaResult::kSuccess);
  const bool held = again.chunks[first].handle != 0;
  ToWorker message;
  ++transfer_id_;
  if (held) {
    message.mutable_hold()->set_id(transfer_id_);
  } else {
    message.mutable_map()->set_id(transfer_id_);
    message.mutable_map()->set_va(again.chunks[first].va);
  }
  std::vector<int> fds;
  uint64_t end = again.chunks[first].va;
  again.in_batch = 0;
  while (first + again.in_batch < again.chunks.size() && again.in_batch < kMaxPacketFds) {
    const auto& [va, handle, chunk] = again.chunks[first + again.in_batch];
    if (held) {
      message.mutable_hold()->add_handle(handle);
      message.mutable_hold()->add_chunk_bytes(chunk->bytes);
    } else {
      if (handle != 0 || va != end) break;  // A message names one range.
      message.mutable_map()->add_chunk_bytes(chunk->bytes);
    }
    fds.push_back(chunk->fd.get());
    end = va + chunk->bytes;
    ++again.in_batch;
  }
  if (!links_.worker->Send(message, fds).ok()) FinishAgain(CudaResult::kLaunchFailed);
}

void SessionMemory::FinishAgain(CudaResult result) {
  const auto again = std::move(again_);
  if (result == CudaResult::kSuccess && again->go_on) {
    suspended_ = false;
    if (transfer_ != nullptr && transfer_->giving()) {
      transfer_->done = 0;
      SendBatch();
    } else if (transfer_ != nullptr) {
      FinishUnmapping(/*worker_gone=*/true);  // The new one never had it.
    }
  }
  again->finished(result);
  if (!suspended_) Next();
}

void SessionMemory::Next() {
  while (!busy_ && !suspended_ && !queue_.empty()) {
    busy_ = true;
    Start();
  }
}

void SessionMemory::Seal() {
  sealed_.emplace();
  book_.ForEachChunk([this](uint64_t va, const Chunk& chunk) {
    control_loop.AssertOnLoop();
    sealed_->Add(va, chunk.bytes);
  });
}

bool SessionMemory::AnswerSealed(const Operation& operation) {
  const MemoryRequest& request = operation.request;
  if (operation.is_return) {
    if (!sealed_.has_value() || operation.returned.handle() != 0) return false;
    const absl::Status returned =
        sealed_->Return(operation.returned.va(), operation.returned.bytes());
    Done();
    if (!returned.ok()) links_.client->Violated(returned);
    return true;
  }
  if (request.has_share() || !request.open().empty() || request.handle() != 0) {
    Answer(0, CudaResult::kNotSupported, "a guarded session has no memory apart from its arena");
    return true;
  }
  if (!sealed_.has_value()) return false;
  const auto bytes = sealed_->Take(request.va(), request.min_bytes(), request.want_bytes());
  if (bytes.ok()) {
    Answer(*bytes, CudaResult::kSuccess, "");
  } else if (absl::IsResourceExhausted(bytes.status())) {
    Answer(0, CudaResult::kOutOfMemory,
           absl::StrCat("a guarded session has all its memory from the start, ",
                        book_.backed_bytes(), " bytes: `warpline run --memory` says how much"));
  } else {
    Answer(0, CudaResult::kInvalidValue, std::string(bytes.status().message()));
  }
  return true;
}

void SessionMemory::Start() {
  // A copy: answering it takes it off the queue.
  const Operation operation = queue_.front();
  const bool allowed = operation.is_return || options_.entitlement.Allows(Capability::kMemory);
  if (allowed && options_.at_once && AnswerSealed(operation)) return;
  if (operation.is_return) {
    StartReturn(operation.returned);
  } else if (!allowed) {
    Answer(0, CudaResult::kNotPermitted, "the lease does not give the right to memory");
  } else if (operation.request.has_share()) {
    StartShare(operation.request);
  } else if (!operation.request.open().empty()) {
    StartOpen(operation.request);
  } else if (operation.request.handle() != 0) {
    StartCreate(operation.request);
  } else {
    StartRequest(operation.request);
  }
}

void SessionMemory::Done() {
  queue_.pop_front();
  links_.chunks->StopWaiting();
  transfer_.reset();
  busy_ = false;
  links_.client->Done();
}

void SessionMemory::Answer(uint64_t bytes, CudaResult error, const std::string& message) {
  const MemoryRequest& request = queue_.front().request;
  MemoryGrant grant;
  grant.set_id(request.id());
  grant.set_va(request.va());
  grant.set_bytes(bytes);
  grant.set_error(static_cast<int>(error));
  grant.set_message(message);
  Done();
  links_.client->Push(std::move(grant));
}

void SessionMemory::StartRequest(const MemoryRequest& request) {
  const absl::Status valid =
      book_.CheckRequest(request.va(), request.min_bytes(), request.want_bytes());
  if (!valid.ok()) return Answer(0, CudaResult::kInvalidValue, std::string(valid.message()));
  TakeKept(request.want_bytes(), kChunkClasses.front());
  const uint64_t got = taken_reservation_.bytes();
  uint64_t want = request.want_bytes();
  if (options_.entitlement.leased() && !options_.at_once) {
    const uint64_t left = quota_->limit_bytes() - quota_->used_bytes();
    want = std::min(want, std::max({request.min_bytes(), got, left / kSharedPart}));
  }
  if (want - got < kChunkGranularity) return UseTaken();
  const uint64_t least = std::max(request.min_bytes(), got + kChunkGranularity) - got;
  const bool room = chunk_count() < options_.max_chunks;
  Reservation reservation;
  if (room) reservation = quota_->Reserve(least, want - got, kChunkGranularity);
  if (reservation.bytes() == 0) {
    if (got >= request.min_bytes()) return UseTaken();
    return RunShort(
        /*quota_short=*/true,
        room ? absl::StrCat(QuotaText(), ", ", request.min_bytes(), " wanted")
             : absl::StrCat("the session holds ", options_.max_chunks, " chunks already"));
  }
  Take(std::move(reservation), least, kChunkClasses.front());
}

void SessionMemory::Take(Reservation reservation, uint64_t least_bytes, uint64_t largest_bytes) {
  const bool stays = !WhyNotMovable().empty();
  const uint64_t most = links_.chunks->MostGrowth(stays) / kChunkGranularity * kChunkGranularity;
  if (most < least_bytes) {
    Keep(std::exchange(taken_, {}), std::exchange(taken_reservation_, Reservation()));
    return Answer(
        0, CudaResult::kOutOfMemory,
        absl::StrCat("the device's sessions may have ", most, " bytes more",
                     stays ? " that cannot be moved" : "", ", with what is moved to the host, and ",
                     least_bytes, " are wanted"));
  }
  const uint64_t left = links_.chunks->LeftOfLimit() / kChunkGranularity * kChunkGranularity;
  if (left < least_bytes) {
    reservation.ShrinkTo(0);
    return RunShort(/*quota_short=*/false, absl::StrCat("the sessions of the lease may have ", left,
                                                        " bytes more of the device at a time, and ",
                                                        least_bytes, " are wanted"));
  }
  reservation.ShrinkTo(std::min({most, left, reservation.bytes()}));
  const uint64_t want_bytes = reservation.bytes();
  auto held = std::make_shared<Reservation>(std::move(reservation));
  asked_bytes_ = want_bytes;
  links_.chunks->Take(least_bytes, want_bytes, largest_bytes,
                      [self = shared_from_this(), held](absl::StatusOr<std::vector<Chunk>> chunks) {
                        control_loop.AssertOnLoop();
                        self->OnTaken(std::move(*held), std::move(chunks));
                      });
}

void SessionMemory::OnTaken(Reservation reservation, absl::StatusOr<std::vector<Chunk>> chunks) {
  asked_bytes_ = 0;
  if (ended_ || abandoned_) {
    if (chunks.ok()) links_.chunks->ReturnUnused(std::move(*chunks));
    return;
  }
  if (chunks.ok()) chunks = WithPieces(*std::move(chunks));
  if (chunks.ok()) {
    reservation.ShrinkTo(TotalBytes(*chunks));
    taken_reservation_.Merge(std::move(reservation));
    std::move(chunks->begin(), chunks->end(), std::back_inserter(taken_));
    UseTaken();
  } else if (taken_reservation_.bytes() >= queue_.front().request.min_bytes()) {
    UseTaken();
  } else {
    reservation.ShrinkTo(0);
    RunShort(/*quota_short=*/false, std::string(chunks.status().message()));
  }
  Next();
}

absl::StatusOr<std::vector<Chunk>> SessionMemory::WithPieces(std::vector<Chunk> chunks) {
  Reservation pieces = quota_->pieces()->Reserve(1, chunks.size(), 1);
  // They come largest first.
  std::vector<Chunk> surplus(
      std::make_move_iterator(chunks.begin() + static_cast<std::ptrdiff_t>(pieces.bytes())),
      std::make_move_iterator(chunks.end()));
  chunks.resize(pieces.bytes());
  const uint64_t got = taken_reservation_.bytes() + TotalBytes(chunks);
  const bool enough = !chunks.empty() && got >= queue_.front().request.min_bytes();
  if (enough) {
    for (Chunk& chunk : chunks) chunk.piece = pieces.Split(1);
  } else {
    std::move(chunks.begin(), chunks.end(), std::back_inserter(surplus));
  }
  if (!surplus.empty()) links_.chunks->ReturnUnused(std::move(surplus));
  if (enough) return chunks;
  return absl::ResourceExhaustedError(
      absl::StrCat("the quota of ", quota_->limit_bytes(), " bytes may be held in ",
                   quota_->pieces()->limit_bytes(), " chunks, which are in use"));
}

void SessionMemory::UseTaken() {
  if (queue_.front().request.handle() != 0) return BeginHolding();
  BeginMapping();
}

void SessionMemory::BeginMapping() {
  transfer_ = std::make_unique<Transfer>();
  transfer_->va = queue_.front().request.va();
  transfer_->chunks = std::exchange(taken_, {});
  transfer_->reservations.push_back(std::exchange(taken_reservation_, Reservation()));
  SendBatch();
}

void SessionMemory::RunShort(bool quota_short, const std::string& message) {
  Keep(std::exchange(taken_, {}), std::exchange(taken_reservation_, Reservation()));
  Operation& operation = queue_.front();
  const auto again = [self = shared_from_this(), number = ++try_](const absl::Status& moved) {
    control_loop.AssertOnLoop();
    if (self->ended_ || self->abandoned_ || number != self->try_) return;
    if (!moved.ok()) self->queue_.front().nothing_moves = std::string(moved.message());
    self->short_ = false;
    self->Start();
    self->Next();
  };
  short_ = true;
  const MemoryRelief relief =
      Relieve(operation.request.min_bytes(), quota_short, &operation, again);
  switch (relief.kind) {
    case MemoryRelief::Kind::kReclaiming:
    case MemoryRelief::Kind::kReturning:
    case MemoryRelief::Kind::kMoving:
    case MemoryRelief::Kind::kWaiting:
      return;
    case MemoryRelief::Kind::kRefused:
      short_ = false;
      return Answer(0, CudaResult::kOutOfMemory,
                    absl::StrCat("the server's policy has nobody wait for memory: ", message));
    case MemoryRelief::Kind::kNone:
      short_ = false;
      return Answer(0, CudaResult::kOutOfMemory,
                    operation.nothing_moves.empty()
                        ? message
                        : absl::StrCat(message, ": ", operation.nothing_moves));
  }
}

MemoryRelief SessionMemory::Relieve(uint64_t bytes, bool quota_short, Operation* operation,
                                    ChunkSource::Again again) {
  if (!operation->short_since.has_value()) operation->short_since = SteadyNow();
  MemoryShortage shortage;
  shortage.of_quota = quota_short;
  shortage.wanted_bytes = bytes;
  shortage.used_bytes = quota_->used_bytes();
  shortage.quota_bytes = quota_->limit_bytes();
  shortage.since = *operation->short_since;
  shortage.waited = operation->waited;
  shortage.reclaimed = operation->reclaimed;
  shortage.nothing_moves = !operation->nothing_moves.empty();
  const MemoryRelief relief = links_.chunks->Relieve(shortage, std::move(again));
  if (relief.kind == MemoryRelief::Kind::kReclaiming) operation->reclaimed = true;
  if (relief.kind == MemoryRelief::Kind::kWaiting) operation->waited += relief.wait;
  return relief;
}

void SessionMemory::TakeKept(uint64_t bytes, uint64_t largest_bytes) {
  // Largest first, as the pool gives them.
  std::sort(kept_.begin(), kept_.end(),
            [](const Chunk& a, const Chunk& b) { return a.bytes > b.bytes; });
  std::vector<Chunk> rest;
  for (Chunk& chunk : kept_) {
    if (chunk.bytes <= bytes && chunk.bytes <= largest_bytes) {
      bytes -= chunk.bytes;
      kept_bytes_ -= chunk.bytes;
      taken_reservation_.Merge(kept_reservation_.Split(chunk.bytes));
      taken_.push_back(std::move(chunk));
    } else {
      rest.push_back(std::move(chunk));
    }
  }
  kept_ = std::move(rest);
}

void SessionMemory::Keep(std::vector<Chunk> chunks, Reservation reservation) {
  kept_bytes_ += TotalBytes(chunks);
  kept_reservation_.Merge(std::move(reservation));
  for (Chunk& chunk : chunks) {
    if (chunk.share == nullptr) {
      kept_.push_back(std::move(chunk));
    } else if (chunk.share.use_count() == 1 && chunk.share->quota() == quota_.get()) {
      // Its other holders are gone.
      kept_reservation_.Merge(std::move(*chunk.share));
      chunk.share.reset();
      kept_.push_back(std::move(chunk));
    } else {
      const uint64_t bytes = chunk.bytes;
      const Reservation* const share = chunk.share.get();
      const bool foreign = share->quota() != quota_.get();
      if (kept_shared_.emplace(share, std::move(chunk)).second) continue;
      kept_bytes_ -= bytes;
      if (foreign) kept_reservation_.ShrinkTo(kept_reservation_.bytes() - bytes);
    }
  }
}

void SessionMemory::GiveUpKept(bool worker_gone) {
  std::vector<Chunk> chunks = std::exchange(kept_, {});
  std::vector<Reservation> bill;
  if (worker_gone) {
    kept_bytes_ = 0;
    bill.push_back(std::exchange(kept_reservation_, Reservation()));
    for (auto& [share, chunk] : kept_shared_) chunks.push_back(std::move(chunk));
    kept_shared_.clear();
  } else {
    kept_bytes_ -= TotalBytes(chunks);
    bill.push_back(kept_reservation_.Split(TotalBytes(chunks)));
  }
  if (!chunks.empty()) links_.chunks->Return(std::move(chunks), std::move(bill));
}

std::string SessionMemory::QuotaText() const {
  const Quota& quota = quota_->scarcer();
  return absl::StrCat("quota of ", quota.limit_bytes(), " bytes",
                      &quota == quota_.get() ? "" : " for all sessions of the peer", ": ",
                      quota.used_bytes(), " in use");
}

void SessionMemory::StartReturn(const MemoryReturn& request) {
  if (request.handle() != 0) return StartDrop(request.handle());
  auto grants = book_.Remove(request.va(), request.bytes());
  if (!grants.ok()) {
    Done();
    return links_.client->Violated(grants.status());
  }
  if (options_.shares != nullptr) {
    options_.shares->RemoveRange(this, request.va(), request.bytes());
  }
  transfer_ = std::make_unique<Transfer>();
  transfer_->kind = Transfer::Kind::kUnmap;
  transfer_->va = request.va();
  for (Grant& grant : *grants) {
    std::move(grant.chunks.begin(), grant.chunks.end(), std::back_inserter(transfer_->chunks));
    transfer_->reservations.push_back(std::move(grant.reservation));
  }
  SendBatch();
}

void SessionMemory::SendBatch() {
  if (suspended_) return;
  Transfer& transfer = *transfer_;
  const size_t count = std::min(transfer.chunks.size() - transfer.done, kMaxPacketFds);
  transfer.in_batch = count;
  uint64_t va = transfer.va;
  for (size_t i = 0; i < transfer.done; ++i) va += transfer.chunks[i].bytes;
  ToWorker message;
  std::vector<int> fds;
  const auto fill = [&](auto* body) {
    control_loop.AssertOnLoop();
    body->set_id(++transfer_id_);
    body->set_va(va);
    for (size_t i = 0; i < count; ++i) {
      body->add_chunk_bytes(transfer.chunks[transfer.done + i].bytes);
    }
  };
  switch (transfer.kind) {
    case Transfer::Kind::kMap:
      fill(message.mutable_map());
      break;
    case Transfer::Kind::kUnmap:
      fill(message.mutable_unmap());
      break;
    case Transfer::Kind::kHold:
      message.mutable_hold()->set_id(++transfer_id_);
      for (size_t i = transfer.done; i < transfer.done + count; ++i) {
        message.mutable_hold()->add_handle(transfer.handles[i]);
        message.mutable_hold()->add_chunk_bytes(transfer.chunks[i].bytes);
      }
      break;
    case Transfer::Kind::kDrop:
      transfer.in_batch = transfer.chunks.size();
      message.mutable_drop()->set_id(++transfer_id_);
      message.mutable_drop()->set_handle(transfer.va);
      break;
  }
  if (transfer.giving()) {
    for (size_t i = 0; i < count; ++i) fds.push_back(transfer.chunks[transfer.done + i].fd.get());
  }
  if (!links_.worker->Send(message, fds).ok()) OnTransferFailed(CudaResult::kLaunchFailed);
}

absl::Status SessionMemory::OnMemoryDone(const warpline_internal::MemoryDone& done) {
  if (ended_) return absl::OkStatus();
  if (again_ != nullptr && done.id() == transfer_id_) {
    again_->done += again_->in_batch;
    if (done.error() != 0) {
      FinishAgain(static_cast<CudaResult>(done.error()));
    } else {
      SendAgain();
    }
    return absl::OkStatus();
  }
  if (paged_ != nullptr && paged_->phase == Paged::Phase::kUnmapping && done.id() == transfer_id_) {
    OnUnmapped(static_cast<CudaResult>(done.error()));
    return absl::OkStatus();
  }
  if (abandoned_) return absl::OkStatus();  // Of the worker that was lost.
  if (transfer_ == nullptr || done.id() != transfer_id_) {
    return absl::InvalidArgumentError(absl::StrCat("answer to memory operation ", done.id()));
  }
  if (done.error() != 0) {
    OnTransferFailed(static_cast<CudaResult>(done.error()));
  } else {
    transfer_->done += transfer_->in_batch;
    if (transfer_->done < transfer_->chunks.size()) {
      SendBatch();
    } else if (transfer_->kind == Transfer::Kind::kMap) {
      FinishMapping();
    } else if (transfer_->kind == Transfer::Kind::kHold) {
      FinishHolding();
    } else {
      FinishUnmapping(/*worker_gone=*/false);
    }
  }
  Next();
  return absl::OkStatus();
}

void SessionMemory::FinishMapping() {
  Grant grant;
  grant.va = transfer_->va;
  grant.chunks = std::move(transfer_->chunks);
  grant.reservation = std::move(transfer_->reservations.front());
  const uint64_t bytes = grant.bytes();
  // Accepted, since it was checked and nothing else of this session came in between.
  (void)book_.Add(std::move(grant));
  Answer(bytes, CudaResult::kSuccess, "");
}

void SessionMemory::FinishUnmapping(bool worker_gone) {
  std::vector<Chunk> chunks = std::move(transfer_->chunks);
  Reservation reservation;
  for (Reservation& part : transfer_->reservations) reservation.Merge(std::move(part));
  Done();
  Keep(std::move(chunks), std::move(reservation));
  if (worker_gone) GiveUpKept(/*worker_gone=*/true);
}

// What the worker confirmed stays granted if it is enough; all else waits for the worker's end.
void SessionMemory::OnTransferFailed(CudaResult error) {
  Transfer transfer = std::move(*transfer_);
  // Of a handle that is held in part nothing is of use.
  const bool keeps = transfer.kind == Transfer::Kind::kMap;
  const auto rest =
      transfer.chunks.begin() + static_cast<std::ptrdiff_t>(keeps ? transfer.done : 0);
  std::move(rest, transfer.chunks.end(), std::back_inserter(limbo_));
  transfer.chunks.erase(rest, transfer.chunks.end());
  if (!transfer.giving()) {
    std::move(transfer.reservations.begin(), transfer.reservations.end(),
              std::back_inserter(limbo_reservations_));
    return Done();
  }
  Grant grant;
  grant.va = transfer.va;
  grant.chunks = std::move(transfer.chunks);
  const uint64_t bytes = grant.bytes();
  if (bytes > 0 && bytes >= queue_.front().request.min_bytes()) {
    // The reservation stays whole: what is in limbo counts too.
    grant.reservation = std::move(transfer.reservations.front());
    (void)book_.Add(std::move(grant));
    return Answer(bytes, CudaResult::kSuccess, "");
  }
  std::move(grant.chunks.begin(), grant.chunks.end(), std::back_inserter(limbo_));
  limbo_reservations_.push_back(std::move(transfer.reservations.front()));
  Answer(0, error, absl::StrCat("mapping failed: ", CudaResultName(error)));
}

void SessionMemory::End() {
  if (ended_) return;
  ended_ = true;
  if (options_.shares != nullptr) options_.shares->RemoveAllOf(this);
  again_.reset();
  queue_.clear();
  EndPaged();
  std::vector<Chunk> chunks;
  std::vector<Reservation> bill;
  const auto give_up = [&](std::vector<Chunk>* some) {
    std::move(some->begin(), some->end(), std::back_inserter(chunks));
    some->clear();
  };
  const auto charge = [&](std::vector<Reservation>* some) {
    std::move(some->begin(), some->end(), std::back_inserter(bill));
    some->clear();
  };
  give_up(&limbo_);
  charge(&limbo_reservations_);
  if (transfer_ != nullptr) {
    give_up(&transfer_->chunks);
    charge(&transfer_->reservations);
    transfer_.reset();
  }
  give_up(&taken_);
  bill.push_back(std::exchange(taken_reservation_, Reservation()));
  for (Grant& grant : book_.Clear()) {
    give_up(&grant.chunks);
    bill.push_back(std::move(grant.reservation));
  }
  for (auto& [handle, memory] : handles_.Clear()) {
    give_up(&memory.chunks);
    bill.push_back(std::move(memory.reservation));
  }
  give_up(&kept_);
  for (auto& [share, chunk] : kept_shared_) chunks.push_back(std::move(chunk));
  kept_shared_.clear();
  kept_bytes_ = 0;
  bill.push_back(std::exchange(kept_reservation_, Reservation()));
  bill.push_back(outside_.End());
  if (own_.bytes() > 0) {
    links_.chunks->Unclaim(own_.bytes());
    bill.push_back(std::move(own_));
  }
  std::erase_if(bill, [](const Reservation& part) { return part.bytes() == 0; });
  links_.chunks->Return(std::move(chunks), std::move(bill));
}

}  // namespace warpline::server
