#include "proto/page.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/scheduler.pb.h"

namespace warpline {
namespace {

using warpline_internal::LeaseList;
using warpline_internal::Page;

absl::StatusOr<LeaseList> Ask(const Page& page, const std::vector<std::string>& ids,
                              size_t reason_bytes = 100) {
  PageCut cut(page);
  LeaseList list;
  for (const std::string& id : ids) {
    if (!cut.Takes(id)) continue;
    auto* const lease = list.add_leases();
    lease->set_id(id);
    lease->set_reason(std::string(reason_bytes, 'x'));
    cut.Add(*lease);
  }
  return cut.Finish(std::move(list));
}

std::vector<std::string> Numbers(int count) {
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) ids.push_back(PageKey(static_cast<uint64_t>(i)));
  return ids;
}

Page Parts(uint32_t most_bytes, const std::string& after = "") {
  Page page;
  page.set_most_bytes(most_bytes);
  page.set_after(after);
  return page;
}

TEST(PageTest, PartsTogetherAreTheList) {
  const std::vector<std::string> ids = Numbers(1000);
  std::vector<std::string> told;
  int parts = 0;
  for (std::string after; parts == 0 || !after.empty(); ++parts) {
    const auto list = Ask(Parts(10000, after), ids);
    ASSERT_TRUE(list.ok());
    EXPECT_LT(list->ByteSizeLong(), 10000u + 200);
    for (const auto& lease : list->leases()) told.push_back(lease.id());
    after = list->next();
  }
  EXPECT_EQ(told, ids);
  EXPECT_GT(parts, 10);
}

TEST(PageTest, AShortListIsOnePart) {
  for (const int count : {0, 1, 5}) {
    const auto list = Ask(Parts(10000), Numbers(count));
    ASSERT_TRUE(list.ok());
    EXPECT_EQ(list->leases_size(), count);
    EXPECT_EQ(list->next(), "");
  }
}

TEST(PageTest, WhatChangesMeanwhileIsTold) {
  const auto first = Ask(Parts(1 << 20), {"a", "c"}, 1 << 20);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->next(), "a");
  // The one after which the part begins has gone, and others have come.
  const auto second = Ask(Parts(1 << 20, first->next()), {"A", "b", "c"}, 10);
  ASSERT_TRUE(second.ok());
  ASSERT_EQ(second->leases_size(), 2);
  EXPECT_EQ(second->leases(0).id(), "b");
}

TEST(PageTest, AnItemThatIsTooLargeIsToldAlone) {
  std::string after;
  for (const char* const id : {"a", "b", "c"}) {
    const auto list = Ask(Parts(1, after), {"a", "b", "c"}, 1 << 20);
    ASSERT_TRUE(list.ok());
    ASSERT_EQ(list->leases_size(), 1);
    EXPECT_EQ(list->leases(0).id(), id);
    after = list->next();
  }
  EXPECT_EQ(after, "");
}

TEST(PageTest, CallersThatKnowNoPartsAreToldAllOrWhy) {
  const auto all = Ask(Page(), Numbers(1000));
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->leases_size(), 1000);
  EXPECT_EQ(all->next(), "");
  const auto more = Ask(Page(), Numbers(100), 100 << 10);
  EXPECT_TRUE(absl::IsResourceExhausted(more.status())) << more.status();
}

TEST(PageTest, NoRequestTakesMoreThanAPart) {
  const auto list = Ask(Parts(~0u), Numbers(100), 100 << 10);
  ASSERT_TRUE(list.ok());
  EXPECT_LT(list->ByteSizeLong(), kMostPartBytes + (101 << 10));
}

TEST(PageTest, KeysHaveTheOrderOfNumbers) {
  EXPECT_LT(PageKey(9), PageKey(10));
  EXPECT_LT(PageKey(10), PageKey(~0ull));
}

}  // namespace
}  // namespace warpline
