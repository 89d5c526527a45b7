// One session's memory of one device: takes its requests one after another through quota, pool,
// worker and book, and gives everything back at its end.
//
// That the worker has unmapped something is its word alone. What a client returns is therefore kept
// for the same session, which gets it again before anything new, and is freed only when the worker
// is gone. It counts against the quota like the rest. When a request cannot be served
// because of that, sessions of the same payer that keep something have their workers replaced
// (Reclaim()).
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_MEMORY_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/cuda/cuda_result.h"
#include "lease/entitlement.h"
#include "memory/arena_book.h"
#include "memory/handle_book.h"
#include "memory/quota.h"
#include "memory/sealed_book.h"
#include "proto/devices.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/audit/session_audit.h"
#include "server/gpu_server/memory/charge_book.h"
#include "server/gpu_server/memory/memory_links.h"
#include "server/gpu_server/memory/share_book.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// Memory that sessions share, by the quota that it takes: each piece is counted once with this.
using SharesSeen = std::set<const Reservation*>;

struct SessionMemoryOptions {
  // The device's number in the session (proto/devices.h). It is in the highest byte of all handles
  // that it takes, and of what it calls its operations before the worker.
  uint32_t device = 0;
  // The device's part.
  ArenaRange arena;
  // The session's number.
  uint64_t session = 0;
  // Chunks, and with them descriptors here and mappings in the worker.
  size_t max_chunks = 8192;
  // Without the right to memory, requests are answered with CUDA_ERROR_NOT_PERMITTED. Sessions of a
  // lease have one quota: what a client wants ahead of its needs is kept small there, so that the
  // last of the quota goes to who needs it.
  Entitlement entitlement = {};
  // See LeaseMembership::payer().
  std::string payer = {};
  // Whom policies know the session by.
  std::string tenant = {};
  // Sessions of a lease, and all those without one, may open what one of them offers, memory of a
  // device as that of the same device only. Without leases there are no tenants to keep apart, and
  // the offer's token is what it takes. Borrowed; null where nobody may.
  ShareBook* shares = nullptr;
  // Borrowed until End(); null in tests.
  SessionAudit* audit = nullptr;
  // What the device is called by all sessions of the server.
  std::string device_uuid = {};
  // The session gets all its memory by its first requests, before Seal(). What its lease has left
  // is then given to it without thought of others, and handles are refused.
  bool at_once = false;
};

// Shared, since a request to the pool may be under way at its end.
class SessionMemory : public std::enable_shared_from_this<SessionMemory> {
 public:
  // What `links` name is borrowed until End().
  SessionMemory(const SessionMemoryOptions& options, std::shared_ptr<Quota> quota,
                const MemoryLinks& links)
      : options_(options),
        quota_(std::move(quota)),
        links_(links),
        book_(options.arena),
        transfer_id_(HandleOnDevice(options.device, 0)),
        outside_(quota_) {}

  // Takes what the session's worker takes of the device as it opens, without chunks, until the
  // session's end: it counts against the quota and the device's capacity. `taken` is called with
  // RESOURCE_EXHAUSTED where one of them has too little left, and nothing of it comes back by
  // itself. Once, before anything is requested.
  void TakeOwn(uint64_t bytes, const std::function<void(absl::Status)>& taken)
      RUNS_ON(control_loop);
  // Answered by ClientLink::Push(), in order.
  void Request(warpline_internal::MemoryRequest request) RUNS_ON(control_loop);
  void Return(const warpline_internal::MemoryReturn& request) RUNS_ON(control_loop);
  // The worker's answer. INVALID_ARGUMENT when none was due.
  absl::Status OnMemoryDone(const warpline_internal::MemoryDone& done) RUNS_ON(control_loop);

