#include "client_stub/core/base/environment.h"

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "common/lease/lease_key.h"
#include "common/lease_folder.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

class EnvironmentTest : public testing::Test {
 protected:
  void Set(const char* name, const char* value) { setenv(name, value, 1); }
  void TearDown() override {
    for (const char* name : {"WARPLINE_ENDPOINT", "WARPLINE_CONNECT_TIMEOUT",
                             "WARPLINE_DRIVER_VERSION", "WARPLINE_STAT", "CUDA_LAUNCH_BLOCKING",
                             "WARPLINE_TOKEN_FILE", "WARPLINE_TIER", "WARPLINE_WAIT_SECONDS",
                             kLeaseFolderVariable, kLeaseKeyVariable, "CUDA_VISIBLE_DEVICES"}) {
      unsetenv(name);
    }
  }
};

TEST_F(EnvironmentTest, DefaultsWithoutVariables) {
  const Environment environment = ReadEnvironment();
  EXPECT_EQ(environment.endpoint, "");
  EXPECT_EQ(environment.connect_timeout, absl::Seconds(5));
  EXPECT_EQ(environment.driver_version, 13000);
  EXPECT_FALSE(environment.launch_blocking);
  EXPECT_EQ(environment.wait_limit, absl::InfiniteDuration());
}

TEST_F(EnvironmentTest, ReadsItsVariables) {
  Set("WARPLINE_ENDPOINT", "gpu1:9310\r\n");
  Set(kLeaseKeyVariable, "key");
  Set("CUDA_VISIBLE_DEVICES", "2, 0,x");
  Set("WARPLINE_CONNECT_TIMEOUT", "0.25");
  Set("WARPLINE_WAIT_SECONDS", "1.5");
  Set("WARPLINE_DRIVER_VERSION", "12080");
  Set("WARPLINE_STAT", "/dev/null");
  Set("CUDA_LAUNCH_BLOCKING", "1");
  const Environment environment = ReadEnvironment();
  EXPECT_EQ(environment.endpoint, "gpu1:9310");
  EXPECT_EQ(environment.lease_key, "key");
  EXPECT_EQ(environment.visible.device, "2,0");
  EXPECT_EQ(environment.connect_timeout, absl::Milliseconds(250));
  EXPECT_EQ(environment.wait_limit, absl::Milliseconds(1500));
  EXPECT_EQ(environment.driver_version, 12080);
  EXPECT_EQ(environment.stat, "/dev/null");
  EXPECT_TRUE(environment.launch_blocking);
}

TEST_F(EnvironmentTest, AHeldLeaseStandsForVariablesThatAreNotSet) {
  std::string folder = testing::TempDir() + "/held-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Set(kLeaseFolderVariable, folder.c_str());
  Set(kLeaseKeyVariable, "of another lease");
  EXPECT_EQ(ReadEnvironment().endpoint, "");
  const HeldLease held = {
      .endpoint = "gpu1:9310", .token_file = "", .driver_version = "12080", .tier = "guarded"};
  ASSERT_EQ(WriteLeaseFolder(folder, held, "token", TokenReaders{}), absl::OkStatus());
  Environment environment = ReadEnvironment();
  EXPECT_EQ(environment.endpoint, "gpu1:9310");
  EXPECT_EQ(environment.token_file, folder + "/token");
  EXPECT_EQ(environment.lease_key, "");
  EXPECT_EQ(environment.driver_version, 12080);
  EXPECT_EQ(environment.tier, TierChoice::kGuarded);
  Set("WARPLINE_TIER", "isolated");
  EXPECT_EQ(ReadEnvironment().tier, TierChoice::kIsolated);
  Set("WARPLINE_ENDPOINT", "other:1");
  environment = ReadEnvironment();
  EXPECT_EQ(environment.endpoint, "other:1");
  EXPECT_EQ(environment.token_file, "");
  EXPECT_EQ(environment.driver_version, 13000);
}

TEST_F(EnvironmentTest, NumbersThatDoNotParseLeaveTheDefault) {
  Set("WARPLINE_CONNECT_TIMEOUT", "soon");
  Set("WARPLINE_WAIT_SECONDS", "-1");
  Set("WARPLINE_DRIVER_VERSION", "-3");
  const Environment environment = ReadEnvironment();
  EXPECT_EQ(environment.connect_timeout, absl::Seconds(5));
  EXPECT_EQ(environment.wait_limit, absl::InfiniteDuration());
  EXPECT_EQ(environment.driver_version, 13000);
}

}  // namespace
}  // namespace warpline::stub
