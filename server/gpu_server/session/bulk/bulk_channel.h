// One bulk connection of a session, from its second frame on: carries bytes between the client and
// the session's host memory.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_BULK_BULK_CHANNEL_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_BULK_BULK_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "server/gpu_server/session/bulk/bulk_port.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::server {

class BulkChannel {
 public:
  // Gets that may wait to be answered: a channel that stopped reading would have the transport hold
  // what the client sends.
  static constexpr size_t kMaxGets = 64;

  // What a bulk channel asks of others. Neither blocks.
  struct Events {
    // The client asks for host memory; the answer is pushed into the port, for the slot.
    std::function<void(uint32_t slot, warpline_internal::HostMemoryRequest request)> memory;
    // So many bytes were put, or got.
    std::function<void(uint64_t bytes)> moved;
    // The client broke the protocol; the channel is closing.
    std::function<void(const absl::Status& status)> broken;
  };

  // `channel` has the slot, and is borrowed.
  BulkChannel(std::shared_ptr<BulkPort> port, uint32_t slot, Channel* channel, Events events)
      : port_(std::move(port)), slot_(slot), channel_(channel), events_(std::move(events)) {}

  // Those of a ChannelHandler.
  bool NextFrame(Frame* frame) RUNS_ON(channel_loop);
  Accept OnFrame(Frame* frame) RUNS_ON(channel_loop);
  void OnClosed() RUNS_ON(channel_loop) { port_->Detach(slot_, channel_); }

 private:
  absl::Status OnPut(const Frame& frame) RUNS_ON(channel_loop);
  absl::Status OnGet(const Frame& frame) RUNS_ON(channel_loop);
  absl::Status OnMemory(const Frame& frame) RUNS_ON(channel_loop);
  // Fills in the bytes of the next get.
  bool Answer(Frame* frame) RUNS_ON(channel_loop);
  void End(const absl::Status& status) RUNS_ON(channel_loop);

  const std::shared_ptr<BulkPort> port_;
  const uint32_t slot_;
  Channel* const channel_;
  const Events events_;
  bool ready_due_ ABSL_GUARDED_BY(channel_loop) = true;
  bool ended_ ABSL_GUARDED_BY(channel_loop) = false;
  bool memory_asked_ ABSL_GUARDED_BY(channel_loop) = false;  // One request at a time.
  uint64_t puts_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t puts_told_ ABSL_GUARDED_BY(channel_loop) = 0;
  std::deque<BulkHeader> gets_ ABSL_GUARDED_BY(channel_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_BULK_BULK_CHANNEL_H_
