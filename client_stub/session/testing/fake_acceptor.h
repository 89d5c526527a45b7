// Puts a FakeServer behind a real transport.
#ifndef WARPLINE_CLIENT_STUB_SESSION_TESTING_FAKE_ACCEPTOR_H_
#define WARPLINE_CLIENT_STUB_SESSION_TESTING_FAKE_ACCEPTOR_H_

#include <memory>
#include <string>

#include "client_stub/session/testing/fake_server.h"
#include "transport/channel.h"

namespace warpline::stub {

class FakeAcceptor final : public Acceptor {
 public:
  // `server` is borrowed and must outlive all sessions.
  explicit FakeAcceptor(FakeServer* server) : server_(server) {}
  std::unique_ptr<SessionHandler> Accept(const std::string& peer, absl::Status* refusal) override;

 private:
  FakeServer* const server_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_TESTING_FAKE_ACCEPTOR_H_
