#include "server/gpu_server/gpu_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "proto/admin.pb.h"
#include "proto/frames.h"
#include "proto/lease_methods.h"
#include "proto/leases.pb.h"
#include "server/gpu_server/testing/test_client.h"
#include "transport/grpc/grpc_client.h"
#include "transport/grpc/unary/unary_client.h"
#include "transport/testing/temp_folder.h"

namespace warpline::server {
namespace {

std::string Runfile(const std::string& path) {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/", path);
}

// With the CPU device and real processes, on a port of the system's choice.
class GpuServerTest : public ::testing::Test {
 protected:
  GpuServerTest() {
    SetLogLevel(LogLevel::kError);
    options_.listen.addresses = {"127.0.0.1:0"};
    options_.device.backend = "cpu";
    options_.device.supervisor_program = Runfile("server/supervisor/warpline-supervisor");
    options_.device.keeper_program = Runfile("server/keeper/warpline-keeper");
    options_.device.worker_program = Runfile("server/worker/warpline-worker");
    options_.sessions.quota_bytes = uint64_t{64} << 20;
    options_.drain_timeout = absl::Seconds(20);
  }

  std::unique_ptr<GpuServer> Started() {
    auto server = GpuServer::Create(options_);
    EXPECT_TRUE(server.ok()) << server.status();
    if (!server.ok()) return nullptr;
    const absl::Status started = (*server)->Start();
    EXPECT_TRUE(started.ok()) << started;
    return started.ok() ? *std::move(server) : nullptr;
  }

  // Null when it is refused.
  static std::unique_ptr<TestClient> Dial(const GpuServer& server,
                                          absl::Duration deadline = absl::Seconds(60)) {
    auto client = std::make_unique<TestClient>();
    auto channel = DialGrpc({absl::StrCat("127.0.0.1:", server.port())}, client.get(),
                            ChannelOptions(), deadline);
    if (!channel.ok()) return nullptr;
    client->Connected(*std::move(channel));
    return client;
  }

  static absl::StatusOr<warpline_internal::StatReply> StatAt(
      const UnaryClient& client, const warpline_internal::StatRequest& request) {
    return CallUnary<warpline_internal::StatReply>(&client, "/warpline_internal.Admin/Stat",
                                                   request, absl::Seconds(60));
  }

  static absl::StatusOr<warpline_internal::ReplaceReply> ReplaceAt(const UnaryClient& client) {
    return CallUnary<warpline_internal::ReplaceReply>(&client, "/warpline_internal.Admin/Replace",
                                                      warpline_internal::ReplaceRequest(),
                                                      absl::Seconds(60));
  }

  ServerOptions options_;
};

TEST_F(GpuServerTest, ServesASessionAndDrains) {
  const testing::TempFolder folder;
  options_.listen.port_file = folder.path() + "/port";
  const auto server = Started();
  ASSERT_NE(server, nullptr);
  int written = 0;
  std::ifstream(options_.listen.port_file) >> written;
  EXPECT_EQ(written, server->port());
  {
    const auto client = Dial(*server);
    ASSERT_NE(client, nullptr);
    const auto welcome = client->Open();
    ASSERT_TRUE(welcome.has_value());
    EXPECT_EQ(welcome->quota_bytes(), options_.sessions.quota_bytes);
    client->Send(kClose, "");
    EXPECT_TRUE(client->AwaitClosed().ok());
  }
  server->Drain();
  EXPECT_EQ(server->host().sessions(), 0);
  EXPECT_EQ(Dial(*server, absl::Milliseconds(100)), nullptr);
}

TEST_F(GpuServerTest, DrainingEndsTheSessionsThatGoOn) {
  options_.drain_timeout = absl::ZeroDuration();
  const auto server = Started();
  ASSERT_NE(server, nullptr);
  const auto client = Dial(*server);
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Open().has_value());
  server->Drain();
  EXPECT_TRUE(client->Await(kFault).has_value());
}

TEST_F(GpuServerTest, EndsWithoutBeingDrained) {
  const auto server = Started();
  ASSERT_NE(server, nullptr);
  const auto client = Dial(*server);
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Open().has_value());
}

// More streams and connections than the server takes in all, of the same address.
TEST_F(GpuServerTest, SilentClientsKeepNobodyOut) {
  options_.sessions.max_sessions = 4;
  options_.sessions.strangers_per_peer = 8;
  const auto server = Started();
  ASSERT_NE(server, nullptr);
  auto hello = TestClient::GoodHello();
  hello.set_features(kFeatureResume);
  auto early = Dial(*server);
  ASSERT_NE(early, nullptr);
  const auto welcome = early->Open(hello);
  ASSERT_TRUE(welcome.has_value());

  std::vector<std::unique_ptr<TestClient>> streams;
  for (int i = 0; i < 120; ++i) {
    streams.push_back(Dial(*server));
    ASSERT_NE(streams.back(), nullptr) << i;
  }
  std::vector<UniqueFd> connections;
  for (int i = 0; i < 600; ++i) {
    connections.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(connections.back().get(), reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)),
              0);
  }

  const auto late = Dial(*server);
  ASSERT_NE(late, nullptr);
  EXPECT_TRUE(late->Open(hello).has_value());
  early.reset();
  const auto again = Dial(*server);
  ASSERT_NE(again, nullptr);
  EXPECT_TRUE(again->Resume(*welcome, 1, 0).has_value());
  EXPECT_EQ(server->host().sessions(), 2);
}

