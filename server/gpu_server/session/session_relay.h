// A session's relay, by which its client goes on over connections of its own: there is one at a
// time, and the client asks for it.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_RELAY_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_RELAY_H_

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "proto/session.pb.h"
#include "server/gpu_server/children/relays/relay_process.h"
#include "server/gpu_server/session/connection/session_port.h"
#include "server/gpu_server/session/session_lines.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

class SessionRelay : private RelayEvents {
 public:
  // How the relay's bulk connections get host memory of the session: `answer` is called once, on
  // the control loop, with a descriptor (borrowed) or -1.
  using MemoryAnswer =
      std::function<void(const warpline_internal::HostMemoryAnswer& answer, int fd)>;
  using MemorySource =
      std::function<void(const warpline_internal::HostMemoryRequest& request, MemoryAnswer answer)>;

  // All are borrowed; `options` may be null, where nobody has relays.
  SessionRelay(EventLoop* control, EventLoop* spawner, const RelayOptions* options,
               SessionPort* port, const SessionLines* lines, MemorySource memory);

  // Whether the client may ask.
  bool Offered() const RUNS_ON(control_loop);
  // The client asks; the answer goes to the port. The relay that it had before ends.
  void OnAsk() RUNS_ON(control_loop);
  // Returns whether the relay may reach the segment of host memory at this address.
  bool Reaches(uint64_t va) const RUNS_ON(control_loop) { return reaches_.contains(va); }
  // Returns how the client has come: "ucx" or "tls", null where it has not.
  const char* transport() const RUNS_ON(control_loop) {
    return !connected_ ? nullptr : OverUcx() ? "ucx" : "tls";
  }
  void End() RUNS_ON(control_loop);

 private:
  // RelayEvents.
  void OnRelayReady(const std::string& address, const std::string& bulk_endpoint)
      RUNS_ON(control_loop) override;
  void OnRelayConnected() RUNS_ON(control_loop) override { connected_ = true; }
  void OnRelayMemory(const warpline_internal::RelayMemory& memory) RUNS_ON(control_loop) override;
  void OnRelayMoved(uint64_t bytes) RUNS_ON(control_loop) override {
    port_->traffic().bulk_bytes.Add(bytes);
  }
  void OnRelayOver(const std::string& why) RUNS_ON(control_loop) override;

  bool OverUcx() const RUNS_ON(control_loop);
  // Starts it.
  void Begin() RUNS_ON(control_loop);
  void Refuse(const std::string& why) RUNS_ON(control_loop);

  EventLoop* const control_;
  EventLoop* const spawner_;
  const RelayOptions* const options_;
  SessionPort* const port_;
  const SessionLines* const lines_;
  const MemorySource memory_;
  std::shared_ptr<RelayProcess> relay_ ABSL_GUARDED_BY(control_loop);
  std::string secret_ ABSL_GUARDED_BY(control_loop);
  bool connected_ ABSL_GUARDED_BY(control_loop) = false;
  std::set<uint64_t> reaches_ ABSL_GUARDED_BY(control_loop);
  bool answered_ ABSL_GUARDED_BY(control_loop) = false;
  // The next one is not started before.
  absl::Time next_start_ ABSL_GUARDED_BY(control_loop) = absl::InfinitePast();
  EventLoop::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
  absl::Duration interval_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_RELAY_H_
