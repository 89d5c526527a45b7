#include "transport/ucx/ucx_end.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "transport/loop_thread.h"
#include "transport/status_packet.h"
#include "transport/ucx/ucx_address.h"
#include "transport/ucx/ucx_device.h"
#include "transport/ucx/ucx_door.h"
#include "transport/ucx/ucx_worker.h"

namespace warpline {
namespace {

TEST(UcxAddressTest, IsReadAsItIsWritten) {
  const UcxAddress address = {"10.0.0.7", std::string("\x00\xff w", 4)};
  const auto read = UcxAddress::Parse(address.ToString());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->ip, address.ip);
  EXPECT_EQ(read->worker, address.worker);
  for (const std::string wrong : {"", "ucx://", "ucx:///ff", "ucx://h", "ucx://h/", "ucx://h/f",
                                  "ucx://h/fg", "shm://h/ff", "h/ff"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(UcxAddress::Parse(wrong).status())) << wrong;
  }
  EXPECT_FALSE(UcxAddress::Parse("ucx://h/" + std::string(10000, 'f')).ok());
}

TEST(UcxDeviceTest, LoopbackLeadsToThisHost) {
  const auto device = ucx_internal::DeviceTowards("127.0.0.1");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->name, "lo");
  EXPECT_EQ(device->address, "127.0.0.1");
  EXPECT_TRUE(absl::IsInvalidArgument(ucx_internal::DeviceTowards("localhost").status()));
}

constexpr char kSecret[] = "0123456789abcdef";
constexpr char kOtherSecret[] = "0123456789abcdeX";

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

std::unique_ptr<UcxEnd> ListenHere() {
  auto end = UcxEnd::Listen("127.0.0.1", "", kSecret);
  EXPECT_TRUE(end.ok()) << end.status();
  return *std::move(end);
}

// UCX is a guest, which leaves its host as it was and takes nothing from its environment.
TEST(UcxLibraryTest, TheHostStaysAsItWas) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers allow no library a scope of its own";
#endif
  const void* const map = dlsym(RTLD_DEFAULT, "mmap");
  const std::string before(static_cast<const char*>(map), 16);
  for (const char* const name : {"UCX_TLS", "UCX_NET_DEVICES", "UCX_MEM_EVENTS", "UCX_PROTOS"}) {
    setenv(name, "nonsense", 1);
  }
  setenv("UCX_ERROR_SIGNALS", "SIGSEGV", 1);
  ListenHere();
  EXPECT_EQ(std::string(static_cast<const char*>(map), 16), before);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGHUP}) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    EXPECT_EQ(action.sa_handler, SIG_DFL) << signal;
  }
}

TEST(UcxEndTest, WhoLacksTheSecretIsNotHeard) {
  const auto listening = ListenHere();
  const UcxAddress address = listening->address();
  std::thread relay = StartLoopThread("relay", [&] {
    const LoopScope scope(&channel_loop);
    EXPECT_EQ(listening->AwaitPeer(Soon()), absl::OkStatus());
    listening->Welcome();
  });
  const auto stranger =
      UcxEnd::Connect(address, kOtherSecret, absl::Now() + absl::Milliseconds(300));
  EXPECT_TRUE(absl::IsUnavailable(stranger.status())) << stranger.status();
  const auto client = UcxEnd::Connect(address, kSecret, Soon());
  EXPECT_TRUE(client.ok()) << client.status();
  relay.join();
  EXPECT_TRUE(absl::IsInvalidArgument(UcxEnd::Connect(address, "short", Soon()).status()));
}

TEST(UcxEndTest, NobodyAnswersWhereNoRelayIs) {
  const UcxAddress gone = ListenHere()->address();
  const auto client = UcxEnd::Connect(gone, kSecret, Soon());
  EXPECT_TRUE(absl::IsUnavailable(client.status())) << client.status();
}

// UCX ends its process when a connection says what cannot be: in the client that is the
// application.
TEST(UcxEndTest, NobodyConnectsToWhoHasItsPeer) {
  const std::set<int> before = ucx_internal::ListenersAt("127.0.0.1");
  const auto listening = ListenHere();
  std::thread relay = StartLoopThread("relay", [&] {
    const LoopScope scope(&channel_loop);
    EXPECT_EQ(listening->AwaitPeer(Soon()), absl::OkStatus());
    listening->Welcome();
  });
  EXPECT_EQ(ucx_internal::ListenersAt("127.0.0.1").size(), before.size() + 1);
  const auto client = UcxEnd::Connect(listening->address(), kSecret, Soon());
  ASSERT_TRUE(client.ok()) << client.status();
  relay.join();
  EXPECT_EQ(ucx_internal::ListenersAt("127.0.0.1"), before);
}

