// What only the gRPC transport has: dialling, TLS, health, and peers that are broken or hostile.
#include <arpa/inet.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log/log_capture.h"
#include "common/unique_fd.h"
#include "proto/session_service.grpc.pb.h"
#include "transport/grpc/grpc_client.h"
#include "transport/grpc/grpc_server.h"
#include "transport/loop_thread.h"
#include "transport/testing/delay_relay.h"
#include "transport/testing/endpoint.h"
#include "transport/testing/temp_folder.h"
#include "transport/unix_connect.h"

namespace warpline {
namespace {

using testing::Endpoint;
using testing::EndpointAcceptor;
using ::warpline_internal::WireFrame;

// When a test gives up; no test decides by how long something took.
constexpr absl::Duration kPatience = absl::Minutes(4);

class GrpcTransport : public ::testing::Test {
 protected:
  void Serve(GrpcServerOptions options = GrpcServerOptions()) {
    server_.emplace(std::move(options));
    ASSERT_EQ(server_->Start({"127.0.0.1:0"}, &acceptor_), absl::OkStatus());
    address_ = absl::StrCat("127.0.0.1:", server_->port());
  }

  absl::StatusOr<std::unique_ptr<Channel>> Dial(const std::string& address,
                                                absl::Duration deadline = kPatience,
                                                const ChannelOptions& options = ChannelOptions()) {
    return DialGrpc({.address = address}, handler_.get(), options, deadline);
  }

