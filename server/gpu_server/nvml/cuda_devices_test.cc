#include "server/gpu_server/nvml/cuda_devices.h"

#include <gtest/gtest.h>

#include <memory>

#include "server/gpu_server/nvml/testing/fake_nvml.h"

namespace warpline::nvml {
namespace {

class CudaDevicesTest : public ::testing::Test {
 protected:
  CudaDevicesTest() {
    whole_.uuid = "GPU-00000000-0000-0000-0000-0000000000aa";
    parted_.uuid = "GPU-00000000-0000-0000-0000-0000000000bb";
    parted_.minor = 3;
  }

  FakeNvml nvml_;
  FakeNvml::Device& whole_ = nvml_.AddDevice("0000:0f:00.0");
  FakeNvml::Device& parted_ = nvml_.AddDevice("0000:1f:00.0");
  const FakeNvml::Instance first_ = {"MIG-11111111-2222-3333-4444-555555555501", 7, 0};
  const FakeNvml::Instance second_ = {"MIG-11111111-2222-3333-4444-555555555502", 8, 1};
  const std::unique_ptr<Library> library_ = *Library::Start(nvml_.lookup());
};

TEST_F(CudaDevicesTest, GpusAreListedWithoutInstances) {
  const auto devices = ReadCudaDevices(*library_);
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_FALSE(HasInstances(*devices));
  EXPECT_EQ((*devices)[1].uuid, parted_.uuid);
  EXPECT_EQ((*devices)[1].pci_bus_id, "0000:1f:00.0");
  EXPECT_EQ((*devices)[1].minor, 3u);
}

TEST_F(CudaDevicesTest, InstancesStandInPlaceOfTheirGpu) {
  parted_.mig = true;
  // There are places without one.
  parted_.instances = {nullptr, &first_, nullptr, &second_};
  const auto devices = ReadCudaDevices(*library_);
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_TRUE(HasInstances(*devices));
  EXPECT_EQ((*devices)[0].uuid, whole_.uuid);
  EXPECT_FALSE((*devices)[0].is_instance);
  EXPECT_EQ((*devices)[1].uuid, first_.uuid);
  EXPECT_TRUE((*devices)[1].is_instance);
  EXPECT_EQ((*devices)[1].gpu_instance, 7u);
  EXPECT_EQ((*devices)[2].compute_instance, 1u);
  EXPECT_EQ((*devices)[2].pci_bus_id, "0000:1f:00.0");
  EXPECT_EQ((*devices)[2].minor, 3u);
}

TEST_F(CudaDevicesTest, AGpuInMigModeWithoutInstancesIsOfNoUse) {
  parted_.mig = true;
  EXPECT_EQ(ReadCudaDevices(*library_)->size(), 1u);
}

TEST_F(CudaDevicesTest, UuidsAreReadAsBytes) {
  CudaDevice device;
  device.uuid = first_.uuid;
  EXPECT_EQ(device.UuidBytes(),
            std::string("\x11\x11\x11\x11\x22\x22\x33\x33\x44\x44\x55\x55\x55\x55\x55\x01"));
  for (const char* const none :
       {"", "MIG-", "MIG-123", "MIG-GPU-x/7/0", "MIG-11111111-2222-3333-4444-5555555555zz"}) {
    device.uuid = none;
    EXPECT_EQ(device.UuidBytes(), "") << none;
  }
}

TEST_F(CudaDevicesTest, AnInstanceWithoutAUuidIsAnError) {
  const FakeNvml::Instance unnamed = {"MIG-GPU-11111111/7/0", 7, 0};
  parted_.mig = true;
  parted_.instances = {&unnamed};
  EXPECT_TRUE(absl::IsUnavailable(ReadCudaDevices(*library_).status()));
}

TEST_F(CudaDevicesTest, AnNvmlThatDoesNotCountIsAnError) {
  const auto poor = *Library::Start([](const char* name) -> void* {
    return std::string(name) == "nvmlInit_v2" ? reinterpret_cast<void*>(+[]() { return 0; })
                                              : nullptr;
  });
  EXPECT_TRUE(absl::IsUnavailable(ReadCudaDevices(*poor).status()));
}

}  // namespace
}  // namespace warpline::nvml