  // What the worker takes of the device outside the arena, as in ChargeBook: counts against the
  // quota until it is given back, or the worker's end.
  CudaResult Charge(uint64_t bytes) RUNS_ON(control_loop);
  // Another worker takes over, and has so much of it in one piece, in place of all that the former
  // one had. False beyond the quota.
  bool Recharge(uint64_t bytes) RUNS_ON(control_loop);
  // False when no such piece was taken.
  bool Uncharge(uint64_t bytes) RUNS_ON(control_loop);

  // The worker died, but the session may go on: nothing is sent until another has everything.
  // Memory on its way back is there for the next worker, as after BringBack().
  void Suspend() RUNS_ON(control_loop) {
    suspended_ = true;
    if (paged_ != nullptr) paged_->maps = false;
  }
  // The session has failed: nothing that was asked for is done or answered any more, and what comes
  // for it goes back. What the session holds stays, for MapAgain() without `go_on`.
  void Abandon() RUNS_ON(control_loop);
  // Has the new worker map all that the session holds, at the same addresses, and goes on with what
  // was asked for meanwhile. The former worker must be gone. `done` is called with the worker's
  // first error; kOutOfMemory or kDeviceUnavailable when memory that is away cannot come back now.
  // Without `go_on` nothing else is done for the session any more.
  void MapAgain(bool go_on, std::function<void(CudaResult)> done) RUNS_ON(control_loop);

  // From now on nothing is mapped or unmapped, since the session's kernels may reach all of its
  // arena at any time. What the client returns stays mapped, and its requests are answered with
  // what it has returned, or CUDA_ERROR_OUT_OF_MEMORY. Not while a request is under way.
  void Seal() RUNS_ON(control_loop);

  // Moves what the session has of the device to the host, and gives the device's memory back.
  // Memory that other sessions have or may open stays where it is.
  // The session must be at rest, and its worker's kernels may not run before PageIn(). The
  // client's requests wait meanwhile. `done` is called with OK, or the session has its memory as
  // before: FAILED_PRECONDITION says what it has that cannot be moved, RESOURCE_EXHAUSTED that the
  // host has too little left. After INTERNAL the worker is in no state that is known: it has to be
  // replaced.
  void PageOut(std::function<void(absl::Status)> done) RUNS_ON(control_loop);
  // Brings it back to the same addresses. It stays away after RESOURCE_EXHAUSTED, when the device
  // has too little left, and after UNAVAILABLE, when the pager dies again and again.
  void PageIn(std::function<void(absl::Status)> done) RUNS_ON(control_loop);
  // Brings it back without a worker: the next one is to map it, by MapAgain(). Errors of PageIn().
  void BringBack(std::function<void(absl::Status)> done) RUNS_ON(control_loop);
  bool away() const RUNS_ON(control_loop) { return paged_ != nullptr; }
  // Writes what is away to a file, where the server has files for that, so that it takes no host
  // memory. `stored` is called with OK, CANCELLED when it is wanted meanwhile, or why it stays in
  // host memory. It comes back as before. Only while no worker has the session.
  void Store(std::function<void(absl::Status)> stored) RUNS_ON(control_loop);
  // A part of what is away: memory in the arena, or behind a handle.
  struct AwayRange {
    uint64_t va = 0;
    uint64_t handle = 0;  // 0 for memory in the arena.
    uint64_t bytes = 0;
  };
  // All that the session has of the device, for another server to go on with.
  struct AwayShown {
    std::vector<AwayRange> ranges;
    std::shared_ptr<AwayMemory> memory;  // In host memory; null where the session has none.
  };
  // Shows what is away, once it is in host memory: it is read back where it is in a file. `shown`
  // is called with FAILED_PRECONDITION for a session that has more than what can be away, ABORTED
  // when memory is on its way or asked for, and the errors of ChunkSource::Fetch(). Only while no
  // worker has the session.
  void ShowAway(std::function<void(absl::StatusOr<AwayShown>)> shown) RUNS_ON(control_loop);
  // Takes over from another server what that showed. From now on it is away, and waits for a
  // worker. INVALID_ARGUMENT for ranges that no session has, RESOURCE_EXHAUSTED beyond the quota.
  // Before anything is requested.
  absl::Status AdoptAway(const AwayShown& from) RUNS_ON(control_loop);
  // The worker has been told to unmap memory that is to be moved, or to map memory again.
  bool waits_for_worker() const RUNS_ON(control_loop) {
    return again_ != nullptr || (paged_ != nullptr && paged_->phase == Paged::Phase::kUnmapping);
  }
  // The bytes that are away, or on their way.
  uint64_t away_bytes() const RUNS_ON(control_loop);
  // All that the session has of the device and asks for now: there, away, and on its way. It never
  // counts anything twice, unlike the pool's count beside away_bytes().
  uint64_t total_bytes() const RUNS_ON(control_loop);
  // Returns why PageOut() would refuse, and an empty text where only something that passes by
  // itself would make it refuse, or nothing.
  std::string WhyNotMovable() const RUNS_ON(control_loop);
  // The session has requests that are not answered, and how much the first one needs at least.
  bool has_requests() const RUNS_ON(control_loop) { return !queue_.empty(); }
  uint64_t requested_bytes() const RUNS_ON(control_loop) {
    return queue_.empty() || queue_.front().is_return ? 0 : queue_.front().request.min_bytes();
  }
  // The first request waits until there is room for it.
  bool waits_for_room() const RUNS_ON(control_loop) { return short_; }

