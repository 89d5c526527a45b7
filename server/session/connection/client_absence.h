// A client that has lost its connection: how long its session waits for it to come back.
#ifndef WARPLINE_SERVER_SESSION_CONNECTION_CLIENT_ABSENCE_H_
#define WARPLINE_SERVER_SESSION_CONNECTION_CLIENT_ABSENCE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "server/process/control_loop.h"
#include "server/process/event_loop.h"

namespace warpline::server {

// A client's process, in its own words (Hello).
struct ClientProcess {
  uint32_t pid = 0;
  uint64_t start_time = 0;
  std::string boot_id;
  uint64_t pid_namespace = 0;
};

// Not destroyed while it is under way.
class ClientAbsence {
 public:
  // Called once with why the client is given up.
  using GiveUp = std::function<void(const std::string& reason)>;

  explicit ClientAbsence(EventLoop* loop) : loop_(loop) {}
  ClientAbsence(const ClientAbsence&) = delete;
  ClientAbsence& operator=(const ClientAbsence&) = delete;

  // The client is gone from now on, and given up after `patience`; as soon as its process has ended
  // where that can be known: it is on this host and sees the same process ids.
  void Begin(const ClientProcess& client, absl::Duration patience, GiveUp give_up)
      RUNS_ON(control_loop);
  // It is back, or nobody waits for it any more.
  void End() RUNS_ON(control_loop);
  bool under_way() const RUNS_ON(control_loop) { return timer_ != 0; }

 private:
  void WatchProcess(const ClientProcess& client) RUNS_ON(control_loop);
  void Finish(const std::string& reason) RUNS_ON(control_loop);

  EventLoop* const loop_;
  GiveUp give_up_ ABSL_GUARDED_BY(control_loop);
  UniqueFd process_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token watch_ ABSL_GUARDED_BY(control_loop) = 0;
  EventLoop::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_SESSION_CONNECTION_CLIENT_ABSENCE_H_
