// Sessions of the guarded tier: what they are refused and given, and how they share a worker.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/cuda/cuda_result.h"
#include "common/packets/packet_socket.h"
#include "common/sealed_memory.h"
#include "common/steady_time.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lease/signing_key.h"
#include "lease/token.h"
#include "proto/frames.h"
#include "proto/guard.h"
#include "proto/refusal.h"
#include "proto/session.pb.h"
#include "proto/tier.h"
#include "server/gpu_server/testing/session_fixture.h"
#include "server/gpu_server/testing/test_client.h"

namespace warpline::server {
namespace {

using testing::HasSubstr;
using warpline_internal::Hello;
using warpline_internal::MemoryGrant;
using warpline_internal::MemoryReturn;
using warpline_internal::Welcome;

class SessionGuardedTest : public SessionFixture {
 protected:
  // What a session has of the 192 MiB of its quota: sinks and variables take the second part, and a
  // sixteenth stays for streams and graphs.
  static constexpr uint64_t kAll = 158 * kMiB;
  static constexpr uint64_t kOwn = 22 * kMiB;
  static constexpr uint64_t kArenaBytes = 4ull << 30;

  // The arena of a session. None adjoins another.
  static uint64_t ArenaOf(int number) {
    return kArena + 2 * static_cast<uint64_t>(number) * kArenaBytes;
  }
  static Hello GuardedHello(int number = 0) {
    Hello hello = TestClient::GoodHello();
    hello.set_tier(static_cast<uint32_t>(Tier::kGuarded));
    hello.set_features(kFeatureTiers | kFeatureGuard | kFeatureBulk);
    hello.set_arena_base(ArenaOf(number));
    hello.mutable_initial_memory()->set_va(ArenaOf(number) + 8 * kMiB);
    hello.mutable_initial_memory()->set_min_bytes(2 * kMiB);
    hello.mutable_initial_memory()->set_want_bytes(64 * kMiB);
    return hello;
  }
  std::unique_ptr<TestClient> OpenGuarded(int number, Welcome* welcome = nullptr) {
    auto client = Dial();
    const auto answer = client->Open(GuardedHello(number));
    EXPECT_TRUE(answer.has_value());
    if (welcome != nullptr && answer.has_value()) *welcome = *answer;
    return client;
  }
  absl::Status Refusal(const Hello& hello) {
    auto client = Dial();
    EXPECT_FALSE(client->Open(hello).has_value());
    return client->AwaitClosed();
  }
  SessionSnapshot Of(uint64_t id) {
    for (const SessionSnapshot& session : host_->Snapshot().sessions) {
      if (session.id == id) return session;
    }
    return SessionSnapshot();
  }
  void AwaitRestart(uint64_t id) {
    while (Of(id).continuity.restarts == 0 || Of(id).state != "open") std::this_thread::yield();
  }
};

TEST_F(SessionGuardedTest, AllMemoryComesWithTheWelcome) {
  StartServer();
  Welcome welcome;
  auto client = OpenGuarded(0, &welcome);
  EXPECT_EQ(welcome.features(), kFeatureTiers | kFeatureGuard);
  EXPECT_EQ(welcome.initial_memory().va(), kArena + 8 * kMiB);
  EXPECT_EQ(welcome.initial_memory().bytes(), kAll);
  EXPECT_EQ(welcome.quota_bytes(), kAll);
  EXPECT_EQ(Of(1).tier, "guarded");
  EXPECT_EQ(Of(1).memory.bytes, kAll + kOwn);
  EXPECT_EQ(Of(1).memory.quota_used_bytes, kAll + kOwn);
  EXPECT_EQ(memory_[0]->stats().pool.claimed_bytes, kOwn);
  client->SendCommands(Body('w', 77, kArena + 8 * kMiB + kAll - 8));
  EXPECT_TRUE(client->Await(kReplies).has_value());
}

TEST_F(SessionGuardedTest, ArenasOfADeviceNeitherOverlapNorAdjoin) {
  StartServer();
  auto first = OpenGuarded(1);
  for (const uint64_t base : {ArenaOf(1), ArenaOf(1) - kArenaBytes, ArenaOf(1) + kArenaBytes}) {
    Hello hello = GuardedHello();
    hello.set_arena_base(base);
    hello.mutable_initial_memory()->set_va(base + 8 * kMiB);
    EXPECT_EQ(RefusalOf(Refusal(hello)).reason(), warpline_internal::Refusal::ARENA_UNAVAILABLE);
  }
  // Sessions with a context of their own may have the same addresses.
  Hello isolated = TestClient::GoodHello();
  isolated.set_arena_base(ArenaOf(1));
  auto second = Dial();
  EXPECT_TRUE(second->Open(isolated).has_value());
  auto third = OpenGuarded(2);
}

TEST_F(SessionGuardedTest, TheServersLimitIsTheQuotaWithoutALease) {
  options_.session.guarded.memory_bytes = 64 * kMiB;
  StartServer();
  Welcome welcome;
  auto client = OpenGuarded(0, &welcome);
  EXPECT_EQ(welcome.quota_bytes(), 46 * kMiB);
  EXPECT_EQ(Of(1).memory.quota_bytes, 64 * kMiB);
}

TEST_F(SessionGuardedTest, ASessionGetsWhatTheLeaseHasLeft) {
  StartServer();
  std::string token;
  ASSERT_TRUE(leases_->OpenLocal(192 * kMiB, {}, 0, &token).ok());
  Hello hello = GuardedHello(0);
  hello.set_token(token);
  // The client leaves so much room only between its margins, of 3840 MiB before the variables.
  hello.mutable_initial_memory()->set_va(ArenaOf(0) + 1870 * kMiB);
  auto first = Dial();
  EXPECT_EQ(first->Open(hello)->quota_bytes(), 100 * kMiB);
  hello = GuardedHello(1);
  hello.set_token(token);
  auto second = Dial();
  EXPECT_EQ(second->Open(hello)->quota_bytes(), 50 * kMiB);
  // Of the last 6 MiB there is no session.
  hello = GuardedHello(2);
  hello.set_token(token);
  const absl::Status refusal = Refusal(hello);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("its sinks and its variables"));
  EXPECT_EQ(RefusalOf(refusal).reason(), warpline_internal::Refusal::TIER);
}

// All of them see the lease's memory before one has taken it.
TEST_F(SessionGuardedTest, OfSessionsThatOpenAtOnceNoneIsWithoutMemory) {
  StartServer();
  std::string token;
  ASSERT_TRUE(leases_->OpenLocal(192 * kMiB, {}, 0, &token).ok());
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 4; ++i) {
    Hello hello = GuardedHello(i);
    hello.set_token(token);
    clients.push_back(Dial());
    clients.back()->SendMessage(kHello, hello);
  }
  int opened = 0;
  for (const auto& client : clients) {
    const auto answer = client->Await(kWelcome);
    if (!answer.has_value()) {
      EXPECT_EQ(client->AwaitClosed().code(), absl::StatusCode::kResourceExhausted);
      continue;
    }
    Welcome welcome;
    ASSERT_TRUE(welcome.ParseFromString(*answer));
    EXPECT_GT(welcome.initial_memory().bytes(), 0u);
    EXPECT_EQ(welcome.quota_bytes(), welcome.initial_memory().bytes());
    ++opened;
  }
  EXPECT_GE(opened, 1);
  EXPECT_LT(opened, 4);
}

