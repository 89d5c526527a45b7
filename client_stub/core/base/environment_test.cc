#include "client_stub/core/base/environment.h"

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "common/lease_folder.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(VisibleDevicesTest, UnsetLeavesTheChoiceToTheServer) {
  const VisibleDevices visible = ParseVisibleDevices(nullptr);
  EXPECT_FALSE(visible.none);
  EXPECT_EQ(visible.device, "");
}

TEST(VisibleDevicesTest, EmptyOrInvalidFirstEntryHidesEveryDevice) {
  for (const char* value : {"", "-1", "-1,0", " ", "NoDevFiles", ",0", "GPU-", "0x1"}) {
    EXPECT_TRUE(ParseVisibleDevices(value).none) << value;
  }
}

TEST(VisibleDevicesTest, FirstEntryNamesTheDevice) {
  EXPECT_EQ(ParseVisibleDevices("0").device, "0");
  EXPECT_EQ(ParseVisibleDevices(" 1 ").device, "1");
  EXPECT_EQ(ParseVisibleDevices("GPU-8c0f1a2b").device, "GPU-8c0f1a2b");
}

TEST(VisibleDevicesTest, SeveralKeepTheirOrder) {
  EXPECT_EQ(ParseVisibleDevices("2, 0,1").device, "2,0,1");
  EXPECT_EQ(ParseVisibleDevices("1,GPU-8c0f1a2b").device, "1,GPU-8c0f1a2b");
  // The list ends at the first entry that names no device.
  EXPECT_EQ(ParseVisibleDevices("2,-1,1").device, "2");
  EXPECT_EQ(ParseVisibleDevices("0,1,").device, "0,1");
}

TEST(VisibleDevicesTest, OneThatIsNamedTwiceHidesEveryDevice) {
  EXPECT_TRUE(ParseVisibleDevices("0,1,0").none);
}

TEST(VisibleDevicesTest, NoMoreThanASessionHas) {
  EXPECT_EQ(ParseVisibleDevices("0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17").device,
            "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15");
}

class EnvironmentTest : public testing::Test {
 protected:
  void Set(const char* name, const char* value) { setenv(name, value, 1); }
  void TearDown() override {
    for (const char* name : {"WARPLINE_ENDPOINT", "WARPLINE_CONNECT_TIMEOUT",
                             "WARPLINE_DRIVER_VERSION", "WARPLINE_STAT", "CUDA_LAUNCH_BLOCKING",
                             "WARPLINE_TOKEN_FILE", "WARPLINE_TIER", kLeaseFolderVariable}) {
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
}

TEST_F(EnvironmentTest, ReadsItsVariables) {
  Set("WARPLINE_ENDPOINT", "gpu1:9310");
  Set("WARPLINE_CONNECT_TIMEOUT", "0.25");
  Set("WARPLINE_DRIVER_VERSION", "12080");
  Set("WARPLINE_STAT", "/dev/null");
  Set("CUDA_LAUNCH_BLOCKING", "1");
  const Environment environment = ReadEnvironment();
  EXPECT_EQ(environment.endpoint, "gpu1:9310");
  EXPECT_EQ(environment.connect_timeout, absl::Milliseconds(250));
  EXPECT_EQ(environment.driver_version, 12080);
  EXPECT_EQ(environment.stat, "/dev/null");
  EXPECT_TRUE(environment.launch_blocking);
}

TEST_F(EnvironmentTest, AHeldLeaseStandsForVariablesThatAreNotSet) {
  std::string folder = testing::TempDir() + "/held-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Set(kLeaseFolderVariable, folder.c_str());
  EXPECT_EQ(ReadEnvironment().endpoint, "");
  const HeldLease held = {
      .endpoint = "gpu1:9310", .token_file = "", .driver_version = "12080", .tier = "guarded"};
  ASSERT_EQ(WriteLeaseFolder(folder, held, "token"), absl::OkStatus());
  Environment environment = ReadEnvironment();
  EXPECT_EQ(environment.endpoint, "gpu1:9310");
  EXPECT_EQ(environment.token_file, folder + "/token");
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
  Set("WARPLINE_DRIVER_VERSION", "-3");
  const Environment environment = ReadEnvironment();
  EXPECT_EQ(environment.connect_timeout, absl::Seconds(5));
  EXPECT_EQ(environment.driver_version, 13000);
}

}  // namespace
}  // namespace warpline::stub
