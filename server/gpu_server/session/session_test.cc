#include "server/gpu_server/session/session.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process_identity.h"
#include "common/steady_time.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lease/signing_key.h"
#include "lease/token.h"
#include "proto/frames.h"
#include "server/gpu_server/session/task_shares.h"
#include "server/gpu_server/testing/session_fixture.h"
#include "server/hostlink/handover/host_bytes.h"
#include "transport/channel.h"
#include "transport/inproc/inproc_channel.h"

namespace warpline::server {
namespace {

using testing::HasSubstr;
using warpline_internal::Hello;

using SessionTest = SessionFixture;

TEST_F(SessionTest, HelloIsWelcomedWithTheDevice) {
  StartServer();
  auto client = Dial();
  const auto welcome = client->Open();
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->version(), 1u);
  EXPECT_EQ(welcome->device().name(), "Fake device");
  EXPECT_EQ(welcome->quota_bytes(), 192 * kMiB);
  EXPECT_EQ(welcome->secret().size(), 16u);
  EXPECT_EQ(welcome->server(), "test server");
  EXPECT_EQ(welcome->initial_memory().bytes(), 0u);
}

TEST_F(SessionTest, InitialMemoryComesWithTheWelcome) {
  StartServer();
  Hello hello = TestClient::GoodHello();
  hello.mutable_initial_memory()->set_va(kArena);
  hello.mutable_initial_memory()->set_min_bytes(2 * kMiB);
  hello.mutable_initial_memory()->set_want_bytes(66 * kMiB);
  auto client = Dial();
  const auto welcome = client->Open(hello);
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->initial_memory().bytes(), 66 * kMiB);
  EXPECT_EQ(welcome->initial_memory().va(), kArena);
}

TEST_F(SessionTest, TheNewestVersionThatBothSpeakIsUsed) {
  StartServer();
  const struct {
    uint32_t least, newest, agreed;
  } kCases[] = {{1, 1, 1},
                {1, kProtocolVersion, kProtocolVersion},
                {1, kProtocolVersion + 7, kProtocolVersion},
                {kProtocolVersion, kProtocolVersion + 1, kProtocolVersion}};
  for (const auto& c : kCases) {
    Hello hello = TestClient::GoodHello();
    hello.set_min_version(c.least);
    hello.set_max_version(c.newest);
    auto client = Dial();
    const auto welcome = client->Open(hello);
    ASSERT_TRUE(welcome.has_value()) << c.least << " to " << c.newest;
    EXPECT_EQ(welcome->version(), c.agreed);
  }
}

TEST_F(SessionTest, FeaturesThatTheClientDoesNotNameAreNotUsed) {
  StartServer();
  for (const uint64_t features : {uint64_t{0}, uint64_t{kFeatureCompressedImages}, ~uint64_t{0}}) {
    Hello hello = TestClient::GoodHello();
    hello.set_features(features);
    auto client = Dial();
    const auto welcome = client->Open(hello);
    ASSERT_TRUE(welcome.has_value());
    // This server keeps no modules.
    EXPECT_EQ(welcome->features(), features & (kFeatureCompressedImages | kFeatureRefusals |
                                               kFeatureBulk | kFeatureOutlives | kFeatureMoves));
  }
}

TEST_F(SessionTest, BadHellosAreRefusedWithTheReason) {
  StartServer();
  const auto refusal = [&](const Hello& hello) {
    auto client = Dial();
    EXPECT_FALSE(client->Open(hello).has_value());
    return client->AwaitClosed();
  };
  Hello old = TestClient::GoodHello();
  old.set_min_version(kProtocolVersion + 1);
  old.set_max_version(kProtocolVersion + 2);
  EXPECT_EQ(refusal(old).code(), absl::StatusCode::kFailedPrecondition);
  Hello crooked = TestClient::GoodHello();
  crooked.set_arena_base(kArena + (2ull << 30));
  EXPECT_EQ(refusal(crooked).code(), absl::StatusCode::kInvalidArgument);
  Hello elsewhere = TestClient::GoodHello();
  elsewhere.set_device("7");
  EXPECT_EQ(refusal(elsewhere).code(), absl::StatusCode::kNotFound);
}

