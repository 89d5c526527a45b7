// Floods of HTTP/2 frames, in plain text and with TLS: their connections are cut, and others are
// served.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/log/log_capture.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/grpc/grpc_server.h"
#include "transport/grpc/meter/metered_connections.h"
#include "transport/grpc/unary/unary_call.h"
#include "transport/testing/certificates.h"
#include "transport/testing/endpoint.h"
#include "transport/testing/http2_frames.h"
#include "transport/testing/temp_folder.h"

namespace warpline {
namespace {

using testing::Http2CallHeaders;
using testing::Http2Frame;
using testing::kHttp2Preface;

constexpr char kName[] = "warpline-test";
constexpr char kMethod[] = "/test.Service/Echo";

// A client that sends what it likes.
class RawClient {
 public:
  RawClient(int port, SSL_CTX* tls) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    if (tls != nullptr) {
      ssl_ = SSL_new(tls);
      SSL_set_fd(ssl_, fd_.get());
      EXPECT_EQ(SSL_connect(ssl_), 1);
    }
    EXPECT_TRUE(Send(absl::StrCat(kHttp2Preface, Http2Frame(4, 0, 0))));
  }
  ~RawClient() { SSL_free(ssl_); }

  // Returns false once the server has closed the connection.
  bool Send(const std::string& bytes) {
    if (ssl_ != nullptr) {
      return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) > 0 && Drain();
    }
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0 && Drain();
  }

  // Sends `next(i)` for i = 0, 1, ... until the server closes the connection.
  template <typename Next>
  int SendUntilCut(int most, Next next) {
    for (int i = 0; i < most; ++i) {
      if (!Send(next(i))) return i;
    }
    return most;
  }

 private:
  // Reads what has come, so that the server is never kept from writing.
  bool Drain() {
    char bytes[65536];
    while (true) {
      const ssize_t got = recv(fd_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
      if (got < 0) return true;
    }
  }

  UniqueFd fd_;
  SSL* ssl_ = nullptr;
};

class FloodTest : public ::testing::TestWithParam<bool> {
 protected:
  ~FloodTest() override { SSL_CTX_free(context_); }

  void SetUp() override {
    // OpenSSL writes to sockets that the server has closed.
    signal(SIGPIPE, SIG_IGN);
    GrpcServerOptions options;
    options.methods[kMethod] = [](const std::string&, const std::string& request) {
      return request;
    };
    if (GetParam()) {
      Issue("server", kName);
      Issue("client", "alice");
      options.tls = Source(TlsSource::Side::kServer, "server");
      client_ = Source(TlsSource::Side::kClient, "client");
      context_ = SSL_CTX_new(TLS_client_method());
      ASSERT_EQ(
          SSL_CTX_use_certificate_file(context_, Path("client.crt").c_str(), SSL_FILETYPE_PEM), 1);
      ASSERT_EQ(SSL_CTX_use_PrivateKey_file(context_, Path("client.key").c_str(), SSL_FILETYPE_PEM),
                1);
      SSL_CTX_set_alpn_protos(context_, reinterpret_cast<const unsigned char*>("\x02h2"), 3);
    }
    server_ = std::make_unique<GrpcServer>(options);
    ASSERT_EQ(server_->Start({"127.0.0.1:0"}, &acceptor_), absl::OkStatus());
  }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }
  void Issue(const std::string& file, const std::string& name) {
    const testing::IssuedCertificate issued = ca_.Issue({.name = name});
    std::ofstream(Path(file + ".crt")) << issued.certificate;
    std::ofstream(Path(file + ".key")) << issued.key;
    std::ofstream(Path(file + ".ca")) << ca_.certificate();
  }
  std::shared_ptr<TlsSource> Source(TlsSource::Side side, const std::string& name) {
    return std::make_shared<TlsSource>(side,
                                       TlsFiles{.ca = Path(name + ".ca"),
                                                .cert = Path(name + ".crt"),
                                                .key = Path(name + ".key"),
                                                .server_name = kName,
                                                .crl = ""},
                                       absl::Hours(1));
  }

  // Sends the pieces of a flood until its connection is cut, and makes sure that another client is
  // served then.
  template <typename Next>
  void Flood(Next next) {
    constexpr int kMost = 200000;
    const uint64_t cut = grpc_internal::CutConnections();
    RawClient attacker(server_->port(), context_);
    EXPECT_LT(attacker.SendUntilCut(kMost, next), kMost);
    EXPECT_EQ(grpc_internal::CutConnections(), cut + 1);
    const auto answer =
        CallUnary({.address = absl::StrCat("127.0.0.1:", server_->port()), .tls = client_}, kMethod,
                  "hello", absl::Seconds(60));
    EXPECT_TRUE(answer.ok()) << answer.status();
  }

  testing::TempFolder folder_;
  testing::TestCa ca_{"root"};
  std::shared_ptr<TlsSource> client_;
  SSL_CTX* context_ = nullptr;
  testing::EndpointAcceptor acceptor_;
  std::unique_ptr<GrpcServer> server_;
};

TEST_P(FloodTest, StreamsThatAreReset) {
  const LogCapture log;
  for (const char* const path : {kMethod, "/warpline_internal.Gpu/Session", "/no/Method"}) {
    const std::string headers = Http2CallHeaders(path);
    Flood([&](int i) {
      const auto stream = static_cast<uint32_t>(2 * i + 1);
      return Http2Frame(1, 4, stream, headers) + Http2Frame(3, 0, stream, "\x01\x02\x03\x08");
    });
  }
  const std::vector<std::string> lines = log.LinesWith("cut a connection that floods: too many");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], ::testing::HasSubstr("peer=ipv4:127.0.0.1:"));
}

// A window that overflows makes the server reset the stream.
TEST_P(FloodTest, StreamsThatTheServerResets) {
  const std::string headers = Http2CallHeaders("/warpline_internal.Gpu/Session");
  Flood([&](int i) {
    const auto stream = static_cast<uint32_t>(2 * i + 1);
    return Http2Frame(1, 4, stream, headers) + Http2Frame(8, 0, stream, "\x7f\xff\xff\xff");
  });
}

TEST_P(FloodTest, FramesThatCarryNothing) {
  Flood([](int) { return Http2Frame(4, 0, 0); });
  Flood([](int) { return Http2Frame(2, 0, 1, std::string(5, '\0')); });
  Flood([](int) { return Http2Frame(4, 1, 0); });
}

INSTANTIATE_TEST_SUITE_P(PlainAndTls, FloodTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Tls" : "Plain"; });

}  // namespace
}  // namespace warpline
