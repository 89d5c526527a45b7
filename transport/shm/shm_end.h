// One end of a connection through shared memory: a ring to write, a ring to read, and the socket
// that tells when the other end is gone. Private to transport/shm.
#ifndef WARPLINE_TRANSPORT_SHM_SHM_END_H_
#define WARPLINE_TRANSPORT_SHM_SHM_END_H_

#include <chrono>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/link_end.h"
#include "transport/loop_bell.h"
#include "transport/shm_ring.h"

namespace warpline::shm_internal {

// The other end is another process, which may write whatever it likes into the rings and the
// socket: that breaks the link, and nothing else.
class ShmEnd : public LinkEnd {
 public:
  // INVALID_ARGUMENT when the descriptors are not those of rings that take every frame,
  // RESOURCE_EXHAUSTED when the process has none left.
  static absl::StatusOr<std::unique_ptr<ShmEnd>> Create(UniqueFd socket, RingDescriptors to_write,
                                                        RingDescriptors to_read);

  Taken Take(Frame* frame, absl::Status* why) RUNS_ON(channel_loop) override;
  bool HasRoom() RUNS_ON(channel_loop) override;
  void Put(Frame frame) RUNS_ON(channel_loop) override;
  void PutEnd(const absl::Status& status) RUNS_ON(channel_loop) override;
  void Break() RUNS_ON(channel_loop) override;
  void BeginSleep() RUNS_ON(channel_loop) override;
  void Sleep(std::optional<std::chrono::nanoseconds> at_most) RUNS_ON(channel_loop) override;
  void EndSleep() RUNS_ON(channel_loop) override;
  void Ring() override { bell_.Ring(); }

 private:
  using Clock = std::chrono::steady_clock;

  ShmEnd(UniqueFd socket, UniqueFd bell, std::unique_ptr<RingWriter> writer,
         std::unique_ptr<RingReader> reader);
  // Looks whether the socket has something to tell.
  void LookAtSocket() RUNS_ON(channel_loop);

  const UniqueFd socket_;
  LoopBell bell_;
  const std::unique_ptr<RingWriter> writer_ ABSL_PT_GUARDED_BY(channel_loop);
  const std::unique_ptr<RingReader> reader_ ABSL_PT_GUARDED_BY(channel_loop);
  // What ended the last sleep, by its descriptors; the sleeper's alone.
  bool rung_ = false;
  bool readable_ = false;
  bool writable_ = false;
  bool socket_ready_ = false;
  // A sleeper does not wait for a socket that has nothing more to say.
  bool socket_silent_ ABSL_GUARDED_BY(channel_loop) = false;
  Clock::time_point next_look_ ABSL_GUARDED_BY(channel_loop);
  // What the socket said last, after which it says nothing more: the peer's end, or why there is
  // none.
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(channel_loop);
  std::optional<absl::Status> broken_ ABSL_GUARDED_BY(channel_loop);
};

}  // namespace warpline::shm_internal

#endif  // WARPLINE_TRANSPORT_SHM_SHM_END_H_
