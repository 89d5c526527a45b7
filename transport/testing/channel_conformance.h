// What every transport has to do. Each transport's folder runs it, in a conformance_test.cc:
//
//   class MyTransport {  // A server with an acceptor, and a way to dial it.
//    public:
//     MyTransport(Acceptor* acceptor, const ChannelOptions& options);
//     absl::StatusOr<std::unique_ptr<Channel>> Dial(ChannelHandler* handler,
//                                                   const ChannelOptions& options);
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, ChannelConformance, MyTransport);
#ifndef WARPLINE_TRANSPORT_TESTING_CHANNEL_CONFORMANCE_H_
#define WARPLINE_TRANSPORT_TESTING_CHANNEL_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/refusal.h"
#include "transport/channel.h"
#include "transport/testing/endpoint.h"

namespace warpline::testing {

// A dialled session: the client's end, its channel, and the server's end.
struct DialledSession {
  std::shared_ptr<Endpoint> client = std::make_shared<Endpoint>();
  std::unique_ptr<SessionHandler> handler = Endpoint::MakeHandler(client);
  std::unique_ptr<Channel> channel;
  std::shared_ptr<Endpoint> server;

  ~DialledSession() { Destroy(); }
  DialledSession() = default;
  DialledSession(DialledSession&&) = default;

  void Destroy() {
    if (client != nullptr) client->Attach(nullptr);
    channel.reset();
  }
};

template <typename TransportUnderTest>
class ChannelConformance : public ::testing::Test {
 protected:
  static ChannelOptions Parking() {
    ChannelOptions options;
    options.poll = absl::ZeroDuration();
    return options;
  }

  void Serve(const ChannelOptions& options = ChannelOptions()) {
    options_ = options;
    transport_.emplace(&acceptor_, options);
  }

  DialledSession Connect() {
    if (!transport_.has_value()) Serve();
    DialledSession session;
    auto channel = transport_->Dial(session.handler.get(), options_);
    EXPECT_EQ(channel.status(), absl::OkStatus());
    if (!channel.ok()) return session;
    session.channel = *std::move(channel);
    session.client->Attach(session.channel.get());
    session.server = acceptor_.AwaitSession(sessions_++);
    EXPECT_NE(session.server, nullptr);
    return session;
  }