  // The worker is gone: everything goes back to the pool, and nothing is answered any more.
  void End() RUNS_ON(control_loop);

  // In the arena, behind handles, what was charged, and what its worker takes.
  uint64_t backed_bytes() const RUNS_ON(control_loop) {
    return book_.backed_bytes() + handles_.bytes() + outside_.bytes() + own_.bytes();
  }
  // The bytes that PageOut() leaves where they are, since other sessions have the memory, too, or
  // may open it: in the arena, behind handles, and kept.
  uint64_t staying_bytes() const RUNS_ON(control_loop) { return StayingBytes(nullptr); }
  // Leaves out shared memory that is in `seen`, and adds it there; null counts all.
  uint64_t StayingBytes(SharesSeen* seen) const RUNS_ON(control_loop);
  // The bytes that PageOut() frees: in the arena, behind handles, and kept.
  uint64_t chunk_bytes() const RUNS_ON(control_loop) {
    return book_.backed_bytes() + handles_.bytes() + kept_bytes_ - staying_bytes();
  }
  // Bytes that are on the device or asked for of it, also while they are moved.
  uint64_t held_bytes() const RUNS_ON(control_loop);
  // Taken by TakeOwn().
  uint64_t own_bytes() const RUNS_ON(control_loop) { return own_.bytes(); }
  // Returned by the client, and nobody else's before the worker is gone.
  uint64_t kept_bytes() const RUNS_ON(control_loop) { return kept_bytes_; }
  // True when all of [va, va + bytes) is backed, also by memory that is away.
  bool Backs(uint64_t va, uint64_t bytes) const RUNS_ON(control_loop);

 private:
  // Of what is left of a shared quota, a client gets one part ahead of its needs.
  static constexpr uint64_t kSharedPart = 16;

  struct Operation {
    bool is_return = false;
    bool reclaimed = false;                 // Tried once already.
    std::string nothing_moves;              // Why no memory of others can be moved for it.
    absl::Duration waited;                  // Because of the policy.
    std::optional<absl::Time> short_since;  // When it first did not fit.
    warpline_internal::MemoryRequest request;
    warpline_internal::MemoryReturn returned;
  };
  // What is being handed to the worker or taken from it, batch by batch, for the first operation.
  struct Transfer {
    enum class Kind { kMap, kUnmap, kHold, kDrop };
    Kind kind = Kind::kMap;
    // The worker gets chunks.
    bool giving() const { return kind == Kind::kMap || kind == Kind::kHold; }
    uint64_t va = 0;  // For kDrop, the handle.
    std::vector<Chunk> chunks;
    std::vector<uint64_t> handles;  // kHold: of each chunk.
    std::vector<Reservation> reservations;
    size_t done = 0;      // Chunks that the worker has confirmed.
    size_t in_batch = 0;  // Chunks it has been asked for.
  };

