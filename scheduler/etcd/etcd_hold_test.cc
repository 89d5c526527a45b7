#include "scheduler/etcd/etcd_hold.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/etcd/testing/local_etcd.h"

namespace warpline::scheduler {
namespace {

TEST(EtcdHoldTest, AHoldKeepsOthersOutAndEndsWithItself) {
  const auto etcd = LocalEtcd::Start();
  if (etcd == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
  EtcdClient client(etcd->options());
  auto hold = EtcdHold::Take(&client, "/warpline/").value();
  const absl::Status refused = EtcdHold::Take(&client, "/warpline/").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("stop all schedulers"));
  EXPECT_TRUE(hold->Extend().ok());
  EtcdKeyValueStore keys(&client, "/warpline/", hold->guard(), /*on_lost=*/nullptr);
  EXPECT_TRUE(keys.Write({.puts = {{"a", "1"}}}).ok());
  // The leader's key goes, and with it what guards the changes.
  hold.reset();
  EXPECT_EQ(keys.Write({.puts = {{"a", "2"}}}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(EtcdHold::Take(&client, "/warpline/").ok());
}

}  // namespace
}  // namespace warpline::scheduler