TEST_F(SessionGuardedTest, WithoutRoomOnTheDeviceForItsSinksASessionIsRefused) {
  StartServer();
  auto first = OpenGuarded(0);
  auto second = OpenGuarded(1);
  const absl::Status refusal = Refusal(GuardedHello(2));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("the device has too little left"));
  EXPECT_EQ(memory_[0]->stats().pool.claimed_bytes, 2 * kOwn);
  first.reset();
  while (memory_[0]->stats().pool.claimed_bytes > kOwn) std::this_thread::yield();
  EXPECT_TRUE(Dial()->Open(GuardedHello(2)).has_value());
}

TEST_F(SessionGuardedTest, ASessionGetsWhatTheDeviceHasLeft) {
  StartServer();
  auto first = OpenGuarded(0);
  Welcome welcome;
  auto second = OpenGuarded(1, &welcome);
  EXPECT_EQ(welcome.quota_bytes(), 256 * kMiB - kAll - 2 * kOwn);
}

TEST_F(SessionGuardedTest, NothingIsMappedLater) {
  StartServer();
  auto client = OpenGuarded(0);
  const auto beyond = client->RequestMemory(kArena + 8 * kMiB + kAll, 2 * kMiB, 4 * kMiB);
  EXPECT_EQ(beyond->bytes(), 0u);
  EXPECT_EQ(beyond->error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_THAT(beyond->message(), HasSubstr("--memory"));
  const auto twice = client->RequestMemory(kArena + 8 * kMiB, 2 * kMiB, 4 * kMiB);
  EXPECT_EQ(twice->error(), static_cast<int>(CudaResult::kInvalidValue));
  warpline_internal::MemoryRequest request;
  request.set_handle(1);
  request.set_min_bytes(2 * kMiB);
  request.set_want_bytes(2 * kMiB);
  client->SendMessage(kMemoryRequest, request);
  MemoryGrant grant;
  ASSERT_TRUE(grant.ParseFromString(client->Await(kMemoryGrant).value_or("\xff")));
  EXPECT_EQ(grant.error(), static_cast<int>(CudaResult::kNotSupported));
}

TEST_F(SessionGuardedTest, ReturnedMemoryStaysWhereItIsAndIsGivenAgain) {
  StartServer();
  auto client = OpenGuarded(0);
  const uint64_t va = kArena + 8 * kMiB;
  client->SendCommands(Body('w', 77, va));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  MemoryReturn back;
  back.set_va(va);
  back.set_bytes(kAll);
  client->SendMessage(kMemoryReturn, back);
  EXPECT_EQ(client->RequestMemory(va, 2 * kMiB, 64 * kMiB)->bytes(), 64 * kMiB);
  client->SendCommands(Body('r', va));
  EXPECT_EQ((*client->Await(kReplies))[0], 77);
  EXPECT_EQ(client->RequestMemory(va + 64 * kMiB, 2 * kMiB, 512 * kMiB)->bytes(), kAll - 64 * kMiB);
  EXPECT_EQ(Of(1).memory.bytes, kAll + kOwn);
  // What it does not have breaks the protocol, as with any session.
  back.set_va(va + kAll);
  back.set_bytes(2 * kMiB);
  client->SendMessage(kMemoryReturn, back);
  EXPECT_EQ(client->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionGuardedTest, HostMemoryIsRefused) {
  StartServer();
  Welcome welcome;
  auto client = OpenGuarded(0, &welcome);
  auto bulk = Dial();
  warpline_internal::BulkHello hello;
  hello.set_session(welcome.session());
  hello.set_secret(welcome.secret());
  bulk->SendMessage(kBulkHello, hello);
  ASSERT_TRUE(bulk->Await(kBulkReady).has_value());
  warpline_internal::HostMemoryRequest request;
  request.set_va(kHostArenaBase);
  request.set_bytes(kHostPageBytes);
  bulk->SendMessage(kBulkMemory, request);
  warpline_internal::HostMemoryAnswer answer;
  ASSERT_TRUE(answer.ParseFromString(bulk->Await(kBulkMemoryDone).value_or("\xff")));
  EXPECT_EQ(answer.error(), static_cast<int>(CudaResult::kNotSupported));
}

// The answer to a request for staging memory, and its file.
std::pair<CudaResult, UniqueFd> AskForStaging(const Welcome& welcome) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string& name = welcome.host_memory_socket();
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  warpline_internal::HostMemoryRequest request;
  request.set_session(welcome.session());
  request.set_secret(welcome.secret());
  request.set_va(kHostArenaBase);
  request.set_bytes(4 << 20);
  request.set_staging(true);
  EXPECT_TRUE(SendPacket(socket.get(), request, {}).ok());
  warpline_internal::HostMemoryAnswer answer;
  std::vector<UniqueFd> fds;
  EXPECT_TRUE(ReceivePacket(socket.get(), &answer, &fds).ok());
  return {static_cast<CudaResult>(answer.error()), fds.empty() ? UniqueFd() : std::move(fds[0])};
}

TEST_F(SessionGuardedTest, StagingMemoryIsAHostWindowOfTheWorkers) {
  options_.session.guarded.process.windows = {.count = 1, .bytes = 8 * kMiB};
  StartServer();
  Welcome one, other, third;
  auto client = OpenGuarded(0, &one);
  const uint64_t before = host_->Snapshot().host_memory_bytes;
  EXPECT_GE(before, 8 * kMiB) << "charged from the start";
  auto [result, file] = AskForStaging(one);
  ASSERT_EQ(result, CudaResult::kSuccess);
  EXPECT_EQ(SealedBytes(file.get()).value_or(0), 8 * kMiB);
  EXPECT_EQ(Of(1).memory.window_bytes, 8 * kMiB);
  EXPECT_EQ(host_->Snapshot().host_memory_bytes, before);
  EXPECT_EQ(AskForStaging(one).first, CudaResult::kOutOfMemory) << "it has one";
  auto neighbour = OpenGuarded(1, &other);
  EXPECT_EQ(AskForStaging(other).first, CudaResult::kOutOfMemory);
  EXPECT_THAT(Of(2).memory.refusal, HasSubstr("no host window is free"));
  EXPECT_EQ(Of(2).memory.window_bytes, 0u);
  ASSERT_EQ(pwrite(file.get(), "secret", 6, 0), 6);
  client.reset();
  while (Of(1).id != 0) std::this_thread::yield();
  char byte = 1;
  ASSERT_EQ(pread(file.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 0);
  ASSERT_EQ(pwrite(file.get(), "still here", 10, 0), 10);
  auto next = OpenGuarded(2, &third);
  auto [again, fresh] = AskForStaging(third);
  while (again != CudaResult::kSuccess) {
    std::this_thread::yield();
    std::tie(again, fresh) = AskForStaging(third);
  }
  ASSERT_EQ(pread(fresh.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 0) << "another session's file";
}

TEST_F(SessionGuardedTest, AWindowGoesAlongToTheNextWorker) {
  options_.session.guarded.process.windows = {.count = 1, .bytes = 8 * kMiB};
  StartServer();
  Welcome welcome;
  auto client = OpenGuarded(0, &welcome);
  auto [result, file] = AskForStaging(welcome);
  ASSERT_EQ(result, CudaResult::kSuccess);
  ASSERT_EQ(pwrite(file.get(), "staged", 6, 0), 6);
  ASSERT_EQ(kill(Of(1).worker_pid, SIGKILL), 0);
  AwaitRestart(1);
  EXPECT_EQ(Of(1).memory.window_bytes, 8 * kMiB);
  char byte = 0;
  ASSERT_EQ(pread(file.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 's');
}

TEST_F(SessionGuardedTest, WithoutWindowsThereIsNoStagingMemory) {
  StartServer();
  Welcome welcome;
  auto client = OpenGuarded(0, &welcome);
  EXPECT_EQ(AskForStaging(welcome).first, CudaResult::kNotSupported);
}

TEST_F(SessionGuardedTest, UnknownTiersAndOtherModesAreRefused) {
  StartServer();
  Hello hello = GuardedHello();
  hello.set_tier(7);
  absl::Status refusal = Refusal(hello);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("the tier 7"));
  hello = GuardedHello();
  hello.set_guard(static_cast<uint32_t>(GuardMode::kFence));
  refusal = Refusal(hello);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("hardened, and not guarded as fence"));
  hello.set_guard(std::size(kGuardModes));
  refusal = Refusal(hello);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("does not know the guard's mode"));
  hello.set_guard(static_cast<uint32_t>(GuardMode::kHardened));
  EXPECT_TRUE(Dial()->Open(hello).has_value());
}

TEST_F(SessionGuardedTest, TiersThatTheServerLacksAreRefusedWithWhatItHas) {
  options_.session.tiers = {Tier::kIsolated};
  StartServer();
  const absl::Status refusal = Refusal(GuardedHello());
  EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("use --tier=isolated"));
  EXPECT_TRUE(DialAndOpen() != nullptr);
}

