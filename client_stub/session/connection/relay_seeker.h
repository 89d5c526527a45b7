// Moves a session to connections of its own: it asks the server for a relay, goes on there, and
// asks for another when it has lost one. The server's answers are untrusted, like every frame.
#ifndef WARPLINE_CLIENT_STUB_SESSION_CONNECTION_RELAY_SEEKER_H_
#define WARPLINE_CLIENT_STUB_SESSION_CONNECTION_RELAY_SEEKER_H_

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "client_stub/session/connection/connection.h"
#include "client_stub/session/connection/control_queue.h"
#include "client_stub/session/connection/server_address.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// Returns the places at which a relay is tried that listens at `place` ("10.0.0.5:14701"), for a
// session that was opened at `endpoint`. The port at the endpoint's host comes first: the address
// that a server has need not be the one at which clients reach it.
std::string PlacesOfRelay(absl::string_view endpoint, absl::string_view place);

// Returns the address of the first of the places, separated by commas, at which an end answers that
// knows the secret. Empty where none does in a few seconds, or before given_up() is true. Blocks.
std::string FindRelay(const std::string& places, const std::string& secret,
                      const std::function<bool()>& given_up);

class RelaySeeker {
 public:
  // Called, on the loop, with where a relay's bulk connections come to; with nothing when it is
  // lost.
  using OnBulk = std::function<void(const std::string& endpoint, const std::string& secret)>;

  // All are borrowed; `server` says where the session is, and `log` has the kinds of session_log.h.
  RelaySeeker(ControlQueue* control, Connection* connection, const ServerAddress* server,
              OnBulk on_bulk, LogBudget* log)
      : control_(control),
        connection_(connection),
        server_(server),
        on_bulk_(std::move(on_bulk)),
        log_(log) {}

  // The session is open and the server offers relays: asks for the first. Called once, on any
  // thread.
  void Start();

  // A frame kRelay. False for one that a correct server does not send.
  bool OnRelay(std::string_view payload) RUNS_ON(channel_loop);
  // The session goes on on another connection, to which it has `moved`, or because it had lost one.
  // `by_relay` if that is the relay's.
  void OnResumed(bool moved, bool by_relay) RUNS_ON(channel_loop);

 private:
  void Ask();

  ControlQueue* const control_;
  Connection* const connection_;
  const ServerAddress* const server_;
  const OnBulk on_bulk_;
  LogBudget* const log_;
  std::atomic<bool> started_{false};
  // The bulk endpoint and the secret of the relay that the server named last.
  std::string bulk_endpoint_ ABSL_GUARDED_BY(channel_loop);
  std::string secret_ ABSL_GUARDED_BY(channel_loop);
  Mutex mu_;
  std::string found_ ABSL_GUARDED_BY(mu_);  // The address at which the last relay was found.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_CONNECTION_RELAY_SEEKER_H_
