#include "transport/ucx/ucx_end.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "transport/loop_thread.h"
#include "transport/status_packet.h"
#include "transport/ucx/ucx_address.h"
#include "transport/ucx/ucx_device.h"
#include "transport/ucx/ucx_door.h"
#include "transport/ucx/ucx_library.h"
#include "transport/ucx/ucx_transports.h"
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

TEST(UcxDeviceTest, AnInterfacesRdmaDevicesAreThoseBesideIt) {
  const std::filesystem::path sys = testing::TempDir() + "/ucx_device_test_sys";
  const std::filesystem::path interface = sys / "class/net/ib1";
  std::filesystem::create_directories(interface / "device/infiniband/mlx5_1");
  EXPECT_EQ(ucx_internal::RdmaDevicesOf("ib1", sys), std::vector<std::string>{"mlx5_1:1"});
  std::ofstream(interface / "dev_port") << "1\n";
  EXPECT_EQ(ucx_internal::RdmaDevicesOf("ib1", sys), std::vector<std::string>{"mlx5_1:2"});
  EXPECT_TRUE(ucx_internal::RdmaDevicesOf("eth0", sys).empty());
  EXPECT_TRUE(ucx_internal::RdmaDevicesOf("lo").empty());
}

TEST(UcxTransportsTest, AListIsReadAsItIsWritten) {
  EXPECT_EQ(UcxTransports().ToString(), "tcp");
  const auto read = UcxTransports::Parse("rc,ud_mlx5,tcp");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ToString(), "rc,ud_mlx5,tcp");
  EXPECT_TRUE(read->HasTcp());
  EXPECT_FALSE(read->IsOnlyTcp());
  EXPECT_EQ(read->CheckBetweenHosts(), absl::OkStatus());
  EXPECT_FALSE(UcxTransports::Parse("rc")->HasTcp());
  EXPECT_TRUE(UcxTransports::ParseTold("")->IsOnlyTcp());
  EXPECT_EQ(UcxTransports::ParseTold("rc,tcp")->ToString(), "rc,tcp");
  EXPECT_TRUE(UcxTransports::Parse("tcp")->IsOnlyTcp());
  for (const std::string wrong : {"", ",", "tcp,", "rc, tcp", "RC", "^tcp", "tcp,tcp", "tcp:aux",
                                  "a_name_that_is_longer_than_any", "a=b", "tcp\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(UcxTransports::Parse(wrong).status())) << wrong;
  }
  EXPECT_FALSE(UcxTransports::Parse("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q").ok());
}

TEST(UcxTransportsTest, BetweenHostsNoMemoryIsShared) {
  for (const std::string within : {"shm", "posix", "tcp,sysv", "rc,self", "all"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(UcxTransports::Parse(within)->CheckBetweenHosts()))
        << within;
  }
  EXPECT_TRUE(UcxTransports::Parse("posix,sysv")->AreWithinOneHost());
  EXPECT_FALSE(UcxTransports::Parse("posix,tcp")->AreWithinOneHost());
}

