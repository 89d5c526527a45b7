// Sessions with several devices.
#include "server/gpu_server/memory/session_devices.h"

#include <cstring>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/devices.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using warpline_internal::MemoryGrant;
using warpline_internal::MemoryRequest;
using warpline_internal::MemoryReturn;
using warpline_internal::ReadBack;
using warpline_internal::ReadBackDone;
using warpline_internal::Welcome;

// The devices of a session with two are 1 and 0, in this order.
class SessionDevicesTest : public SessionFixture {
 protected:
  static constexpr uint64_t kPart = 2ull << 30;
  static constexpr uint64_t kSecond = kArena + kPart;

  std::unique_ptr<TestClient> Open(const std::string& devices = "1,0") {
    auto hello = TestClient::GoodHello();
    hello.set_device(devices);
    auto client = Dial();
    const auto welcome = client->Open(hello);
    EXPECT_TRUE(welcome.has_value());
    welcome_ = welcome.value_or(Welcome());
    return client;
  }

  absl::Status Refusal(const std::string& devices) {
    auto hello = TestClient::GoodHello();
    hello.set_device(devices);
    auto client = Dial();
    EXPECT_FALSE(client->Open(hello).has_value());
    return client->AwaitClosed();
  }

  static MemoryGrant Ask(TestClient* client, const MemoryRequest& request) {
    client->SendMessage(kMemoryRequest, request);
    MemoryGrant grant;
    EXPECT_TRUE(grant.ParseFromString(client->Await(kMemoryGrant).value_or("")));
    return grant;
  }

  static MemoryGrant AskForHandle(TestClient* client, uint64_t handle) {
    MemoryRequest request;
    request.set_handle(handle);
    request.set_min_bytes(20 * kMiB);
    request.set_want_bytes(20 * kMiB);
    return Ask(client, request);
  }

  static ReadBackDone Read(TestClient* client, uint64_t va, uint64_t bytes) {
    ReadBack request;
    request.set_va(va);
    request.set_bytes(bytes);
    client->SendMessage(kReadBack, request);
    ReadBackDone done;
    EXPECT_TRUE(done.ParseFromString(client->Await(kReadBackDone).value_or("")));
    return done;
  }

  // What the pool of the server's device `ordinal` has given out.
  uint64_t Granted(size_t ordinal) { return memory_[ordinal]->stats().pool.granted_bytes; }

  static int Charge(TestClient* client, uint64_t bytes, uint64_t device) {
    client->SendCommands(Body('c', bytes, device));
    const std::string reply = client->Await(kReplies).value_or("");
    int32_t error = -1;
    EXPECT_EQ(reply.size(), sizeof(error));
    std::memcpy(&error, reply.data(), std::min(reply.size(), sizeof(error)));
    return error;
  }

  Welcome welcome_;
};

TEST_F(SessionDevicesTest, WelcomeNamesThemInTheOrderAskedFor) {
  StartServer(/*devices=*/3);
  auto client = Open("2,0");
  EXPECT_EQ(welcome_.device().uuid()[0], 3);
  ASSERT_EQ(welcome_.more_devices_size(), 1);
  EXPECT_EQ(welcome_.more_devices(0).info().uuid()[0], 1);
  EXPECT_EQ(welcome_.more_devices(0).quota_bytes(), 192 * kMiB);
  // The worker's word, less the devices that there are not.
  EXPECT_THAT(welcome_.peers(), ElementsAre(3, 3));
  const HostSnapshot snapshot = host_->Snapshot();
  EXPECT_EQ(snapshot.devices[0].sessions, 1);
  EXPECT_EQ(snapshot.devices[1].sessions, 0);
  EXPECT_EQ(snapshot.devices[2].sessions, 1);
  const SessionSnapshot& session = snapshot.sessions.front();
  ASSERT_EQ(session.devices.size(), 2u);
  EXPECT_EQ(session.devices[0].ordinal, 2);
  EXPECT_EQ(session.memory.quota_bytes, 384 * kMiB);
  client.reset();
  EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(60)));
  EXPECT_EQ(host_->Snapshot().devices[0].sessions, 0);
}

TEST_F(SessionDevicesTest, OneDeviceIsTheDefault) {
  StartServer(/*devices=*/2);
  auto client = Open("");
  EXPECT_EQ(welcome_.more_devices_size(), 0);
  EXPECT_THAT(welcome_.peers(), ElementsAre(1));
}

