// TLS between our two ends, with certificates made for the test.
#include <fstream>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/grpc/grpc_client.h"
#include "transport/grpc/grpc_server.h"
#include "transport/grpc/unary/unary_call.h"
#include "transport/testing/certificates.h"
#include "transport/testing/endpoint.h"
#include "transport/testing/temp_folder.h"

namespace warpline {
namespace {

using ::testing::ContainsRegex;
using testing::Endpoint;
using ::testing::HasSubstr;
using testing::IssuedCertificate;
using testing::Subject;
using testing::TestCa;

constexpr char kName[] = "warpline-test";
constexpr char kMethod[] = "/test.Service/WhoAmI";

class PeerAcceptor : public testing::EndpointAcceptor {
 public:
  std::unique_ptr<SessionHandler> Accept(const std::string& peer, absl::Status* refusal) override {
    {
      MutexLock lock(&mu_);
      peer_ = peer;
    }
    return EndpointAcceptor::Accept(peer, refusal);
  }
  // Has the peer of the latest dial: a dial waits for Accept().
  std::string peer() const {
    MutexLock lock(&mu_);
    return peer_;
  }

 private:
  mutable Mutex mu_;
  std::string peer_ ABSL_GUARDED_BY(mu_);
};

class TlsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::trunc) << text;
  }
  // Files NAME.crt, NAME.key and NAME.ca, the roots that their owner trusts.
  void WriteFiles(const std::string& name, const IssuedCertificate& own, const TestCa& trusted) {
    Write(name + ".crt", own.certificate);
    Write(name + ".key", own.key);
    Write(name + ".ca", trusted.certificate());
  }
  std::shared_ptr<TlsSource> Source(TlsSource::Side side, const std::string& name,
                                    const std::string& server_name = "") {
    return std::make_shared<TlsSource>(side,
                                       TlsFiles{.ca = Path(name + ".ca"),
                                                .cert = Path(name + ".crt"),
                                                .key = Path(name + ".key"),
                                                .server_name = server_name,
                                                .crl = crl_},
                                       absl::ZeroDuration());
  }

  void SetUp() override {
    WriteFiles("server", ca_.Issue({.name = kName}), ca_);
    WriteFiles("client", ca_.Issue({.name = "alice"}), ca_);
  }
  void StartServer(bool tls = true) {
    GrpcServerOptions options;
    if (tls) options.tls = Source(TlsSource::Side::kServer, "server");
    options.methods[kMethod] = [](const std::string& peer, const std::string& request) {
      return absl::StrCat(request, " ", peer);
    };
    server_ = std::make_unique<GrpcServer>(options);
    ASSERT_EQ(server_->Start({"127.0.0.1:0", "unix:" + Path("socket")}, &acceptor_),
              absl::OkStatus());
    address_ = absl::StrCat("127.0.0.1:", server_->port());
  }
  std::shared_ptr<TlsSource> Client(const std::string& server_name = kName) {
    return Source(TlsSource::Side::kClient, "client", server_name);
  }
  // Dials and closes again.
  absl::Status Dial(const std::shared_ptr<TlsSource>& tls, const std::string& address) {
    auto end = std::make_shared<Endpoint>();
    const auto handler = Endpoint::MakeHandler(end);
    return DialGrpc({.address = address, .tls = tls}, handler.get(), ChannelOptions(),
                    absl::Hours(1))
        .status();
  }
  // Dials what must fail for a reason of TLS, without waiting for the deadline, and returns the
  // sentence.
  std::string Fault(const std::shared_ptr<TlsSource>& tls) {
    const absl::Status status = Dial(tls, address_);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(address_));
    return std::string(status.message());
  }

  testing::TempFolder folder_;
  std::string crl_;  // For StartServer().
  TestCa ca_{"root"};
  TestCa other_ca_{"other root"};
  PeerAcceptor acceptor_;
  std::unique_ptr<GrpcServer> server_;
  std::string address_;
};

TEST_F(TlsTest, TwoEndsThatTrustEachOtherTalk) {
  StartServer();
  auto end = std::make_shared<Endpoint>();
  const auto handler = Endpoint::MakeHandler(end);
  auto channel = DialGrpc({.address = address_, .tls = Client()}, handler.get(), ChannelOptions(),
                          absl::Minutes(4));
  ASSERT_EQ(channel.status(), absl::OkStatus());
  end->Attach(channel->get());
  end->Send(1, "secret");
  EXPECT_EQ(acceptor_.AwaitSession()->AwaitFrames(1).size(), 1u);
  end->Attach(nullptr);
  EXPECT_THAT(acceptor_.peer(), HasSubstr("127.0.0.1:"));
  EXPECT_THAT(acceptor_.peer(), HasSubstr(" cn=alice san=alice"));
}

