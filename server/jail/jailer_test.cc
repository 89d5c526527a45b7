#include "server/jail/jailer.h"

#include "gtest/gtest.h"

namespace warpline::jail {
namespace {

TEST(JailerTest, EveryCellHasItsOwnUser) {
  Jailer jailer({.strict = true, .uids = {1000, 1001}});
  jailer.AddDevice(0, "");
  auto first = jailer.NewCell("worker", {0});
  auto second = jailer.NewCell("worker", {0});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first)->plan().uid(), (*second)->plan().uid());
  EXPECT_TRUE((*first)->plan().strict());
  EXPECT_EQ((*first)->plan().profile(), "worker");
  EXPECT_EQ(jailer.NewCell("worker", {0}).status().code(), absl::StatusCode::kResourceExhausted);
  first->reset();
  EXPECT_TRUE(jailer.NewCell("worker", {0}).ok());
}

TEST(JailerTest, WithoutARangeThereIsAUserNamespace) {
  Jailer jailer({});
  const auto cell = jailer.NewCell("keeper", {0});
  ASSERT_TRUE(cell.ok());
  EXPECT_EQ((*cell)->plan().uid(), 0u);
}

// The driver in there numbers only the devices of the cell.
TEST(JailerTest, ACellKnowsItsDevicesByTheirPlaces) {
  Jailer jailer({});
  jailer.AddDevice(0, "0000:18:00.0");
  jailer.AddDevice(1, "0000:2A:00.0");
  const auto cell = jailer.NewCell("worker", {1, 0, 2});
  ASSERT_TRUE(cell.ok());
  ASSERT_EQ((*cell)->plan().pci_bus_ids_size(), 3);
  EXPECT_EQ((*cell)->plan().pci_bus_ids(0), "0000:2A:00.0");
  EXPECT_EQ((*cell)->plan().pci_bus_ids(1), "0000:18:00.0");
  EXPECT_EQ((*cell)->plan().pci_bus_ids(2), "");
}

TEST(JailerTest, ACellOfAnInstanceShowsItAlone) {
  Jailer jailer({});
  jailer.SelectDevice(
      0, {"0000:18:00.0", "MIG-1", true, {"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66"}});
  jailer.SelectDevice(1, {"0000:18:00.0", "MIG-2", true, {"/dev/nvidia0"}});
  jailer.SelectDevice(2, {"0000:2A:00.0", "GPU-3", false, {"/dev/nvidia1"}});
  jailer.SelectDevice(3, {"0000:2B:00.0", "GPU-4", false, {"/dev/nvidia2"}});
  const auto cell = jailer.NewCell("worker", {0});
  ASSERT_TRUE(cell.ok());
  EXPECT_EQ((*cell)->plan().visible_devices(), "MIG-1");
  EXPECT_EQ((*cell)->plan().pci_bus_ids(0), "0000:18:00.0");
  EXPECT_EQ((*cell)->plan().device_files_size(), 2);
  const auto both = jailer.NewCell("peers", {3, 2});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ((*both)->plan().visible_devices(), "GPU-4,GPU-3");
  for (const std::vector<int>& ordinals : {std::vector<int>{0, 1}, {2, 0}}) {
    EXPECT_EQ(jailer.NewCell("peers", ordinals).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace warpline::jail