  static void ExpectNumbered(const std::vector<Frame>& frames, size_t count) {
    ASSERT_EQ(frames.size(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(frames[i].kind, i);
      ASSERT_EQ(frames[i].payload, absl::StrCat("payload ", i));
    }
  }

  static std::vector<Frame> Numbered(size_t count) {
    std::vector<Frame> frames(count);
    for (size_t i = 0; i < count; ++i) {
      frames[i] = {static_cast<uint32_t>(i), absl::StrCat("payload ", i)};
    }
    return frames;
  }

  EndpointAcceptor acceptor_;
  ChannelOptions options_;
  std::optional<TransportUnderTest> transport_;
  size_t sessions_ = 0;
};

TYPED_TEST_SUITE_P(ChannelConformance);

TYPED_TEST_P(ChannelConformance, FramesArriveInOrderInBothDirectionsAtOnce) {
  DialledSession session = this->Connect();
  for (Frame& frame : this->Numbered(1000)) {
    session.client->Send(frame.kind, frame.payload);
    session.server->Send(frame.kind, frame.payload);
  }
  this->ExpectNumbered(session.server->AwaitFrames(1000), 1000);
  this->ExpectNumbered(session.client->AwaitFrames(1000), 1000);
}

TYPED_TEST_P(ChannelConformance, OneWakeSendsAllThatWasAppended) {
  this->Serve(this->Parking());
  DialledSession session = this->Connect();
  session.client->SendAll(this->Numbered(500));
  this->ExpectNumbered(session.server->AwaitFrames(500), 500);
}

TYPED_TEST_P(ChannelConformance, WakeReachesAParkedLoopEveryTime) {
  this->Serve(this->Parking());
  DialledSession session = this->Connect();
  for (size_t i = 1; i <= 200; ++i) {
    session.client->Send(1);
    ASSERT_EQ(session.server->AwaitFrames(i).size(), i);
    session.server->Send(2);
    ASSERT_EQ(session.client->AwaitFrames(i).size(), i);
  }
}

TYPED_TEST_P(ChannelConformance, WakesFromManyThreadsLoseNothing) {
  this->Serve(this->Parking());
  DialledSession session = this->Connect();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&session] {
      for (int i = 0; i < 200; ++i) session.client->Send(3, "x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session.server->AwaitFrames(800).size(), 800u);
}

TYPED_TEST_P(ChannelConformance, FramesOfEverySizeArriveIntact) {
  DialledSession session = this->Connect();
  std::vector<std::string> payloads;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{127}, size_t{4095}, size_t{4096},
                            size_t{20000}, size_t{1} << 20, kMaxFramePayload}) {
    std::string payload(size, '\0');
    for (size_t i = 0; i < size; ++i) payload[i] = static_cast<char>(i * 7 + size);
    payloads.push_back(payload);
    session.client->Send(0xffffffffu, payload);
    session.server->Send(0, payload);
  }
  const std::vector<Frame> at_server = session.server->AwaitFrames(payloads.size());
  const std::vector<Frame> at_client = session.client->AwaitFrames(payloads.size());
  ASSERT_EQ(at_server.size(), payloads.size());
  ASSERT_EQ(at_client.size(), payloads.size());
  for (size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_EQ(at_server[i].kind, 0xffffffffu);
    EXPECT_TRUE(at_server[i].payload == payloads[i]) << payloads[i].size();
    EXPECT_EQ(at_client[i].kind, 0u);
    EXPECT_TRUE(at_client[i].payload == payloads[i]) << payloads[i].size();
  }
}

TYPED_TEST_P(ChannelConformance, AFrameRefusedForNowComesAgainUnchanged) {
  this->Serve(this->Parking());
  this->acceptor_.SetTaking(false);
  DialledSession session = this->Connect();
  session.client->SendAll(this->Numbered(20));
  EXPECT_GE(session.server->AwaitOffers(1), 1u);
  EXPECT_EQ(session.server->received(), 0u);
  // The other direction flows meanwhile.
  session.server->Send(5);
  EXPECT_EQ(session.client->AwaitFrames(1).size(), 1u);
  session.server->SetTaking(true);
  this->ExpectNumbered(session.server->AwaitFrames(20), 20);
}

TYPED_TEST_P(ChannelConformance, AReceiverThatTakesNothingHoldsTheSenderBack) {
  this->acceptor_.SetTaking(false);
  DialledSession session = this->Connect();
  session.client->SendForever(1 << 20);
  EXPECT_GE(session.server->AwaitOffers(1), 1u);
  // Wait until the sender has come to rest.
  size_t pulled;
  do {
    pulled = session.client->pulled();
    absl::SleepFor(absl::Milliseconds(30));
  } while (session.client->pulled() != pulled);
  EXPECT_LE(pulled, 32u);
}

TYPED_TEST_P(ChannelConformance, AClientThatClosesInOrderHasSentEverything) {
  DialledSession session = this->Connect();
  session.client->SendAll(this->Numbered(300));
  session.channel->Close(absl::OkStatus());
  EXPECT_EQ(session.server->AwaitClosed(), absl::OkStatus());
  EXPECT_EQ(session.client->AwaitClosed(), absl::OkStatus());
  this->ExpectNumbered(session.server->AwaitFrames(300), 300);
}

TYPED_TEST_P(ChannelConformance, AServerThatClosesInOrderHasSentEverything) {
  DialledSession session = this->Connect();
  session.server->SendAll(this->Numbered(300));
  session.server->Close(absl::OkStatus());
  EXPECT_EQ(session.client->AwaitClosed(), absl::OkStatus());
  EXPECT_EQ(session.server->AwaitClosed(), absl::OkStatus());
  this->ExpectNumbered(session.client->AwaitFrames(300), 300);
}

TYPED_TEST_P(ChannelConformance, FramesHeldBackAreDeliveredBeforeThePeersClose) {
  this->acceptor_.SetTaking(false);
  DialledSession session = this->Connect();
  session.client->SendAll(this->Numbered(30));
  session.channel->Close(absl::OkStatus());
  session.server->AwaitOffers(1);
  session.server->SetTaking(true);
  EXPECT_EQ(session.server->AwaitClosed(), absl::OkStatus());
  EXPECT_EQ(session.client->AwaitClosed(), absl::OkStatus());
  this->ExpectNumbered(session.server->AwaitFrames(30), 30);
}

TYPED_TEST_P(ChannelConformance, BothSidesMayCloseAtOnce) {
  for (int i = 0; i < 10; ++i) {
    DialledSession session = this->Connect();
    session.client->Send(1);
    session.server->Send(1);
    session.client->Close(absl::OkStatus());
    session.server->Close(absl::OkStatus());
    EXPECT_EQ(session.client->AwaitClosed(), absl::OkStatus());
    EXPECT_EQ(session.server->AwaitClosed(), absl::OkStatus());
  }
}

TYPED_TEST_P(ChannelConformance, TheClientsReasonReachesTheServer) {
  DialledSession session = this->Connect();
  const absl::Status reason = absl::DataLossError("client lost its memory");
  session.channel->Close(reason);
  EXPECT_EQ(session.server->AwaitClosed(), reason);
  EXPECT_EQ(session.client->AwaitClosed(), reason);
}

TYPED_TEST_P(ChannelConformance, TheServersReasonReachesTheClient) {
  DialledSession session = this->Connect();
  const absl::Status reason = absl::PermissionDeniedError("session revoked");
  session.server->Close(reason);
  EXPECT_EQ(session.client->AwaitClosed(), reason);
  EXPECT_EQ(session.server->AwaitClosed(), reason);
}

// For programs, beside the status that people read.
TYPED_TEST_P(ChannelConformance, TheServersRefusalReachesTheClientTyped) {
  DialledSession session = this->Connect();
  const absl::Status reason = ArenaTooLarge(1ull << 42, 1ull << 36);
  session.server->Close(reason);
  const std::optional<absl::Status> closed = session.client->AwaitClosed();
  EXPECT_EQ(closed, reason);
  EXPECT_EQ(RefusalOf(closed.value_or(absl::OkStatus())).most_arena_bytes(), 1ull << 36);
}

TYPED_TEST_P(ChannelConformance, AClientThatVanishesIsLost) {
  DialledSession session = this->Connect();
  session.client->Send(1);
  EXPECT_EQ(session.server->AwaitFrames(1).size(), 1u);
  session.Destroy();
  EXPECT_TRUE(session.client->AwaitClosed().has_value());
  const std::optional<absl::Status> closed = session.server->AwaitClosed();
  ASSERT_TRUE(closed.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*closed)) << *closed;
}