// A peer that has the secret, and sends what it likes.
class HostilePeer : private ucx_internal::UcxWorkerEvents {
 public:
  explicit HostilePeer(const UcxAddress& to) {
    const LoopScope scope(&channel_loop);
    auto worker = ucx_internal::UcxWorker::Create(
        {.device = "lo", .ip = "127.0.0.1", .port_range = ""}, this);
    EXPECT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    EXPECT_EQ(worker_->Connect(to.worker), absl::OkStatus());
    Say(/*what=*/1, /*taken=*/0, worker_->address());
  }
  void Say(uint32_t what, uint64_t taken, std::string payload) RUNS_ON(channel_loop) {
    ucx_internal::MessageHeader header = {{}, what, 0, taken};
    std::memcpy(header.token, kSecret, sizeof(header.token));
    worker_->Send(header, {.payload = std::move(payload)});
  }
  void Progress() RUNS_ON(channel_loop) { worker_->Progress(); }

 private:
  void OnMessage(const ucx_internal::MessageHeader&, std::string_view) override {}
  void OnLost(const absl::Status&) override {}

  std::unique_ptr<ucx_internal::UcxWorker> worker_;
};

// What becomes of an end to whom a peer says all this. Frames stay untaken meanwhile.
absl::Status EndOf(const std::function<void(HostilePeer*)>& attack) {
  const auto end = ListenHere();
  HostilePeer peer(end->address());
  const LoopScope scope(&channel_loop);
  const absl::Time until = Soon();
  while (!end->AwaitPeer(absl::Now()).ok() && absl::Now() < until) peer.Progress();
  attack(&peer);
  for (int i = 0; i < 20000; ++i) {
    peer.Progress();
    (void)end->AwaitPeer(absl::Now());  // Takes nothing.
  }
  Frame frame;
  absl::Status why = absl::DeadlineExceededError("it goes on");
  while (absl::Now() < until) {
    peer.Progress();
    const LinkEnd::Taken taken = end->Take(&frame, &why);
    if (taken == LinkEnd::Taken::kBroken || taken == LinkEnd::Taken::kEnd) break;
  }
  return why;
}

TEST(UcxEndTest, APeerThatBreaksTheRulesBreaksItsLinkAlone) {
  EXPECT_TRUE(absl::IsInvalidArgument(EndOf([](HostilePeer* peer) {
    channel_loop.AssertOnLoop();
    for (int i = 0; i < 20; ++i) peer->Say(3, 0, std::string(1 << 20, 'x'));  // Above the window.
  })));
  EXPECT_TRUE(absl::IsInvalidArgument(EndOf([](HostilePeer* peer) {
    channel_loop.AssertOnLoop();
    for (int i = 0; i < 50000; ++i) peer->Say(3, 0, "");  // The same, in many pieces.
  })));
  EXPECT_TRUE(absl::IsInvalidArgument(EndOf([](HostilePeer* peer) {
    channel_loop.AssertOnLoop();
    peer->Say(3, 0, std::string(kMaxFramePayload + 1, 'x'));
  })));
  EXPECT_TRUE(absl::IsInvalidArgument(EndOf([](HostilePeer* peer) {
    channel_loop.AssertOnLoop();
    peer->Say(2, 1u << 20, "");  // Took what nobody sent.
  })));
  EXPECT_TRUE(absl::IsInvalidArgument(EndOf([](HostilePeer* peer) {
    channel_loop.AssertOnLoop();
    peer->Say(77, 0, "");
  })));
  EXPECT_TRUE(absl::IsInvalidArgument(EndOf([](HostilePeer* peer) {
    channel_loop.AssertOnLoop();
    peer->Say(4, 0, "no status");
  })));
  // A second hello counts for nothing, and an end is one.
  EXPECT_EQ(EndOf([](HostilePeer* peer) {
              channel_loop.AssertOnLoop();
              peer->Say(1, 0, "nobody's address");
              peer->Say(4, 0, EncodeStatus(absl::AbortedError("bye")));
            }),
            absl::AbortedError("bye"));
}

}  // namespace
}  // namespace warpline
