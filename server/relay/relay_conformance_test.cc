#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/mutex.h"
#include "server/relay/relay.h"
#include "transport/loop_thread.h"
#include "transport/registry/dial.h"
#include "transport/registry/listen.h"
#include "transport/shm/shm_connect.h"
#include "transport/testing/channel_conformance.h"
#include "transport/ucx/ucx_end.h"
#include "transport/unix_connect.h"

namespace warpline::testing {
namespace {

constexpr char kSecret[] = "0123456789abcdef";

// Clients that come over UCX to a server which listens in shared memory alone, each by a relay.
class ByRelay {
 public:
  ByRelay(Acceptor* acceptor, const ChannelOptions& options)
      : name_(absl::StrCat("warpline-test-", getpid(), "-", absl::GetCurrentTimeNanos())),
        listener_(MakeListener({.channel = options})) {
    EXPECT_EQ(listener_->Start({absl::StrCat("shm://", name_)}, acceptor), absl::OkStatus());
  }
  ~ByRelay() {
    listener_.reset();
    for (std::thread& relay : relays_) relay.join();
  }

  absl::StatusOr<std::unique_ptr<Channel>> Dial(ChannelHandler* handler,
                                                const ChannelOptions& options) {
    auto end = UcxEnd::Listen("127.0.0.1", "", kSecret);
    if (!end.ok()) return end.status();
    const std::string address = (*end)->address().ToString();
    {
      MutexLock lock(&mu_);
      relays_.push_back(StartLoopThread(
          "relay", [this, end = std::make_shared<std::unique_ptr<UcxEnd>>(*std::move(end))] {
            Serve(std::move(*end));
          }));
    }
    return warpline::Dial({.address = address, .secret = kSecret}, handler, options,
                          absl::Seconds(60));
  }

 private:
  void Serve(std::unique_ptr<UcxEnd> end) {
    const absl::Time until = absl::Now() + absl::Seconds(60);
    absl::StatusOr<std::unique_ptr<LinkEnd>> server;
    {
      const LoopScope scope(&channel_loop);
      ASSERT_EQ(end->AwaitPeer(until), absl::OkStatus());
      auto socket = ConnectAbstract(name_, getuid());
      ASSERT_TRUE(socket.ok()) << socket.status();
      server = ShmConnectOn(*std::move(socket), until);
      if (!server.ok()) return end->PutEnd(server.status());
      end->Welcome();
    }
    std::make_unique<relay::Relay>(std::move(end), *std::move(server))->Run();
  }

  const std::string name_;
  std::unique_ptr<Listener> listener_;
  Mutex mu_;
  std::vector<std::thread> relays_ ABSL_GUARDED_BY(mu_);
};

INSTANTIATE_TYPED_TEST_SUITE_P(ByRelay, ChannelConformance, ByRelay);

}  // namespace
}  // namespace warpline::testing
