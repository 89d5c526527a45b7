// Tells at once that a process has begun to die.
//
// Taking a process with a GPU context down takes the kernel up to a second or more, and only then
// does it close the process's sockets. But robust mutexes (set_robust_list(2)) of a dying thread
// are marked before all that. So a worker holds such a mutex, for as long as it lives, in memory
// that it shares with the server, which watches the mutex's word (server/process/death_watch.h).
#ifndef WARPLINE_SERVER_PROCESS_LIFE_LINE_H_
#define WARPLINE_SERVER_PROCESS_LIFE_LINE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline {

// The watcher's end. It maps the memory read-only and takes nothing from it but one word, so a
// hostile holder can do no more than pretend to be dead. Thread-safe.
class LifeLine {
 public:
  // RESOURCE_EXHAUSTED when the system has no descriptors or memory left.
  static absl::StatusOr<std::shared_ptr<LifeLine>> Create();
  ~LifeLine();
  LifeLine(const LifeLine&) = delete;
  LifeLine& operator=(const LifeLine&) = delete;

  // For the process that is watched.
  int fd() const { return fd_.get(); }
  // Zero until it is held, then not.
  const std::atomic<uint32_t>* word() const { return word_; }
  // The process that held it is dying or dead.
  bool Ended() const;

 private:
  LifeLine(UniqueFd fd, const std::atomic<uint32_t>* word) : fd_(std::move(fd)), word_(word) {}

  const UniqueFd fd_;
  const std::atomic<uint32_t>* const word_;
};

// The watched end: the calling thread holds the life line of `fd` until it ends, and must therefore
// be one that lives as long as its process. INVALID_ARGUMENT when `fd` is none.
absl::Status HoldLifeLine(const UniqueFd& fd);

}  // namespace warpline

#endif  // WARPLINE_SERVER_PROCESS_LIFE_LINE_H_
