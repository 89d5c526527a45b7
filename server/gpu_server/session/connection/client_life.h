// Watches the process of a client for as long as its session lasts, where the server can see it.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_CLIENT_LIFE_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_CLIENT_LIFE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/unique_fd.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

// A client's process, in its own words (Hello).
struct ClientProcess {
  uint32_t pid = 0;
  uint64_t start_time = 0;
  std::string boot_id;
  uint64_t pid_namespace = 0;
  // It has addresses set aside for its arena as long as it executes the program of the session.
  uint64_t arena_bytes = 0;
};

// Whether the client's process is known to execute another program by now, which exec() has put in
// the place of the one that had the session. False for processes that the server cannot see.
bool ExecutesAnotherProgram(const ClientProcess& client);

// Not destroyed while it watches.
class ClientLife {
 public:
  explicit ClientLife(EventLoop* loop) : loop_(loop) {}
  ClientLife(const ClientLife&) = delete;
  ClientLife& operator=(const ClientLife&) = delete;

  // Calls `ended` once when the process has ended, and not from within. The process must be on this
  // host and see the same process ids. Nothing is watched otherwise.
  void Watch(const ClientProcess& client, std::function<void()> ended) RUNS_ON(control_loop);
  // Watches nothing any more.
  void Stop() RUNS_ON(control_loop);

 private:
  EventLoop* const loop_;
  std::function<void()> ended_ ABSL_GUARDED_BY(control_loop);
  UniqueFd process_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token watch_ ABSL_GUARDED_BY(control_loop) = 0;
  EventLoop::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_CLIENT_LIFE_H_
