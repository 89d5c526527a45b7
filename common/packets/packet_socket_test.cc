#include "common/packets/packet_socket.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

using google::protobuf::BytesValue;

class PacketSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    auto pair = PacketSocketPair();
    ASSERT_TRUE(pair.ok()) << pair.status();
    near_ = std::move(pair->first);
    far_ = std::move(pair->second);
  }
  UniqueFd near_;
  UniqueFd far_;
};

int OpenDescriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

TEST_F(PacketSocketTest, MessageArrivesWhole) {
  BytesValue sent;
  sent.set_value(std::string("a\0b", 3));
  ASSERT_TRUE(SendPacket(near_.get(), sent, {}).ok());
  BytesValue got;
  std::vector<UniqueFd> fds;
  ASSERT_TRUE(ReceivePacket(far_.get(), &got, &fds).ok());
  EXPECT_EQ(got.value(), std::string("a\0b", 3));
  EXPECT_TRUE(fds.empty());
}

TEST_F(PacketSocketTest, EmptyMessageIsNotEndOfStream) {
  ASSERT_TRUE(SendPacket(near_.get(), BytesValue(), {}).ok());
  BytesValue got;
  EXPECT_TRUE(ReceivePacket(far_.get(), &got, nullptr).ok());
}

TEST_F(PacketSocketTest, DescriptorsArriveInOrderAndCloseOnExec) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  std::vector<int> many(kMaxPacketFds, read_end.get());
  many.back() = write_end.get();
  ASSERT_TRUE(SendPacket(near_.get(), BytesValue(), many).ok());
  BytesValue got;
  std::vector<UniqueFd> fds;
  ASSERT_TRUE(ReceivePacket(far_.get(), &got, &fds).ok());
  ASSERT_EQ(fds.size(), kMaxPacketFds);
  EXPECT_EQ(fcntl(fds[0].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  ASSERT_EQ(write(fds.back().get(), "x", 1), 1);
  char c = 0;
  EXPECT_EQ(read(fds[0].get(), &c, 1), 1);
  EXPECT_EQ(c, 'x');
}

TEST_F(PacketSocketTest, PeerGoneIsUnavailable) {
  far_.Reset(-1);
  BytesValue message;
  EXPECT_EQ(ReceivePacket(near_.get(), &message, nullptr).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(SendPacket(near_.get(), message, {}).code(), absl::StatusCode::kUnavailable);
}

TEST_F(PacketSocketTest, NonBlockingSocketWithoutPacketIsNotFound) {
  ASSERT_EQ(fcntl(far_.get(), F_SETFL, O_NONBLOCK), 0);
  BytesValue message;
  EXPECT_EQ(ReceivePacket(far_.get(), &message, nullptr).code(), absl::StatusCode::kNotFound);
}

TEST_F(PacketSocketTest, AFullNonBlockingSocketTakesNothing) {
  ASSERT_EQ(fcntl(near_.get(), F_SETFL, O_NONBLOCK), 0);
  BytesValue message;
  message.set_value(std::string(kMaxPacketBytes / 2, 'x'));
  size_t sent = 0;
  absl::StatusOr<bool> took = true;
  while ((took = TrySendPacket(near_.get(), message, {})).ok() && *took) ++sent;
  EXPECT_TRUE(took.ok());
  EXPECT_EQ(SendPacket(near_.get(), message, {}).code(), absl::StatusCode::kUnavailable);
  BytesValue got;
  for (size_t i = 0; i < sent; ++i) ASSERT_TRUE(ReceivePacket(far_.get(), &got, nullptr).ok());
  EXPECT_TRUE(TrySendPacket(near_.get(), message, {}).value());
}

TEST_F(PacketSocketTest, BoundsAreKeptOnSending) {
  BytesValue large;
  large.set_value(std::string(kMaxPacketBytes + 1, 'x'));
  EXPECT_EQ(SendPacket(near_.get(), large, {}).code(), absl::StatusCode::kInvalidArgument);
  const std::vector<int> many(kMaxPacketFds + 1, near_.get());
  EXPECT_EQ(SendPacket(near_.get(), BytesValue(), many).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PacketSocketTest, WithoutFreeDescriptorsTheMessageComesAlone) {
  BytesValue sent;
  sent.set_value("there");
  ASSERT_TRUE(SendPacket(near_.get(), sent, {near_.get(), far_.get()}).ok());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const UniqueFd first_free(dup(near_.get()));
  const rlimit none = {static_cast<rlim_t>(first_free.get()), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  BytesValue got;
  std::vector<UniqueFd> fds;
  const absl::Status received = ReceivePacket(far_.get(), &got, &fds);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(received.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(got.value(), "there");
  EXPECT_TRUE(fds.empty());
}

TEST_F(PacketSocketTest, GarbageIsRefusedAndItsDescriptorsClosed) {
  const std::string garbage(100, '\xff');
  ASSERT_EQ(send(near_.get(), garbage.data(), garbage.size(), 0), 100);
  BytesValue got;
  EXPECT_EQ(ReceivePacket(far_.get(), &got, nullptr).code(), absl::StatusCode::kInvalidArgument);

  const std::string oversized(kMaxPacketBytes + 100, 'x');
  ASSERT_GT(send(near_.get(), oversized.data(), oversized.size(), 0), 0);
  EXPECT_EQ(ReceivePacket(far_.get(), &got, nullptr).code(), absl::StatusCode::kInvalidArgument);

  const int before = OpenDescriptors();
  const std::vector<int> fds(5, near_.get());
  ASSERT_TRUE(SendPacket(near_.get(), BytesValue(), fds).ok());
  EXPECT_TRUE(ReceivePacket(far_.get(), &got, nullptr).ok());
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace warpline
