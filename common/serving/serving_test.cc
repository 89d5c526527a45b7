#include "common/serving/serving.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

using testing::HasSubstr;

class MetricsTest : public testing::Test {
 protected:
  MetricsTest() : registry_(std::make_shared<prometheus::Registry>()) {
    prometheus::BuildCounter().Name("the_counter").Register(*registry_).Add({}).Increment();
  }

  UniqueFd Connect() const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  // Returns all that is answered.
  std::string Ask() const {
    const UniqueFd fd = Connect();
    constexpr std::string_view kRequest = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    EXPECT_EQ(send(fd.get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(kRequest.size()));
    std::string answer;
    char part[4096];
    ssize_t got;
    while ((got = recv(fd.get(), part, sizeof(part), 0)) > 0) {
      answer.append(part, static_cast<size_t>(got));
    }
    return answer;
  }
  void Serve(absl::Duration patience) {
    auto exposer = ExposeMetrics("127.0.0.1:0", registry_, patience);
    ASSERT_TRUE(exposer.ok()) << exposer.status();
    exposer_ = *std::move(exposer);
    port_ = exposer_->GetListeningPorts().at(0);
  }

  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  int port_ = 0;
};

// None of them gives up its thread by itself.
TEST_F(MetricsTest, AreServedBesideSilentConnections) {
  Serve(absl::Hours(1));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 12; ++i) {
    silent.push_back(Connect());
    ASSERT_EQ(send(silent.back().get(), "GET / HTTP", 10, MSG_NOSIGNAL), 10);
  }
  EXPECT_THAT(Ask(), HasSubstr("the_counter 1"));
}

TEST_F(MetricsTest, AreServedAfterMoreSilentConnectionsThanThreads) {
  Serve(absl::Milliseconds(50));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(Connect());
  EXPECT_THAT(Ask(), HasSubstr("the_counter 1"));
}

}  // namespace
}  // namespace warpline
