// What is said of a session in the server's log, as far as there is room for lines of its tenant or
// peer.
#ifndef WARPLINE_SERVER_SESSION_SESSION_LINES_H_
#define WARPLINE_SERVER_SESSION_SESSION_LINES_H_

#include <cstdint>
#include <string>

#include "common/log/keyed_log_budget.h"
#include "server/session/server_log.h"

namespace warpline::server {

// Runs on the control loop.
class SessionLines {
 public:
  // `log` is borrowed.
  SessionLines(KeyedLogBudget* log, uint64_t id, std::string peer)
      : log_(log), id_(id), peer_(std::move(peer)) {}

  // What lines say and whose they are, as it becomes known. `devices` are ordinals with commas
  // between.
  void SetTenant(const std::string& tenant) { tenant_ = tenant; }
  void SetDevices(const std::string& devices) { devices_ = devices; }
  void SetWorker(int pid) { worker_pid_ = pid; }

  // "session=7 gpu=0,1 pid=123"
  std::string Keys() const;
  const std::string& peer() const { return peer_; }
  // Whether there is room for a line of this kind.
  LogPermit Ask(ServerLine line) const;

  // The session has a device: asks for the line that it opens with. Without room for that its
  // worker says nothing either.
  void Begin();
  // Another worker begins, with a line of this kind to say so.
  LogPermit BeginWorker(ServerLine line);
  bool quiet() const { return quiet_; }
  // The session is open; `rest` is what the line says besides its keys.
  void SayOpened(const std::string& rest);
  // For the last line: what was said to have begun is said to end.
  LogPermit AskForLast() const;

 private:
  KeyedLogBudget* const log_;
  const uint64_t id_;
  const std::string peer_;
  std::string tenant_;
  std::string devices_;
  int worker_pid_ = 0;
  LogPermit first_;
  bool said_opened_ = false;
  // The session's worker says nothing, because there is no room for its lines.
  bool quiet_ = false;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_SESSION_SESSION_LINES_H_
