// Sessions from end to end over the in-process transport, with real processes for worker and
// keeper: see server/testing/fake_worker.cc for what the worker does.
#include "server/session.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/session_host.h"
#include "server/testing/test_client.h"
#include "transport/inproc/inproc_channel.h"

namespace warpline {
namespace {

using testing::HasSubstr;
using warpline_internal::Hello;

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kArena = TestClient::kArena;

std::string Runfile(const std::string& path) {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/", path);
}

int OpenDescriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

std::string Body(char what, uint64_t a = 0, uint64_t b = 0) {
  std::string body(24, '\0');
  body[0] = what;
  std::memcpy(&body[8], &a, 8);
  std::memcpy(&body[16], &b, 8);
  return body;
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() { SetLogLevel(LogLevel::kError); }

  void StartServer(std::vector<std::string> worker_args = {}, int devices = 1,
                   int max_sessions = 64) {
    std::vector<std::unique_ptr<DeviceMemory>> opened;
    for (int i = 0; i < devices; ++i) {
      DeviceMemoryOptions memory;
      memory.keeper.program.path = Runfile("server/keeper/fake_keeper");
      memory.keeper.program.args = {absl::StrCat("--devices=", devices), "--total_mib=256"};
      memory.keeper.ordinal = i;
      auto device = DeviceMemory::Open(memory);
      ASSERT_TRUE(device.ok()) << device.status();
      memory_.push_back(device->get());
      opened.push_back(std::move(*device));
    }
    SessionHostOptions options;
    options.max_sessions = max_sessions;
    options.session.worker.path = Runfile("server/testing/fake_worker");
    options.session.worker.args = std::move(worker_args);
    options.session.quota_bytes = 192 * kMiB;
    options.session.max_pending_requests = 8;
    options.session.server_name = "test server";
    host_ = std::make_unique<SessionHost>(options, std::move(opened));
    server_ = std::make_unique<InprocServer>(host_.get(), ChannelOptions());
  }

  std::unique_ptr<TestClient> Dial(absl::Status* refusal = nullptr) {
    auto client = std::make_unique<TestClient>();
    auto channel = server_->Dial(client.get(), ChannelOptions());
    if (refusal != nullptr) *refusal = channel.status();
    if (!channel.ok()) return nullptr;
    client->Connected(std::move(*channel));
    return client;
  }

  std::unique_ptr<TestClient> DialAndOpen() {
    auto client = Dial();
    EXPECT_TRUE(client->Open().has_value());
    return client;
  }

  void ExpectNothingLeft() {
    EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(20)));
    for (DeviceMemory* memory : memory_) {
      memory->Drain();
      EXPECT_EQ(memory->stats().pool.granted_bytes, 0u);
      EXPECT_EQ(memory->stats().pool.dirty_bytes, 0u);
    }
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    server_->Shutdown();
    ExpectNothingLeft();
    host_.reset();
  }

  std::vector<DeviceMemory*> memory_;
  std::unique_ptr<SessionHost> host_;
  std::unique_ptr<InprocServer> server_;
};

TEST_F(SessionTest, HelloIsWelcomedWithTheDevice) {
  StartServer();
  auto client = Dial();
  const auto welcome = client->Open();
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->version(), kProtocolVersion);
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