TEST(UcxTransportsTest, WhatThisUcxLacksIsNamed) {
  EXPECT_EQ(UcxEnd::CheckTransports({}), absl::OkStatus());
  EXPECT_EQ(UcxEnd::CheckTransports(*UcxTransports::Parse("posix,tcp,sysv")), absl::OkStatus());
  const absl::Status lacks = UcxEnd::CheckTransports(*UcxTransports::Parse("tcp,telepathy"));
  EXPECT_TRUE(absl::IsUnavailable(lacks)) << lacks;
  EXPECT_NE(lacks.message().find("telepathy"), std::string::npos) << lacks;
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

// Has a client with some transports say something to a relay with some, and hear it back.
void ExpectEcho(const UcxTransports& of_relay, const UcxTransports& of_client) {
  auto relay = UcxEnd::Listen("127.0.0.1", "", kSecret, of_relay);
  ASSERT_TRUE(relay.ok()) << relay.status();
  std::thread answers = StartLoopThread("relay", [&] {
    const LoopScope scope(&channel_loop);
    ASSERT_EQ((*relay)->AwaitPeer(Soon()), absl::OkStatus());
    (*relay)->Welcome();
    Frame frame;
    absl::Status why;
    const absl::Time until = Soon();
    while (absl::Now() < until) {
      const LinkEnd::Taken taken = (*relay)->Take(&frame, &why);
      if (taken == LinkEnd::Taken::kEnd) break;
      if (taken == LinkEnd::Taken::kFrame) (*relay)->Put(std::move(frame));
    }
  });
  {
    auto client = UcxEnd::Connect((*relay)->address(), kSecret, Soon(), of_client);
    const LoopScope scope(&channel_loop);
    EXPECT_TRUE(client.ok()) << client.status();
    for (const size_t size : {size_t{0}, size_t{1}, size_t{65536}, size_t{1} << 20}) {
      if (!client.ok()) break;
      const std::string said(size, static_cast<char>('a' + size % 7));
      (*client)->Put({.kind = 7, .payload = said});
      Frame heard;
      absl::Status why;
      const absl::Time until = Soon();
      while ((*client)->Take(&heard, &why) == LinkEnd::Taken::kNothing && absl::Now() < until) {
      }
      EXPECT_EQ(heard.kind, 7);
      EXPECT_EQ(heard.payload, said);
    }
    if (client.ok()) (*client)->PutEnd(absl::OkStatus());
  }
  answers.join();
}

TEST(UcxEndTest, EndsUseTheTransportsThatAreNamed) {
  for (const std::string list : {"posix", "sysv", "posix,sysv"}) {
    const std::set<int> before = ucx_internal::ListenersAt("127.0.0.1");
    const UcxTransports transports = *UcxTransports::Parse(list);
    const auto end = UcxEnd::Listen("127.0.0.1", "", kSecret, transports);
    ASSERT_TRUE(end.ok()) << list << ": " << end.status();
    EXPECT_EQ(ucx_internal::ListenersAt("127.0.0.1"), before) << list << " listens over TCP";
    ExpectEcho(transports, transports);
  }
}

// An older peer knows of no list.
TEST(UcxEndTest, AnEndWithMoreTransportsMeetsOneWithTcpAlone) {
  const UcxTransports more = *UcxTransports::Parse("posix,tcp");
  ExpectEcho(more, {});
  ExpectEcho({}, more);
  ExpectEcho(more, more);
}

TEST(UcxEndTest, ThereIsNoEndOverWhatUcxLacks) {
  const auto end = UcxEnd::Listen("127.0.0.1", "", kSecret, *UcxTransports::Parse("telepathy"));
  EXPECT_TRUE(absl::IsUnavailable(end.status())) << end.status();
}

// The process ends with 1 where a library with such a name is in it.
void EndWithout(const char* library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(library) != std::string::npos) exit(1);
  }
  exit(0);
}

// An application whose sessions go over TCP gets no more libraries because others use RDMA.
TEST(UcxEndDeathTest, OnlyAListWithMoreThanTcpLoadsModules) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto listen_with = [](const char* transports, const char* library) {
    const auto end = UcxEnd::Listen("127.0.0.1", "", kSecret, *UcxTransports::Parse(transports));
    if (!end.ok()) exit(2);
    EndWithout(library);
  };
  EXPECT_EXIT(listen_with("tcp", "/libuct_"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(listen_with("posix,tcp", "cuda"), testing::ExitedWithCode(0), "");
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
  bool lost() const { return lost_; }

 private:
  void OnMessage(const ucx_internal::MessageHeader&, std::string_view) override {}
  void OnLost(const absl::Status&) override { lost_ = true; }

  bool lost_ = false;
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

// From now on every send() of this thread on a connection finds that connection reset.
void ResetWhatIsSent() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_sendto, 0, 3),
      // Netlink's messages, by which UCX learns of the host's networks, name whom they go to.
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[5])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ECONNRESET),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) std::abort();
  if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) std::abort();
}

// Connects to a relay, which is lost after a number of steps, and ends the process with 0 if one
// of both ends is told when UCX gives up.
void LoseARelayAfter(int steps) {
  const auto relay = ListenHere();
  std::atomic<bool> done = false;
  std::atomic<bool> lost = false;
  std::thread answers = StartLoopThread("relay", [&] {
    const LoopScope scope(&channel_loop);
    Frame frame;
    absl::Status why;
    bool welcomed = false;
    while (!done.load()) {
      if (!welcomed && relay->AwaitPeer(absl::Now()).ok()) {
        relay->Welcome();
        welcomed = true;
      }
      if (relay->Take(&frame, &why) == LinkEnd::Taken::kBroken) lost.store(true);
    }
  });
  {
    HostilePeer client(relay->address());
    const LoopScope scope(&channel_loop);
    for (int step = 0; step < steps; ++step) client.Progress();
    ResetWhatIsSent();
    for (int step = 0; step < 1000; ++step) client.Progress();
    if (client.lost()) lost.store(true);
  }
  done.store(true);
  answers.join();
  const bool gave_up = !ucx_internal::UcxLibrary::Get().ok();
  std::cerr << (gave_up ? "UCX gave up\n" : "UCX goes on\n");
  exit(gave_up && !lost.load() ? 1 : 0);
}

// UCX ends its process when a relay that is killed while a client connects leaves its connection in
// some of the states in between. In the client that process is the application.
TEST(UcxEndDeathTest, ARelayThatIsLostAtAnyStepEndsNoProcess) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers allow no library a scope of its own";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (int steps = 0; steps < 40; ++steps) {
    EXPECT_EXIT(LoseARelayAfter(steps), testing::ExitedWithCode(0), "") << steps << " steps";
  }
}

}  // namespace
}  // namespace warpline