  // A client of the service's definition, without our transport.
  std::unique_ptr<warpline_internal::Gpu::Stub> RawStub() {
    return warpline_internal::Gpu::NewStub(
        grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  }

  // The response, or "code N".
  std::string CallUnary(const std::string& method, const std::string& request = "") {
    grpc::GenericStub stub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const grpc::Slice slice(request);
    const grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer received;
    grpc::Status status;
    auto call = stub.PrepareUnaryCall(&context, method, sent, &queue);
    call->StartCall();
    call->Finish(&received, &status, nullptr);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    if (!status.ok()) return absl::StrCat("code ", status.error_code());
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(received.Dump(&slices).ok());
    std::string response;
    for (const grpc::Slice& part : slices) response.append(part.begin(), part.end());
    return response;
  }

  UniqueFd RawSocket() {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  void ExpectServes() {
    auto channel = Dial(address_);
    EXPECT_EQ(channel.status(), absl::OkStatus());
  }

  EndpointAcceptor acceptor_;
  std::optional<GrpcServer> server_;
  std::string address_;
  std::shared_ptr<Endpoint> client_ = std::make_shared<Endpoint>();
  std::unique_ptr<SessionHandler> handler_ = Endpoint::MakeHandler(client_);
};

// Dialling.

TEST_F(GrpcTransport, AnAbsentServerIsUnavailableAfterTheDeadline) {
  absl::Status status;
  // A busy host may need longer to learn that the connection is refused.
  for (absl::Duration deadline = absl::Milliseconds(150); deadline < absl::Seconds(20);
       deadline *= 2) {
    const absl::Time start = absl::Now();
    status = Dial("127.0.0.1:1", deadline).status();
    EXPECT_GE(absl::Now() - start, deadline);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "127.0.0.1:1")) << status;
    if (absl::StrContains(status.message(), "refused")) return;
  }
  ADD_FAILURE() << status;
}

TEST_F(GrpcTransport, AnAbsentSocketIsUnavailable) {
  testing::TempFolder folder;
  const absl::Status status =
      Dial(absl::StrCat("unix:", folder.path(), "/none"), absl::Milliseconds(100)).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(GrpcTransport, AListenerThatIsAnotherUserIsNotSpokenTo) {
  testing::TempFolder folder;
  server_.emplace(GrpcServerOptions());
  const std::string address = absl::StrCat("unix:", folder.path(), "/socket");
  ASSERT_EQ(server_->Start({address}, &acceptor_), absl::OkStatus());
  const auto dial = [&](uint32_t uid) {
    return DialGrpc({.address = address, .listener_uid = uid}, handler_.get(), ChannelOptions(),
                    kPatience);
  };
  EXPECT_TRUE(absl::IsPermissionDenied(dial(geteuid() + 1).status()));
  EXPECT_EQ(dial(geteuid()).status(), absl::OkStatus());
}

TEST_F(GrpcTransport, ASilentServerIsUnavailableAfterTheDeadline) {
  const UniqueFd silent(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(silent.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(silent.get(), 4), 0);
  getsockname(silent.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const absl::Status status =
      Dial(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)), absl::Milliseconds(100)).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(GrpcTransport, AServerThatComesUpLateIsFound) {
  const testing::TempFolder folder;
  const std::string address = absl::StrCat("unix:", folder.path(), "/socket");
  std::thread late([&] {
    absl::SleepFor(absl::Milliseconds(150));
    server_.emplace(GrpcServerOptions());
    ASSERT_EQ(server_->Start({address}, &acceptor_), absl::OkStatus());
  });
  EXPECT_EQ(Dial(address).status(), absl::OkStatus());
  late.join();
}

TEST_F(GrpcTransport, BadAddressesAreRefusedAtOnce) {
  EXPECT_TRUE(absl::IsInvalidArgument(Dial("nonsense").status()));
}

TEST_F(GrpcTransport, TheHostsProxyIsNotForLocalAddresses) {
  Serve();
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  setenv("grpc_proxy", "http://127.0.0.1:1", 1);
  ExpectServes();
  unsetenv("http_proxy");
  unsetenv("grpc_proxy");
}

// The server.

TEST_F(GrpcTransport, APortInUseIsReported) {
  Serve();
  GrpcServer second{GrpcServerOptions()};
  const absl::Status status = second.Start({address_}, &acceptor_);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), address_)) << status;
}

TEST_F(GrpcTransport, AddressesNameThePortThatTheSystemChose) {
  const testing::TempFolder folder;
  const std::string socket = absl::StrCat("unix:", folder.path(), "/socket:0");
  GrpcServer server{GrpcServerOptions()};
  ASSERT_EQ(server.Start({socket, "127.0.0.1:0"}, &acceptor_), absl::OkStatus());
  EXPECT_NE(server.port(), 0);
  EXPECT_EQ(server.addresses(),
            (std::vector<std::string>{socket, absl::StrCat("127.0.0.1:", server.port())}));
}

TEST_F(GrpcTransport, SessionsAboveTheLimitAreRefused) {
  GrpcServerOptions options;
  options.max_sessions = 1;
  Serve(options);
  auto first = Dial(address_);
  ASSERT_EQ(first.status(), absl::OkStatus());
  EXPECT_EQ(server_->sessions(), 1);
  auto other = std::make_shared<Endpoint>();
  const auto other_handler = Endpoint::MakeHandler(other);
  EXPECT_TRUE(absl::IsResourceExhausted(
      DialGrpc({.address = address_}, other_handler.get(), ChannelOptions(), kPatience).status()));
}

TEST_F(GrpcTransport, SilentSessionsOfAPeerMakeRoomForItsNextOnes) {
  LogCapture log;
  GrpcServerOptions options;
  options.max_strangers_of_peer = 2;
  Serve(options);
  struct Client {
    std::shared_ptr<Endpoint> end = std::make_shared<Endpoint>();
    std::unique_ptr<SessionHandler> handler = Endpoint::MakeHandler(end);
    std::unique_ptr<Channel> channel;
  };
  std::vector<std::unique_ptr<Client>> clients;
  const auto dial = [&] {
    clients.push_back(std::make_unique<Client>());
    auto channel =
        DialGrpc({.address = address_}, clients.back()->handler.get(), ChannelOptions(), kPatience);
    ASSERT_EQ(channel.status(), absl::OkStatus());
    clients.back()->channel = *std::move(channel);
  };
  dial();
  acceptor_.AwaitSession(0)->Admit();
  for (int i = 0; i < 4; ++i) dial();
  for (const size_t sent_away : {1, 2}) {
    const auto closed = clients[sent_away]->end->AwaitClosed();
    ASSERT_TRUE(closed.has_value());
    EXPECT_TRUE(absl::IsUnavailable(*closed)) << *closed;
  }
  EXPECT_EQ(log.LinesWith("peer=ipv4:127.0.0.1 has too many").size(), 2u) << log.Text();
  // The one that was admitted, and the newest.
  for (const size_t stays : {0, 3, 4}) {
    acceptor_.AwaitSession(stays)->Send(7, "here");
    EXPECT_EQ(clients[stays]->end->AwaitFrames(1).size(), 1u) << stays;
  }
}

TEST_F(GrpcTransport, SilentSessionsOfAllPeersMakeRoom) {
  GrpcServerOptions options;
  options.max_strangers = 1;
  Serve(options);
  auto first = Dial(address_);
  ASSERT_EQ(first.status(), absl::OkStatus());
  const auto other = std::make_shared<Endpoint>();
  const auto other_handler = Endpoint::MakeHandler(other);
  auto second = DialGrpc({.address = address_}, other_handler.get(), ChannelOptions(), kPatience);
  ASSERT_EQ(second.status(), absl::OkStatus());
  const auto closed = client_->AwaitClosed();
  ASSERT_TRUE(closed.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*closed)) << *closed;
}

