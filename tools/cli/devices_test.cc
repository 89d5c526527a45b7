#include "tools/cli/devices.h"

#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

TEST(DevicesReportTest, OneLineForEachFactAndAnEnd) {
  warpline_internal::DeviceStatusReply reply;
  reply.set_driver_version("580.1");
  auto* const device = reply.add_devices();
  device->mutable_info()->set_name("NVIDIA H200");
  device->mutable_info()->set_uuid("0123456789abcdef");
  device->mutable_info()->set_pci_bus_id("0000:0F:00.0");
  device->mutable_info()->set_driver_version(13000);
  device->set_quota_bytes(1000);
  device->set_used_bytes(10);
  (*device->mutable_numbers())["temperature"] = 40;
  (*device->mutable_numbers())["clock_0"] = 1980;
  (*device->mutable_texts())["vbios_version"] = "96";
  auto* const process = device->add_processes();
  process->set_pid(7);
  process->set_memory_bytes(9);
  process->set_program("two\nlines of it");
  EXPECT_EQ(DevicesReport(reply),
            "driver_version 580.1\nnvml_version \ncuda_version 13000\ndevice 0\n"
            "name NVIDIA H200\nuuid GPU-30313233-3435-3637-3839-616263646566\n"
            "pci_bus_id 0000:0F:00.0\nmemory_total 1000\nmemory_used 10\nclock_0 1980\n"
            "temperature 40\nvbios_version 96\nprocess 7 9 two\\nlines of it\nend\n");
}

TEST(DevicesReportTest, WithoutDevicesItStillEnds) {
  EXPECT_EQ(DevicesReport({}), "driver_version \nnvml_version \nend\n");
}

}  // namespace
}  // namespace warpline::cli