TEST_F(GpuServerTest, SaysWhichAddressIsTaken) {
  const auto first = Started();
  ASSERT_NE(first, nullptr);
  const std::string address = absl::StrCat("127.0.0.1:", first->port());
  options_.listen.addresses = {address};
  const auto second = GpuServer::Create(options_);
  ASSERT_TRUE(second.ok()) << second.status();
  const absl::Status started = (*second)->Start();
  EXPECT_TRUE(absl::IsUnavailable(started)) << started;
  EXPECT_NE(started.message().find(address), std::string::npos) << started;
}

// Whoever reaches the address of the clients, from this very host as well, is a client.
TEST_F(GpuServerTest, ClientsAreToldOfTheirOwnLeaseAndNothingElse) {
  const auto server = Started();
  ASSERT_NE(server, nullptr);
  const UnaryClient client({.address = absl::StrCat("127.0.0.1:", server->port()), .tls = nullptr});
  const auto stranger = Dial(*server);
  ASSERT_NE(stranger, nullptr);
  ASSERT_TRUE(stranger->Open().has_value());
  warpline_internal::StatRequest request;
  EXPECT_TRUE(absl::IsPermissionDenied(StatAt(client, request).status()));
  request.set_token("forged");
  EXPECT_TRUE(absl::IsUnauthenticated(StatAt(client, request).status()));
  EXPECT_TRUE(absl::IsUnimplemented(ReplaceAt(client).status()));
  const auto lease = CallUnary<warpline_internal::LeaseReply>(
      &client, kAcquireMethod, warpline_internal::AcquireRequest(), absl::Seconds(10));
  ASSERT_TRUE(lease.ok()) << lease.status();
  const auto own = Dial(*server);
  ASSERT_NE(own, nullptr);
  auto hello = TestClient::GoodHello();
  hello.set_token(lease->token());
  ASSERT_TRUE(own->Open(hello).has_value());
  request.set_token(lease->token());
  const auto told = StatAt(client, request);
  ASSERT_TRUE(told.ok()) << told.status();
  ASSERT_EQ(told->sessions_size(), 1);
  EXPECT_EQ(told->sessions(0).lease(), lease->lease());
  EXPECT_EQ(told->devices_size(), 0);
}

TEST_F(GpuServerTest, TheOperatorAsksAtASocketOfTheirOwn) {
  const testing::TempFolder folder;
  options_.listen.admin_socket = folder.path() + "/admin.sock";
  const auto server = Started();
  ASSERT_NE(server, nullptr);
  const auto client = Dial(*server);
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Open().has_value());
  const UnaryClient outside(
      {.address = absl::StrCat("127.0.0.1:", server->port()), .tls = nullptr});
  const auto where = CallUnary<warpline_internal::WhereReply>(
      &outside, "/warpline_internal.Admin/Where", warpline_internal::WhereRequest(),
      absl::Seconds(10));
  ASSERT_TRUE(where.ok()) << where.status();
  EXPECT_EQ(where->socket(), options_.listen.admin_socket);
  const UnaryClient admin({.address = "unix:" + where->socket(), .tls = nullptr});
  const auto told = StatAt(admin, warpline_internal::StatRequest());
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->sessions_size(), 1);
  EXPECT_EQ(told->devices_size(), 1);
  EXPECT_TRUE(ReplaceAt(admin).ok());
  // It takes no sessions.
  TestClient none;
  auto channel = DialGrpc({admin.address()}, &none, ChannelOptions(), absl::Seconds(60));
  if (channel.ok()) {
    none.Connected(*std::move(channel));
    EXPECT_FALSE(none.Open().has_value());
  }
}

TEST_F(GpuServerTest, AnAdminSocketThatCannotBeIsSaid) {
  options_.listen.admin_socket = "/nonexistent/admin.sock";
  auto server = GpuServer::Create(options_);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(absl::IsUnavailable((*server)->Start()));
}

TEST_F(GpuServerTest, DoesNotStartWithoutAKeeper) {
  options_.device.keeper_program = "/nonexistent/keeper";
  EXPECT_FALSE(GpuServer::Create(options_).ok());
}

TEST_F(GpuServerTest, ADeviceThatReachesPageableMemoryIsRefusedOnlyIfTold) {
  const testing::TempFolder folder;
  const std::string keeper = folder.path() + "/keeper";
  std::ofstream(keeper) << "#!/bin/sh\nexec " << Runfile("server/keeper/fake_keeper")
                        << " --pageable_access \"$@\"\n";
  ASSERT_EQ(chmod(keeper.c_str(), 0700), 0);
  options_.device.keeper_program = keeper;
  EXPECT_TRUE(GpuServer::Create(options_).ok());
  options_.device.pageable_access = PageableAccess::kRefuse;
  const auto refused = GpuServer::Create(options_);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_NE(refused.status().message().find("device 0: it reaches pageable memory"),
            std::string::npos)
      << refused.status();
  options_.device.keeper_program = Runfile("server/keeper/warpline-keeper");
  EXPECT_TRUE(GpuServer::Create(options_).ok()) << "the CPU device does not";
}

}  // namespace
}  // namespace warpline::server