TEST_F(GrpcTransport, RefusedSessionsCostNoThread) {
  GrpcServerOptions options;
  options.max_sessions = 1;
  std::atomic<int> threads{0};
  options.start_thread = [&](const char* name, const std::function<void()>& body) {
    ++threads;
    return TryStartLoopThread(name, body);
  };
  Serve(options);
  auto channel = Dial(address_);
  ASSERT_EQ(channel.status(), absl::OkStatus());
  for (int i = 0; i < 20; ++i) {
    const absl::Status status = Dial(address_).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  }
  EXPECT_EQ(threads, 1);
  EXPECT_EQ(server_->sessions(), 1);
}

TEST_F(GrpcTransport, AServerWithoutAnotherThreadRefusesAndGoesOn) {
  GrpcServerOptions options;
  std::atomic<bool> none{true};
  options.start_thread = [&](const char* name,
                             const std::function<void()>& body) -> absl::StatusOr<std::thread> {
    if (none) return absl::ResourceExhaustedError("no thread is to be had");
    return TryStartLoopThread(name, body);
  };
  Serve(options);
  const absl::Status status = Dial(address_).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(server_->sessions(), 0);
  none = false;
  ExpectServes();
}

TEST_F(GrpcTransport, AClientThatIgnoresItsRefusalDelaysNoShutdown) {
  GrpcServerOptions options;
  options.max_sessions = 0;
  Serve(options);
  auto stub = RawStub();
  grpc::ClientContext context;
  auto stream = stub->Session(&context);
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(stream->Finish().ok());
}

TEST_F(GrpcTransport, HealthSaysWhatWasSet) {
  Serve();
  EXPECT_EQ(CallUnary("/grpc.health.v1.Health/Check"), "\x08\x02");
  server_->SetServing(true);
  EXPECT_EQ(CallUnary("/grpc.health.v1.Health/Check"), "\x08\x01");
  EXPECT_EQ(CallUnary("/grpc.health.v1.Health/Watch"), "code 12");
}

TEST_F(GrpcTransport, UnaryMethodsAnswerBesideSessions) {
  GrpcServerOptions options;
  options.methods["/test.Service/Echo"] = [](const std::string& peer, const std::string& request) {
    return absl::StrCat(peer.substr(0, 15), " said ", request);
  };
  options.methods["/test.Service/Fail"] = [](const std::string&, const std::string&) {
    return absl::PermissionDeniedError("not you");
  };
  Serve(options);
  auto channel = Dial(address_);
  ASSERT_EQ(channel.status(), absl::OkStatus());
  EXPECT_EQ(CallUnary("/test.Service/Echo", "hello"), "ipv4:127.0.0.1: said hello");
  EXPECT_EQ(CallUnary("/test.Service/Fail"), "code 7");
  EXPECT_EQ(CallUnary("/test.Service/None"), "code 12");
}

