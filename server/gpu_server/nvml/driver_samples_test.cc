#include "server/gpu_server/nvml/driver_samples.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "server/gpu_server/nvml/testing/fake_nvml.h"

namespace warpline::nvml {
namespace {

class DriverSamplesTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<ProcessUse>> Since(int64_t since_us) {
    return ReadProcessUse(*library_, "bus0", since_us);
  }

  FakeNvml nvml_;
  FakeNvml::Device& device_ = nvml_.AddDevice("bus0");
  const std::unique_ptr<Library> library_ = *Library::Start(nvml_.lookup());
};

TEST_F(DriverSamplesTest, ProcessesAreReadThatUsedTheDevice) {
  // NVML leaves places empty, and what it gives may be older than was asked for.
  device_.uses = {{7, 1000, 40}, {0, 1000, 9}, {8, 900, 30}, {9, 1200, 250}};
  const auto uses = Since(950);
  ASSERT_TRUE(uses.ok()) << uses.status();
  ASSERT_EQ(uses->size(), 2u);
  EXPECT_EQ((*uses)[0].pid, 7);
  EXPECT_EQ((*uses)[0].time_us, 1000);
  EXPECT_EQ((*uses)[0].percent, 40u);
  EXPECT_EQ((*uses)[1].pid, 9);
  EXPECT_EQ((*uses)[1].percent, 100u);
}

TEST_F(DriverSamplesTest, NothingNewIsNoError) {
  EXPECT_TRUE(Since(0)->empty());
  device_.uses = {{7, 1000, 40}};
  EXPECT_TRUE(Since(1000)->empty());
}

TEST_F(DriverSamplesTest, WhatIsNeverThereIsToldFromWhatFails) {
  device_.uses_error = 3;
  EXPECT_TRUE(absl::IsUnimplemented(Since(0).status()));
  device_.uses_error = 4;
  EXPECT_TRUE(absl::IsUnimplemented(Since(0).status()));
  device_.uses_error = 999;
  EXPECT_TRUE(absl::IsUnavailable(Since(0).status()));
  EXPECT_TRUE(absl::IsUnavailable(ReadProcessUse(*library_, "bus1", 0).status()));
}

TEST_F(DriverSamplesTest, AnEndlessListIsGivenUp) {
  device_.uses.assign(5000, {7, 1000, 1});
  EXPECT_TRUE(absl::IsUnavailable(Since(0).status()));
}

TEST_F(DriverSamplesTest, PowerAndHeatAreReadWhereTheyAreSaid) {
  device_.power_mw = 412'000;
  device_.temperature_c = 61;
  const PowerReading reading = ReadPower(*library_, "bus0");
  EXPECT_EQ(reading.power_mw, 412'000u);
  EXPECT_EQ(reading.limit_mw, 0u);
  EXPECT_EQ(reading.temperature_c, 61);
  EXPECT_EQ(ReadPower(*library_, "bus1").power_mw, 0u);
}

}  // namespace
}  // namespace warpline::nvml
