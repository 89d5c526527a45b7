// Who may hold connections to the port, and for how long.
#include "server/gpu_server/memory/host_memory_port.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/cuda/cuda_result.h"
#include "common/packets/packet_socket.h"
#include "common/sealed_memory.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "memory/quota.h"
#include "server/gpu_server/memory/kept_segments.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {
namespace {

using warpline_internal::HostMemoryAnswer;
using warpline_internal::HostMemoryRequest;

// Sessions 1 to 9, whose secrets are "secret".
class Sessions : public HostMemorySessions {
 public:
  bool HasSecret(uint64_t session, const std::string& secret) override {
    return session >= 1 && session <= 9 && secret == "secret";
  }
  void OnHostMemory(const HostMemoryRequest&, HostSegments::Answer answer) override {
    answer({CudaResult::kOutOfMemory, -1, "no room"});
  }
  HostSegments::Result OnKeptMemory(const HostMemoryRequest& request,
                                    std::vector<UniqueFd> memory) override {
    for (int i = 0; i < request.kept_size(); ++i) {
      taken_[request.kept(i).va()] = *SealedBytes(memory[static_cast<size_t>(i)].get());
    }
    return {};
  }

  std::map<uint64_t, uint64_t> taken_;  // Sizes by address.
};

class HostMemoryPortTest : public testing::Test {
 protected:
  void Start(const HostMemoryPortLimits& limits) {
    port_ = std::make_unique<HostMemoryPort>(&control_, &sessions_, limits);
    OnControl([this] { ASSERT_TRUE(port_->Start(name_).ok()); });
  }
  ~HostMemoryPortTest() override {
    OnControl([this] { port_->Stop(); });
  }

  void OnControl(const std::function<void()>& body) {
    control_.Post(body);
    control_.Flush();
  }
  size_t Connections() {
    size_t count = 0;
    OnControl([&] { count = port_->connections(); });
    return count;
  }

  UniqueFd Connect() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data(), name_.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    return fd;
  }
  // Whether the port answered.
  static bool Ask(const UniqueFd& fd, uint64_t session, const std::string& secret = "secret",
                  bool outlives = false) {
    HostMemoryRequest request;
    request.set_outlives(outlives);
    request.set_session(session);
    request.set_secret(secret);
    HostMemoryAnswer answer;
    return SendPacket(fd.get(), request, {}).ok() &&
           ReceivePacket(fd.get(), &answer, nullptr).ok() && answer.message() == "no room";
  }
  static bool AskToKeep(const UniqueFd& fd, uint64_t session) {
    return Ask(fd, session, "secret", /*outlives=*/true);
  }
  static bool Ended(const UniqueFd& fd) {
    char byte;
    return recv(fd.get(), &byte, 1, 0) <= 0;
  }

  // What outlives a session: two segments of a page, charged to quota_.
  KeptSegments Kept() {
    KeptSegments kept;
    for (const uint64_t va : {kPage, 2 * kPage}) {
      HostSegment segment;
      segment.bytes = kPage;
      segment.fd = *NewSealedMemory("kept", kPage);
      segment.charge = quota_->Reserve(kPage, kPage, kPage);
      kept.Add(va, std::move(segment));
    }
    return kept;
  }
  // Ends session 1, from which two segments are kept.
  void EndSession() {
    OnControl([this] { port_->Forget(1, Kept()); });
  }
  // The port's answer, or kUnknown when there is none.
  static CudaResult GiveBack(const UniqueFd& fd, uint64_t session, uint64_t va) {
    HostMemoryRequest request;
    request.set_session(session);
    request.set_va(va);
    request.set_bytes(kPage);
    request.set_give_back(true);
    HostMemoryAnswer answer;
    const bool answered =
        SendPacket(fd.get(), request, {}).ok() && ReceivePacket(fd.get(), &answer, nullptr).ok();
    return answered ? static_cast<CudaResult>(answer.error()) : CudaResult::kUnknown;
  }
  void AwaitUse(uint64_t bytes) {
    for (int i = 0; i < 12000 && quota_->used_bytes() != bytes; ++i) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    EXPECT_EQ(quota_->used_bytes(), bytes);
  }