TEST_F(TlsTest, UnaryCallsAreEncryptedToo) {
  StartServer();
  const auto answer =
      CallUnary({.address = address_, .tls = Client()}, kMethod, "hello", absl::Minutes(4));
  ASSERT_EQ(answer.status(), absl::OkStatus());
  EXPECT_THAT(*answer, HasSubstr("hello ipv4:127.0.0.1:"));
  EXPECT_THAT(*answer, HasSubstr(" cn=alice"));
  const auto plain = CallUnary({.address = address_}, kMethod, "hello", absl::Minutes(4));
  EXPECT_THAT(std::string(plain.status().message()), HasSubstr("the server uses TLS"));
}

TEST_F(TlsTest, PeersEndInTheHashOfTheirCertificate) {
  StartServer();
  EXPECT_EQ(Dial(Client(), address_), absl::OkStatus());
  const std::string first = acceptor_.peer();
  EXPECT_THAT(first, ContainsRegex(" cn=alice san=alice cert=[0-9a-f]{64}$"));
  EXPECT_EQ(Dial(Client(), address_), absl::OkStatus());
  const auto hash = [](const std::string& peer) { return peer.substr(peer.rfind(' ')); };
  EXPECT_EQ(hash(acceptor_.peer()), hash(first));
  WriteFiles("client", ca_.Issue({.name = "alice"}), ca_);
  EXPECT_EQ(Dial(Client(), address_), absl::OkStatus());
  EXPECT_NE(hash(acceptor_.peer()), hash(first));
}

TEST_F(TlsTest, ACertificateThatWasTakenBackIsRefused) {
  const IssuedCertificate alice = ca_.Issue({.name = "alice"});
  WriteFiles("client", alice, ca_);
  Write("revoked.pem", ca_.Revoke({}));
  crl_ = Path("revoked.pem");
  StartServer();
  EXPECT_EQ(Dial(Client(), address_), absl::OkStatus());
  Write("revoked.pem", ca_.Revoke({ca_.Issue({.name = "bob"}).certificate, alice.certificate}));
  EXPECT_THAT(std::string(Dial(Client(), address_).message()), HasSubstr("was revoked"));
  const auto answer =
      CallUnary({.address = address_, .tls = Client()}, kMethod, "hello", absl::Minutes(4));
  EXPECT_TRUE(absl::IsUnauthenticated(answer.status())) << answer.status();
  // Another one of the same name is another certificate.
  WriteFiles("client", ca_.Issue({.name = "alice"}), ca_);
  EXPECT_EQ(Dial(Client(), address_), absl::OkStatus());
}

TEST_F(TlsTest, UnixSocketsStayPlain) {
  StartServer();
  EXPECT_EQ(Dial(nullptr, "unix:" + Path("socket")), absl::OkStatus());
}

TEST_F(TlsTest, NamesInCertificatesStayOneWordOfTheLog) {
  StartServer();
  WriteFiles("client", ca_.Issue({.name = "alice gpu=7\n\"evil\""}), ca_);
  EXPECT_EQ(Dial(Client(), address_), absl::OkStatus());
  EXPECT_THAT(acceptor_.peer(), HasSubstr(" cn=alice_gpu=7__evil_"));
}

TEST_F(TlsTest, AServerOfAnotherRootIsNotTrusted) {
  StartServer();
  Write("client.ca", other_ca_.certificate());
  EXPECT_THAT(Fault(Client()), HasSubstr("not signed by a certificate in WARPLINE_TLS_CA"));
}

TEST_F(TlsTest, AServerWithAnotherNameIsNotTrusted) {
  StartServer();
  EXPECT_THAT(Fault(Client("gpu-host")), HasSubstr("not for \"gpu-host\""));
  EXPECT_THAT(Fault(Client("")), HasSubstr("not for \"127.0.0.1\""));
}

