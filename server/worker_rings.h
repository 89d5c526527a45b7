// The server's ends of the two rings that connect a session's channel to its worker.
#ifndef WARPLINE_SERVER_WORKER_RINGS_H_
#define WARPLINE_SERVER_WORKER_RINGS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/shm_ring.h"

namespace warpline {

// TryWrite(), TryRead() and ArmDoorbell() belong to the channel's loop, the child's descriptors to
// the control loop, and the doorbells to the doorbell loop.
class WorkerRings {
 public:
  // `capacity` as for CreateRing().
  static absl::StatusOr<std::shared_ptr<WorkerRings>> Create(size_t capacity);

  // Passes on one kCommands payload. False when there is no room; the doorbell then rings when
  // there is. INVALID_ARGUMENT when the worker has garbled the ring.
  absl::StatusOr<bool> TryWrite(std::string_view payload);

  // Takes one kReplies payload. False when there is none. INVALID_ARGUMENT as above, or when it is
  // of another kind.
  absl::StatusOr<bool> TryRead(std::string* payload);

  // Asks for the doorbell at the next reply. False when there is one to read already.
  bool ArmDoorbell() { return reader_->PrepareToSleep(); }

  // The worker's descriptors, as OpenWorker has them.
  std::vector<int> child_fds() const;
  void CloseChildFds();

  // Readable when the channel should look again, until ClearDoorbells().
  int reply_doorbell() const { return reader_->readable_fd(); }
  int room_doorbell() const { return writer_->writable_fd(); }
  void ClearDoorbells();

 private:
  WorkerRings() = default;

  std::unique_ptr<RingWriter> writer_;
  std::unique_ptr<RingReader> reader_;
  RingDescriptors to_worker_;
  RingDescriptors from_worker_;
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_WORKER_RINGS_H_
