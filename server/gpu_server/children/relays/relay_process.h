// The server's end of a relay: a process that carries the connections of one session
// (server/relay/).
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_RELAYS_RELAY_PROCESS_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_RELAYS_RELAY_PROCESS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/steady_time.h"
#include "common/unique_fd.h"
#include "proto/relay.pb.h"
#include "proto/session.pb.h"
#include "server/gpu_server/children/relays/networks.h"
#include "server/hostlink/process/child_process.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"
#include "server/hostlink/process/running_process.h"
#include "server/jail/jailer.h"
#include "transport/ucx/ucx_transports.h"

namespace warpline::server {

// Where a relay may listen. Both 0 stand for any port.
struct RelayPorts {
  uint32_t first = 0;
  uint32_t last = 0;
};

// How relays are started, and for whom.
struct RelayOptions {
  ProcessLauncher* launcher = nullptr;  // Borrowed.
  jail::Jailer* jailer = nullptr;       // Borrowed; null for no jail, in tests.
  ChildOptions program = {};
  // Clients that come from these have relays over UCX.
  Networks ucx_networks = {};
  // The transports of UCX there.
  UcxTransports ucx_transports = {};
  // Other clients have relays with TLS: the server's connections have TLS, so that the secret of a
  // relay is told over it.
  bool tls = false;
  RelayPorts ports = {};
  // Where the server listens for who shares memory with it: an abstract name. Relays connect there.
  std::string server_name = {};
};

// Starts a relay's process for once, in its jail, and asks whether UCX has the transports there.
// UNAVAILABLE, saying which one it lacks. Blocks; for the server's start.
absl::Status CheckUcxTransports(const RelayOptions& options);

// Receives what becomes of a relay.
class RelayEvents {
 public:
  virtual ~RelayEvents() = default;
  // The client may come, to this address, and its bulk connections to the other.
  virtual void OnRelayReady(const std::string& address, const std::string& bulk_endpoint)
      RUNS_ON(control_loop) = 0;
  // The client has come.
  virtual void OnRelayConnected() RUNS_ON(control_loop) = 0;
  // A bulk connection asks for host memory. AnswerMemory() is due once.
  virtual void OnRelayMemory(const warpline_internal::RelayMemory& memory)
      RUNS_ON(control_loop) = 0;
  // So many bytes went over bulk connections.
  virtual void OnRelayMoved(uint64_t bytes) RUNS_ON(control_loop) = 0;
  // The last call: the relay is over; `why` is for people, empty where it had been connected.
  virtual void OnRelayOver(const std::string& why) RUNS_ON(control_loop) = 0;
};

// What the process says is checked like a tenant's: it parses what comes from the network.
class RelayProcess : public std::enable_shared_from_this<RelayProcess> {
 public:
  // The number of messages that a relay may send at once, and in each second from then on. More end
  // it. One that behaves says ten times a second how much it has moved.
  static constexpr double kMostWords = 100;
  static constexpr double kWordsPerSecond = 20;

  // `control` is the control loop; on `spawner` the process is started. `events` are borrowed until
  // OnRelayOver() or End().
  RelayProcess(EventLoop* control, EventLoop* spawner, RelayEvents* events)
      : control_(control), spawner_(spawner), events_(events) {}

  // Starts a relay for a client at an IP address, which shows the secret, over UCX or with TLS.
  // Called once.
  void Start(const RelayOptions& options, const std::string& peer, const std::string& secret,
             bool ucx) RUNS_ON(control_loop);

  // The answer to OnRelayMemory(); `fd` is borrowed, -1 where there is none.
  void AnswerMemory(uint32_t slot, const warpline_internal::HostMemoryAnswer& answer, int fd)
      RUNS_ON(control_loop);

  // Ends the process, without a further event.
  void End() RUNS_ON(control_loop);

 private:
  struct Spawned {
    absl::StatusOr<std::unique_ptr<RunningProcess>> process;
    UniqueFd socket;
    UniqueFd server;  // The relay's connection to this server.
    std::unique_ptr<jail::Cell> cell;
  };
  static Spawned Spawn(const RelayOptions& options, bool ucx);
  void OnSpawned(Spawned spawned, warpline_internal::PrepareRelay prepare) RUNS_ON(control_loop);
  void OnPacket() RUNS_ON(control_loop);
  void OnPrepared(const warpline_internal::RelayPrepared& prepared) RUNS_ON(control_loop);
  void OnMemory(const warpline_internal::RelayMemory& memory) RUNS_ON(control_loop);
  // Returns whether the relay may now send another message of a kind that it may repeat.
  bool TrySpend() RUNS_ON(control_loop);
  void Over(const std::string& why) RUNS_ON(control_loop);
  void StopWatching() RUNS_ON(control_loop);

  EventLoop* const control_;
  EventLoop* const spawner_;
  RelayEvents* events_ ABSL_GUARDED_BY(control_loop);  // Null once it is over.
  std::unique_ptr<RunningProcess> process_ ABSL_GUARDED_BY(control_loop);
  std::unique_ptr<jail::Cell> cell_ ABSL_GUARDED_BY(control_loop);
  UniqueFd socket_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token socket_watch_ ABSL_GUARDED_BY(control_loop) = 0;
  bool ready_ ABSL_GUARDED_BY(control_loop) = false;
  bool connected_ ABSL_GUARDED_BY(control_loop) = false;
  // Slots that wait for an answer about memory.
  std::set<uint32_t> asking_ ABSL_GUARDED_BY(control_loop);
  // What it may still say, and since when.
  double words_left_ ABSL_GUARDED_BY(control_loop) = kMostWords;
  absl::Time words_since_ ABSL_GUARDED_BY(control_loop) = SteadyNow();
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_RELAYS_RELAY_PROCESS_H_
