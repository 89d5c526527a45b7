// Where clients on the server's host ask for host memory: an abstract unix socket, because
// descriptors travel by no other way.
//
// Anybody on the host can connect. A connection has some seconds to show a session's secret, with
// its first request, and each user has a few connections without one: for the next one the oldest
// goes. From then on the connection is that
// session's, which has few, and ends with it. Only when memory outlives the session
// (kept_segments.h) does one of them stay: until the client closes it, which it does by ending.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_HOST_MEMORY_PORT_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_HOST_MEMORY_PORT_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/serving/stranger_book.h"
#include "common/unique_fd.h"
#include "proto/session.pb.h"
#include "server/gpu_server/memory/host_segments.h"
#include "server/gpu_server/memory/kept_segments.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

// The sessions for which host memory is asked.
class HostMemorySessions {
 public:
  virtual ~HostMemorySessions() = default;
  // Whether there is such a session and the secret is its own.
  virtual bool HasSecret(uint64_t session, const std::string& secret) RUNS_ON(control_loop) = 0;
  // Answers now or later, on the loop. The secret was its own.
  virtual void OnHostMemory(const warpline_internal::HostMemoryRequest& request,
                            HostSegments::Answer answer) RUNS_ON(control_loop) = 0;
  // The client hands over what it shared with a former server: the segments of `request`, and their
  // memory in the same order.
  virtual HostSegments::Result OnKeptMemory(const warpline_internal::HostMemoryRequest& request,
                                            std::vector<UniqueFd> memory) RUNS_ON(control_loop) = 0;
};

// Returns true if a server of this user can listen at the abstract name now.
bool IsFreeName(const std::string& name);

struct HostMemoryPortLimits {
  // Connections without a session: of one user, in all, and for how long.
  size_t most_strange_of_user = 32;
  size_t most_strange = 128;
  absl::Duration patience = absl::Seconds(10);
  // Connections of a session; for the next one its oldest is closed.
  size_t most_of_session = 2;
  // Connections of one user that may ask for memory that outlives the session; others get none.
  size_t most_kept_of_user = 128;
};

class HostMemoryPort {
 public:
  // `loop` is the control loop; it and the sessions are borrowed.
  HostMemoryPort(EventLoop* loop, HostMemorySessions* sessions,
                 const HostMemoryPortLimits& limits = HostMemoryPortLimits())
      : loop_(loop),
        sessions_(sessions),
        limits_(limits),
        strangers_(limits.most_strange_of_user) {}

  // A name that no other server has.
  static std::string NewName();
  absl::Status Start(const std::string& name) RUNS_ON(control_loop);
  void Stop() RUNS_ON(control_loop);
  // Sends the session's client the descriptors of its memory, for another server. Returns false
  // when the client has no connection, or does not take them.
  bool GiveToClient(uint64_t session, const std::vector<HostSegments::Shared>& memory)
      RUNS_ON(control_loop);
  // The session has ended; `kept` outlives it.
  void Forget(uint64_t session, KeptSegments kept) RUNS_ON(control_loop);

  size_t connections() const RUNS_ON(control_loop) { return connections_.size(); }

 private:
  struct Connection {
    StrangerBook::Id id = 0;
    UniqueFd socket;
    EventLoop::Token watch = 0;
    EventLoop::Token timer = 0;  // Until it has a session.
    uint64_t session = 0;        // 0 before.
    bool busy = false;           // One request at a time.
    uid_t user = 0;
    bool may_keep = false;  // Counted in keeping_.
    // Of a session that has ended.
    bool keeps = false;
    KeptSegments kept;
  };

  void OnConnect() RUNS_ON(control_loop);
  void AddStranger(UniqueFd socket) RUNS_ON(control_loop);
  // Whether the connection may make this request; ties it to the session if it is the first.
  bool Admit(Connection* connection, const warpline_internal::HostMemoryRequest& request)
      RUNS_ON(control_loop);
  void OnPacket(const std::shared_ptr<Connection>& connection) RUNS_ON(control_loop);
  // Whether the connection may ask for memory that outlives the session.
  bool MayKeep(Connection* connection) RUNS_ON(control_loop);
  void OnPacketAfterEnd(const std::shared_ptr<Connection>& connection) RUNS_ON(control_loop);
  // Answers a client that hands over memory.
  bool TakeKept(Connection* connection, const warpline_internal::HostMemoryRequest& request,
                std::vector<UniqueFd> memory) RUNS_ON(control_loop);
  bool Answer(const Connection& connection, const HostSegments::Result& result)
      RUNS_ON(control_loop);
  void Drop(const std::shared_ptr<Connection>& held) RUNS_ON(control_loop);

  EventLoop* const loop_;
  HostMemorySessions* const sessions_;
  const HostMemoryPortLimits limits_;
  UniqueFd socket_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token watch_ ABSL_GUARDED_BY(control_loop) = 0;
  StrangerBook::Id last_id_ ABSL_GUARDED_BY(control_loop) = 0;
  std::map<StrangerBook::Id, std::shared_ptr<Connection>> connections_
      ABSL_GUARDED_BY(control_loop);
  StrangerBook strangers_ ABSL_GUARDED_BY(control_loop);
  // Of each session that has some, the oldest first.
  std::map<uint64_t, std::list<StrangerBook::Id>> of_session_ ABSL_GUARDED_BY(control_loop);
  std::map<uid_t, size_t> keeping_ ABSL_GUARDED_BY(control_loop);  // Connections, by user.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_HOST_MEMORY_PORT_H_