TEST_F(SessionGuardedTest, IsolatedSessionsMayBeRefusedToo) {
  options_.session.tiers = {Tier::kGuarded};
  StartServer();
  const absl::Status refusal = Refusal(TestClient::GoodHello());
  EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("use --tier=guarded"));
}

TEST_F(SessionGuardedTest, RefusalsOfTheTierAreTyped) {
  options_.session.tiers = {Tier::kIsolated};
  StartServer();
  EXPECT_EQ(RefusalOf(Refusal(GuardedHello())).reason(), warpline_internal::Refusal::TIER);
}

TEST_F(SessionGuardedTest, TenantsHaveTheTiersOfTheirTokens) {
  lease_options_.required = true;
  lease_options_.server_name = "s";
  StartServer();
  const SigningKey key = SigningKey::Generate().value();
  leases_->SetKeys({key.verify_key()});
  const auto signed_in = [&](Hello hello, TierSet tiers) {
    LeaseToken token;
    token.lease = absl::StrCat("lease", tiers);
    token.tenant = "vision";
    token.server = "s";
    token.max_sessions = 8;
    token.tiers = tiers;
    token.expires = SteadyNow() + absl::Hours(1);
    hello.set_token(SignToken(key, token).value());
    return hello;
  };
  const Hello isolated = TestClient::GoodHello();
  absl::Status refusal = Refusal(signed_in(GuardedHello(), SetOf(Tier::kIsolated)));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refusal.message()),
              HasSubstr("the tenant vision has no sessions of the tier guarded, only isolated"));
  EXPECT_EQ(RefusalOf(refusal).reason(), warpline_internal::Refusal::TIER);
  refusal = Refusal(signed_in(isolated, SetOf(Tier::kGuarded)));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("use --tier=guarded"));
  EXPECT_TRUE(Dial()->Open(signed_in(isolated, SetOf(Tier::kIsolated))).has_value());
  EXPECT_TRUE(Dial()->Open(signed_in(GuardedHello(), SetOf(Tier::kGuarded))).has_value());
  EXPECT_TRUE(Dial()->Open(signed_in(GuardedHello(1), kAllTiers)).has_value());
}

