#include "server/jail/uid_pool.h"

#include "gtest/gtest.h"

namespace warpline::jail {
namespace {

TEST(UidPoolTest, GivesEachIdOnce) {
  UidPool pool({10, 12});
  EXPECT_EQ(pool.Take(), 10u);
  EXPECT_EQ(pool.Take(), 11u);
  EXPECT_EQ(pool.Take(), 12u);
  EXPECT_EQ(pool.Take(), 0u);
  pool.GiveBack(11);
  EXPECT_EQ(pool.Take(), 11u);
}

TEST(UidPoolTest, AnIdRestsForAsLongAsItCan) {
  UidPool pool({10, 12});
  pool.GiveBack(pool.Take());
  EXPECT_EQ(pool.Take(), 11u);
}

TEST(UidPoolTest, WithoutARangeThereAreNone) { EXPECT_EQ(UidPool({}).Take(), 0u); }

TEST(ParseWorkerUidsTest, RefusesWhatIsNoRange) {
  for (const char* text : {"", "5", "0-5", "9-5", "-5", "a-b", "1-4294967295", "1-2-3"}) {
    EXPECT_EQ(ParseWorkerUids(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ParseWorkerUidsTest, NoneIsEmpty) {
  const auto range = ParseWorkerUids("none");
  ASSERT_TRUE(range.ok());
  EXPECT_TRUE(range->empty());
}

TEST(ParseWorkerUidsTest, AutoHasARangeWhereItMaySetIds) {
  const auto range = ParseWorkerUids("auto");
  ASSERT_TRUE(range.ok());
  if (range->empty()) return;
  EXPECT_GE(range->last - range->first, 1000u);
}

}  // namespace
}  // namespace warpline::jail