  // The memory of the session that is on its way to the host, there, or on its way back.
  struct Paged {
    enum class Phase { kMovingOut, kUnmapping, kAway, kStoring, kFetching, kTaking, kMovingIn };
    struct Range {
      uint64_t va = 0;
      uint64_t handle = 0;  // In place of an address: the range is the memory behind it.
      uint64_t bytes = 0;
      size_t chunks = 0;
      Reservation reservation;
    };
    Phase phase = Phase::kMovingOut;
    std::vector<Range> ranges;  // By address, and then by handle.
    // The chunks of all ranges, in their order. While chunks are taken, the first ones are there.
    std::shared_ptr<std::vector<Chunk>> chunks = std::make_shared<std::vector<Chunk>>();
    std::vector<Reservation> pieces;  // Those of the chunks, while there are none.
    std::shared_ptr<AwayMemory> away = std::make_shared<AwayMemory>();
    size_t unmapped = 0;  // Chunks that the worker has confirmed.
    size_t in_batch = 0;
    std::function<void(absl::Status)> done;
    // The worker is lost: called instead of going on, once the memory is there or cannot be.
    std::function<void(absl::Status)> worker_lost;
    // ShowAway() waits for Store().
    std::function<void(absl::StatusOr<AwayShown>)> shows;
    bool comes = false;  // It is wanted.
    bool maps = true;    // The worker maps what came back, before `done` is called.
    bool ends = false;   // The session has ended.
  };

  // What a new worker has to map, batch by batch.
  struct Again {
    struct Item {
      uint64_t va = 0;
      uint64_t handle = 0;  // Not 0: held and not mapped.
      const Chunk* chunk = nullptr;
    };
    std::vector<Item> chunks;  // Those in the arena, by address; then those of handles.
    size_t done = 0;
    size_t in_batch = 0;
    bool go_on = false;
    std::function<void(CudaResult)> finished;
  };

