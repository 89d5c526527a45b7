#include "bench/network/emulated_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/string_view.h"
#include "bench/network/flow_memory.h"
#include "bench/network/packet.h"
#include "bench/network/packet_line.h"
#include "bench/network/packet_queue.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

constexpr LinkTime kStart{seconds(1000)};
constexpr char kSyn = 2;
constexpr char kAck = 16;

// A TCP segment from `from` to `to`, both one byte of an address and of a port.
std::string Ipv4(char from, char to, char flags) {
  std::string packet(40, '\0');
  packet[0] = 0x45;
  packet[9] = 6;
  packet[15] = packet[21] = from;
  packet[19] = packet[23] = to;
  packet[33] = flags;
  return packet;
}

std::string Ipv6(char from, char to, char flags) {
  std::string packet(60, '\0');
  packet[0] = 0x60;
  packet[6] = 6;
  packet[23] = packet[41] = from;
  packet[39] = packet[43] = to;
  packet[53] = flags;
  return packet;
}

TEST(PacketLine, APacketArrivesAfterItsBitsAndTheDelay) {
  PacketLine line({.delay = microseconds(500), .bits_per_second = 8e6, .queue_bytes = 1500},
                  /*seed=*/1);
  EXPECT_EQ(line.Take(kStart, kStart, 100), kStart + microseconds(600));
  // It waits for the one before.
  EXPECT_EQ(line.Take(kStart, kStart, 100), kStart + microseconds(700));
  EXPECT_EQ(line.Take(kStart + seconds(1), kStart + seconds(1), 100),
            kStart + seconds(1) + microseconds(600));
}