TEST_F(SessionGuardedTest, LargerArenasAreRefusedWithTheLargest) {
  StartServer();
  Hello hello = GuardedHello();
  hello.set_arena_bytes(2 * kArenaBytes);
  const auto refusal = RefusalOf(Refusal(hello));
  EXPECT_EQ(refusal.reason(), warpline_internal::Refusal::ARENA_TOO_LARGE);
  EXPECT_EQ(refusal.most_arena_bytes(), kArenaBytes);
}

TEST_F(SessionGuardedTest, SeveralDevicesAreRefused) {
  StartServer(/*devices=*/2);
  Hello hello = GuardedHello();
  hello.set_device("0,1");
  const absl::Status refusal = Refusal(hello);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("has one device"));
  hello.set_device("1");
  EXPECT_TRUE(Dial()->Open(hello).has_value());
}

TEST_F(SessionGuardedTest, SessionsShareAWorkerThatOutlivesThem) {
  options_.session.guarded.memory_bytes = 64 * kMiB;
  StartServer();
  auto first = OpenGuarded(0);
  auto second = OpenGuarded(1);
  const int worker = Of(1).worker_pid;
  EXPECT_EQ(Of(2).worker_pid, worker);
  first.reset();
  while (host_->sessions() == 2) std::this_thread::yield();
  second->SendCommands(Body('e'));
  EXPECT_TRUE(second->Await(kReplies).has_value());
  second.reset();
  while (host_->sessions() == 1) std::this_thread::yield();
  auto third = OpenGuarded(0);
  EXPECT_EQ(Of(3).worker_pid, worker);
}