  // TakeOwn(), tried with `operation`, which says how long already.
  void TryTakeOwn(uint64_t bytes, std::shared_ptr<Operation> operation,
                  std::function<void(absl::Status)> taken) RUNS_ON(control_loop);
  // Asks for relief of a shortage of `bytes`; notes in `*operation` what was tried.
  MemoryRelief Relieve(uint64_t bytes, bool quota_short, Operation* operation,
                       ChunkSource::Again again) RUNS_ON(control_loop);
  void Enqueue(Operation operation) RUNS_ON(control_loop);
  // Paging (session_paging.cc).
  void BeginTaking(bool maps, std::function<void(absl::Status)> done) RUNS_ON(control_loop);
  absl::StatusOr<AwayShown> Shown() const RUNS_ON(control_loop);
  std::string WhyNotPageable() const RUNS_ON(control_loop);
  void OnMovedOut(const absl::Status& status) RUNS_ON(control_loop);
  void SendUnmapping() RUNS_ON(control_loop);
  void OnUnmapped(CudaResult result) RUNS_ON(control_loop);
  // Goes on to take chunks for it, once it is in host memory.
  void Come() RUNS_ON(control_loop);
  void OnFetched(const absl::Status& status) RUNS_ON(control_loop);
  void TakeRange(size_t index) RUNS_ON(control_loop);
  absl::Status TakePieces() RUNS_ON(control_loop);
  void OnMovedIn(const absl::Status& status) RUNS_ON(control_loop);
  // Nothing came of it: the memory is away again.
  void StayAway(const absl::Status& status) RUNS_ON(control_loop);
  // Enters the chunks into the book again. Returns what was to be called.
  std::unique_ptr<Paged> Restore() RUNS_ON(control_loop);
  // MapAgain(), once what is away is there.
  void MapAgainAfterPaging(bool go_on, std::function<void(CudaResult)> done) RUNS_ON(control_loop);
  void EndPaged() RUNS_ON(control_loop);
  // Prepares to have the worker take what is in the arena, and behind handles.
  void BeginAgain(bool go_on, bool handles, std::function<void(CudaResult)> done)
      RUNS_ON(control_loop);
  // Returns true if memory of a handle stays where it is (staying_bytes()).
  bool HandleStays(uint64_t handle, const HeldMemory& memory) const RUNS_ON(control_loop);
  void SendAgain() RUNS_ON(control_loop);
  void FinishAgain(CudaResult result) RUNS_ON(control_loop);
  void Next() RUNS_ON(control_loop);
  // Begins with the first operation.
  void Start() RUNS_ON(control_loop);
  void StartRequest(const warpline_internal::MemoryRequest& request) RUNS_ON(control_loop);
  void StartReturn(const warpline_internal::MemoryReturn& request) RUNS_ON(control_loop);
  // Asks the pool for what `reservation` holds, at least `least_bytes`, for the request under way.
  void Take(Reservation reservation, uint64_t least_bytes, uint64_t largest_bytes)
      RUNS_ON(control_loop);
  void OnTaken(Reservation reservation, absl::StatusOr<std::vector<Chunk>> chunks)
      RUNS_ON(control_loop);
  // Gives the chunks that were taken for the request under way their pieces of the quota, as many
  // as there are; the others go back. RESOURCE_EXHAUSTED when that is not enough.
  absl::StatusOr<std::vector<Chunk>> WithPieces(std::vector<Chunk> chunks) RUNS_ON(control_loop);
  // Goes on with what was taken for the request under way.
  void UseTaken() RUNS_ON(control_loop);
  void BeginMapping() RUNS_ON(control_loop);
  // Ends the request under way with OUT_OF_MEMORY, unless memory that is kept can be had first.
  void RunShort(bool quota_short, const std::string& message) RUNS_ON(control_loop);
  // Moves what fits of what is kept, at most `bytes` in chunks of at most `largest_bytes`, to
  // `taken_`, and back.
  void TakeKept(uint64_t bytes, uint64_t largest_bytes) RUNS_ON(control_loop);
  void Keep(std::vector<Chunk> chunks, Reservation reservation) RUNS_ON(control_loop);
  // Gives back what is kept. A living worker's shared chunks stay, since it may have them still.
  void GiveUpKept(bool worker_gone) RUNS_ON(control_loop);
  // What the quota says of itself, or that of all sessions of the peer when less is left of that.
  std::string QuotaText() const RUNS_ON(control_loop);
  // The operation under way, of a session that gets its memory at once: true when it is answered.
  bool AnswerSealed(const Operation& operation) RUNS_ON(control_loop);
  // Requests that concern handles (session_handles.cc).
  std::string WhyNoMoreHandles(uint64_t more) const RUNS_ON(control_loop);
  bool OfDevice(uint64_t first, uint64_t count) const RUNS_ON(control_loop);
  void StartCreate(const warpline_internal::MemoryRequest& request) RUNS_ON(control_loop);
  void BeginHolding() RUNS_ON(control_loop);
  void StartOpen(const warpline_internal::MemoryRequest& request) RUNS_ON(control_loop);
  void StartShare(const warpline_internal::MemoryRequest& request) RUNS_ON(control_loop);
  // In the server's audit.
  void RecordShare(audit::Event event, const std::string& token, uint64_t bytes)
      RUNS_ON(control_loop);
  absl::StatusOr<std::vector<Chunk>> HoldsOf(const Offer& offer) RUNS_ON(control_loop);
  void StartHolding(std::vector<Chunk> chunks, std::vector<uint64_t> handles,
                    Reservation reservation) RUNS_ON(control_loop);
  void FinishHolding() RUNS_ON(control_loop);
  void StartDrop(uint64_t handle) RUNS_ON(control_loop);
  size_t chunk_count() const RUNS_ON(control_loop) {
    return book_.chunk_count() + handles_.chunk_count() + limbo_.size() + kept_.size() +
           kept_shared_.size() + taken_.size();
  }