// While one queue is busy the other's calls are answered after the call under way.
TEST_F(GrpcTransport, CallsOfOneQueueDoNotDelayThoseOfAnother) {
  GrpcServerOptions options;
  std::atomic<int> slow{0};
  std::atomic<int> pause_ms{20};
  options.methods["/test.Service/Slow"] = [&](const std::string&, const std::string&) {
    ++slow;
    absl::SleepFor(absl::Milliseconds(pause_ms.load()));
    return std::string("slow");
  };
  options.methods["/test.Service/Urgent"] = [](const std::string&, const std::string&) {
    return std::string("urgent");
  };
  options.method_queues = {{"/test.Service/Slow", {.number = 0}},
                           {"/test.Service/Urgent", {.number = 1}}};
  Serve(options);
  int before = 40;
  // A busy host may need longer to bring the urgent call there.
  for (; before == 40 && pause_ms < 2000; pause_ms = 2 * pause_ms) {
    slow = 0;
    std::vector<std::thread> flood;
    for (int i = 0; i < 40; ++i) {
      flood.emplace_back([this] { EXPECT_EQ(CallUnary("/test.Service/Slow"), "slow"); });
    }
    while (slow == 0) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(CallUnary("/test.Service/Urgent"), "urgent");
    before = slow;
    for (std::thread& thread : flood) thread.join();
  }
  EXPECT_LT(before, 40);
}

TEST_F(GrpcTransport, PeersOverIpv4AreKnownByThatAddressAlsoAtTheIpv6Wildcard) {
  GrpcServerOptions options;
  options.methods["/test.Service/Peer"] = [](const std::string& peer, const std::string&) {
    return peer.substr(0, peer.rfind(':'));
  };
  server_.emplace(std::move(options));
  if (absl::IsUnavailable(server_->Start({"[::]:0"}, &acceptor_))) {
    GTEST_SKIP() << "this host has no IPv6";
  }
  address_ = absl::StrCat("127.0.0.1:", server_->port());
  EXPECT_EQ(CallUnary("/test.Service/Peer", ""), "ipv4:127.0.0.1");
  address_ = absl::StrCat("[::1]:", server_->port());
  EXPECT_EQ(CallUnary("/test.Service/Peer", ""), "ipv6:%5B::1%5D");
}

TEST_F(GrpcTransport, ShutdownWaitsForSessionsThatEnd) {
  Serve();
  auto channel = Dial(address_);
  ASSERT_EQ(channel.status(), absl::OkStatus());
  client_->Attach(channel->get());
  const std::shared_ptr<Endpoint> session = acceptor_.AwaitSession();
  std::thread closer([&] {
    client_->Send(1, "last words");
    (*channel)->Close(absl::OkStatus());
  });
  server_->Shutdown(kPatience);
  closer.join();
  // Whichever came first, the session is over, and nothing of it is left.
  EXPECT_TRUE(session->AwaitClosed().has_value());
  EXPECT_EQ(server_->sessions(), 0);
}

// Connections that fail.

TEST_F(GrpcTransport, ACutConnectionIsUnavailableOnBothSides) {
  Serve();
  auto relay = *DelayRelay::Start("127.0.0.1:0", address_, absl::ZeroDuration());
  auto channel = Dial(absl::StrCat("127.0.0.1:", relay->port()));
  ASSERT_EQ(channel.status(), absl::OkStatus());
  client_->Attach(channel->get());
  const std::shared_ptr<Endpoint> session = acceptor_.AwaitSession();
  client_->Send(1);
  EXPECT_EQ(session->AwaitFrames(1).size(), 1u);
  relay->Cut();
  const std::optional<absl::Status> at_client = client_->AwaitClosed();
  const std::optional<absl::Status> at_server = session->AwaitClosed();
  ASSERT_TRUE(at_client.has_value() && at_server.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*at_client)) << *at_client;
  EXPECT_TRUE(absl::IsUnavailable(*at_server)) << *at_server;
}

