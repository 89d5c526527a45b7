// Tells at once that a process has begun to die.
//
// To take down a process with a GPU context, the kernel needs up to a second or more, and only then
// closes the process's sockets. But it marks the robust mutexes (set_robust_list(2)) of a dying
// thread before all that. So a worker holds such a mutex, for as long as it lives, in memory that
// it shares with the server, which watches the mutex's word
// (server/hostlink/process/death_watch.h).
#ifndef WARPLINE_SERVER_HOSTLINK_PROCESS_LIVENESS_LOCK_H_
#define WARPLINE_SERVER_HOSTLINK_PROCESS_LIVENESS_LOCK_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline {

// The watcher's end. It maps the memory read-only and takes nothing from it but one word, so that a
// hostile holder can do no more than pretend to be dead. Thread-safe.
class LivenessLock {
 public:
  // RESOURCE_EXHAUSTED when the system has no descriptors or memory left.
  static absl::StatusOr<std::shared_ptr<LivenessLock>> Create();
  ~LivenessLock();
  LivenessLock(const LivenessLock&) = delete;
  LivenessLock& operator=(const LivenessLock&) = delete;

  // The descriptor for the process that is watched. This object owns it.
  int fd() const { return fd_.get(); }
  // The mutex's word: zero until the liveness lock is held, and not zero from then on.
  const std::atomic<uint32_t>* word() const { return word_; }
  // Returns whether the process that held the liveness lock is dying or dead.
  bool Ended() const;

 private:
  LivenessLock(UniqueFd fd, const std::atomic<uint32_t>* word) : fd_(std::move(fd)), word_(word) {}

  const UniqueFd fd_;
  const std::atomic<uint32_t>* const word_;
};

// Makes the calling thread hold the liveness lock of `fd` until the thread ends. The thread must
// live as long as its process. INVALID_ARGUMENT when `fd` is no liveness lock.
absl::Status HoldLivenessLock(const UniqueFd& fd);

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_PROCESS_LIVENESS_LOCK_H_
