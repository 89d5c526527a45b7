// Bulk connections of a session, from their first frame to the session's end.
#include <cstring>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "server/gpu_server/testing/session_fixture.h"
#include "server/gpu_server/testing/test_client.h"

namespace warpline::server {
namespace {

using warpline_internal::BulkHello;
using warpline_internal::HostMemoryAnswer;
using warpline_internal::HostMemoryRequest;

class SessionBulkTest : public SessionFixture {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    StartServer();
    client_ = Dial();
    auto hello = TestClient::GoodHello();
    hello.set_features(hello.features() | kFeatureBulk);
    const auto welcome = client_->Open(hello);
    ASSERT_TRUE(welcome.has_value());
    ASSERT_NE(welcome->features() & kFeatureBulk, 0u);
    hello_.set_session(welcome->session());
    hello_.set_secret(welcome->secret());
  }

  std::unique_ptr<TestClient> Bulk(uint32_t slot) {
    auto bulk = Dial();
    BulkHello hello = hello_;
    hello.set_slot(slot);
    bulk->SendMessage(kBulkHello, hello);
    return bulk;
  }

  static CudaResult Ask(TestClient* bulk, uint64_t va, uint64_t bytes, bool give_back = false) {
    HostMemoryRequest request;
    request.set_va(va);
    request.set_bytes(bytes);
    request.set_give_back(give_back);
    bulk->SendMessage(kBulkMemory, request);
    HostMemoryAnswer answer;
    EXPECT_TRUE(answer.ParseFromString(bulk->Await(kBulkMemoryDone).value_or("\xff")));
    return static_cast<CudaResult>(answer.error());
  }

  static void Move(TestClient* bulk, FrameKind kind, uint64_t va, uint64_t bytes,
                   const std::string& tail = "") {
    const BulkHeader header = {va, bytes};
    bulk->Send(kind, std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + tail);
  }

  std::unique_ptr<TestClient> client_;
  BulkHello hello_;
};

TEST_F(SessionBulkTest, BytesReachTheSessionsHostMemory) {
  auto first = Bulk(0);
  ASSERT_TRUE(first->Await(kBulkReady).has_value());
  EXPECT_EQ(Ask(first.get(), kHostArenaBase, kHostPageBytes), CudaResult::kSuccess);
  // An answer that was lost can be asked for again, and nothing else is meant by the same address.
  EXPECT_EQ(Ask(first.get(), kHostArenaBase, kHostPageBytes), CudaResult::kSuccess);
  EXPECT_EQ(Ask(first.get(), kHostArenaBase, 2 * kHostPageBytes), CudaResult::kInvalidValue);
  EXPECT_EQ(Ask(first.get(), kHostArenaBase - kHostPageBytes, kHostPageBytes),
            CudaResult::kInvalidValue);
  Move(first.get(), kBulkPut, kHostArenaBase + 10, 5, "bytes");
  EXPECT_EQ(first->Await(kBulkTaken), std::string("\1\0\0\0\0\0\0\0", 8));
  // It is the session's, not the connection's.
  auto second = Bulk(3);
  ASSERT_TRUE(second->Await(kBulkReady).has_value());
  Move(second.get(), kBulkGet, kHostArenaBase + 11, 3);
  EXPECT_EQ(second->Await(kBulkBytes), "yte");
  EXPECT_EQ(Ask(first.get(), kHostArenaBase, kHostPageBytes, /*give_back=*/true),
            CudaResult::kSuccess);
  Move(second.get(), kBulkGet, kHostArenaBase + 11, 3);
  EXPECT_EQ(second->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionBulkTest, StrangersHaveNone) {
  hello_.mutable_secret()->back() ^= 1;
  EXPECT_EQ(Bulk(0)->AwaitClosed().code(), absl::StatusCode::kPermissionDenied);
  hello_.set_session(hello_.session() + 1);
  EXPECT_EQ(Bulk(0)->AwaitClosed().code(), absl::StatusCode::kPermissionDenied);
  auto garbage = Dial();
  garbage->Send(kBulkHello, "\xff");
  EXPECT_EQ(garbage->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Bulk(kMaxBulkConnections)->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionBulkTest, ASlotHasOneConnection) {
  auto first = Bulk(1);
  ASSERT_TRUE(first->Await(kBulkReady).has_value());
  auto second = Bulk(1);
  ASSERT_TRUE(second->Await(kBulkReady).has_value());
  EXPECT_EQ(first->AwaitClosed().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Ask(second.get(), kHostArenaBase, kHostPageBytes), CudaResult::kSuccess);
}

TEST_F(SessionBulkTest, TheyEndWithTheSession) {
  auto bulk = Bulk(0);
  ASSERT_TRUE(bulk->Await(kBulkReady).has_value());
  client_->Send(kClose, "");
  EXPECT_EQ(bulk->AwaitClosed().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(SessionBulkTest, ABrokenOneEndsItsSession) {
  auto bulk = Bulk(0);
  ASSERT_TRUE(bulk->Await(kBulkReady).has_value());
  Move(bulk.get(), kBulkPut, 0, 1, "x");
  EXPECT_EQ(bulk->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace warpline::server
