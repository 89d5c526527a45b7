// The server's ends of the rings that connect a session's channel to its worker, and to the worker
// that takes over from it.
#ifndef WARPLINE_SERVER_HOSTLINK_HANDOVER_WORKER_RINGS_H_
#define WARPLINE_SERVER_HOSTLINK_HANDOVER_WORKER_RINGS_H_

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

// The two rings of one worker. The doorbells belong to the doorbell loop; the rest is guarded by
// the lock of WorkerRings.
class RingPair {
 public:
  // `capacity` is passed to CreateRing().
  static absl::StatusOr<std::shared_ptr<RingPair>> Create(size_t capacity);

  // These descriptors are readable when the channel should look again, until ClearDoorbells().
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

// Thread-safe. The channel's loop calls TryWrite(), TryRead() and ArmDoorbell(), and the control
// loop the rest.
//
//   // Taking over from a worker:
//   rings->Freeze();
//   ...                                                       // The worker is killed, and has
//   ended. const std::optional<uint64_t> taken = rings->TakenSeq();  // Where the next worker goes
//   on. if (absl::Status made = rings->Renew(); !made.ok()) return made;
//   ...                                                       // It opens with rings->child_fds().
//   rings->Thaw();
class WorkerRings {
 public:
  static absl::StatusOr<std::shared_ptr<WorkerRings>> Create(size_t capacity);

  // Creates rings that are frozen after command `seq`, which another server's worker has completed.
  static absl::StatusOr<std::shared_ptr<WorkerRings>> CreateAfter(size_t capacity, uint64_t seq);

  // Passes on one kCommands payload. Returns false when there is no room, and while frozen; the
  // doorbell then rings when there is room. INVALID_ARGUMENT when the worker has garbled the ring.
  absl::StatusOr<bool> TryWrite(std::string_view payload);

  // Takes one kReplies payload; what a replaced worker left comes first. Returns false when there
  // is none. INVALID_ARGUMENT when the worker has garbled the ring, or when the frame is of another
  // kind.
  absl::StatusOr<bool> TryRead(std::string* payload);

  // Asks for the doorbell at the next reply. Returns false when a reply can already be read.
  bool ArmDoorbell();

  // Lets nothing more through to the worker, and returns the number of the last command that was
  // passed on.
  uint64_t Freeze();
  // Returns the number of the last command that was passed on.
  uint64_t FedSeq() const;
  // Returns the number of the last command that the worker took; empty when it garbled the ring.
  // REQUIRES: frozen, and the worker is dead. Renew() keeps what the worker left in the ring, and
  // Thaw() hands it to the next worker.
  std::optional<uint64_t> TakenSeq();
  // Makes new rings for the next worker. They are still frozen.
  absl::Status Renew();
  // Lets commands through again.
  void Thaw();

  // The rings of the newest worker.
  std::shared_ptr<RingPair> pair() const;
  // The descriptors of these rings, in the order of OpenWorker.
  std::vector<int> child_fds() const;
  void CloseChildFds();

 private:
  // A frame in the ring to the worker.
  struct Fed {
    uint64_t begin;  // The value of RingWriter::written_bytes() at its start.
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
  // The rings of the former worker, while what it left has not been read to the end.
  std::shared_ptr<RingPair> former_ ABSL_GUARDED_BY(mu_);
  bool frozen_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t fed_seq_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t taken_seq_ ABSL_GUARDED_BY(mu_) = 0;  // The last command seen to be taken.
  std::deque<Fed> fed_ ABSL_GUARDED_BY(mu_);     // The frames after that command.
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_HANDOVER_WORKER_RINGS_H_
