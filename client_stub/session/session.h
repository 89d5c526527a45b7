// The client's end of a session. It has one connection to a server at a time, and its interface is
// in parts, so that each user takes the part that it needs.
//
//   absl::StatusOr<std::unique_ptr<Session>> session = Session::Open({.endpoint = "gpu1:14000"});
//   Commands& commands = (*session)->commands();
//   commands.Send(cmd::Memset{stream, address, count, value, width});
//   const CudaResult result = commands.Call(WaitKind::kSynchronize, cmd::StreamSync{stream});
#ifndef WARPLINE_CLIENT_STUB_SESSION_SESSION_H_
#define WARPLINE_CLIENT_STUB_SESSION_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client_stub/session/bulk_memory.h"
#include "client_stub/session/commands.h"
#include "client_stub/session/counters.h"
#include "client_stub/session/memory_requests.h"
#include "client_stub/session/notices.h"
#include "client_stub/session/session_status.h"
#include "client_stub/session/session_terms.h"
#include "proto/guard.h"
#include "proto/tier.h"

namespace warpline::stub {

struct SessionOptions {
  std::string endpoint;    // "host:port" or "unix:/path"
  std::string device;      // In the form of Hello.device: one or several.
  std::string token;       // The token of a lease, for a server that wants one.
  std::string credential;  // The tenant's, for a scheduler.
  std::string slice;       // That of the lease that a scheduler is to give.
  // The time to connect.
  absl::Duration deadline = absl::Seconds(5);
  // The time from then on until the welcome. A busy server may take seconds to start a worker, and
  // gives up by itself sooner than this.
  absl::Duration open_deadline = absl::Seconds(90);
  GuardMode guard = GuardMode::kOff;  // How the session's kernels are guarded.
  // What keeps it apart from others. In the guarded tier kernels are hardened, unless the mode says
  // otherwise, which the server refuses.
  Tier tier = Tier::kIsolated;
  uint64_t initial_memory_bytes = 64ull << 20;
  // Writes what kernels print (OutputBuffer::Printer). Null drops it.
  int (*printer)(int descriptor, const char* text, size_t bytes, int wait) = nullptr;
  // How long the session tries to replace a lost connection before the session is lost. 0: not at
  // all.
  absl::Duration resume = absl::Seconds(30);
  // Whether a session that came over the loopback interface may go on through shared memory, or
  // over the server's unix socket.
  bool transfer = true;
  // Whether it may be opened through shared memory at once, where the server is at a loopback
  // address. Not with TLS, by which client and server show who they are.
  bool direct = true;
  // Whether it may go on over UCX, where the server offers that.
  bool relays = true;
};

// Thread-safe, except Open and the destructor.
class Session {
 public:
  // Reserves the arena in this process, connects and opens a session. UNAVAILABLE when no server
  // answers within the deadline, NOT_FOUND when the server has no such device, RESOURCE_EXHAUSTED
  // when it admits no more sessions, otherwise the status with which the server refused.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const SessionOptions& options);

  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The parts live as long as the session.
  const SessionTerms& terms() const { return *parts_.terms; }
  Commands& commands() const { return *parts_.commands; }
  SessionStatus& status() const { return *parts_.status; }
  MemoryRequests& memory() const { return *parts_.memory; }
  // Over connections to the server, and over those to the session's relay.
  BulkMemory& bulk() const { return *parts_.bulk; }
  BulkMemory& relay_bulk() const { return *parts_.relay_bulk; }
  Notices& notices() const { return *parts_.notices; }
  Counters& counters() const { return *parts_.counters; }

  // What the commands go by, as Channel::transport(); a literal.
  virtual const char* transport() const = 0;

  // Moves to another connection, to the same server at another address, without anything lost or
  // done twice; stays with the former address when that fails. Returns at once; does nothing for a
  // session that cannot be resumed.
  virtual void MoveTo(const std::string& endpoint) = 0;

  // Sends what is pending, says good-bye to the server and closes, within `deadline`. Later calls
  // find the session lost with kDeinitialized.
  virtual void Close(absl::Duration deadline) = 0;

 protected:
  struct Parts {
    const SessionTerms* terms = nullptr;
    Commands* commands = nullptr;
    SessionStatus* status = nullptr;
    MemoryRequests* memory = nullptr;
    BulkMemory* bulk = nullptr;
    BulkMemory* relay_bulk = nullptr;
    Notices* notices = nullptr;
    Counters* counters = nullptr;
  };
  Session() = default;
  // Called once, by the constructor of the implementing class, when its members exist. All parts
  // are borrowed from it.
  void SetParts(const Parts& parts) { parts_ = parts; }

 private:
  Parts parts_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_SESSION_H_
