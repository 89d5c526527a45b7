#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "client_stub/session/testing/fake_server.h"
#include "proto/refusal.h"
#include "proto/session.pb.h"
#include "tests/opening/opening_server.h"

namespace warpline {
namespace {

class FakeOpeningServer final : public OpeningServer {
 public:
  explicit FakeOpeningServer(const OpeningServerOptions& options) : options_(options) {
    server_.admit = [this](const warpline_internal::Hello& hello) {
      absl::Status status = Admit(hello);
      if (!status.ok()) ++refused_;
      return status;
    };
  }

  stub::Dialer MakeDialer() override { return server_.MakeDialer(); }
  uint64_t refused() override { return refused_.load(); }

 private:
  absl::Status Admit(const warpline_internal::Hello& hello) {
    // A refused session counts until its worker is gone.
    const int ending = std::exchange(ending_, 0);
    if (sessions_ + ending >= options_.max_sessions) return NoRoom("full");
    if (hello.arena_bytes() > options_.most_arena_bytes) {
      return ArenaTooLarge(hello.arena_bytes(), options_.most_arena_bytes);
    }
    if (!hello.device().empty()) return absl::NotFoundError("no such device");
    for (const uint64_t obstacle : options_.obstacles) {
      if (obstacle - hello.arena_base() >= hello.arena_bytes()) continue;
      ending_ = 1;
      return ArenaUnavailable("taken");
    }
    ++sessions_;
    return absl::OkStatus();
  }

  const OpeningServerOptions options_;
  stub::FakeServer server_;
  // Used by the channels' loops, of which one lives at a time.
  int sessions_ = 0;
  int ending_ = 0;
  std::atomic<uint64_t> refused_{0};
};

}  // namespace

std::unique_ptr<OpeningServer> NewFakeOpeningServer(const OpeningServerOptions& options) {
  return std::make_unique<FakeOpeningServer>(options);
}

}  // namespace warpline