TEST_F(TlsTest, AClientWithoutACertificateIsRefused) {
  StartServer();
  const auto bare = std::make_shared<TlsSource>(
      TlsSource::Side::kClient, TlsFiles{.ca = Path("client.ca"), .server_name = kName});
  EXPECT_THAT(Fault(bare), HasSubstr("set WARPLINE_TLS_CERT and WARPLINE_TLS_KEY"));
}

TEST_F(TlsTest, AClientOfAnotherRootIsRefused) {
  StartServer();
  WriteFiles("client", other_ca_.Issue({.name = "alice"}), ca_);
  EXPECT_THAT(Fault(Client()), HasSubstr("does not accept the certificate in WARPLINE_TLS_CERT"));
}

TEST_F(TlsTest, AClientWhoseCertificateExpiredIsTold) {
  StartServer();
  const Subject old = {.name = "alice", .age = absl::Hours(48), .lifetime = absl::Hours(24)};
  WriteFiles("client", ca_.Issue(old), ca_);
  const absl::Status status = Dial(Client(), address_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expired"));
}

TEST_F(TlsTest, AServerWhoseCertificateExpiresMeanwhileIsToldToRenewIt) {
  // Valid when the server starts, and no more when it is dialled.
  const Subject brief = {
      .name = kName, .age = absl::Hours(1), .lifetime = absl::Hours(1) + absl::Seconds(1)};
  WriteFiles("server", ca_.Issue(brief), ca_);
  StartServer();
  absl::Status status;
  do {
    status = Dial(Client(), address_);
  } while (status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("certificate has expired"));
}

TEST_F(TlsTest, PlainTextAndTlsDoNotMeet) {
  StartServer();
  EXPECT_THAT(Fault(nullptr), HasSubstr("the server uses TLS and this client does not"));
  server_.reset();
  StartServer(/*tls=*/false);
  EXPECT_THAT(Fault(Client()), HasSubstr("the server does not use TLS"));
}

TEST_F(TlsTest, AServerThatIsNotThereIsUnavailable) {
  StartServer();
  server_.reset();
  auto end = std::make_shared<Endpoint>();
  const auto handler = Endpoint::MakeHandler(end);
  const auto channel = DialGrpc({.address = address_, .tls = Client()}, handler.get(),
                                ChannelOptions(), absl::Milliseconds(200));
  EXPECT_EQ(channel.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(TlsTest, RotatedFilesCountForTheNextConnection) {
  StartServer();
  const auto client = Client();
  ASSERT_EQ(Dial(client, address_), absl::OkStatus());
  // The server moves on to another root; a client that has not is refused.
  WriteFiles("server", other_ca_.Issue({.name = kName}), other_ca_);
  EXPECT_THAT(Fault(client), HasSubstr("not signed by"));
  WriteFiles("client", other_ca_.Issue({.name = "bob"}), other_ca_);
  EXPECT_EQ(Dial(client, address_), absl::OkStatus());
  EXPECT_THAT(acceptor_.peer(), HasSubstr(" cn=bob"));
}

TEST_F(TlsTest, AHalfWrittenFileChangesNothing) {
  StartServer();
  Write("server.key", "-----BEGIN PRIVATE KEY-----\n");
  EXPECT_EQ(Dial(Client(), address_), absl::OkStatus());
}

TEST_F(TlsTest, RunningSessionsOutliveARotation) {
  StartServer();
  auto end = std::make_shared<Endpoint>();
  const auto handler = Endpoint::MakeHandler(end);
  auto channel = DialGrpc({.address = address_, .tls = Client()}, handler.get(), ChannelOptions(),
                          absl::Minutes(4));
  ASSERT_EQ(channel.status(), absl::OkStatus());
  end->Attach(channel->get());
  WriteFiles("server", other_ca_.Issue({.name = kName}), other_ca_);
  EXPECT_THAT(Fault(Client()), HasSubstr("not signed by"));
  end->Send(1, "still here");
  EXPECT_EQ(acceptor_.AwaitSession()->AwaitFrames(1).size(), 1u);
  end->Attach(nullptr);
}

TEST_F(TlsTest, AServerDoesNotStartWithoutItsFiles) {
  Write("server.key", "");
  GrpcServerOptions options;
  options.tls = Source(TlsSource::Side::kServer, "server");
  GrpcServer server(options);
  const absl::Status status = server.Start({"127.0.0.1:0"}, &acceptor_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("server.key"));
}

}  // namespace
}  // namespace warpline
