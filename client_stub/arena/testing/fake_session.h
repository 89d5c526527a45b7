// A session without a server, for tests of the allocator.
#ifndef WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_SESSION_H_
#define WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_SESSION_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client_stub/arena/testing/fake_grants.h"
#include "client_stub/arena/testing/fake_work.h"
#include "client_stub/session/session.h"

namespace warpline::stub {

// Thread-safe.
class FakeSession final : public Session, public FakeWork, public FakeGrants {
 public:
  static constexpr uint64_t kArenaBase = 1ull << 44;

  // Every device has this quota; the server's limit is for all of them together.
  FakeSession(uint64_t quota, uint64_t initial_bytes, uint64_t arena_bytes = 1ull << 40,
              uint32_t devices = 1);

  const char* transport() const override { return "fake"; }
  void MoveTo(const std::string&) override {}
  void Close(absl::Duration) override {}

 private:
  SessionTerms terms_;
  Counters counters_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_SESSION_H_
