#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/scheduler.pb.h"
#include "server/gpu_server/admin/admin_service.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

using LeaseMethodsTest = SessionFixture;

TEST_F(LeaseMethodsTest, APeerThatTakesAllLeasesLeavesOthersTheirs) {
  StartServer();
  UnaryMethods methods;
  AddLeaseMethods(host_.get(), leases_.get(), &methods);
  const auto open = [&](const std::string& peer) {
    const std::string request = warpline_internal::AcquireRequest().SerializeAsString();
    return methods.at("/warpline_internal.Admin/OpenLease")(peer, request).status();
  };
  // Another port is no other peer.
  uint32_t opened = 0;
  while (open(absl::StrCat("ipv4:10.0.0.1:", 1000 + opened)).ok()) ++opened;
  EXPECT_EQ(opened, leases_->options().max_local_of_peer);
  EXPECT_TRUE(absl::IsResourceExhausted(open("ipv4:10.0.0.1:5")));
  EXPECT_TRUE(open("ipv4:10.0.0.2:5").ok());
  EXPECT_TRUE(open("ipv4:10.0.0.1:5 cn=alice cert=00ff").ok());
  EXPECT_TRUE(open("unix:uid=1000").ok());
}

}  // namespace
}  // namespace warpline::server