TYPED_TEST_P(ChannelConformance, AServerThatVanishesIsLost) {
  DialledSession session = this->Connect();
  session.server->Send(1);
  EXPECT_EQ(session.client->AwaitFrames(1).size(), 1u);
  this->transport_.reset();
  const std::optional<absl::Status> closed = session.client->AwaitClosed();
  ASSERT_TRUE(closed.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*closed)) << *closed;
}

TYPED_TEST_P(ChannelConformance, AnOversizedFrameEndsTheStream) {
  DialledSession session = this->Connect();
  session.client->Send(1, "small");
  session.client->Send(2, std::string(kMaxFramePayload + 1, 'x'));
  const std::optional<absl::Status> at_server = session.server->AwaitClosed();
  ASSERT_TRUE(at_server.has_value());
  EXPECT_TRUE(absl::IsInvalidArgument(*at_server)) << *at_server;
  const std::optional<absl::Status> at_client = session.client->AwaitClosed();
  ASSERT_TRUE(at_client.has_value());
  EXPECT_TRUE(absl::IsInvalidArgument(*at_client)) << *at_client;
  EXPECT_EQ(session.server->received(), 1u);
}

TYPED_TEST_P(ChannelConformance, ARefusalReachesTheClientAsItsStatus) {
  this->Serve();
  const absl::Status reason = absl::ResourceExhaustedError("no slice is free");
  this->acceptor_.RefuseWith(reason);
  auto end = std::make_shared<Endpoint>();
  const auto handler = Endpoint::MakeHandler(end);
  EXPECT_EQ(this->transport_->Dial(handler.get(), ChannelOptions()).status(), reason);
}

TYPED_TEST_P(ChannelConformance, ARefusalByTheAcceptorReachesTheClientTyped) {
  this->Serve();
  const absl::Status reason = ArenaUnavailable("taken");
  this->acceptor_.RefuseWith(reason);
  auto end = std::make_shared<Endpoint>();
  const auto handler = Endpoint::MakeHandler(end);
  EXPECT_EQ(this->transport_->Dial(handler.get(), ChannelOptions()).status(), reason);
}

