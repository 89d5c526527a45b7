#include "server/keeper/keeper.h"

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/packets/packet_socket.h"
#include "common/sealed_memory.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "server/device/testing/fake_backend.h"
#include "transport/loop_thread.h"

namespace warpline {
namespace {

using warpline_internal::FromKeeper;
using warpline_internal::ToKeeper;

constexpr uint64_t kChunk = 2ull << 20;

class KeeperTest : public testing::Test {
 protected:
  void SetUp() override {
    auto pair = PacketSocketPair();
    ASSERT_TRUE(pair.ok());
    near_ = std::move(pair->first);
    far_ = std::move(pair->second);
    thread_ = StartLoopThread("keeper", [this] {
      Keeper keeper(
          [this](std::string_view name) -> absl::StatusOr<std::unique_ptr<device::Backend>> {
            if (name == "cuda") return absl::UnavailableError("no driver");
            if (name != "cpu") return absl::InvalidArgumentError("unknown backend");
            return device::NewFakeBackend(
                {.device_count = 2, .free_bytes = [this] { return free_bytes_; }});
          });
      served_ = keeper.Serve(far_.get());
    });
  }

  void TearDown() override {
    near_.Reset(-1);
    thread_.join();
    EXPECT_TRUE(served_.ok()) << served_;
  }

  FromKeeper Ask(const ToKeeper& request, std::vector<UniqueFd>* fds = nullptr,
                 const std::vector<int>& attached = {}) {
    EXPECT_TRUE(SendPacket(near_.get(), request, attached).ok());
    FromKeeper reply;
    EXPECT_TRUE(ReceivePacket(near_.get(), &reply, fds).ok());
    return reply;
  }

  FromKeeper Open(const std::string& backend, int ordinal) {
    ToKeeper request;
    request.mutable_open()->set_backend(backend);
    request.mutable_open()->set_ordinal(ordinal);
    return Ask(request);
  }

  FromKeeper Create(uint64_t bytes, uint32_t count, std::vector<UniqueFd>* fds) {
    ToKeeper request;
    request.mutable_create()->set_bytes(bytes);
    request.mutable_create()->set_count(count);
    return Ask(request, fds);
  }

  std::optional<uint64_t> free_bytes_;  // Changed between requests only.
  UniqueFd near_;
  UniqueFd far_;
  absl::Status served_;
  std::thread thread_;
};

TEST_F(KeeperTest, AutoFallsBackAndSaysWhy) {
  const FromKeeper reply = Open("auto", 1);
  EXPECT_EQ(reply.code(), 0) << reply.message();
  EXPECT_EQ(reply.backend(), "cpu");
  EXPECT_EQ(reply.message(), "no driver");
  EXPECT_EQ(reply.device_count(), 2);
  EXPECT_EQ(reply.device().name(), "Fake device");
  EXPECT_EQ(reply.device().uuid().size(), 16u);
}

TEST_F(KeeperTest, UnknownBackendAndDeviceAreRefused) {
  EXPECT_EQ(Open("cuda", 0).code(), static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_EQ(Open("tpu", 0).code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(Open("cpu", 2).code(), static_cast<int>(absl::StatusCode::kNotFound));
}

TEST_F(KeeperTest, CreatesTheChunksAskedFor) {
  EXPECT_EQ(Open("cpu", 0).code(), 0);
  std::vector<UniqueFd> fds;
  const FromKeeper reply = Create(kChunk, 3, &fds);
  EXPECT_EQ(reply.code(), 0) << reply.message();
  EXPECT_EQ(reply.created(), 3u);
  EXPECT_EQ(fds.size(), 3u);
}

TEST_F(KeeperTest, SaysHowMuchMemoryIsFreeWhereTheDeviceDoes) {
  EXPECT_EQ(Open("cpu", 0).code(), 0);
  ToKeeper request;
  request.mutable_free();
  free_bytes_ = std::nullopt;
  FromKeeper reply = Ask(request);
  EXPECT_EQ(reply.code(), 0) << reply.message();
  EXPECT_FALSE(reply.has_free_bytes());
  free_bytes_ = 5 * kChunk;
  reply = Ask(request);
  EXPECT_EQ(reply.free_bytes(), 5 * kChunk);
}

TEST_F(KeeperTest, HostBlocksAreKnownByTheirNumbers) {
  ASSERT_EQ(Open("cpu", 0).code(), 0);
  const auto memory = NewSealedMemory("block", kChunk);
  ASSERT_TRUE(memory.ok());
  const auto add = [&](uint32_t number, uint64_t bytes, const std::vector<int>& attached) {
    ToKeeper request;
    request.mutable_add()->set_number(number);
    request.mutable_add()->set_bytes(bytes);
    return Ask(request, nullptr, attached).code();
  };
  std::vector<UniqueFd> fds;
  ASSERT_EQ(Create(kChunk, 1, &fds).code(), 0);
  const auto move = [&](uint32_t block, uint64_t block_offset) {
    ToKeeper request;
    request.mutable_move()->add_chunk_bytes(kChunk);
    auto* const part = request.mutable_move()->add_parts();
    part->set_block(block);
    part->set_block_offset(block_offset);
    part->set_bytes(kChunk);
    return Ask(request, nullptr, {fds[0].get()}).code();
  };
  EXPECT_NE(move(7, 0), 0);
  EXPECT_EQ(add(7, kChunk, {memory->get()}), 0);
  EXPECT_EQ(move(7, 0), 0);
  EXPECT_NE(move(0, 0), 0);
  EXPECT_NE(move(7, 1), 0);
  EXPECT_NE(add(7, kChunk, {memory->get()}), 0);
  EXPECT_NE(add(8, kChunk, {}), 0);
  EXPECT_NE(add(8, 0, {memory->get()}), 0);
  EXPECT_EQ(add(0, kChunk, {memory->get()}), 0);
  EXPECT_EQ(move(0, 0), 0);
}

TEST_F(KeeperTest, RequestsOutOfOrderOrBoundsAreRefused) {
  std::vector<UniqueFd> fds;
  EXPECT_EQ(Create(kChunk, 1, &fds).code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
  ToKeeper free;
  free.mutable_free();
  EXPECT_EQ(Ask(free).code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(Open("cpu", 0).code(), 0);
  EXPECT_NE(Open("cpu", 0).code(), 0);
  EXPECT_NE(Create(kChunk + 1, 1, &fds).code(), 0);
  EXPECT_NE(Create(kChunk, 0, &fds).code(), 0);
  EXPECT_NE(Create(kChunk, 201, &fds).code(), 0);
  EXPECT_NE(Ask(ToKeeper()).code(), 0);
}

}  // namespace
}  // namespace warpline
