#include "server/gpu_server/admin/lease_methods.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/lease_methods.h"
#include "proto/leases.pb.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;

class LeaseMethodsTest : public SessionFixture {
 protected:
  void Start() {
    StartServer();
    AddLeaseMethods(host_.get(), leases_.get(), &methods_);
  }

  absl::StatusOr<std::string> Call(const std::string& method, const std::string& request,
                                   const std::string& peer = "ipv4:10.0.0.1:5") {
    return methods_.at(method)(peer, request);
  }

  absl::Status Acquire(const AcquireRequest& request, const std::string& peer = "ipv4:10.0.0.1:5") {
    return Call(kAcquireMethod, request.SerializeAsString(), peer).status();
  }

  UnaryMethods methods_;
};

TEST_F(LeaseMethodsTest, APeerThatTakesAllLeasesLeavesOthersTheirs) {
  Start();
  const auto open = [&](const std::string& peer) { return Acquire(AcquireRequest(), peer); };
  // Another port is no other peer.
  uint32_t opened = 0;
  while (open(absl::StrCat("ipv4:10.0.0.1:", 1000 + opened)).ok()) ++opened;
  EXPECT_EQ(opened, leases_->options().max_local_of_peer);
  EXPECT_TRUE(absl::IsResourceExhausted(open("ipv4:10.0.0.1:5")));
  EXPECT_TRUE(open("ipv4:10.0.0.2:5").ok());
  EXPECT_TRUE(open("ipv4:10.0.0.1:5 cn=alice cert=00ff").ok());
  EXPECT_TRUE(open("unix:uid=1000").ok());
}

TEST_F(LeaseMethodsTest, ALeaseIsRenewedAndReleasedByItsToken) {
  Start();
  LeaseReply granted;
  ASSERT_TRUE(granted.ParseFromString(Call(kAcquireMethod, "").value_or("")));
  EXPECT_EQ(granted.endpoint(), "") << "its sessions are opened where it was asked for";
  warpline_internal::LeaseToken token;
  token.set_token(granted.token());
  LeaseReply renewed;
  ASSERT_TRUE(renewed.ParseFromString(Call(kRenewMethod, token.SerializeAsString()).value_or("")));
  EXPECT_EQ(renewed.lease(), granted.lease());
  token.set_token(renewed.token());
  EXPECT_TRUE(Call(kReleaseMethod, token.SerializeAsString()).ok());
  EXPECT_TRUE(absl::IsNotFound(Call(kRenewMethod, token.SerializeAsString()).status()));
}

TEST_F(LeaseMethodsTest, ATenantsCredentialIsTakenAlongAndMeansNothing) {
  Start();
  AcquireRequest request;
  request.set_credential(std::string(16 << 10, 'c'));
  EXPECT_TRUE(Acquire(request).ok());
  request.set_credential(std::string(64 << 10, 'c'));
  EXPECT_TRUE(absl::IsInvalidArgument(Acquire(request)));
}

TEST_F(LeaseMethodsTest, WhatOnlySchedulersKnowIsRefused) {
  Start();
  AcquireRequest of_slice;
  of_slice.set_slice("small");
  EXPECT_TRUE(absl::IsFailedPrecondition(Acquire(of_slice)));
  AcquireRequest waits;
  waits.set_ticket("ticket");
  EXPECT_TRUE(absl::IsFailedPrecondition(Acquire(waits)));
}

TEST_F(LeaseMethodsTest, NoRequestWaitsSoThatWithdrawingOneIsDone) {
  Start();
  warpline_internal::WithdrawRequest request;
  request.set_ticket("ticket");
  EXPECT_TRUE(Call(kWithdrawMethod, request.SerializeAsString()).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Call(kWithdrawMethod, "\xff").status()));
}

}  // namespace
}  // namespace warpline::server
