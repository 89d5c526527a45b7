// What wakes the loop of a link that sleeps in poll(2): an eventfd, which is rung only when the
// loop has announced that it sleeps (transport/park_state.h).
#ifndef WARPLINE_TRANSPORT_LOOP_BELL_H_
#define WARPLINE_TRANSPORT_LOOP_BELL_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "transport/channel_loop.h"
#include "transport/park_state.h"

namespace warpline {

// Ring() is thread-safe; fd() is the sleeper's.
class LoopBell {
 public:
  // RESOURCE_EXHAUSTED when the process has no descriptor left.
  static absl::StatusOr<UniqueFd> NewFd() {
    UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd.valid()) return absl::ResourceExhaustedError("no descriptor is left for a connection");
    return fd;
  }
  explicit LoopBell(UniqueFd fd) : fd_(std::move(fd)) {}

  // As in ParkState.
  void Announce() RUNS_ON(channel_loop) { park_.Announce(); }
  // The reverse; `rung` when fd() was readable.
  void Retract(bool rung) RUNS_ON(channel_loop) {
    park_.Retract();
    if (!rung) return;
    uint64_t times;
    [[maybe_unused]] const ssize_t got = read(fd_.get(), &times, sizeof(times));
  }
  int fd() const { return fd_.get(); }

  void Ring() {
    if (!park_.Signal()) return;
    const uint64_t once = 1;
    [[maybe_unused]] const ssize_t written = write(fd_.get(), &once, sizeof(once));
  }

 private:
  const UniqueFd fd_;
  ParkState park_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_LOOP_BELL_H_
