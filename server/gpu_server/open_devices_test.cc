#include "server/gpu_server/open_devices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "server/gpu_server/nvml/testing/fake_nvml.h"

namespace warpline::server {
namespace {

class OpenDevicesTest : public ::testing::Test {
 protected:
  OpenDevicesTest() {
    SetLogLevel(LogLevel::kError);
    whole_.uuid = "GPU-00000000-0000-0000-0000-0000000000aa";
    parted_.uuid = "GPU-00000000-0000-0000-0000-0000000000bb";
    parted_.minor = 1;
    options_.memory.keeper.program.path = absl::StrCat(
        getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/server/keeper/fake_keeper");
    options_.memory.keeper.program.args = {"--devices=3", "--total_mib=256"};
    options_.memory.keeper.jailer = &jailer_;
    options_.descriptors = 1024;
  }

  std::vector<nvml::CudaDevice> ToSelect(const std::string& backend = "auto") {
    return DevicesToSelect(backend, [this] { return nvml::Library::Start(nvml_.lookup()); });
  }

  nvml::FakeNvml nvml_;
  nvml::FakeNvml::Device& whole_ = nvml_.AddDevice("");
  nvml::FakeNvml::Device& parted_ = nvml_.AddDevice("");
  const nvml::FakeNvml::Instance first_ = {"MIG-11111111-2222-3333-4444-555555555501", 7, 0};
  const nvml::FakeNvml::Instance second_ = {"MIG-11111111-2222-3333-4444-555555555502", 8, 0};
  jail::Jailer jailer_{{}};
  OpenDevicesOptions options_;
};

TEST_F(OpenDevicesTest, WithoutInstancesCudaShowsTheDevices) {
  EXPECT_TRUE(ToSelect().empty());
  const auto devices = OpenDevices(options_, &jailer_);
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(devices->size(), 3u);
  EXPECT_EQ((*jailer_.NewCell("worker", {2}))->plan().visible_devices(), "");
}

TEST_F(OpenDevicesTest, EachInstanceIsADevice) {
  parted_.mig = true;
  parted_.instances = {&first_, nullptr, &second_};
  options_.selected = ToSelect();
  ASSERT_EQ(options_.selected.size(), 3u);
  const auto devices = OpenDevices(options_, &jailer_);
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 3u);
  // Two parts of a GPU are two devices to whoever goes by UUIDs.
  EXPECT_EQ((*devices)[1]->info().uuid(), options_.selected[1].UuidBytes());
  EXPECT_EQ((*devices)[2]->info().uuid(), options_.selected[2].UuidBytes());
  EXPECT_NE((*devices)[1]->info().uuid(), (*devices)[2]->info().uuid());
  EXPECT_EQ((*jailer_.NewCell("worker", {0}))->plan().visible_devices(), whole_.uuid);
  EXPECT_EQ((*jailer_.NewCell("worker", {1}))->plan().visible_devices(), first_.uuid);
  EXPECT_EQ((*jailer_.NewCell("keeper", {2}))->plan().visible_devices(), second_.uuid);
  EXPECT_FALSE(jailer_.NewCell("peers", {1, 2}).ok());
}

TEST_F(OpenDevicesTest, OtherBackendsHaveNoInstances) {
  parted_.mig = true;
  parted_.instances = {&first_};
  EXPECT_TRUE(ToSelect("cpu").empty());
  EXPECT_EQ(ToSelect("cuda").size(), 2u);
  EXPECT_TRUE(DevicesToSelect("auto", [] { return absl::UnavailableError("none"); }).empty());
}

}  // namespace
}  // namespace warpline::server
