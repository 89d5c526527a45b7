// TLS between our two ends, with certificates made for the test.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "transport/grpc/grpc_client.h"
#include "transport/grpc/grpc_server.h"
#include "transport/testing/endpoint.h"
#include "transport/testing/temp_folder.h"

namespace warpline {
namespace {

using testing::Endpoint;
using testing::EndpointAcceptor;

class TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "needs openssl";
    Make("server", "/CN=warpline-test");
    Make("client", "/CN=tenant");
    Make("stranger", "/CN=warpline-test");
  }

  // A self-signed certificate, which is its own root.
  void Make(const std::string& name, const std::string& subject) {
    const std::string base = absl::StrCat(folder_.path(), "/", name);
    ASSERT_EQ(system(absl::StrCat("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256",
                                  " -nodes -days 2 -subj ", subject,
                                  " -addext subjectAltName=DNS:warpline-test -keyout ", base,
                                  ".key -out ", base, ".crt > /dev/null 2>&1")
                         .c_str()),
              0);
  }
  std::string Read(const std::string& file) const {
    std::ifstream in(absl::StrCat(folder_.path(), "/", file));
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }
  GrpcTls Identity(const std::string& name, const std::string& trusted) const {
    GrpcTls tls;
    if (!name.empty()) {
      tls.cert_chain = Read(name + ".crt");
      tls.private_key = Read(name + ".key");
    }
    tls.root_certs = Read(trusted + ".crt");
    tls.server_name = "warpline-test";
    return tls;
  }

  absl::Status DialWith(const std::optional<GrpcTls>& tls) {
    GrpcServerOptions options;
    options.tls = Identity("server", "client");
    GrpcServer server(options);
    absl::Status started = server.Start({"127.0.0.1:0"}, &acceptor_);
    if (!started.ok()) return started;
    auto end = std::make_shared<Endpoint>();
    const auto handler = Endpoint::MakeHandler(end);
    auto channel = DialGrpc({.address = absl::StrCat("127.0.0.1:", server.port()), .tls = tls},
                            handler.get(), ChannelOptions(), absl::Milliseconds(300));
    if (!channel.ok()) return channel.status();
    end->Attach(channel->get());
    end->Send(1, "secret");
    EXPECT_EQ(acceptor_.AwaitSession()->AwaitFrames(1).size(), 1u);
    end->Attach(nullptr);
    return absl::OkStatus();
  }

  testing::TempFolder folder_;
  EndpointAcceptor acceptor_;
};

TEST_F(TlsTest, TwoEndsThatTrustEachOtherTalk) {
  EXPECT_EQ(DialWith(Identity("client", "server")), absl::OkStatus());
}

TEST_F(TlsTest, AServerOfAnotherRootIsNotTrusted) {
  EXPECT_TRUE(absl::IsUnavailable(DialWith(Identity("client", "stranger"))));
}

TEST_F(TlsTest, AClientWithoutACertificateIsRefused) {
  EXPECT_TRUE(absl::IsUnavailable(DialWith(Identity("", "server"))));
}

TEST_F(TlsTest, AClientOfAnotherRootIsRefused) {
  EXPECT_TRUE(absl::IsUnavailable(DialWith(Identity("stranger", "server"))));
}

TEST_F(TlsTest, PlainTextIsRefused) { EXPECT_TRUE(absl::IsUnavailable(DialWith(std::nullopt))); }

}  // namespace
}  // namespace warpline