TEST_F(SessionTest, ATokenIsLookedAtBeforeASessionIsCounted) {
  options_.max_sessions = 1;
  StartServer();
  const auto refusal = [&](const std::string& token) {
    Hello hello = TestClient::GoodHello();
    hello.set_token(token);
    auto client = Dial();
    EXPECT_FALSE(client->Open(hello).has_value());
    return client->AwaitClosed();
  };
  auto open = DialAndOpen();
  // Not that the server is full.
  EXPECT_EQ(refusal("no.token").code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(refusal("").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(host_->sessions(), 1);
}

// The host for a client that comes with a certificate.
class NamedPeer : public Acceptor {
 public:
  NamedPeer(Acceptor* host, std::string peer) : host_(host), peer_(std::move(peer)) {}
  std::unique_ptr<SessionHandler> Accept(const std::string&, absl::Status* refusal) override {
    return host_->Accept(peer_, refusal);
  }

 private:
  Acceptor* const host_;
  const std::string peer_;
};

TEST_F(SessionTest, WhatAPeerKeepsIsNotTakenForAnother) {
  StartServer();
  struct Party {
    explicit Party(SessionHost* host, const std::string& peer)
        : named(host, peer), server(&named, ChannelOptions()) {}
    NamedPeer named;
    InprocServer server;
    TestClient client;
  };
  const auto open = [](Party* party) {
    auto channel = party->server.Dial(&party->client, ChannelOptions());
    ASSERT_TRUE(channel.ok());
    party->client.Connected(*std::move(channel));
    ASSERT_TRUE(party->client.Open().has_value());
  };
  Party keeper(host_.get(), "ipv4:10.0.0.7:5");
  Party stranger(host_.get(), "ipv4:10.0.0.8:5");
  Party itself(host_.get(), "ipv4:10.0.0.7:6");
  open(&keeper);
  keeper.client.RequestMemory(kArena, 192 * kMiB, 192 * kMiB);
  warpline_internal::MemoryReturn back;
  back.set_va(kArena);
  back.set_bytes(192 * kMiB);
  keeper.client.SendMessage(kMemoryReturn, back);
  keeper.client.SendCommands(Body('v', 1));
  keeper.client.Await(kReplies);
  open(&stranger);
  const auto refused = stranger.client.RequestMemory(kArena, 192 * kMiB, 192 * kMiB);
  EXPECT_EQ(refused->error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_EQ(host_->Snapshot().sessions.at(0).continuity.restarts, 0u);
  open(&itself);
  EXPECT_EQ(itself.client.RequestMemory(kArena, 192 * kMiB, 192 * kMiB)->bytes(), 192 * kMiB);
  EXPECT_EQ(host_->Snapshot().sessions.at(0).continuity.restarts, 1u);
  for (Party* party : {&keeper, &stranger, &itself}) party->server.Shutdown();
}

TEST_F(SessionTest, ATokenOpensSessionsForTheCertificateThatItIsForOnly) {
  StartServer();
  std::string token;
  const std::string alice = "ipv4:10.0.0.7:5 cn=alice cert=00ff";
  ASSERT_TRUE(leases_->OpenLocal(0, {}, 0, &token, HolderOf(alice)).ok());
  Hello hello = TestClient::GoodHello();
  hello.set_token(token);
  for (const std::string& peer : {std::string("ipv4:10.0.0.7:5 cn=alice cert=1234"), alice}) {
    NamedPeer named(host_.get(), peer);
    InprocServer server(&named, ChannelOptions());
    TestClient client;
    auto channel = server.Dial(&client, ChannelOptions());
    ASSERT_TRUE(channel.ok());
    client.Connected(*std::move(channel));
    EXPECT_EQ(client.Open(hello).has_value(), peer == alice);
    if (peer == alice) continue;
    EXPECT_TRUE(absl::IsUnauthenticated(client.AwaitClosed()));
  }
}

TEST_F(SessionTest, ALeaseThatEndedMeanwhileOpensNoSession) {
  StartServer();
  std::string token;
  const auto lease = leases_->OpenLocal(0, {}, 0, &token);
  ASSERT_TRUE(lease.ok());
  auto membership = leases_->Join(token);
  ASSERT_TRUE(membership.ok());
  EXPECT_TRUE(membership->CheckHeld().ok());
  leases_->MarkEnded(lease->lease, {"revoked", EndCause::kRevoked});
  EXPECT_TRUE(absl::IsPermissionDenied(membership->CheckHeld()));
}

TEST_F(SessionTest, WhatComesBeforeHelloOrTwiceEndsTheSession) {
  StartServer();
  auto early = Dial();
  early->SendCommands(Body('e'));
  EXPECT_EQ(early->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
  auto twice = DialAndOpen();
  twice->SendMessage(kHello, TestClient::GoodHello());
  EXPECT_EQ(twice->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
  auto garbage = Dial();
  garbage->Send(kHello, "\xff\xff\xff");
  EXPECT_EQ(garbage->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
  auto unknown = DialAndOpen();
  unknown->Send(77, "");
  EXPECT_EQ(unknown->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
  host_->Snapshot();  // Waits for the control loop, which counts.
  EXPECT_EQ(host_->counters().protocol_errors.value(), 4u);
}

TEST_F(SessionTest, CommandsReachTheWorkerAndRepliesComeBack) {
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('e', 42), 2);
  client->SendCommands(Body('e', 43), 1);
  const auto first = client->Await(kReplies);
  const auto second = client->Await(kReplies);
  ASSERT_TRUE(first.has_value() && second.has_value());
  CommandsHeader header;
  std::memcpy(&header, second->data(), sizeof(header));
  EXPECT_EQ(header.first_seq, 3u);
  client->AwaitReceived(3);
}

TEST_F(SessionTest, CommandsSentBeforeTheWelcomeAreKept) {
  StartServer();
  auto client = Dial();
  client->SendMessage(kHello, TestClient::GoodHello());
  client->SendCommands(Body('e', 42));
  ASSERT_TRUE(client->Await(kWelcome).has_value());
  EXPECT_TRUE(client->Await(kReplies).has_value());
}

TEST_F(SessionTest, ImplausibleCommandHeadersEndTheSession) {
  StartServer();
  const auto after = [&](const CommandsHeader& header, size_t body_bytes) {
    auto client = DialAndOpen();
    std::string payload(reinterpret_cast<const char*>(&header), sizeof(header));
    payload.resize(sizeof(header) + body_bytes);
    client->Send(kCommands, payload);
    return client->AwaitClosed().code();
  };
  EXPECT_EQ(after({2, 1, 0}, 8), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(after({1, 0, 0}, 8), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(after({1, 2, 0}, 8), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(after({1, 1, 1}, 8), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(after({1, 1, 0}, kMaxCommandsPayload), absl::StatusCode::kInvalidArgument);
  auto stub = DialAndOpen();
  stub->Send(kCommands, "short");
  EXPECT_EQ(stub->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionTest, CommandsInFlightAreAsManyAsTheLeaseSays) {
  lease_options_.required = true;
  lease_options_.server_name = "a server";
  StartServer();
  const SigningKey key = SigningKey::Generate().value();
  leases_->SetKeys({key.verify_key()});
  LeaseToken token;
  token.lease = "1";
  token.tenant = "a";
  token.server = "a server";
  token.max_sessions = 1;
  token.expires = SteadyNow() + absl::Hours(1);
  token.slice.max_commands = 100;
  Hello hello = TestClient::GoodHello();
  hello.set_token(SignToken(key, token).value());
  auto client = Dial();
  const auto welcome = client->Open(hello);
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->window_commands(), 100u);
  // The worker completes none of them.
  const std::string body = Body('n') + std::string(8192, '\0');
  client->SendCommands(body, 100 + kHostDoneWindow);
  client->AwaitReceived(100 + kHostDoneWindow);
  client->SendCommands(body, 100 + kHostDoneWindow + 1);
  EXPECT_EQ(client->AwaitClosed().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SessionTest, ALeaseIsNotGivenBackWhileItsRefusedClientOffersAnotherArena) {
  lease_options_.required = true;
  lease_options_.server_name = "s";
  std::atomic<int> passed = 0;
  lease_options_.clock = [&] { return SteadyNow() + absl::Seconds(passed.load()); };
  options_.session.max_arena_bytes = TestClient::GoodHello().arena_bytes();
  StartServer();
  const SigningKey key = SigningKey::Generate().value();
  leases_->SetKeys({key.verify_key()});
  LeaseToken token;
  token.lease = "1";
  token.tenant = "a";
  token.server = "s";
  token.max_sessions = 1;
  token.expires = SteadyNow() + absl::Hours(1);
  Hello hello = TestClient::GoodHello();
  hello.set_token(SignToken(key, token).value());
  Hello large = hello;
  large.set_arena_bytes(2 * hello.arena_bytes());
  const auto refuse = [&](const Hello& refused) {
    auto client = Dial();
    EXPECT_FALSE(client->Open(refused).has_value());
    EXPECT_FALSE(client->AwaitClosed().ok());
    EXPECT_TRUE(host_->WaitUntilIdle(absl::InfiniteDuration()));
  };
  refuse(large);
  EXPECT_TRUE(leases_->IdleLeases().empty());
  {
    auto client = Dial();
    EXPECT_TRUE(client->Open(hello).has_value());
  }
  EXPECT_TRUE(host_->WaitUntilIdle(absl::InfiniteDuration()));
  EXPECT_EQ(leases_->IdleLeases(), std::vector<std::string>{"1"}) << "its program has ended";
  refuse(large);
  EXPECT_TRUE(leases_->IdleLeases().empty());
  // It offers nothing else.
  passed = 10;
  EXPECT_EQ(leases_->IdleLeases(), std::vector<std::string>{"1"});
  leases_->ForgetIdle({"1"});
  // No other offer mends this.
  hello.set_device("7");
  refuse(hello);
  EXPECT_EQ(leases_->IdleLeases(), std::vector<std::string>{"1"});
}

TEST_F(SessionTest, FullRingHoldsTheClientBackWithoutLosingCommands) {
  StartServer();
  auto client = DialAndOpen();
  const std::string large = Body('e') + std::string(900 << 10, 'x');
  constexpr int kFrames = 20;
  for (int i = 0; i < kFrames; ++i) client->SendCommands(large);
  for (int i = 0; i < kFrames; ++i) {
    const auto reply = client->Await(kReplies);
    ASSERT_TRUE(reply.has_value());
    CommandsHeader header;
    std::memcpy(&header, reply->data(), sizeof(header));
    EXPECT_EQ(header.first_seq, static_cast<uint64_t>(i + 1));
  }
  client->AwaitReceived(kFrames);
}

TEST_F(SessionTest, GrantedMemoryIsMappedAndZero) {
  StartServer();
  auto client = DialAndOpen();
  const auto grant = client->RequestMemory(kArena, 2 * kMiB, 4 * kMiB);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->bytes(), 4 * kMiB) << grant->message();
  client->SendCommands(Body('r', kArena + 3 * kMiB));
  EXPECT_EQ(*client->Await(kReplies), std::string(8, '\0'));
  EXPECT_EQ(memory_[0]->stats().pool.granted_bytes, 4 * kMiB);
}

TEST_F(SessionTest, QuotaBoundsWhatIsGranted) {
  StartServer();
  auto client = DialAndOpen();
  const auto most = client->RequestMemory(kArena, 2 * kMiB, 1024 * kMiB);
  EXPECT_EQ(most->bytes(), 192 * kMiB);
  const auto more = client->RequestMemory(kArena + 1024 * kMiB, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(more->bytes(), 0u);
  EXPECT_EQ(more->error(), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_THAT(more->message(), HasSubstr("quota"));
}

TEST_F(SessionTest, RefusedMemoryIsCountedAndItsReasonIsShown) {
  StartServer();
  auto client = DialAndOpen();
  client->RequestMemory(kArena, 2 * kMiB, 192 * kMiB);
  EXPECT_EQ(host_->Snapshot().sessions.front().traffic.memory_refused, 0u);
  client->RequestMemory(kArena + 1024 * kMiB, 2 * kMiB, 2 * kMiB);
  client->RequestMemory(kArena + 1024 * kMiB, 4 * kMiB, 4 * kMiB);
  const SessionSnapshot session = host_->Snapshot().sessions.front();
  EXPECT_EQ(session.traffic.memory_refused, 2u);
  EXPECT_EQ(session.memory.refusal, "quota of 201326592 bytes: 201326592 in use, 4194304 wanted");
  TrafficCounters traffic;
  host_->AddTraffic(&traffic);
  EXPECT_EQ(traffic.memory_refused.value(), 2u);
}

TEST_F(SessionTest, DeviceShortOfMemoryGrantsLessOrNothing) {
  StartServer();
  auto first = DialAndOpen();
  EXPECT_EQ(first->RequestMemory(kArena, 2 * kMiB, 192 * kMiB)->bytes(), 192 * kMiB);
  auto second = DialAndOpen();
  EXPECT_EQ(second->RequestMemory(kArena, 2 * kMiB, 192 * kMiB)->bytes(), 64 * kMiB);
  const auto none = second->RequestMemory(kArena + (1ull << 30), 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(none->bytes(), 0u);
  EXPECT_EQ(none->error(), static_cast<int>(CudaResult::kOutOfMemory));
}

TEST_F(SessionTest, HostMemoryOfAPeerIsOneSum) {
  const uint64_t own = HostBytesOfSession(SessionOptions());
  lease_options_.payer_host_bytes = own + 40 * kMiB;
  StartServer();
  Hello hello = TestClient::GoodHello();
  hello.set_features(kFeatureRefusals);
  auto client = Dial();
  ASSERT_TRUE(client->Open(hello).has_value());
  std::string told;
  const auto charge = [&](uint64_t bytes, bool beyond = false) {
    client->SendCommands(Body('c', bytes, kHostMemoryNumber));
    auto frames = client->AwaitEach(beyond ? std::set<uint32_t>{kReplies, kRefused}
                                           : std::set<uint32_t>{kReplies});
    told = frames[kRefused];
    int32_t error = -1;
    const std::string& reply = frames[kReplies];
    if (reply.size() >= sizeof(error)) std::memcpy(&error, reply.data(), sizeof(error));
    return static_cast<CudaResult>(error);
  };
  EXPECT_EQ(charge(32 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(charge(16 * kMiB, /*beyond=*/true), CudaResult::kOutOfMemory);
  EXPECT_THAT(host_->Snapshot().sessions.front().memory.refusal, HasSubstr("host memory"));
  warpline_internal::MemoryRefused refused_memory;
  ASSERT_TRUE(refused_memory.ParseFromString(told));
  EXPECT_THAT(refused_memory.message(),
              HasSubstr("the host memory of its tenant has no room for 16777216"));
  // A next session has to be able to have its own.
  auto refused = Dial();
  EXPECT_FALSE(refused->Open().has_value());
  const absl::Status why = refused->AwaitClosed();
  EXPECT_TRUE(absl::IsResourceExhausted(why)) << why;
  EXPECT_THAT(std::string(why.message()), HasSubstr("host memory"));
  client->SendCommands(Body('u', 32 * kMiB, kHostMemoryNumber));
  client->Await(kReplies);
  EXPECT_EQ(charge(16 * kMiB), CudaResult::kSuccess);
  // What was never given ends the session, as with device memory.
  client->SendCommands(Body('u', 32 * kMiB, kHostMemoryNumber));
  EXPECT_TRUE(client->Await(kFault).has_value());
  client.reset();
  EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(60)));
  EXPECT_NE(DialAndOpen(), nullptr);
}

TEST_F(SessionTest, RequestsOutsideTheArenaAreInvalid) {
  StartServer();
  auto client = DialAndOpen();
  for (const uint64_t va : {kArena - 2 * kMiB, kArena + 4096 * kMiB, kArena + kMiB}) {
    const auto grant = client->RequestMemory(va, 2 * kMiB, 2 * kMiB);
    EXPECT_EQ(grant->bytes(), 0u);
    EXPECT_EQ(grant->error(), static_cast<int>(CudaResult::kInvalidValue));
  }
}

TEST_F(SessionTest, ReturnedMemoryIsGrantedAgainAndNeverToOthers) {
  StartServer();
  auto client = DialAndOpen();
  client->RequestMemory(kArena, 192 * kMiB, 192 * kMiB);
  client->SendCommands(Body('w', 0x5ec7e7, kArena));
  client->Await(kReplies);
  warpline_internal::MemoryReturn back;
  back.set_va(kArena);
  back.set_bytes(192 * kMiB);
  client->SendMessage(kMemoryReturn, back);
  const uint64_t elsewhere = kArena + 256 * kMiB;
  const auto again = client->RequestMemory(elsewhere, 192 * kMiB, 192 * kMiB);
  EXPECT_EQ(again->bytes(), 192 * kMiB) << again->message();
  // Its own, as it left it.
  client->SendCommands(Body('r', elsewhere));
  EXPECT_EQ(*client->Await(kReplies), Body('\0', 0x5ec7e7).substr(8, 8));
  back.set_va(elsewhere);
  client->SendMessage(kMemoryReturn, back);
  // Says that nothing is in flight.
  client->SendCommands(Body('v', 1));
  client->Await(kReplies);
  // The device has 256 MiB: what the first one returned is wanted, and its worker is replaced.
  auto other = DialAndOpen();
  const auto grant = other->RequestMemory(kArena, 192 * kMiB, 192 * kMiB);
  EXPECT_EQ(grant->bytes(), 192 * kMiB) << grant->message();
  other->SendCommands(Body('r', kArena));
  EXPECT_EQ(*other->Await(kReplies), std::string(8, '\0'));
  EXPECT_EQ(host_->Snapshot().sessions.at(0).continuity.restarts, 1u);
  EXPECT_EQ(host_->Snapshot().sessions.at(0).memory.kept_bytes, 0u);
}

TEST_F(SessionTest, ReturningWhatWasNotGrantedEndsTheSession) {
  StartServer();
  auto client = DialAndOpen();
  warpline_internal::MemoryReturn back;
  back.set_va(kArena);
  back.set_bytes(2 * kMiB);
  client->SendMessage(kMemoryReturn, back);
  EXPECT_EQ(client->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
}

// A client frees as fast as its application does, and knows nothing of a server that is slow.
TEST_F(SessionTest, AClientThatFreesMuchAtOnceIsHeldBackAndNotEnded) {
  StartServer();
  auto client = DialAndOpen();
  constexpr uint64_t kGrants = 40;  // Of which 8 may be under way.
  for (uint64_t i = 0; i < kGrants; ++i) {
    ASSERT_EQ(client->RequestMemory(kArena + i * 2 * kMiB, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
  }
  const SessionSnapshot before = host_->Snapshot().sessions.front();
  ASSERT_EQ(kill(before.worker_pid, SIGSTOP), 0);
  warpline_internal::MemoryReturn back;
  back.set_bytes(2 * kMiB);
  for (uint64_t i = 0; i < kGrants; ++i) {
    back.set_va(kArena + i * 2 * kMiB);
    client->SendMessage(kMemoryReturn, back);
  }
  const auto taken = [&] {
    return host_->Snapshot().sessions.front().traffic.memory_requests -
           before.traffic.memory_requests;
  };
  while (taken() < 8) std::this_thread::yield();
  // A flood gets no further than that.
  EXPECT_EQ(taken(), 8u);
  ASSERT_EQ(kill(before.worker_pid, SIGCONT), 0);
  EXPECT_EQ(client->RequestMemory(kArena + 512 * kMiB, 4 * kMiB, 4 * kMiB)->bytes(), 4 * kMiB);
  EXPECT_EQ(taken(), kGrants + 1);
  EXPECT_EQ(host_->counters().protocol_errors.value(), 0u);
}

TEST_F(SessionTest, ManySmallChunksGoInBatches) {
  StartServer();
  // Chunks of 20 MiB are out of reach of requests below that, so this is 9 chunks each.
  auto client = DialAndOpen();
  for (int i = 0; i < 3; ++i) {
    const auto grant =
        client->RequestMemory(kArena + static_cast<uint64_t>(i) * 64 * kMiB, 18 * kMiB, 18 * kMiB);
    EXPECT_EQ(grant->bytes(), 18 * kMiB);
  }
  memory_[0]->Drain();
  // Those in stock are of the same size.
  const ChunkPool::Stats pool = memory_[0]->stats().pool;
  EXPECT_EQ(pool.chunks - pool.stock_bytes / (2 * kMiB), 27u);
}

TEST_F(SessionTest, FailedMappingIsAnErrorAndLeaksNothing) {
  options_.session.worker.args = {"--map_error_after=1"};
  StartServer();
  auto client = DialAndOpen();
  EXPECT_EQ(client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
  const auto failed = client->RequestMemory(kArena + 64 * kMiB, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(failed->bytes(), 0u);
  EXPECT_EQ(failed->error(), static_cast<int>(CudaResult::kOutOfMemory));
}

TEST_F(SessionTest, SessionsSpreadOverDevicesUnlessTheyName) {
  StartServer(/*devices=*/2);
  auto a = DialAndOpen();
  auto b = DialAndOpen();
  Hello hello = TestClient::GoodHello();
  hello.set_device("1");
  auto c = Dial();
  EXPECT_TRUE(c->Open(hello).has_value());
  const HostSnapshot snapshot = host_->Snapshot();
  EXPECT_EQ(snapshot.devices.at(0).sessions, 1);
  EXPECT_EQ(snapshot.devices.at(1).sessions, 2);
}

TEST_F(SessionTest, TheKeeperOfEachDeviceCountsAmongTheTasks) {
  TaskShareOptions tasks = {.tasks = 332, .max_sessions = 1};
  const TaskShares one(tasks);
  tasks.devices = 2;
  const TaskShares two(tasks);
  ASSERT_LT(two.sure_streams(), one.sure_streams());
  options_.tasks = tasks.tasks;
  options_.max_sessions = tasks.max_sessions;
  StartServer(/*devices=*/2);
  const auto welcome = Dial()->Open();
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->max_streams(), two.sure_streams());
}

// Asks for memory that the client and the device share, as clients do, or for the board; returns
// the answer's error.
CudaResult AskForHostMemory(const std::string& name, const warpline_internal::Welcome& welcome,
                            bool board = false) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  warpline_internal::HostMemoryRequest request;
  request.set_session(welcome.session());
  request.set_secret(welcome.secret());
  request.set_va(kHostArenaBase);
  request.set_bytes(kHostPageBytes);
  request.set_board(board);
  std::string packet(1, '\0');
  request.AppendToString(&packet);
  EXPECT_EQ(send(socket.get(), packet.data(), packet.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(packet.size()));
  char answer[256];
  const ssize_t got = recv(socket.get(), answer, sizeof(answer), 0);
  warpline_internal::HostMemoryAnswer parsed;
  EXPECT_TRUE(got >= 1 && parsed.ParseFromArray(answer + 1, static_cast<int>(got) - 1));
  return static_cast<CudaResult>(parsed.error());
}

TEST_F(SessionTest, ABoardIsForClientsOfThisHostThatKnowOfIt) {
  StartServer();
  auto hello = TestClient::GoodHello();
  hello.set_features(hello.features() | kFeatureBoard);
  for (const std::string& boot_id : {BootId(), std::string("another"), std::string()}) {
    hello.set_boot_id(boot_id);
    auto client = Dial();
    const auto welcome = client->Open(hello);
    ASSERT_TRUE(welcome.has_value());
    const bool here = boot_id == BootId();
    EXPECT_EQ((welcome->features() & kFeatureBoard) != 0, here) << boot_id;
    EXPECT_EQ(AskForHostMemory(welcome->host_memory_socket(), *welcome, /*board=*/true),
              here ? CudaResult::kSuccess : CudaResult::kNotSupported)
        << boot_id;
  }
}

TEST_F(SessionTest, MemoryThatIsSharedWithTheHostNeedsTheRightsToCopyBothWays) {
  lease_options_.required = true;
  lease_options_.server_name = "s";
  StartServer();
  const SigningKey key = SigningKey::Generate().value();
  leases_->SetKeys({key.verify_key()});
  const Rights all = RightOf(Capability::kCopyIn) | RightOf(Capability::kCopyOut) |
                     RightOf(Capability::kMemory) | RightOf(Capability::kLaunch);
  std::string socket;
  for (const Rights missing : {Rights{0}, RightOf(Capability::kCopyIn),
                               RightOf(Capability::kCopyOut), RightOf(Capability::kMemory)}) {
    LeaseToken token;
    token.lease = absl::StrCat("lease", missing);
    token.tenant = "a";
    token.server = "s";
    token.max_sessions = 1;
    token.rights = all & ~missing;
    token.expires = SteadyNow() + absl::Hours(1);
    auto client = Dial();
    auto hello = TestClient::GoodHello();
    hello.set_token(SignToken(key, token).value());
    hello.set_features(hello.features() | kFeatureBulk);
    const auto welcome = client->Open(hello);
    ASSERT_TRUE(welcome.has_value());
    if (missing == 0) socket = welcome->host_memory_socket();
    // One that is told of no socket may know it all the same.
    EXPECT_EQ(welcome->host_memory_socket().empty(), missing != 0) << missing;
    EXPECT_EQ((welcome->features() & kFeatureBulk) == 0, missing != 0) << missing;
    EXPECT_EQ(AskForHostMemory(socket, *welcome) == CudaResult::kNotPermitted, missing != 0)
        << missing;
  }
}

}  // namespace
}  // namespace warpline::server