TYPED_TEST_P(ChannelConformance, AnUnavailableRefusalIsNotTakenForASilentServer) {
  this->Serve();
  const absl::Status reason = absl::UnavailableError("draining");
  this->acceptor_.RefuseWith(reason);
  auto end = std::make_shared<Endpoint>();
  const auto handler = Endpoint::MakeHandler(end);
  EXPECT_EQ(this->transport_->Dial(handler.get(), ChannelOptions()).status(), reason);
}

TYPED_TEST_P(ChannelConformance, ABusyChannelMayBeDestroyed) {
  for (int i = 0; i < 10; ++i) {
    DialledSession session = this->Connect();
    session.client->SendForever(1000);
    session.server->SendForever(1000);
    EXPECT_GE(session.client->AwaitOffers(10), 10u);
    EXPECT_GE(session.server->AwaitOffers(10), 10u);
    session.Destroy();
    EXPECT_TRUE(session.client->AwaitClosed().has_value());
    EXPECT_TRUE(session.server->AwaitClosed().has_value());
    EXPECT_EQ(session.client->violations(), "");
    EXPECT_EQ(session.server->violations(), "");
  }
}

TYPED_TEST_P(ChannelConformance, ABusyServerMayBeDestroyed) {
  DialledSession session = this->Connect();
  session.client->SendForever(1000);
  session.server->SendForever(1000);
  EXPECT_GE(session.server->AwaitOffers(10), 10u);
  this->transport_.reset();
  EXPECT_TRUE(session.server->AwaitClosed().has_value());
  EXPECT_TRUE(session.client->AwaitClosed().has_value());
  EXPECT_EQ(session.server->violations(), "");
}

TYPED_TEST_P(ChannelConformance, SessionsDoNotMix) {
  std::vector<DialledSession> sessions;
  for (uint32_t i = 0; i < 6; ++i) sessions.push_back(this->Connect());
  for (uint32_t i = 0; i < 6; ++i) {
    for (int n = 0; n < 50; ++n) sessions[i].client->Send(i);
  }
  for (uint32_t i = 0; i < 6; ++i) {
    const std::vector<Frame> frames = sessions[i].server->AwaitFrames(50);
    ASSERT_EQ(frames.size(), 50u);
    for (const Frame& frame : frames) EXPECT_EQ(frame.kind, i);
  }
}

TYPED_TEST_P(ChannelConformance, WakeAndCloseAfterTheEndDoNothing) {
  DialledSession session = this->Connect();
  session.channel->Close(absl::OkStatus());
  EXPECT_EQ(session.client->AwaitClosed(), absl::OkStatus());
  for (int i = 0; i < 100; ++i) session.channel->Wake();
  session.channel->Close(absl::InternalError("late"));
}

REGISTER_TYPED_TEST_SUITE_P(
    ChannelConformance, FramesArriveInOrderInBothDirectionsAtOnce, OneWakeSendsAllThatWasAppended,
    WakeReachesAParkedLoopEveryTime, WakesFromManyThreadsLoseNothing, FramesOfEverySizeArriveIntact,
    AFrameRefusedForNowComesAgainUnchanged, AReceiverThatTakesNothingHoldsTheSenderBack,
    AClientThatClosesInOrderHasSentEverything, AServerThatClosesInOrderHasSentEverything,
    FramesHeldBackAreDeliveredBeforeThePeersClose, BothSidesMayCloseAtOnce,
    TheClientsReasonReachesTheServer, TheServersReasonReachesTheClient,
    TheServersRefusalReachesTheClientTyped, AClientThatVanishesIsLost, AServerThatVanishesIsLost,
    AnOversizedFrameEndsTheStream, ARefusalReachesTheClientAsItsStatus,
    ARefusalByTheAcceptorReachesTheClientTyped, AnUnavailableRefusalIsNotTakenForASilentServer,
    ABusyChannelMayBeDestroyed, ABusyServerMayBeDestroyed, SessionsDoNotMix,
    WakeAndCloseAfterTheEndDoNothing);

}  // namespace warpline::testing

#endif  // WARPLINE_TRANSPORT_TESTING_CHANNEL_CONFORMANCE_H_
