// The server's ends of the rings that connect a session's channel to its worker, and to the worker
// that takes over from it.
#ifndef WARPLINE_SERVER_HANDOVER_WORKER_RINGS_H_
#define WARPLINE_SERVER_HANDOVER_WORKER_RINGS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "transport/shm_ring.h"

namespace warpline {

// The two rings of one worker. The doorbells belong to the doorbell loop; the rest is under the
// lock of WorkerRings.
class RingPair {
 public:
  // `capacity` as for CreateRing().
  static absl::StatusOr<std::shared_ptr<RingPair>> Create(size_t capacity);

  // Readable when the channel should look again, until ClearDoorbells().
  int reply_doorbell() const { return reader_->readable_fd(); }
  int room_doorbell() const { return writer_->writable_fd(); }
  void ClearDoorbells();

 private:
  friend class WorkerRings;
  RingPair() = default;

  std::unique_ptr<RingWriter> writer_;
  std::unique_ptr<RingReader> reader_;
  RingDescriptors to_worker_;
  RingDescriptors from_worker_;
};

// Thread-safe: TryWrite(), TryRead() and ArmDoorbell() are called by the channel's loop, the rest
// by the control loop.
class WorkerRings {
 public:
  static absl::StatusOr<std::shared_ptr<WorkerRings>> Create(size_t capacity);

  // Passes on one kCommands payload. False when there is no room, and while frozen; the doorbell
  // then rings when there is. INVALID_ARGUMENT when the worker has garbled the ring.
  absl::StatusOr<bool> TryWrite(std::string_view payload);

  // Takes one kReplies payload: of a replaced worker first what it left. False when there is none.
  // INVALID_ARGUMENT as above, or when it is of another kind.
  absl::StatusOr<bool> TryRead(std::string* payload);

  // Asks for the doorbell at the next reply. False when there is one to read already.
  bool ArmDoorbell();

  // Lets nothing more through to the worker, and returns the number of the last command that went.
  uint64_t Freeze();
  // Frozen, with the worker dead: the number of the last command that it took. What it left in the
  // ring is kept by Renew() and handed to the next worker by Thaw(). Empty when it garbled the
  // ring.
  std::optional<uint64_t> TakenSeq();
  // New rings for the next worker; still frozen.
  absl::Status Renew();
  void Thaw();

  // The newest worker's.
  std::shared_ptr<RingPair> pair() const;
  // Its descriptors, as OpenWorker has them.
  std::vector<int> child_fds() const;
  void CloseChildFds();

 private:
  // A frame in the ring to the worker.
  struct Fed {
    uint64_t begin;  // As RingWriter::written_bytes().
    size_t bytes;
    uint64_t last_seq;
    std::string kept;  // Its payload, while no worker has it.
  };

  explicit WorkerRings(size_t capacity) : capacity_(capacity) {}
  // Forgets the frames that the worker is known to have taken.
  void Prune(uint64_t taken_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t capacity_;
  mutable Mutex mu_;
  std::shared_ptr<RingPair> current_ ABSL_GUARDED_BY(mu_);
  // What its worker left has not been read to the end.
  std::shared_ptr<RingPair> former_ ABSL_GUARDED_BY(mu_);
  bool frozen_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t fed_seq_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t taken_seq_ ABSL_GUARDED_BY(mu_) = 0;  // As last seen.
  std::deque<Fed> fed_ ABSL_GUARDED_BY(mu_);     // After that.
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HANDOVER_WORKER_RINGS_H_
