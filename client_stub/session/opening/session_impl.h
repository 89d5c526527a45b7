// The Session over a Channel, put together from its parts.
//
// Threads of the application use the parts through their interfaces. What comes from the server
// goes to the loop (frames/), and the connection sees to it that there is one.
#ifndef WARPLINE_CLIENT_STUB_SESSION_OPENING_SESSION_IMPL_H_
#define WARPLINE_CLIENT_STUB_SESSION_OPENING_SESSION_IMPL_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client_stub/session/bulk/bulk_connections.h"
#include "client_stub/session/bulk/relay_target.h"
#include "client_stub/session/commands/command_port.h"
#include "client_stub/session/connection/connection.h"
#include "client_stub/session/connection/control_queue.h"
#include "client_stub/session/connection/dialer.h"
#include "client_stub/session/connection/relay_seeker.h"
#include "client_stub/session/connection/server_address.h"
#include "client_stub/session/frames/notice_sinks.h"
#include "client_stub/session/frames/session_loop.h"
#include "client_stub/session/handshake/arena_reservation.h"
#include "client_stub/session/handshake/opening_answer.h"
#include "client_stub/session/memory/memory_requester.h"
#include "client_stub/session/session.h"
#include "client_stub/session/status/session_log.h"
#include "common/log/log_budget.h"

namespace warpline::stub {

class SessionImpl final : public Session {
 public:
  explicit SessionImpl(ArenaReservation arena);

  // Connects and shakes hands. Called once, before anything else; a session whose Start() failed
  // can only be destroyed.
  absl::Status Start(const SessionOptions& options, const Dialer& dialer);

  // Whether Start() failed because the connection was lost before the server had answered.
  bool LostWhileOpening() const { return answer_.lost(); }

  const char* transport() const override { return commands_.channel().transport(); }
  void MoveTo(const std::string& endpoint) override { connection_.MoveTo(DialTarget{endpoint}); }
  void Close(absl::Duration deadline) override;

 private:
  // Bulk connections may come there, or nowhere any more.
  void OnRelay(RelayTarget::Address address);

  const ArenaReservation arena_;
  LogBudget log_{kSessionLines, "session"};
  CommandPort commands_{&log_};
  ControlQueue control_{&commands_.channel()};
  MemoryRequester memory_{&commands_.errors(), &control_, &commands_.counters()};
  BulkConnections bulk_{0, &log_, &commands_.counters()};
  RelayTarget relay_target_;
  ServerAddress server_;
  BulkConnections relay_bulk_{BulkMemory::kSlots, &log_, &commands_.counters()};
  NoticeSinks notices_;
  OpeningAnswer answer_;
  RelaySeeker relays_{&control_, &connection_, &server_,
                      [this](const std::string& endpoint, const std::string& secret) {
                        OnRelay({endpoint, secret});
                      },
                      &log_};
  SessionLoop loop_;
  // The last member: once it is destroyed, no loop runs, and no other thread of the session.
  Connection connection_;
};

// Opens a session through `dialer`, trying one place for the arena after another while this process
// has it in use or the server says that it cannot have it there (ArenaSearch). `options.deadline`
// begins anew for each place that the server has refused. Errors are those of Session::Open().
absl::StatusOr<std::unique_ptr<SessionImpl>> OpenSession(const SessionOptions& options,
                                                         const Dialer& dialer);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_OPENING_SESSION_IMPL_H_