  void SendBatch() RUNS_ON(control_loop);
  void FinishMapping() RUNS_ON(control_loop);
  void FinishUnmapping(bool worker_gone) RUNS_ON(control_loop);
  void OnTransferFailed(CudaResult error) RUNS_ON(control_loop);
  void Answer(uint64_t bytes, CudaResult error, const std::string& message) RUNS_ON(control_loop);
  void Done() RUNS_ON(control_loop);

  const SessionMemoryOptions options_;
  const std::shared_ptr<Quota> quota_;
  const MemoryLinks links_;
  ArenaBook book_ ABSL_GUARDED_BY(control_loop);
  HandleBook handles_ ABSL_GUARDED_BY(control_loop);
  // What the client has of the memory, once that is sealed.
  std::optional<SealedBook> sealed_ ABSL_GUARDED_BY(control_loop);
  std::deque<Operation> queue_ ABSL_GUARDED_BY(control_loop);
  bool busy_ ABSL_GUARDED_BY(control_loop) = false;
  // The first operation found too little memory, and is tried again later: at the try of this
  // number, and at no former one.
  bool short_ ABSL_GUARDED_BY(control_loop) = false;
  uint64_t try_ ABSL_GUARDED_BY(control_loop) = 0;
  // Some of its chunks were given to other sessions, or are theirs.
  bool has_shared_ ABSL_GUARDED_BY(control_loop) = false;
  bool ended_ ABSL_GUARDED_BY(control_loop) = false;
  bool suspended_ ABSL_GUARDED_BY(control_loop) = false;
  bool abandoned_ ABSL_GUARDED_BY(control_loop) = false;  // For good; suspended, too.
  std::unique_ptr<Again> again_ ABSL_GUARDED_BY(control_loop);
  std::unique_ptr<Paged> paged_ ABSL_GUARDED_BY(control_loop);
  // The bytes that its worker said it had unmapped, and that the device did not show to be free.
  uint64_t unseen_bytes_ ABSL_GUARDED_BY(control_loop) = 0;
  std::unique_ptr<Transfer> transfer_ ABSL_GUARDED_BY(control_loop);
  uint64_t transfer_id_ ABSL_GUARDED_BY(control_loop);
  uint64_t asked_bytes_ ABSL_GUARDED_BY(control_loop) = 0;  // The pool is asked for them.
  // For the request under way, which nothing is mapped of.
  std::vector<Chunk> taken_ ABSL_GUARDED_BY(control_loop);
  Reservation taken_reservation_ ABSL_GUARDED_BY(control_loop);
  // Returned by the client. The reservation may hold more than the chunks: what is in limbo.
  std::vector<Chunk> kept_ ABSL_GUARDED_BY(control_loop);
  uint64_t kept_bytes_ ABSL_GUARDED_BY(control_loop) = 0;
  // Likewise, but with other holders: used for nothing else. One hold of each is enough.
  std::map<const Reservation*, Chunk> kept_shared_ ABSL_GUARDED_BY(control_loop);
  Reservation kept_reservation_ ABSL_GUARDED_BY(control_loop);
  // Chunks that the worker may or may not have mapped: of no use to anyone until it is gone.
  std::vector<Chunk> limbo_ ABSL_GUARDED_BY(control_loop);
  std::vector<Reservation> limbo_reservations_ ABSL_GUARDED_BY(control_loop);
  ChargeBook outside_ ABSL_GUARDED_BY(control_loop);
  Reservation own_ ABSL_GUARDED_BY(control_loop);  // As in TakeOwn(), once it is claimed.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_MEMORY_H_