TEST_F(GrpcTransport, AVanishedNetworkIsNoticedByKeepalive) {
  ChannelOptions channel_options;
  channel_options.keepalive = absl::Milliseconds(300);
  channel_options.keepalive_timeout = absl::Milliseconds(200);
  GrpcServerOptions options;
  options.channel = channel_options;
  Serve(options);
  auto relay = *DelayRelay::Start("127.0.0.1:0", address_, absl::ZeroDuration());
  auto channel = Dial(absl::StrCat("127.0.0.1:", relay->port()), kPatience, channel_options);
  ASSERT_EQ(channel.status(), absl::OkStatus());
  client_->Attach(channel->get());
  const std::shared_ptr<Endpoint> session = acceptor_.AwaitSession();
  relay->SetStalled(true);
  const std::optional<absl::Status> at_client = client_->AwaitClosed();
  const std::optional<absl::Status> at_server = session->AwaitClosed();
  ASSERT_TRUE(at_client.has_value() && at_server.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*at_client)) << *at_client;
  EXPECT_TRUE(absl::IsUnavailable(*at_server)) << *at_server;
}

// Hostile peers.

TEST_F(GrpcTransport, AMessageAboveAllLimitsEndsTheSession) {
  Serve();
  const auto stub = RawStub();
  grpc::ClientContext context;
  const auto stream = stub->Session(&context);
  WireFrame frame;
  frame.set_payload(std::string(8 << 20, 'x'));
  stream->Write(frame);
  WireFrame answer;
  while (stream->Read(&answer)) {
  }
  EXPECT_FALSE(stream->Finish().ok());
  const std::optional<absl::Status> closed = acceptor_.AwaitSession()->AwaitClosed();
  ASSERT_TRUE(closed.has_value());
  // gRPC has cut it without telling the server why.
  EXPECT_TRUE(absl::IsUnavailable(*closed)) << *closed;
  EXPECT_EQ(acceptor_.AwaitSession()->received(), 0u);
  ExpectServes();
}

TEST_F(GrpcTransport, AFrameJustAboveTheLimitIsAnInvalidArgument) {
  Serve();
  const auto stub = RawStub();
  grpc::ClientContext context;
  const auto stream = stub->Session(&context);
  WireFrame frame;
  frame.set_payload(std::string(kMaxFramePayload + 1, 'x'));
  stream->Write(frame);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcTransport, ACompressedMessageIsRefused) {
  Serve();
  const auto stub = RawStub();
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  const auto stream = stub->Session(&context);
  WireFrame frame;
  frame.set_payload(std::string(1 << 20, '\0'));
  stream->Write(frame);
  WireFrame answer;
  while (stream->Read(&answer)) {
  }
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_EQ(acceptor_.AwaitSession()->received(), 0u);
}

TEST_F(GrpcTransport, AClientThatNeverReadsHoldsTheServerBack) {
  Serve();
  const auto stub = RawStub();
  grpc::ClientContext context;
  const auto stream = stub->Session(&context);
  const std::shared_ptr<Endpoint> session = acceptor_.AwaitSession();
  ASSERT_NE(session, nullptr);
  session->SendForever(1 << 20);
  size_t pulled;
  do {
    pulled = session->pulled();
    absl::SleepFor(absl::Milliseconds(30));
  } while (session->pulled() != pulled || pulled == 0);
  EXPECT_LE(pulled, 32u);
  context.TryCancel();
  EXPECT_TRUE(session->AwaitClosed().has_value());
}

