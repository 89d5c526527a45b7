#include "scheduler/audit_anchors.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "scheduler/store/store.h"
#include "scheduler/store/testing/state_house.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {
namespace {

std::string Head(uint64_t records, char hash) {
  return absl::StrCat(records, ":", std::string(64, hash));
}

class AuditAnchorsTest : public ::testing::Test {
 protected:
  AuditAnchorsTest() : store_(OpenSqliteStore(folder_.path() + "/state.db").value()) {}

  // What another scheduler finds in the store.
  std::string Kept(const std::string& server) {
    AuditAnchors other;
    other.Restore(*store_);
    return other.HeadOf(server);
  }

  testing::TempFolder folder_;
  const std::unique_ptr<Store> store_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  AuditAnchors anchors_;
};

TEST_F(AuditAnchorsTest, FewerOrOtherRecordsAreALoss) {
  EXPECT_EQ(anchors_.Note("a", Head(5, 'a')), std::nullopt);
  EXPECT_EQ(anchors_.Note("a", Head(5, 'a')), std::nullopt);
  EXPECT_EQ(anchors_.Note("a", Head(9, 'b')), std::nullopt);
  EXPECT_EQ(anchors_.Note("b", Head(1, 'b')), std::nullopt);
  EXPECT_EQ(anchors_.Note("a", Head(9, 'c')), Head(9, 'b'));
  EXPECT_EQ(anchors_.Note("a", Head(3, 'd')), Head(9, 'c'));
  EXPECT_EQ(anchors_.HeadOf("a"), Head(3, 'd'));
  EXPECT_EQ(anchors_.LostOf("a"), Head(9, 'b'));
  EXPECT_EQ(anchors_.LostOf("b"), "");
  anchors_.AcceptLoss("a");
  EXPECT_EQ(anchors_.LostOf("a"), "");
}

TEST_F(AuditAnchorsTest, AServerWithoutARecordKeepsItsAnchor) {
  EXPECT_EQ(anchors_.Note("a", ""), std::nullopt);
  EXPECT_EQ(anchors_.HeadOf("a"), "");
  EXPECT_EQ(anchors_.Note("a", Head(5, 'a')), std::nullopt);
  EXPECT_EQ(anchors_.Note("a", "5:nonsense"), Head(5, 'a'));
  EXPECT_EQ(anchors_.Note("a", ""), std::nullopt);  // Said once.
  EXPECT_EQ(anchors_.HeadOf("a"), Head(5, 'a'));
  EXPECT_EQ(anchors_.Note("a", Head(6, 'b')), std::nullopt);
  EXPECT_EQ(anchors_.Note("a", ""), Head(6, 'b'));
}

TEST_F(AuditAnchorsTest, HeadsAreWrittenNowAndThenAndLossesAtOnce) {
  anchors_.Note("a", Head(1, 'a'));
  ASSERT_TRUE(anchors_.Write(store_.get(), now_).ok());
  EXPECT_EQ(Kept("a"), Head(1, 'a'));
  anchors_.Note("a", Head(2, 'b'));
  ASSERT_TRUE(anchors_.Write(store_.get(), now_ + absl::Seconds(1)).ok());
  EXPECT_EQ(Kept("a"), Head(1, 'a'));
  ASSERT_TRUE(anchors_.Write(store_.get(), now_ + AuditAnchors::kWriteInterval).ok());
  EXPECT_EQ(Kept("a"), Head(2, 'b'));
  anchors_.Note("a", Head(1, 'c'));
  ASSERT_TRUE(
      anchors_.Write(store_.get(), now_ + AuditAnchors::kWriteInterval + absl::Seconds(1)).ok());
  EXPECT_EQ(Kept("a"), Head(1, 'c'));
  AuditAnchors other;
  other.Restore(*store_);
  EXPECT_EQ(other.LostOf("a"), Head(2, 'b'));
  EXPECT_EQ(other.Note("a", Head(0, 'c')), Head(1, 'c'));
}

}  // namespace
}  // namespace warpline::scheduler
