// What a session's memory of a device needs around it.
#ifndef WARPLINE_SERVER_MEMORY_MEMORY_LINKS_H_
#define WARPLINE_SERVER_MEMORY_MEMORY_LINKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "memory/chunk.h"
#include "memory/quota.h"
#include "proto/session.pb.h"
#include "server/process/control_loop.h"
#include "server/workers/worker_link.h"

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
  // Sessions have given up what they kept for it already.
  bool reclaimed = false;
};

// What is done about it.
struct MemoryRelief {
  enum class Kind {
    kNone,        // Nothing: the request fails.
    kRefused,     // The same, as the policy will have it.
    kReclaiming,  // It is tried again when others have given up what they keep,
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
  // Asks the policy what to do about a shortage. Otherwise, and once for each request, has sessions
  // that the same pays for give up what they keep, those of the same quota where that is short,
  // else those on the device; where none keeps anything and nothing is about to be free, that is no
  // relief. Calls `again` on the control loop when the request is to be tried again.
  virtual MemoryRelief Relieve(const MemoryShortage& shortage, std::function<void()> again)
      RUNS_ON(control_loop) = 0;
};

// All borrowed.
struct MemoryLinks {
  WorkerLink* worker = nullptr;
  ClientLink* client = nullptr;
  ChunkSource* chunks = nullptr;
};

// Returned memory that sessions keep of a device, or of one quota and its parts alone.
struct KeptMemory {
  const DeviceMemory* device = nullptr;
  // Who pays for the sessions (LeaseSeat::payer()). Others are not held up for it, and what they
  // keep was promised to them.
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

// Who has sessions give up what they keep.
class MemoryReclaimer {
 public:
  virtual ~MemoryReclaimer() = default;
  virtual ShortageVerdict OnShortage(const KeptMemory& wanted, const MemoryShortage& shortage)
      RUNS_ON(control_loop) = 0;
  // Has the workers of sessions replaced that keep some of `wanted`, and calls `tried` afterwards.
  // False when there is none. See SessionMemory.
  virtual bool Reclaim(const KeptMemory& wanted, std::function<void()> tried)
      RUNS_ON(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_MEMORY_MEMORY_LINKS_H_