TEST_F(SessionGuardedTest, ASessionThatIsReplacedIsInTheSharedWorkerAgain) {
  options_.session.guarded.memory_bytes = 64 * kMiB;
  StartServer();
  auto first = OpenGuarded(0);
  first->SendCommands(Body('v', 4711));
  EXPECT_TRUE(first->Await(kReplies).has_value());
  const int worker = Of(1).worker_pid;
  host_->Do(SessionAction::kReplace, 1, absl::InfiniteDuration(),
            [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
  AwaitRestart(1);
  EXPECT_EQ(Of(1).worker_pid, worker);
  first->SendCommands(Body('v', 0));
  EXPECT_EQ(*first->Await(kReplies), Body('\0', 4711).substr(8, 8));
}

TEST_F(SessionGuardedTest, NeighboursOfWorkThatDoesNotEndGoOnIfTheyAreAtRest) {
  options_.session.guarded.memory_bytes = 64 * kMiB;
  // Longer than a busy host takes to give a resting session another worker.
  options_.session.guarded.process.drain = absl::Seconds(5);
  options_.session.worker.args = {"--hangs=1"};
  StartServer();
  auto hung = OpenGuarded(0);
  auto resting = OpenGuarded(1);
  auto busy = OpenGuarded(2);
  const int worker = Of(1).worker_pid;
  // At rest, with memory and variables.
  resting->SendCommands(Body('v', 4711));
  EXPECT_TRUE(resting->Await(kReplies).has_value());
  // The fake worker never says that this is complete.
  busy->SendCommands(Body('e'));
  EXPECT_TRUE(busy->Await(kReplies).has_value());
  hung.reset();
  AwaitRestart(2);
  EXPECT_NE(Of(2).worker_pid, worker);
  EXPECT_EQ(Of(2).tier, "guarded");
  resting->SendCommands(Body('v', 0));
  EXPECT_EQ(*resting->Await(kReplies), Body('\0', 4711).substr(8, 8));
  EXPECT_TRUE(busy->Await(kFault).has_value());
  EXPECT_THAT(Of(3).reason, HasSubstr("another session did not end; commands were in flight"));
  // New sessions are beside those that went on.
  while (host_->sessions() > 2) std::this_thread::yield();
  auto next = OpenGuarded(0);
  EXPECT_EQ(Of(4).worker_pid, Of(2).worker_pid);
}

TEST_F(SessionGuardedTest, WhoseWorkDoesNotEndIsRefusedTheTierForAWhile) {
  options_.session.guarded.memory_bytes = 64 * kMiB;
  options_.session.guarded.hang_pause = absl::Hours(1);
  options_.session.worker.args = {"--hangs=1"};
  StartServer();
  auto hung = OpenGuarded(0);
  hung.reset();
  while (host_->sessions() > 0) std::this_thread::yield();
  const absl::Status refusal = Refusal(GuardedHello());
  EXPECT_EQ(refusal.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("no sessions of the tier guarded until"));
  EXPECT_TRUE(Dial()->Open(TestClient::GoodHello()).has_value());
}

TEST_F(SessionGuardedTest, SessionsAtRestGoOnWhenTheirWorkerDies) {
  options_.session.guarded.memory_bytes = 64 * kMiB;
  StartServer();
  auto first = OpenGuarded(0);
  auto second = OpenGuarded(1);
  const uint64_t va = ArenaOf(1) + 8 * kMiB;
  MemoryReturn back;
  back.set_va(va);
  back.set_bytes(46 * kMiB);
  second->SendMessage(kMemoryReturn, back);
  EXPECT_EQ(second->RequestMemory(va, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
  first->SendCommands(Body('d'));
  EXPECT_TRUE(first->Await(kReplies).has_value());
  AwaitRestart(1);
  AwaitRestart(2);
  EXPECT_EQ(Of(1).worker_pid, Of(2).worker_pid);
  // What was returned is mapped in the next one as well.
  second->SendCommands(Body('r', va + 32 * kMiB));
  EXPECT_TRUE(second->Await(kReplies).has_value());
}

}  // namespace
}  // namespace warpline::server