TEST_F(GrpcTransport, GarbageOnThePortHarmsNobody) {
  Serve();
  std::vector<UniqueFd> sockets;
  for (const std::string& garbage :
       {std::string(4096, '\xff'), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1, '\0'),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}) {
    sockets.push_back(RawSocket());
    ASSERT_GT(send(sockets.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  }
  ExpectServes();
}

TEST_F(GrpcTransport, AHalfOpenConnectionIsDropped) {
  GrpcServerOptions options;
  // Time enough for the connection that follows.
  options.handshake_timeout = absl::Seconds(2);
  Serve(options);
  const UniqueFd half_open = RawSocket();
  char bytes[256];
  ssize_t got;
  while ((got = recv(half_open.get(), bytes, sizeof(bytes), 0)) > 0) {
  }
  EXPECT_LE(got, 0);
  ExpectServes();
}

TEST_F(GrpcTransport, SilentConnectionsKeepNobodyOut) {
  GrpcServerOptions options;
  options.max_connections = 3;
  Serve(options);
  std::vector<UniqueFd> held;
  for (int i = 0; i < 3; ++i) held.push_back(RawSocket());
  // The oldest has to go for it.
  ExpectServes();
  char byte;
  while (read(held[0].get(), &byte, 1) > 0) {
  }
}

TEST_F(GrpcTransport, AConnectionWithAnAdmittedSessionOutlastsSilentOnes) {
  GrpcServerOptions options;
  options.max_connections = 3;
  Serve(options);
  auto channel = Dial(address_);
  ASSERT_EQ(channel.status(), absl::OkStatus());
  const auto session = acceptor_.AwaitSession();
  session->Admit();
  std::vector<UniqueFd> held;
  for (int i = 0; i < 10; ++i) held.push_back(RawSocket());
  char byte;
  while (read(held[7].get(), &byte, 1) > 0) {
  }
  session->Send(7, "still here");
  EXPECT_EQ(client_->AwaitFrames(1).size(), 1u);
}

// Those of one user, who are told apart by the names that clients give to their ends.
TEST_F(GrpcTransport, AnAdmittedSessionOverAUnixSocketOutlastsSilentOnes) {
  const testing::TempFolder folder;
  GrpcServerOptions options;
  options.max_strange_connections_of_peer = 2;
  server_.emplace(options);
  const std::string address = absl::StrCat("unix:", folder.path(), "/socket");
  ASSERT_EQ(server_->Start({address}, &acceptor_), absl::OkStatus());
  auto channel = Dial(address);
  ASSERT_EQ(channel.status(), absl::OkStatus());
  const auto session = acceptor_.AwaitSession();
  session->Admit();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 5; ++i) {
    auto connected = ConnectUnix(address.substr(5), std::nullopt);
    ASSERT_TRUE(connected.ok()) << connected.status();
    silent.push_back(*std::move(connected));
  }
  pollfd ended = {silent[2].get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, -1), 1);
  session->Send(7, "still here");
  EXPECT_EQ(client_->AwaitFrames(1).size(), 1u);
}

// An unread stream holds this much of the server's memory: kUnreadBytesOfStream of
// server/gpu_server/gpu_server.cc rests on it.
TEST_F(GrpcTransport, WhatAClientSendsAheadIsBounded) {
  Serve();
  acceptor_.SetTaking(false);
  auto channel = Dial(address_);
  ASSERT_EQ(channel.status(), absl::OkStatus());
  // Otherwise nothing wakes a channel that has found nothing to send and sleeps.
  client_->Attach(channel->get());
  client_->SendForever(64 << 10);
  size_t pulled;
  do {
    pulled = client_->pulled();
    absl::SleepFor(absl::Milliseconds(50));
  } while (client_->pulled() != pulled || pulled == 0);
  EXPECT_LE(pulled * 64, 12u << 10);
  channel->reset();
}

TEST_F(GrpcTransport, AnIdleConnectionIsToldToGo) {
  GrpcServerOptions options;
  options.connection_idle = absl::Milliseconds(100);
  Serve(options);
  const auto channel = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  const auto soon = [] { return std::chrono::system_clock::now() + std::chrono::minutes(4); };
  ASSERT_TRUE(channel->WaitForConnected(soon()));
  EXPECT_TRUE(channel->WaitForStateChange(GRPC_CHANNEL_READY, soon()));
}

TEST_F(GrpcTransport, OneConnectionCannotOpenStreamsWithoutEnd) {
  GrpcServerOptions options;
  options.max_streams_per_connection = 2;
  Serve(options);
  const auto stub = RawStub();
  grpc::ClientContext contexts[3];
  const auto first = stub->Session(&contexts[0]);
  const auto second = stub->Session(&contexts[1]);
  first->WaitForInitialMetadata();
  second->WaitForInitialMetadata();
  contexts[2].set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  const auto third = stub->Session(&contexts[2]);
  EXPECT_EQ(third->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server_->sessions(), 2);
  contexts[0].TryCancel();
  contexts[1].TryCancel();
}

}  // namespace
}  // namespace warpline
