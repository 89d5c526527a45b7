#include "transport/grpc/health/health_listener.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/grpc/connect/grpc_target.h"
#include "transport/grpc/unary/unary_call.h"

namespace warpline {
namespace {

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";

// HealthCheckRequest with `service`, at most 127 bytes.
std::string Request(const std::string& service) {
  return service.empty() ? "" : absl::StrCat("\x0a", std::string(1, service.size()), service);
}

class HealthListenerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto health = HealthListener::Start("127.0.0.1:0");
    ASSERT_TRUE(health.ok()) << health.status();
    health_ = *std::move(health);
  }

  absl::StatusOr<std::string> Ask(const std::string& request, const char* method = kCheck) {
    return CallUnary({.address = absl::StrCat("127.0.0.1:", health_->port())}, method, request,
                     absl::Minutes(4));
  }

  std::unique_ptr<HealthListener> health_;
};

TEST_F(HealthListenerTest, ReadinessIsWhatWasSetAndLivenessIsThere) {
  EXPECT_EQ(*Ask(Request("liveness")), "\x08\x01");
  EXPECT_EQ(*Ask(Request("readiness")), "\x08\x02");
  EXPECT_EQ(*Ask(Request("")), "\x08\x02");
  health_->SetReady(true);
  EXPECT_EQ(*Ask(Request("readiness")), "\x08\x01");
  EXPECT_EQ(*Ask(Request("")), "\x08\x01");
  health_->SetReady(false);
  EXPECT_EQ(*Ask(Request("readiness")), "\x08\x02");
  EXPECT_EQ(*Ask(Request("liveness")), "\x08\x01");
}

TEST_F(HealthListenerTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Ask(Request("devices")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Ask("\x0a\x7fshort").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Ask("\xff\xff\xff").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Ask("", "/warpline_internal.Admin/Stat").status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(*Ask(Request("liveness")), "\x08\x01");
}

TEST(HealthListenerStartTest, NeedsAnAddressThatItCanListenOn) {
  EXPECT_EQ(HealthListener::Start("unix:/tmp/health").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(HealthListener::Start("192.0.2.1:0").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(*HealthListener::Start(""), nullptr);
}

}  // namespace
}  // namespace warpline
