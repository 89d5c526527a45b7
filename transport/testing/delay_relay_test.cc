#include "transport/testing/delay_relay.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/unique_fd.h"
#include "transport/testing/delay_line.h"

namespace warpline {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A listening socket, and connections to it through a relay.
class DelayRelayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(bind(listener_.get(), generic, size), 0);
    ASSERT_EQ(listen(listener_.get(), 8), 0);
    ASSERT_EQ(getsockname(listener_.get(), generic, &size), 0);
    target_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }

  void StartRelay(absl::Duration delay) {
    auto relay = DelayRelay::Start("127.0.0.1:0", target_, delay);
    ASSERT_TRUE(relay.ok()) << relay.status();
    relay_ = *std::move(relay);
  }

  UniqueFd Connect() {
    UniqueFd client(socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in address = Loopback(relay_->port());
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    return client;
  }
  UniqueFd AcceptFar() { return UniqueFd(accept(listener_.get(), nullptr, nullptr)); }

  static std::string ReadAll(int fd) {
    std::string all;
    char bytes[65536];
    for (ssize_t got; (got = recv(fd, bytes, sizeof(bytes), 0)) > 0;) all.append(bytes, got);
    return all;
  }

  UniqueFd listener_;
  std::string target_;
  std::unique_ptr<DelayRelay> relay_;
};

TEST_F(DelayRelayTest, EachWayTakesTheDelay) {
  StartRelay(absl::Milliseconds(20));
  const UniqueFd client = Connect();
  const UniqueFd server = AcceptFar();
  const absl::Time start = absl::Now();
  char byte = 'x';
  ASSERT_EQ(send(client.get(), &byte, 1, 0), 1);
  ASSERT_EQ(recv(server.get(), &byte, 1, 0), 1);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(20));
  ASSERT_EQ(send(server.get(), &byte, 1, 0), 1);
  ASSERT_EQ(recv(client.get(), &byte, 1, 0), 1);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(40));
}

TEST_F(DelayRelayTest, WhatIsUnderWayComesWholeAndInOrder) {
  StartRelay(absl::Milliseconds(20));
  const UniqueFd client = Connect();
  const UniqueFd server = AcceptFar();
  std::string sent;
  for (int i = 0; i < 250000; ++i) absl::StrAppend(&sent, i, ",");
  std::thread sender([&] {
    size_t done = 0;
    while (done < sent.size()) {
      const ssize_t n = send(client.get(), sent.data() + done, sent.size() - done, 0);
      ASSERT_GT(n, 0);
      done += n;
    }
    shutdown(client.get(), SHUT_WR);
  });
  EXPECT_TRUE(ReadAll(server.get()) == sent);
  sender.join();
}

TEST(DelayLineTest, EachPieceHasItsDelayFromWhenItCame) {
  int in[2], out[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, in), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, out), 0);
  const UniqueFd sender(in[0]), from(in[1]), to(out[0]), receiver(out[1]);
  DelayLine line(from.get(), to.get());
  constexpr absl::Duration kDelay = absl::Seconds(1), kBetween = absl::Milliseconds(1);
  const absl::Time start = absl::UnixEpoch();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(send(sender.get(), "x", 1, 0), 1);
    ASSERT_TRUE(line.Receive(start + i * kBetween + kDelay));
  }
  char bytes[32];
  ASSERT_TRUE(line.Deliver(start + kDelay - kBetween));
  EXPECT_EQ(recv(receiver.get(), bytes, sizeof(bytes), MSG_DONTWAIT), -1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(line.NextDue(), start + i * kBetween + kDelay);
    ASSERT_TRUE(line.Deliver(line.NextDue()));
    EXPECT_EQ(recv(receiver.get(), bytes, sizeof(bytes), MSG_DONTWAIT), 1);
  }
}

TEST_F(DelayRelayTest, OneHalfMayEndBeforeTheOther) {
  StartRelay(absl::ZeroDuration());
  const UniqueFd client = Connect();
  const UniqueFd server = AcceptFar();
  shutdown(client.get(), SHUT_WR);
  EXPECT_EQ(ReadAll(server.get()), "");
  ASSERT_EQ(send(server.get(), "late", 4, 0), 4);
  shutdown(server.get(), SHUT_WR);
  EXPECT_EQ(ReadAll(client.get()), "late");
}

TEST_F(DelayRelayTest, CutResetsBothEnds) {
  StartRelay(absl::ZeroDuration());
  const UniqueFd client = Connect();
  const UniqueFd server = AcceptFar();
  char byte = 'x';
  ASSERT_EQ(send(client.get(), &byte, 1, 0), 1);
  ASSERT_EQ(recv(server.get(), &byte, 1, 0), 1);
  relay_->Cut();
  EXPECT_LE(recv(client.get(), &byte, 1, 0), 0);
  EXPECT_LE(recv(server.get(), &byte, 1, 0), 0);
  const UniqueFd again = Connect();
  const UniqueFd again_server = AcceptFar();
  ASSERT_EQ(send(again.get(), &byte, 1, 0), 1);
  EXPECT_EQ(recv(again_server.get(), &byte, 1, 0), 1);
}

TEST_F(DelayRelayTest, NothingPassesWhileStalled) {
  StartRelay(absl::ZeroDuration());
  const UniqueFd client = Connect();
  const UniqueFd server = AcceptFar();
  relay_->SetStalled(true);
  char byte = 'x';
  ASSERT_EQ(send(client.get(), &byte, 1, 0), 1);
  pollfd entry = {.fd = server.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&entry, 1, 20), 0);
  relay_->SetStalled(false);
  EXPECT_EQ(recv(server.get(), &byte, 1, 0), 1);
}

TEST_F(DelayRelayTest, BadAddressesAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      DelayRelay::Start("nonsense", target_, absl::ZeroDuration()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      DelayRelay::Start("127.0.0.1:0", "unix:", absl::ZeroDuration()).status()));
  EXPECT_TRUE(
      absl::IsUnavailable(DelayRelay::Start(target_, target_, absl::ZeroDuration()).status()));
}

}  // namespace
}  // namespace warpline
