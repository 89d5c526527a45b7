// A channel to a server that lives in the same loop: a function gets what the client sends, and the
// client's handler gets what was queued for it. For tests and benchmarks.
#ifndef WARPLINE_CLIENT_STUB_SESSION_TESTING_LOOPBACK_CHANNEL_H_
#define WARPLINE_CLIENT_STUB_SESSION_TESTING_LOOPBACK_CHANNEL_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "client_stub/session/testing/client_link.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/park_state.h"

namespace warpline::stub {

class LoopbackChannel final : public Channel, public ClientLink {
 public:
  // `server` gets every frame of the client, on the loop, together with this channel.
  using Server = std::function<void(ClientLink* link, Frame frame)>;

  LoopbackChannel(ChannelHandler* client, Server server);
  ~LoopbackChannel() override;

  const char* transport() const override { return "loopback"; }
  void Wake() override;
  void Close(const absl::Status& status) override;

  void ToClient(Frame frame) override;
  void ServerClose(const absl::Status& status) override;

 private:
  void Run() RUNS_ON(channel_loop);
  bool Turn() RUNS_ON(channel_loop);

  ChannelHandler* const client_;
  const Server server_;
  ParkState park_;
  Mutex mu_;
  CondVar changed_;
  bool bell_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Frame> to_client_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> closed_by_client_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> closed_by_server_ ABSL_GUARDED_BY(mu_);
  std::atomic<int> pending_{0};  // Frames and closings that the loop has not seen.
  std::thread thread_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_TESTING_LOOPBACK_CHANNEL_H_