  static constexpr uint64_t kPage = 4096;
  const std::shared_ptr<Quota> quota_ = Quota::Create(64 * kPage);
  const std::string name_ = HostMemoryPort::NewName();
  Sessions sessions_;
  EventLoop control_{"control", &control_loop};
  std::unique_ptr<HostMemoryPort> port_;
};

TEST_F(HostMemoryPortTest, WhoSaysNothingIsSentAway) {
  Start({.patience = absl::Seconds(1)});
  const UniqueFd silent = Connect();
  const UniqueFd client = Connect();
  EXPECT_TRUE(Ask(client, 1));
  EXPECT_TRUE(Ended(silent));
  // Not the one that has a session.
  EXPECT_TRUE(Ask(client, 1));
  EXPECT_EQ(Connections(), 1u);
}

TEST_F(HostMemoryPortTest, SilentConnectionsKeepNobodyOut) {
  Start({.most_strange_of_user = 4, .patience = absl::Hours(1)});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(Connect());
  const UniqueFd client = Connect();
  EXPECT_TRUE(Ask(client, 1));
  EXPECT_TRUE(Ended(silent[0]));
  EXPECT_LE(Connections(), 5u);
}

TEST_F(HostMemoryPortTest, AllStrangersTogetherAreBounded) {
  Start({.most_strange = 3, .patience = absl::Hours(1)});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(Connect());
  EXPECT_TRUE(Ended(silent[16]));
  EXPECT_EQ(Connections(), 3u);
}

TEST_F(HostMemoryPortTest, AWrongSecretEndsTheConnection) {
  Start({});
  EXPECT_FALSE(Ask(Connect(), 1, "guess"));
  EXPECT_FALSE(Ask(Connect(), 10));
  EXPECT_FALSE(Ask(Connect(), 0));
  EXPECT_EQ(Connections(), 0u);
}

TEST_F(HostMemoryPortTest, AConnectionIsOneSessions) {
  Start({});
  const UniqueFd client = Connect();
  EXPECT_TRUE(Ask(client, 1));
  EXPECT_FALSE(Ask(client, 2));
}

TEST_F(HostMemoryPortTest, ASessionHasFewConnectionsAndTheyEndWithIt) {
  Start({.most_of_session = 2});
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Connect());
    EXPECT_TRUE(Ask(clients.back(), 1));
  }
  EXPECT_TRUE(Ended(clients[0]));
  const UniqueFd other = Connect();
  EXPECT_TRUE(Ask(other, 2));
  EXPECT_EQ(Connections(), 3u);
  OnControl([this] { port_->Forget(1, KeptSegments()); });
  EXPECT_TRUE(Ended(clients[1]));
  EXPECT_TRUE(Ended(clients[2]));
  EXPECT_TRUE(Ask(other, 2));
}

TEST_F(HostMemoryPortTest, MemoryOutlivesItsSessionUntilTheClientEnds) {
  Start({.most_of_session = 2});
  UniqueFd first = Connect();
  UniqueFd newest = Connect();
  EXPECT_TRUE(Ask(first, 1));
  EXPECT_TRUE(AskToKeep(newest, 1));
  EndSession();
  EXPECT_TRUE(Ended(first));
  EXPECT_EQ(Connections(), 1u);
  EXPECT_EQ(quota_->used_bytes(), 2 * kPage);
  newest = UniqueFd();
  AwaitUse(0);
  EXPECT_EQ(Connections(), 0u);
}

