// Where clients on the server's host ask for host memory: an abstract unix socket, because
// descriptors travel by no other way. Who connects proves with each request whose client it is.
#ifndef WARPLINE_SERVER_MEMORY_HOST_MEMORY_PORT_H_
#define WARPLINE_SERVER_MEMORY_HOST_MEMORY_PORT_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "proto/session.pb.h"
#include "server/memory/host_segments.h"
#include "server/process/control_loop.h"
#include "server/process/event_loop.h"

namespace warpline::server {

class HostMemoryPort {
 public:
  // Answers now or later, on the loop.
  using Handler = std::function<void(const warpline_internal::HostMemoryRequest& request,
                                     HostSegments::Answer answer)>;

  static constexpr size_t kMostConnections = 4096;

  // `loop` is the control loop, borrowed.
  HostMemoryPort(EventLoop* loop, Handler handler) : loop_(loop), handler_(std::move(handler)) {}

  // A name that no other server has.
  static std::string NewName();
  absl::Status Start(const std::string& name) RUNS_ON(control_loop);
  void Stop() RUNS_ON(control_loop);

 private:
  struct Connection {
    UniqueFd socket;
    EventLoop::Token watch = 0;
    bool busy = false;  // One request at a time.
  };

  void OnConnect() RUNS_ON(control_loop);
  void OnPacket(const std::shared_ptr<Connection>& connection) RUNS_ON(control_loop);
  void Drop(const std::shared_ptr<Connection>& connection) RUNS_ON(control_loop);

  EventLoop* const loop_;
  const Handler handler_;
  UniqueFd socket_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token watch_ ABSL_GUARDED_BY(control_loop) = 0;
  std::map<Connection*, std::shared_ptr<Connection>> connections_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_MEMORY_HOST_MEMORY_PORT_H_
