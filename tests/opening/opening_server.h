// A server to open sessions on, for tests that hold both for the client's fake server and for the
// real host.
#ifndef WARPLINE_TESTS_OPENING_OPENING_SERVER_H_
#define WARPLINE_TESTS_OPENING_OPENING_SERVER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "client_stub/session/opening/session_impl.h"

namespace warpline {

struct OpeningServerOptions {
  // Its workers cannot have arenas that contain one of these addresses.
  std::vector<uint64_t> obstacles = {};
  uint64_t most_arena_bytes = 1ull << 45;
  int max_sessions = 8;
};

class OpeningServer {
 public:
  virtual ~OpeningServer() = default;
  virtual stub::Dialer MakeDialer() = 0;
  // Returns the number of Hellos that it has refused so far.
  virtual uint64_t refused() = 0;
};

// Makes the fake server of client_stub/session/testing.
std::unique_ptr<OpeningServer> NewFakeOpeningServer(const OpeningServerOptions& options);
// Makes the server's session host on the CPU device, with real workers and a real keeper.
std::unique_ptr<OpeningServer> NewHostOpeningServer(const OpeningServerOptions& options);

}  // namespace warpline

#endif  // WARPLINE_TESTS_OPENING_OPENING_SERVER_H_