TEST_F(SessionDevicesTest, ListsThatNameNoDevicesAreRefused) {
  StartServer(/*devices=*/2);
  EXPECT_EQ(Refusal("0,0").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal("0,GPU-01000000-0000-0000-0000-000000000000").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal(",0").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal("7,0").code(), absl::StatusCode::kNotFound);
  // As CUDA has it for CUDA_VISIBLE_DEVICES.
  auto client = Open("1,7,0");
  EXPECT_EQ(welcome_.device().uuid()[0], 2);
  EXPECT_EQ(welcome_.more_devices_size(), 0);
}

TEST_F(SessionDevicesTest, MemoryIsThatOfTheDeviceWhosePartOfTheArenaItIsIn) {
  StartServer(/*devices=*/2);
  auto client = Open();
  EXPECT_EQ(client->RequestMemory(kArena, 64 * kMiB, 64 * kMiB)->bytes(), 64 * kMiB);
  EXPECT_EQ(Granted(0), 0u);
  EXPECT_EQ(Granted(1), 64 * kMiB);
  EXPECT_EQ(client->RequestMemory(kSecond, 20 * kMiB, 20 * kMiB)->bytes(), 20 * kMiB);
  EXPECT_EQ(Granted(0), 20 * kMiB);
  for (const uint64_t va : {kArena, kSecond}) {
    client->SendCommands(Body('w', va, va));
    EXPECT_TRUE(client->Await(kReplies).has_value());
  }
  const SessionSnapshot session = host_->Snapshot().sessions.front();
  EXPECT_EQ(session.memory.bytes, 84 * kMiB);
  EXPECT_EQ(session.devices[0].memory_bytes, 64 * kMiB);
  EXPECT_EQ(session.devices[1].memory_bytes, 20 * kMiB);
  MemoryReturn back;
  back.set_va(kSecond);
  back.set_bytes(20 * kMiB);
  client->SendMessage(kMemoryReturn, back);
  EXPECT_EQ(client->RequestMemory(kSecond + kPart / 2, 20 * kMiB, 20 * kMiB)->bytes(), 20 * kMiB);
}

TEST_F(SessionDevicesTest, EachDeviceHasAQuotaOfItsOwn) {
  StartServer(/*devices=*/2);
  auto client = Open();
  EXPECT_EQ(client->RequestMemory(kArena, 192 * kMiB, 192 * kMiB)->bytes(), 192 * kMiB);
  EXPECT_EQ(client->RequestMemory(kSecond, 192 * kMiB, 192 * kMiB)->bytes(), 192 * kMiB);
  EXPECT_EQ(client->RequestMemory(kSecond + kPart / 2, 2 * kMiB, 2 * kMiB)->error(),
            static_cast<int>(CudaResult::kOutOfMemory));
}

TEST_F(SessionDevicesTest, WhatLiesInNoPartOrInTwoIsInvalid) {
  StartServer(/*devices=*/3);
  auto client = Open("0,1,2");
  const int invalid = static_cast<int>(CudaResult::kInvalidValue);
  // Three of four parts are there.
  constexpr uint64_t kQuarter = 1ull << 30;
  EXPECT_EQ(client->RequestMemory(kArena + 2 * kQuarter, 2 * kMiB, 2 * kMiB)->bytes(), 2 * kMiB);
  EXPECT_EQ(client->RequestMemory(kArena + 3 * kQuarter, 2 * kMiB, 2 * kMiB)->error(), invalid);
  EXPECT_EQ(client->RequestMemory(kArena + kQuarter - 2 * kMiB, 4 * kMiB, 4 * kMiB)->error(),
            invalid);
  EXPECT_EQ(client->RequestMemory(kArena - 2 * kMiB, 2 * kMiB, 2 * kMiB)->error(), invalid);
  EXPECT_EQ(client->RequestMemory(0, 2 * kMiB, 2 * kMiB)->error(), invalid);
}

