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

}  // namespace
}  // namespace warpline::jail