TEST(PacketLine, APacketThatFindsTooMuchWaitingIsLost) {
  PacketLine line({.bits_per_second = 8e6, .queue_bytes = 250}, /*seed=*/1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(line.Take(kStart, kStart, 100).has_value());
  EXPECT_FALSE(line.Take(kStart, kStart, 100).has_value());
  EXPECT_TRUE(line.Take(kStart + microseconds(50), kStart + microseconds(50), 100).has_value());
}

TEST(PacketLine, ALateReaderDoesNotMakeTheLineSlowerNorTheDelayShorter) {
  PacketLine line({.delay = microseconds(500), .bits_per_second = 8e6, .queue_bytes = 1500},
                  /*seed=*/1);
  const LinkTime now = kStart + microseconds(250);
  EXPECT_EQ(line.Take(now, kStart, 100), now + microseconds(500));
  EXPECT_EQ(line.Take(now, kStart, 100), now + microseconds(500));
  EXPECT_EQ(line.Take(now, kStart, 100), kStart + microseconds(800));
}

TEST(PacketLine, PacketsKeepTheirOrderWhenTheDelayBecomesShorter) {
  PacketLine line({.delay = microseconds(500)}, /*seed=*/1);
  EXPECT_EQ(line.Take(kStart, kStart, 100), kStart + microseconds(500));
  line.Set({.delay = microseconds(100)});
  EXPECT_EQ(line.Take(kStart + microseconds(10), kStart + microseconds(10), 100),
            kStart + microseconds(500));
  EXPECT_EQ(line.Take(kStart + microseconds(450), kStart + microseconds(450), 100),
            kStart + microseconds(550));
}

TEST(PacketLine, TheShareThatIsSaidIsLostAndTheSameWithTheSameSeed) {
  PacketLine line({.loss = 0.01}, /*seed=*/7);
  PacketLine same({.loss = 0.01}, /*seed=*/7);
  int lost = 0;
  for (int i = 0; i < 100'000; ++i) {
    const bool is_lost = !line.Take(kStart, kStart, 100).has_value();
    EXPECT_EQ(is_lost, !same.Take(kStart, kStart, 100).has_value());
    lost += is_lost ? 1 : 0;
  }
  EXPECT_NEAR(lost, 1000, 150);
}

TEST(PacketLine, NothingPassesALineThatIsDown) {
  PacketLine line({.down = true}, /*seed=*/1);
  EXPECT_FALSE(line.Take(kStart, kStart, 100).has_value());
  line.Set({});
  EXPECT_EQ(line.Take(kStart, kStart, 100), kStart);
}

TEST(Packet, BothDirectionsAreOneFlow) {
  for (const auto make : {Ipv4, Ipv6}) {
    const auto there = ReadTcp(make(1, 2, kSyn));
    const auto back = ReadTcp(make(2, 1, kSyn | kAck));
    const auto another = ReadTcp(make(1, 3, kAck));
    ASSERT_TRUE(there.has_value() && back.has_value() && another.has_value());
    EXPECT_EQ(there->flow, back->flow);
    EXPECT_NE(there->flow, another->flow);
    EXPECT_TRUE(there->opens);
    EXPECT_FALSE(back->opens);
    EXPECT_FALSE(another->opens);
  }
}

TEST(Packet, AnythingElseAndWhatIsCutShortIsNoSegment) {
  std::string udp = Ipv4(1, 2, 0);
  udp[9] = 17;
  EXPECT_FALSE(ReadTcp(udp).has_value());
  std::string fragment = Ipv4(1, 2, 0);
  fragment[7] = 8;
  EXPECT_FALSE(ReadTcp(fragment).has_value());
  for (const std::string& packet : {Ipv4(1, 2, 0), Ipv6(1, 2, 0)}) {
    for (size_t size = 0; size < packet.size(); ++size) {
      EXPECT_FALSE(ReadTcp(absl::string_view(packet).substr(0, size)).has_value());
    }
  }
}

TEST(Packet, EachSegmentHasHeadersOnTheWire) {
  std::string packet = Ipv4(1, 2, kAck);
  packet[32] = 5 << 4;  // The length of its TCP header, in words.
  EXPECT_EQ(WireBytes({}, packet), 40 + kFrameBytes);
  const OffloadHeader offload = {.flags = 1,
                                 .gso_type = 1,
                                 .hdr_len = 0,
                                 .gso_size = 1460,
                                 .csum_start = 20,
                                 .csum_offset = 16};
  EXPECT_EQ(WireBytes(offload, packet + std::string(2920, 'x')), 2 * (1500 + kFrameBytes));
  EXPECT_EQ(WireBytes(offload, packet + std::string(2921, 'x')), 2921 + 3 * (40 + kFrameBytes));
}

TEST(FlowMemory, AnIdleConnectionIsForgottenUntilItIsOpenedAgain) {
  FlowMemory flows(seconds(2));
  const auto opens = *ReadTcp(Ipv4(1, 2, kSyn));
  const auto answers = *ReadTcp(Ipv4(2, 1, kSyn | kAck));
  EXPECT_FALSE(flows.Passes(answers, kStart));
  EXPECT_TRUE(flows.Passes(opens, kStart));
  EXPECT_TRUE(flows.Passes(answers, kStart + seconds(1)));
  EXPECT_FALSE(flows.Passes(answers, kStart + seconds(3)));
  EXPECT_FALSE(flows.Passes(answers, kStart + seconds(3)));
  EXPECT_TRUE(flows.Passes(opens, kStart + seconds(4)));
  EXPECT_TRUE(flows.Passes(answers, kStart + seconds(4)));
  flows.SetIdle(seconds(3600));
  EXPECT_TRUE(flows.Passes(answers, kStart + seconds(3000)));
  flows.Forget();
  EXPECT_FALSE(flows.Passes(answers, kStart + seconds(3000)));
}

TEST(PacketQueue, PacketsComeOutAsTheyWentIn) {
  PacketQueue queue(3 * PacketQueue::kMostBytes);
  int in = 0;
  int out = 0;
  for (int round = 0; round < 1000; ++round) {
    while (char* const room = queue.Room()) {
      const size_t bytes = 1 + static_cast<size_t>(in) * 997 % PacketQueue::kMostBytes;
      std::memset(room, in % 128, bytes);
      queue.Push(bytes, kStart + microseconds(in++));
    }
    for (int i = 0; i <= round % 3 && !queue.empty(); ++i, ++out) {
      EXPECT_EQ(queue.due(), kStart + microseconds(out));
      const size_t bytes = 1 + static_cast<size_t>(out) * 997 % PacketQueue::kMostBytes;
      EXPECT_EQ(queue.front(), std::string(bytes, static_cast<char>(out % 128)));
      queue.Pop();
    }
  }
  EXPECT_GT(out, 1000);
}

// Sockets stand in for the devices of two namespaces.
class EmulatedLinkTest : public ::testing::Test {
 protected:
  // The end in the namespace, and the link's.
  static std::pair<UniqueFd, UniqueFd> Device() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    return {UniqueFd(fds[0]), UniqueFd(fds[1])};
  }

  void Start(const LinkOptions& options) {
    auto [here, one] = Device();
    auto [there, other] = Device();
    here_ = std::move(here);
    there_ = std::move(there);
    link_ = std::make_unique<EmulatedLink>(options, std::move(one), std::move(other));
  }

  static void Send(const UniqueFd& end, const std::string& packet) {
    const std::string sent = std::string(sizeof(OffloadHeader), '\0') + packet;
    EXPECT_EQ(write(end.get(), sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
  }

  static std::string Receive(const UniqueFd& end) {
    pollfd polled = {.fd = end.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&polled, 1, -1), 1);
    char bytes[2000];
    const ssize_t got = read(end.get(), bytes, sizeof(bytes));
    return got < 0 ? ""
                   : std::string(bytes, static_cast<size_t>(got)).substr(sizeof(OffloadHeader));
  }

  UniqueFd here_;
  UniqueFd there_;
  std::unique_ptr<EmulatedLink> link_;
};

TEST_F(EmulatedLinkTest, PacketsPassInBothDirectionsNoSoonerThanTheDelay) {
  Start({.line = {.delay = microseconds(3000)}});
  const auto start = std::chrono::steady_clock::now();
  Send(here_, Ipv4(1, 2, kSyn));
  EXPECT_EQ(Receive(there_), Ipv4(1, 2, kSyn));
  Send(there_, Ipv4(2, 1, kAck));
  EXPECT_EQ(Receive(here_), Ipv4(2, 1, kAck));
  EXPECT_GE(std::chrono::steady_clock::now() - start, microseconds(6000));
  // A packet is counted after it was passed.
  while (link_->counts().passed < 2) std::this_thread::yield();
}

TEST_F(EmulatedLinkTest, ALinkThatIsDownLosesEverythingUntilItIsUp) {
  Start({.line = {.down = true}});
  Send(here_, "down");
  while (link_->counts().lost == 0) std::this_thread::yield();
  link_->Set({});
  Send(here_, "up");
  EXPECT_EQ(Receive(there_), "up");
}

TEST_F(EmulatedLinkTest, AConnectionIsForgottenForBothDirections) {
  LinkOptions options;
  options.forget = seconds(3600);
  Start(options);
  Send(here_, Ipv4(1, 2, kSyn));
  EXPECT_EQ(Receive(there_), Ipv4(1, 2, kSyn));
  link_->Forget();
  Send(here_, Ipv4(1, 2, kAck));
  Send(there_, Ipv4(2, 1, kAck));
  while (link_->counts().forgotten < 2) std::this_thread::yield();
  Send(here_, Ipv4(1, 2, kSyn));
  EXPECT_EQ(Receive(there_), Ipv4(1, 2, kSyn));
}

}  // namespace
}  // namespace warpline
