#include "scheduler/page/page_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace warpline::scheduler::page {
namespace {

class FakePool : public PoolSource {
 public:
  absl::StatusOr<Viewer> ViewerOf(const std::string& credential) override {
    if (credential == "operators") return Viewer{.is_operator = true};
    return absl::UnauthenticatedError("who?");
  }
  absl::StatusOr<PoolPicture> Take() override {
    PoolPicture picture;
    picture.pool.tenants.emplace_back().name = "acme";
    return picture;
  }
};

UniqueFd ConnectTo(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience = {.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// What comes back until the connection ends.
std::string SendTo(int port, const std::string& bytes) {
  const UniqueFd fd = ConnectTo(port);
  (void)send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::string answer;
  char piece[4096];
  for (ssize_t n; (n = recv(fd.get(), piece, sizeof(piece), 0)) > 0;) {
    answer.append(piece, static_cast<size_t>(n));
  }
  return answer;
}

// One server for all tests, since ending one takes civetweb up to two seconds.
class PageServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    pool_ = new FakePool();
    handler_ = new PageHandler(pool_, [] { return absl::Now(); });
    auto server = PageServer::Start("127.0.0.1:0", handler_, absl::Seconds(2));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = server->release();
  }
  static void TearDownTestSuite() {
    delete server_;
    delete handler_;
    delete pool_;
  }

  UniqueFd Connect() const { return ConnectTo(server_->port()); }
  std::string Send(const std::string& bytes) const { return SendTo(server_->port(), bytes); }

  static inline FakePool* pool_ = nullptr;
  static inline PageHandler* handler_ = nullptr;
  static inline PageServer* server_ = nullptr;
};

TEST_F(PageServerTest, AnswersWithWhatKeepsTheBrowserSafe) {
  const std::string page = Send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(page, "HTTP/1.1 200 OK\r\n")) << page;
  EXPECT_TRUE(absl::StrContains(page, "Content-Security-Policy: default-src 'none'"));
  EXPECT_TRUE(absl::StrContains(page, "frame-ancestors 'none'"));
  EXPECT_TRUE(absl::StrContains(page, "X-Content-Type-Options: nosniff"));
  EXPECT_FALSE(absl::StrContains(page, "Access-Control-Allow"));
  EXPECT_FALSE(absl::StrContains(page, "Set-Cookie"));
}

TEST_F(PageServerTest, ShowsThePoolToWhoShowsACredential) {
  EXPECT_TRUE(absl::StartsWith(Send("GET /pool.json HTTP/1.1\r\n\r\n"), "HTTP/1.1 401 "));
  const std::string seen =
      Send("GET /pool.json HTTP/1.1\r\nauthorization: Bearer operators\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(seen, "HTTP/1.1 200 ")) << seen;
  EXPECT_TRUE(absl::StrContains(seen, "acme"));
  EXPECT_TRUE(absl::StrContains(seen, "Cache-Control: no-store"));
}

TEST_F(PageServerTest, ANameThatAnotherSiteHadResolveToThisHostIsAnsweredNothing) {
  const std::string seen = Send(
      "GET /pool.json HTTP/1.1\r\nHost: attacker.example\r\n"
      "Authorization: Bearer operators\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(seen, "HTTP/1.1 421 Misdirected Request\r\n")) << seen;
  EXPECT_TRUE(absl::StrContains(seen, "a proxy has to send")) << seen;
  const std::string other = Send(
      "GET /pool.json HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://attacker.example\r\n"
      "Authorization: Bearer operators\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(other, "HTTP/1.1 403 Forbidden\r\n")) << other;
}

TEST_F(PageServerTest, BrowsersMayNotAskForOtherSites) {
  const std::string preflight = Send(
      "OPTIONS /pool.json HTTP/1.1\r\nOrigin: http://localhost:1\r\n"
      "Access-Control-Request-Method: GET\r\n"
      "Access-Control-Request-Headers: authorization\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(preflight, "HTTP/1.1 405 ")) << preflight;
  EXPECT_FALSE(absl::StrContains(preflight, "Access-Control-Allow"));
}

TEST_F(PageServerTest, WhatIsNoRequestEndsTheConnectionAndNothingElse) {
  const std::string wrong[] = {
      "\r\n\r\n",
      "GET\r\n\r\n",
      "FOO / HTTP/1.1\r\n\r\n",
      "GET / HTTP/9.9\r\n\r\n",
      "GET /pool.json HTTP/1.1\r\nX: " + std::string(100000, 'a') + "\r\n\r\n",
      "GET " + std::string(20000, '/') + " HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
      "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
      "POST /pool.json HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
      std::string("GET /\0pool.json HTTP/1.1\r\n\r\n", 28),
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n",
  };
  for (const std::string& bytes : wrong) {
    const std::string answer = Send(bytes);
    EXPECT_FALSE(absl::StrContains(answer, "acme")) << bytes.substr(0, 40);
  }
  EXPECT_TRUE(absl::StartsWith(Send("GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 "));
}

// Each silent connection has a thread for as long as its patience lasts; then others are answered.
TEST_F(PageServerTest, WhoIsSilentDoesNotStay) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < PageServer::kThreads + 4; ++i) {
    silent.push_back(Connect());
    (void)send(silent.back().get(), "GET /", 5, MSG_NOSIGNAL);
  }
  EXPECT_TRUE(absl::StartsWith(Send("GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 "));
}

// None of them gives up its thread by itself while the test lasts.
TEST(PageThreadsTest, AHundredSilentConnectionsKeepNobodyFromAnAnswer) {
  FakePool pool;
  PageHandler handler(&pool, [] { return absl::Now(); });
  const auto server = PageServer::Start("127.0.0.1:0", &handler, absl::Hours(1));
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(ConnectTo((*server)->port()));
    if (i % 2 == 0) (void)send(silent.back().get(), "GET /", 5, MSG_NOSIGNAL);
  }
  const std::string answer = SendTo((*server)->port(), "GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(answer, "HTTP/1.1 200 ")) << answer;
}

TEST(PageAddressTest, IsOfThisHostAlone) {
  for (const char* const address : {"", "127.0.0.1:0", "localhost:14180", "[::1]:14180"}) {
    EXPECT_TRUE(CheckPageAddress(address).ok()) << address;
  }
  for (const char* const address : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "gpu-host:1", ":1"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(CheckPageAddress(address))) << address;
  }
  for (const char* const address : {"14180", "unix:/run/page", "127.0.0.1:x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckPageAddress(address))) << address;
  }
}

TEST(PageAddressTest, OneThatIsTakenIsSaid) {
  FakePool pool;
  PageHandler handler(&pool, [] { return absl::Now(); });
  const auto first = PageServer::Start("127.0.0.1:0", &handler);
  ASSERT_TRUE(first.ok());
  const auto second = PageServer::Start(absl::StrCat("127.0.0.1:", (*first)->port()), &handler);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
}

}  // namespace
}  // namespace warpline::scheduler::page