TEST_F(HostMemoryPortTest, AfterTheSessionMemoryCanOnlyBeGivenBack) {
  Start({});
  const UniqueFd client = Connect();
  EXPECT_TRUE(AskToKeep(client, 1));
  EndSession();
  EXPECT_FALSE(Ask(client, 1));
  EXPECT_EQ(GiveBack(client, 1, 3 * kPage), CudaResult::kDeinitialized);
  EXPECT_EQ(GiveBack(client, 1, kPage), CudaResult::kSuccess);
  EXPECT_EQ(quota_->used_bytes(), kPage);
  EXPECT_EQ(GiveBack(client, 1, 2 * kPage), CudaResult::kSuccess);
  EXPECT_TRUE(Ended(client));
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(HostMemoryPortTest, WhoSpeaksForAnotherSessionAfterwardsKeepsNothing) {
  Start({});
  const UniqueFd client = Connect();
  EXPECT_TRUE(AskToKeep(client, 1));
  EndSession();
  EXPECT_EQ(GiveBack(client, 2, kPage), CudaResult::kUnknown);
  AwaitUse(0);
}

TEST_F(HostMemoryPortTest, AClientHandsOverWhatItWasGiven) {
  Start({});
  const UniqueFd client = Connect();
  EXPECT_TRUE(Ask(client, 1));
  // More than one packet carries.
  constexpr uint64_t kCount = kMaxPacketFds + 5;
  std::vector<UniqueFd> memory;
  std::vector<HostSegments::Shared> shared;
  for (uint64_t i = 1; i <= kCount; ++i) {
    memory.push_back(*NewSealedMemory("given", i % 3 * kPage + kPage));
    shared.push_back({i * kPage, i % 3 * kPage + kPage, i == 4, memory.back().get()});
  }
  OnControl([&] {
    EXPECT_TRUE(port_->GiveToClient(1, shared));
    EXPECT_TRUE(port_->GiveToClient(2, {}));
    EXPECT_FALSE(port_->GiveToClient(2, shared)) << "it has no connection";
    port_->Forget(1, KeptSegments());
  });
  // It can be read after the connection's end, and goes to the next connection as it came.
  const UniqueFd next = Connect();
  while (true) {
    HostMemoryAnswer given;
    std::vector<UniqueFd> fds;
    if (!ReceivePacket(client.get(), &given, &fds).ok()) break;
    HostMemoryRequest request;
    request.set_session(1);
    request.set_secret("secret");
    *request.mutable_kept() = given.kept();
    std::vector<int> numbers;
    for (const UniqueFd& fd : fds) numbers.push_back(fd.get());
    ASSERT_TRUE(SendPacket(next.get(), request, numbers).ok());
    HostMemoryAnswer answer;
    ASSERT_TRUE(ReceivePacket(next.get(), &answer, nullptr).ok());
    EXPECT_EQ(answer.error(), 0);
  }
  EXPECT_EQ(sessions_.taken_.size(), kCount);
  for (const HostSegments::Shared& one : shared) {
    EXPECT_EQ(sessions_.taken_[one.va], one.bytes) << one.va;
  }
}

TEST_F(HostMemoryPortTest, AUserKeepsSoManyAndTheNextOnesGetNone) {
  Start({.most_kept_of_user = 1});
  UniqueFd client = Connect();
  const UniqueFd other = Connect();
  EXPECT_TRUE(AskToKeep(client, 1));
  EXPECT_TRUE(AskToKeep(client, 1));
  EXPECT_FALSE(AskToKeep(other, 2));
  EXPECT_TRUE(Ask(other, 2));
  EndSession();
  EXPECT_EQ(quota_->used_bytes(), 2 * kPage);
  EXPECT_FALSE(AskToKeep(other, 2));
  client = UniqueFd();
  AwaitUse(0);
  EXPECT_TRUE(AskToKeep(other, 2));
}

TEST_F(HostMemoryPortTest, WithoutAConnectionThatAskedForItNothingIsKept) {
  Start({});
  EndSession();
  EXPECT_EQ(quota_->used_bytes(), 0u);
  const UniqueFd client = Connect();
  EXPECT_TRUE(Ask(client, 1));
  EndSession();
  EXPECT_EQ(quota_->used_bytes(), 0u);
  EXPECT_TRUE(Ended(client));
}

}  // namespace
}  // namespace warpline::server
