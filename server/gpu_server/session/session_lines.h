// What is said of a session in the server's log, as far as there is room for lines of its tenant or
// peer.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_LINES_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_LINES_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/log/keyed_log_budget.h"
#include "server/gpu_server/session/server_log.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

class SessionLines {
 public:
  // `log` is borrowed.
  SessionLines(KeyedLogBudget* log, uint64_t id, std::string peer)
      : log_(log), id_(id), peer_(std::move(peer)) {}

  // What lines say and whose they are, as it becomes known. `devices` are ordinals with commas
  // between.
  void SetTenant(const std::string& tenant) RUNS_ON(control_loop) { tenant_ = tenant; }
  void SetDevices(const std::string& devices) RUNS_ON(control_loop) { devices_ = devices; }
  void SetWorker(int pid) RUNS_ON(control_loop) { worker_pid_ = pid; }

  // "session=7 gpu=0,1 pid=123"
  std::string Keys() const RUNS_ON(control_loop);
  const std::string& peer() const RUNS_ON(control_loop) { return peer_; }
  // Whether there is room for a line of this kind.
  LogPermit Ask(ServerLine line) const RUNS_ON(control_loop);

  // The session has a device: asks for the line that it opens with. Without room for that its
  // worker says nothing either.
  void Begin() RUNS_ON(control_loop);
  // Another worker begins, with a line of this kind to say so.
  LogPermit BeginWorker(ServerLine line) RUNS_ON(control_loop);
  bool quiet() const RUNS_ON(control_loop) { return quiet_; }
  // The session is open; `rest` is what the line says besides its keys.
  void SayOpened(const std::string& rest) RUNS_ON(control_loop);
  // For the last line: what was said to have begun is said to end.
  LogPermit AskForLast() const RUNS_ON(control_loop);

 private:
  KeyedLogBudget* const log_;
  const uint64_t id_;
  const std::string peer_;
  std::string tenant_ ABSL_GUARDED_BY(control_loop);
  std::string devices_ ABSL_GUARDED_BY(control_loop);
  int worker_pid_ ABSL_GUARDED_BY(control_loop) = 0;
  LogPermit first_ ABSL_GUARDED_BY(control_loop);
  bool said_opened_ ABSL_GUARDED_BY(control_loop) = false;
  // The session's worker says nothing, because there is no room for its lines.
  bool quiet_ ABSL_GUARDED_BY(control_loop) = false;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_LINES_H_
