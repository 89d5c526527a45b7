// What a session's memory of a device needs around it.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_MEMORY_LINKS_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_MEMORY_LINKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "memory/chunk.h"
#include "memory/quota.h"
#include "proto/session.pb.h"
#include "server/gpu_server/children/workers/worker_link.h"
#include "server/gpu_server/memory/away_memory.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

class DeviceMemory;

// The way to the session's client.
class ClientLink {
 public:
  virtual ~ClientLink() = default;
  // The answer to a request for memory.
  virtual void Push(warpline_internal::MemoryGrant grant) RUNS_ON(control_loop) = 0;
  // A request is answered, or a return done: the client may have one more under way.
  virtual void Done() RUNS_ON(control_loop) = 0;
  // Tells why memory was refused that is not answered by a grant.
  virtual void SayRefused(const std::string& why) RUNS_ON(control_loop) = 0;
  // The client asked for what nobody may ask for, such as to return what was not granted.
  virtual void Violated(const absl::Status& status) RUNS_ON(control_loop) = 0;
};

// A request for memory that does not fit.
struct MemoryShortage {
  bool of_quota = false;  // The quota is short, else the device.
  uint64_t wanted_bytes = 0;
  uint64_t used_bytes = 0;  // Of the quota.
  uint64_t quota_bytes = 0;
  // What the policy has had the request wait so far.
  absl::Duration waited;
  // When it first did not fit (SteadyNow()).
  absl::Time since;
  // Sessions have given up what they kept for it already.
  bool reclaimed = false;
  // No memory of other sessions can be moved for it.
  bool nothing_moves = false;
};

// How long a request waits for memory that comes back by itself: that of sessions that are ending,
// however long their workers take to be gone, and of clients that may be gone. It is longer than
// what a session waits for its client by default (--resume_seconds), and than what a process
// of the guarded tier may take to end a session.
inline constexpr absl::Duration kMostReturnWait = absl::Seconds(45);

// What is done about it.
struct MemoryRelief {
  enum class Kind {
    kNone,        // Nothing: the request fails.
    kRefused,     // The same, as the policy will have it.
    kReclaiming,  // It is tried again when others have given up what they keep,
    kReturning,   // when memory that comes back by itself may have come,
    kMoving,      // when memory of others was moved to the host,
    kWaiting,     // or when it has waited for `wait`.
  };
  Kind kind = Kind::kNone;
  absl::Duration wait;
};

// Where the session's chunks of a device come from and go to.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  using Taken = std::function<void(absl::StatusOr<std::vector<Chunk>>)>;
  // DeviceMemory::Take(), with `taken` called on the control loop.
  virtual void Take(uint64_t min_bytes, uint64_t want_bytes, uint64_t largest_bytes, Taken taken)
      RUNS_ON(control_loop) = 0;
  // DeviceMemory::Claim(), with `claimed` called on the control loop.
  virtual void Claim(uint64_t bytes, std::function<void(bool)> claimed) RUNS_ON(control_loop) = 0;
  virtual void Unclaim(uint64_t bytes) RUNS_ON(control_loop) = 0;
  // Gives back chunks whose processes are gone, and what they are charged to until they are free.
  virtual void Return(std::vector<Chunk> chunks, std::vector<Reservation> bill)
      RUNS_ON(control_loop) = 0;
  // Gives back chunks whose descriptors have been in no worker.
  virtual void ReturnUnused(std::vector<Chunk> chunks) RUNS_ON(control_loop) = 0;
  // Gives back chunks that a living worker says that it has unmapped. `judged` is called on the
  // control loop with the bytes that the device does not show to be free.
  virtual void ReturnUnmapped(std::vector<Chunk> chunks,
                              std::function<void(uint64_t missing)> judged)
      RUNS_ON(control_loop) = 0;
  // Pager::MoveOut() and Pager::MoveIn(), with `moved` called on the control loop.
  // FAILED_PRECONDITION where there is no host memory for that.
  using Moved = std::function<void(absl::Status)>;
  virtual void MoveOut(std::shared_ptr<std::vector<Chunk>> chunks, std::shared_ptr<AwayMemory> away,
                       Moved moved) RUNS_ON(control_loop) = 0;
  virtual void MoveIn(std::shared_ptr<std::vector<Chunk>> chunks,
                      std::shared_ptr<const AwayMemory> away, Moved moved)
      RUNS_ON(control_loop) = 0;
  // SwapFiles::Store() and SwapFiles::Fetch(), with `moved` called on the control loop. Store() is
  // FAILED_PRECONDITION where the server has no files for that.
  virtual void Store(std::shared_ptr<AwayMemory> away, Moved moved) RUNS_ON(control_loop) = 0;
  virtual void Fetch(std::shared_ptr<AwayMemory> away, Moved moved) RUNS_ON(control_loop) = 0;
  // The bytes of the device by which the session may grow. With more, the sessions would have more
  // than the server may give out, of the device and of the host.
  // `stays` says that what is added cannot be moved.
  virtual uint64_t MostGrowth(bool stays) RUNS_ON(control_loop) = 0;
  // Returns how much more of the device the session's lease may have now, while its other sessions
  // have what they have.
  virtual uint64_t LeftOfLimit() RUNS_ON(control_loop) = 0;
  // Returns false if `bytes` of the session may not stay on the device for good, as shared memory
  // does: other sessions could not come back beside them.
  virtual bool MayStay(uint64_t bytes) RUNS_ON(control_loop) = 0;
  // Asks the policy what to do about a shortage. Otherwise memory of others is moved to the host
  // where the server may do that. Otherwise the request waits as long as memory comes back by
  // itself, for at most kMostReturnWait. Then, once for each request, sessions that the same pays
  // for give up what they keep, those of the same quota where that is short, else those on the
  // device. Where none keeps anything there is no relief. Calls `again` on the control loop when
  // the request is to be tried again; with an error, nothing can be moved for it, and why.
  using Again = std::function<void(absl::Status moved)>;
  virtual MemoryRelief Relieve(const MemoryShortage& shortage, Again again)
      RUNS_ON(control_loop) = 0;
  // The session does not wait for others' memory to be moved any more.
  virtual void StopWaiting() RUNS_ON(control_loop) = 0;
};

