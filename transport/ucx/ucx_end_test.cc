#include "transport/ucx/ucx_end.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/time/clock.h"
#include "transport/ucx/ucx_address.h"
#include "transport/ucx/ucx_device.h"

namespace warpline {
namespace {

TEST(UcxAddressTest, IsReadAsItIsWritten) {
  const UcxAddress address = {"10.0.0.7", std::string("\x00\xff w", 4)};
  const auto read = UcxAddress::Parse(address.ToString());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->ip, address.ip);
  EXPECT_EQ(read->worker, address.worker);
  for (const std::string wrong : {"", "ucx://", "ucx:///ff", "ucx://h", "ucx://h/", "ucx://h/f",
                                  "ucx://h/fg", "shm://h/ff", "h/ff"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(UcxAddress::Parse(wrong).status())) << wrong;
  }
  EXPECT_FALSE(UcxAddress::Parse("ucx://h/" + std::string(10000, 'f')).ok());
}

TEST(UcxDeviceTest, LoopbackLeadsToThisHost) {
  const auto device = ucx_internal::DeviceTowards("127.0.0.1");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->name, "lo");
  EXPECT_EQ(device->address, "127.0.0.1");
  EXPECT_TRUE(absl::IsInvalidArgument(ucx_internal::DeviceTowards("localhost").status()));
}

}  // namespace
}  // namespace warpline