TEST_F(SessionDevicesTest, HandlesAreOfTheDeviceInThem) {
  StartServer(/*devices=*/2);
  auto client = Open();
  EXPECT_EQ(AskForHandle(client.get(), HandleOnDevice(1, 5)).bytes(), 20 * kMiB);
  EXPECT_EQ(Granted(0), 20 * kMiB);
  EXPECT_EQ(AskForHandle(client.get(), 5).bytes(), 20 * kMiB);
  EXPECT_EQ(Granted(1), 20 * kMiB);
  EXPECT_EQ(AskForHandle(client.get(), HandleOnDevice(2, 5)).error(),
            static_cast<int>(CudaResult::kInvalidValue));
  MemoryReturn back;
  back.set_handle(HandleOnDevice(2, 5));
  client->SendMessage(kMemoryReturn, back);
  EXPECT_EQ(client->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionDevicesTest, MemoryOfADeviceIsOpenedAsThatOfTheSameDeviceOnly) {
  StartServer(/*devices=*/2);
  auto client = Open("1,0");
  auto other = Dial();
  auto hello = TestClient::GoodHello();
  hello.set_device("0,1");
  ASSERT_TRUE(other->Open(hello).has_value());
  AskForHandle(client.get(), 5);
  MemoryRequest share;
  share.mutable_share()->set_handle(5);
  MemoryRequest open;
  open.set_open(Ask(client.get(), share).token());
  open.set_min_bytes(20 * kMiB);
  open.set_want_bytes(20 * kMiB);
  open.set_handle(5);
  EXPECT_EQ(Ask(other.get(), open).error(), static_cast<int>(CudaResult::kInvalidValue));
  open.set_handle(HandleOnDevice(1, 5));
  EXPECT_EQ(Ask(other.get(), open).bytes(), 20 * kMiB);
  // An event is of no device.
  share.mutable_share()->clear_handle();
  open.set_open(Ask(client.get(), share).token());
  open.clear_handle();
  EXPECT_EQ(Ask(other.get(), open).error(), 0);
}

TEST_F(SessionDevicesTest, WhatTheWorkerTakesOutsideTheArenaCountsOnItsDevice) {
  StartServer(/*devices=*/2);
  auto client = Open();
  EXPECT_EQ(Charge(client.get(), 190 * kMiB, 1), 0);
  EXPECT_EQ(Charge(client.get(), 4 * kMiB, 1), static_cast<int>(CudaResult::kOutOfMemory));
  EXPECT_EQ(Charge(client.get(), 4 * kMiB, 0), 0);
  EXPECT_EQ(Charge(client.get(), 4 * kMiB, 2), static_cast<int>(CudaResult::kInvalidValue));
  EXPECT_EQ(host_->Snapshot().sessions.front().devices[1].memory_bytes, 190 * kMiB);
  client->SendCommands(Body('u', 190 * kMiB, 1));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  EXPECT_EQ(Charge(client.get(), 4 * kMiB, 1), 0);
  client->SendCommands(Body('u', 4 * kMiB, 7));
  EXPECT_THAT(client->Await(kFault).value_or(""), HasSubstr("gave back what it did not have"));
}

TEST_F(SessionDevicesTest, NoOtherWorkerTakesOverButMemoryOfAllIsReadBack) {
  StartServer(/*devices=*/2);
  auto client = Open();
  client->RequestMemory(kArena, 2 * kMiB, 2 * kMiB);
  client->RequestMemory(kSecond, 2 * kMiB, 2 * kMiB);
  client->SendCommands(Body('w', 41, kArena));
  client->SendCommands(Body('w', 42, kSecond));
  client->Await(kReplies);
  client->Await(kReplies);
  client->SendCommands(Body('d'));
  warpline_internal::Fault fault;
  ASSERT_TRUE(fault.ParseFromString(client->Await(kFault).value_or("")));
  EXPECT_THAT(fault.message(), HasSubstr("several devices"));
  EXPECT_TRUE(fault.memory_kept());
  EXPECT_EQ(Read(client.get(), kArena, 8).data()[0], 41);
  EXPECT_EQ(Read(client.get(), kSecond, 8).data()[0], 42);
  EXPECT_NE(Read(client.get(), kSecond - 8, 16).error(), 0);
  EXPECT_THAT(host_->Snapshot().sessions.front().reason, HasSubstr("several devices"));
}

TEST_F(SessionDevicesTest, WorkersAreNotReplacedOnRequest) {
  StartServer(/*devices=*/2);
  auto client = Open();
  absl::Status status;
  host_->Do(SessionAction::kReplace, 1, absl::Seconds(1),
            [&](const absl::Status& s) { status = s; });
  host_->Snapshot();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  client->SendCommands(Body('e'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
}

}  // namespace
}  // namespace warpline::server
