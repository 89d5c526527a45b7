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

}  // namespace
}  // namespace warpline::jail
