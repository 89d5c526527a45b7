// Channels between two parties of one process, for tests: the same loops, parking, back-pressure
// and endings as a channel over a network, without one.
#ifndef WARPLINE_TRANSPORT_INPROC_INPROC_CHANNEL_H_
#define WARPLINE_TRANSPORT_INPROC_INPROC_CHANNEL_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/channel.h"

namespace warpline {

// Two connected channels. The handlers are borrowed and must outlive their channel.
std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>> MakeInprocPair(
    ChannelHandler* first, ChannelHandler* second, const ChannelOptions& options);

// Stands in for a listening server. Thread-safe, but for destruction.
class InprocServer {
 public:
  // `acceptor` is borrowed until Shutdown() has returned. It is asked on the session's own thread.
  InprocServer(Acceptor* acceptor, const ChannelOptions& options);
  // Shuts down.
  ~InprocServer();

  // Opens a session and waits for the acceptor. A refusal comes back as its status; UNAVAILABLE
  // after Shutdown().
  absl::StatusOr<std::unique_ptr<Channel>> Dial(ChannelHandler* handler,
                                                const ChannelOptions& options);

  // Sessions that run at the moment.
  int sessions() const;

  // Cuts the running sessions. Returns when every handler has been destroyed.
  void Shutdown();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_INPROC_INPROC_CHANNEL_H_