// All borrowed.
struct MemoryLinks {
  WorkerLink* worker = nullptr;
  ClientLink* client = nullptr;
  ChunkSource* chunks = nullptr;
};

// Memory that sessions keep, or are about to give back, of a device, or of one quota and its parts
// alone.
struct KeptMemory {
  const DeviceMemory* device = nullptr;  // Null for the host's memory.
  // The payer of the sessions (LeaseMembership::payer()). Others are not held up for its sake, and
  // the memory that they keep was promised to them.
  std::string payer;
  std::string tenant;            // Whom policies know the sessions by.
  const Quota* quota = nullptr;  // Null for any.
};

// What a policy says of a shortage.
struct ShortageVerdict {
  enum class Kind { kDefault, kFail, kReclaim, kWait };
  Kind kind = Kind::kDefault;
  absl::Duration wait;
};

// Knows of all sessions, and has them give up what they keep.
class MemoryReclaimer {
 public:
  virtual ~MemoryReclaimer() = default;
  virtual ShortageVerdict OnShortage(const KeptMemory& wanted, const MemoryShortage& shortage)
      RUNS_ON(control_loop) = 0;
  // Calls `again` when some of `wanted` may have come back by itself: once a session that is
  // ending, or whose client may be gone, has ended or has its client again; or at `deadline`.
  // False, and `again` is not called, when none is on its way.
  virtual bool AwaitReturn(const KeptMemory& wanted, absl::Time deadline,
                           std::function<void()> again) RUNS_ON(control_loop) = 0;
  // Ends the workers that wait for a session with the device open. Their memory then is on its way;
  // false when there are none.
  virtual bool EndWaitingWorkers(const DeviceMemory& device) RUNS_ON(control_loop) = 0;
  // Moves memory of other sessions to the host until `session` can have `bytes` of the device, and
  // calls `again` then; see Residency::Await(). False where the server does not move memory.
  virtual bool AwaitRoom(uint64_t session, const DeviceMemory& device, uint64_t bytes,
                         std::function<void(absl::Status)> again) RUNS_ON(control_loop) = 0;
  virtual void StopWaiting(uint64_t session) RUNS_ON(control_loop) = 0;
  // Returns ChunkSource::MostGrowth() for the session.
  virtual uint64_t MostGrowth(uint64_t session, const DeviceMemory& device, bool stays)
      RUNS_ON(control_loop) = 0;
  // Returns ChunkSource::LeftOfLimit() for the session.
  virtual uint64_t LeftOfLimit(uint64_t session, const DeviceMemory& device)
      RUNS_ON(control_loop) = 0;
  // Returns ChunkSource::MayStay() for the session.
  virtual bool MayStay(uint64_t session, uint64_t bytes, const DeviceMemory& device)
      RUNS_ON(control_loop) = 0;
  // Has the workers of sessions replaced that keep some of `wanted`, and calls `tried` afterwards.
  // False when there is none. See SessionMemory.
  virtual bool Reclaim(const KeptMemory& wanted, std::function<void()> tried)
      RUNS_ON(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_MEMORY_LINKS_H_
