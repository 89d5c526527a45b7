#include "tools/cli/lease.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/lease_methods.h"
#include "proto/leases.pb.h"
#include "proto/refusal.h"
#include "transport/testing/unary_server.h"

namespace warpline::cli {
namespace {

using ::testing::HasSubstr;
using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;

// Answers every request for a lease, and every renewal, with `answer`.
class LeaseGiver {
 public:
  explicit LeaseGiver(const absl::StatusOr<LeaseReply>& answer)
      : server_({{kAcquireMethod, With(answer)},
                 {kRenewMethod, With(answer)},
                 {kReleaseMethod, With(LeaseReply())}}) {}

  const std::string& address() const { return server_.address(); }

 private:
  static UnaryMethods::mapped_type With(const absl::StatusOr<LeaseReply>& answer) {
    return [answer](const std::string&, const std::string&) -> absl::StatusOr<std::string> {
      if (!answer.ok()) return answer.status();
      return answer->SerializeAsString();
    };
  }

  testing::UnaryServer server_;
};

LeaseReply Granted(const std::string& endpoint) {
  LeaseReply reply;
  reply.set_lease("l");
  reply.set_token("token");
  reply.set_endpoint(endpoint);
  return reply;
}

absl::Status Acquire(const LeaseGiver& giver) {
  return Lease::Acquire(giver.address(), AcquireRequest()).status();
}

TEST(LeaseTest, SessionsAreOpenedWhereTheAnswerSays) {
  const LeaseGiver scheduler(Granted("gpu1.example:14000"));
  const auto lease = Lease::Acquire(scheduler.address(), AcquireRequest());
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ((*lease)->endpoint(), "gpu1.example:14000");
}

TEST(LeaseTest, OrWhereTheLeaseWasAskedFor) {
  const LeaseGiver server(Granted(""));
  const auto lease = Lease::Acquire(server.address(), AcquireRequest());
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ((*lease)->endpoint(), server.address());
  EXPECT_EQ(Lease::Resume(server.address(), Granted(""))->endpoint(), server.address());
}

TEST(LeaseTest, BothAreRenewedAndReleasedInOneWay) {
  for (const char* const endpoint : {"gpu1.example:14000", ""}) {
    const LeaseGiver giver(Granted(endpoint));
    const auto lease = Lease::Acquire(giver.address(), AcquireRequest());
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ((*lease)->Renew("token").value_or(LeaseReply()).lease(), "l");
    EXPECT_EQ((*lease)->Release("token"), absl::OkStatus());
  }
}

TEST(LeaseTest, ASchedulerWithoutServersIsToldFromNoScheduler) {
  const LeaseGiver empty(NoServer("whatever it says"));
  const std::string said(Acquire(empty).message());
  EXPECT_THAT(said, HasSubstr("has no server: start one"));
  EXPECT_THAT(said, HasSubstr(empty.address()));
}

TEST(LeaseTest, TheWordsOfAnAnswerDecideNothing) {
  const LeaseGiver away(absl::UnavailableError("no server with a device is up"));
  EXPECT_THAT(std::string(Acquire(away).message()), HasSubstr("no scheduler or server answers"));
}

TEST(LeaseTest, ARefusalIsPassedOn) {
  const LeaseGiver giver(absl::ResourceExhaustedError("no capacity"));
  EXPECT_EQ(Acquire(giver), absl::ResourceExhaustedError(
                                absl::StrCat("no lease from ", giver.address(), ": no capacity")));
}

}  // namespace
}  // namespace warpline::cli