TEST_F(SessionTest, BadHellosAreRefusedWithTheReason) {
  StartServer();
  const auto refusal = [&](const Hello& hello) {
    auto client = Dial();
    EXPECT_FALSE(client->Open(hello).has_value());
    return client->AwaitClosed();
  };
  Hello old = TestClient::GoodHello();
  old.set_min_version(2);
  old.set_max_version(3);
  EXPECT_EQ(refusal(old).code(), absl::StatusCode::kFailedPrecondition);
  Hello crooked = TestClient::GoodHello();
  crooked.set_arena_base(kArena + (2ull << 30));
  EXPECT_EQ(refusal(crooked).code(), absl::StatusCode::kInvalidArgument);
  Hello elsewhere = TestClient::GoodHello();
  elsewhere.set_device("7");
  EXPECT_EQ(refusal(elsewhere).code(), absl::StatusCode::kNotFound);
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

TEST_F(SessionTest, RequestsOutsideTheArenaAreInvalid) {
  StartServer();
  auto client = DialAndOpen();
  for (const uint64_t va : {kArena - 2 * kMiB, kArena + 4096 * kMiB, kArena + kMiB}) {
    const auto grant = client->RequestMemory(va, 2 * kMiB, 2 * kMiB);
    EXPECT_EQ(grant->bytes(), 0u);
    EXPECT_EQ(grant->error(), static_cast<int>(CudaResult::kInvalidValue));
  }
}

TEST_F(SessionTest, ReturnedMemoryIsScrubbedAndCountsNoMore) {
  StartServer();
  auto client = DialAndOpen();
  client->RequestMemory(kArena, 192 * kMiB, 192 * kMiB);
  client->SendCommands(Body('w', 0x5ec7e7, kArena));
  client->Await(kReplies);
  warpline_internal::MemoryReturn back;
  back.set_va(kArena);
  back.set_bytes(192 * kMiB);
  client->SendMessage(kMemoryReturn, back);
  const auto again = client->RequestMemory(kArena, 192 * kMiB, 192 * kMiB);
  EXPECT_EQ(again->bytes(), 192 * kMiB) << again->message();
  client->SendCommands(Body('r', kArena));
  EXPECT_EQ(*client->Await(kReplies), std::string(8, '\0'));
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

TEST_F(SessionTest, ManySmallChunksGoInBatches) {
  StartServer();
  // Chunks of 64 MiB are out of reach of requests below that, so this is 31 chunks each.
  auto client = DialAndOpen();
  for (int i = 0; i < 3; ++i) {
    const auto grant =
        client->RequestMemory(kArena + static_cast<uint64_t>(i) * 64 * kMiB, 62 * kMiB, 62 * kMiB);
    EXPECT_EQ(grant->bytes(), 62 * kMiB);
  }
  EXPECT_EQ(memory_[0]->stats().pool.chunks, 93u);
}

TEST_F(SessionTest, FailedMappingIsAnErrorAndLeaksNothing) {
  StartServer({"--map_error_after=1"});
  auto client = DialAndOpen();
  EXPECT_EQ(client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
  const auto failed = client->RequestMemory(kArena + 64 * kMiB, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(failed->bytes(), 0u);
  EXPECT_EQ(failed->error(), static_cast<int>(CudaResult::kOutOfMemory));
}

TEST_F(SessionTest, DeadWorkerIsAFaultThatNamesTheSignal) {
  StartServer();
  auto client = DialAndOpen();
  client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB);
  client->SendCommands(Body('e'));
  client->SendCommands(Body('k'));
  // What it wrote before it died still arrives.
  EXPECT_TRUE(client->Await(kReplies).has_value());
  const auto payload = client->Await(kFault);
  ASSERT_TRUE(payload.has_value());
  warpline_internal::Fault fault;
  ASSERT_TRUE(fault.ParseFromString(*payload));
  EXPECT_EQ(fault.error(), static_cast<int>(CudaResult::kLaunchFailed));
  EXPECT_EQ(fault.message(), "worker died: signal 9");
  EXPECT_TRUE(client->AwaitClosed().ok());
  host_->Snapshot();
  EXPECT_EQ(host_->counters().worker_deaths.value(), 1u);
}

TEST_F(SessionTest, NeighbourOfADeadWorkerGoesOn) {
  StartServer();
  auto client = DialAndOpen();
  auto neighbour = DialAndOpen();
  client->SendCommands(Body('x'));
  EXPECT_TRUE(client->Await(kFault).has_value());
  neighbour->SendCommands(Body('e'));
  EXPECT_TRUE(neighbour->Await(kReplies).has_value());
}

TEST_F(SessionTest, WorkerThatLeavesItsSocketIsLost) {
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('q'));
  EXPECT_TRUE(client->Await(kFault).has_value());
}

TEST_F(SessionTest, GarbageInTheRingEndsTheSession) {
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('g'));
  const auto payload = client->Await(kFault);
  ASSERT_TRUE(payload.has_value());
  EXPECT_THAT(*payload, HasSubstr("bad reply frame"));
}

TEST_F(SessionTest, WorkerThatCannotOpenTheDeviceRefusesTheSession) {
  StartServer({"--open_error=100"});
  auto client = Dial();
  EXPECT_FALSE(client->Open().has_value());
  const absl::Status closed = client->AwaitClosed();
  EXPECT_EQ(closed.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(closed.message()), HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

TEST_F(SessionTest, WorkerThatDiesWhileStartingRefusesTheSession) {
  StartServer({"--die_at_start"});
  auto client = Dial();
  EXPECT_FALSE(client->Open().has_value());
  EXPECT_THAT(std::string(client->AwaitClosed().message()), HasSubstr("exit code 5"));
}

TEST_F(SessionTest, CloseEndsWorkerAndMemory) {
  StartServer();
  auto client = DialAndOpen();
  client->RequestMemory(kArena, 64 * kMiB, 64 * kMiB);
  const int worker = host_->Snapshot().sessions.at(0).worker_pid;
  EXPECT_EQ(kill(worker, 0), 0);
  client->Send(kClose, "");
  EXPECT_TRUE(client->AwaitClosed().ok());
  ExpectNothingLeft();
  EXPECT_NE(kill(worker, 0), 0);
}

TEST_F(SessionTest, TooManyRequestsUnderWayEndTheSession) {
  StartServer();
  auto client = DialAndOpen();
  warpline_internal::MemoryRequest request;
  request.set_min_bytes(2 * kMiB);
  request.set_want_bytes(2 * kMiB);
  for (uint64_t i = 0; i < 2000; ++i) {
    request.set_va(kArena + i * 2 * kMiB);
    client->SendMessage(kMemoryRequest, request);
  }
  EXPECT_EQ(client->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionTest, SessionsSpreadOverDevicesUnlessTheyName) {
  StartServer({}, 2);
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

TEST_F(SessionTest, FullAndDrainingServersRefuse) {
  StartServer({}, 1, 1);
  auto client = DialAndOpen();
  absl::Status refusal;
  EXPECT_EQ(Dial(&refusal), nullptr);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  client.reset();
  ExpectNothingLeft();
  host_->StartDrain();
  EXPECT_EQ(Dial(&refusal), nullptr);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kUnavailable);
}

TEST_F(SessionTest, DrainThatTakesTooLongFaultsWhatRuns) {
  StartServer();
  auto client = DialAndOpen();
  host_->StartDrain();
  EXPECT_FALSE(host_->WaitUntilIdle(absl::Milliseconds(1)));
  host_->FaultAll("the server is shutting down");
  EXPECT_TRUE(client->Await(kFault).has_value());
  EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(20)));
}

TEST_F(SessionTest, DeadKeeperIsStartedAgainAndSessionsGoOn) {
  StartServer();
  auto client = DialAndOpen();
  EXPECT_EQ(client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
  client->SendCommands(Body('w', 77, kArena));
  client->Await(kReplies);
  ASSERT_EQ(kill(memory_[0]->keeper_pid(), SIGKILL), 0);
  // Either it was noticed already, or this request is lost with the keeper.
  uint64_t va = kArena + 64 * kMiB;
  while (client->RequestMemory(va, 2 * kMiB, 2 * kMiB)->bytes() == 0) va += 2 * kMiB;
  EXPECT_GE(memory_[0]->stats().keeper_restarts, 1u);
  client->SendCommands(Body('r', kArena));
  EXPECT_EQ((*client->Await(kReplies))[0], 77);
}

TEST_F(SessionTest, ClientsThatVanishAnywhereLeaveNothing) {
  StartServer();
  { auto warm_up = DialAndOpen(); }
  ExpectNothingLeft();
  const int before = OpenDescriptors();
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 5; ++i) clients.push_back(Dial());
    for (int i = 1; i < 5; ++i) clients[i]->SendMessage(kHello, TestClient::GoodHello());
    for (int i = 3; i < 5; ++i) {
      ASSERT_TRUE(clients[i]->Await(kWelcome).has_value());
      warpline_internal::MemoryRequest request;
      request.set_va(kArena);
      request.set_min_bytes(2 * kMiB);
      request.set_want_bytes(64 * kMiB);
      clients[i]->SendMessage(kMemoryRequest, request);
      clients[i]->SendCommands(Body(round % 2 == 0 ? 'e' : 's') + std::string(100000, 'x'));
    }
  }
  ExpectNothingLeft();
  // The channels' threads and the doorbell drop their hold on the rings a moment later.
  const int expected = before + static_cast<int>(memory_[0]->stats().pool.chunks);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (OpenDescriptors() > expected && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_LE(OpenDescriptors(), expected);
}

}  // namespace
}  // namespace warpline
