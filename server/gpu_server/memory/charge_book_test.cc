#include "server/gpu_server/memory/charge_book.h"

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr uint64_t kMiB = 1ull << 20;

class ChargeBookTest : public testing::Test {
 protected:
  std::shared_ptr<Quota> quota_ = Quota::Create(64 * kMiB);
  ChargeBook book_{quota_};
};

TEST_F(ChargeBookTest, OnlyWholeUnitsAreCharged) {
  EXPECT_EQ(book_.Charge(0), CudaResult::kInvalidValue);
  EXPECT_EQ(book_.Charge(4096), CudaResult::kInvalidValue);
  EXPECT_EQ(book_.Charge(ChargeBook::kUnitBytes + 4096), CudaResult::kInvalidValue);
  EXPECT_EQ(book_.Charge(~uint64_t{0}), CudaResult::kOutOfMemory);
  EXPECT_EQ(book_.Charge(ChargeBook::kUnitBytes), CudaResult::kSuccess);
  EXPECT_EQ(quota_->used_bytes(), ChargeBook::kUnitBytes);
}

TEST_F(ChargeBookTest, PiecesAreGivenBackAsTheyWereTaken) {
  EXPECT_EQ(book_.Charge(2 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(book_.Charge(2 * kMiB), CudaResult::kSuccess);
  EXPECT_FALSE(book_.Uncharge(4 * kMiB));
  EXPECT_TRUE(book_.Uncharge(2 * kMiB));
  EXPECT_EQ(book_.bytes(), 2 * kMiB);
  EXPECT_EQ(quota_->used_bytes(), 2 * kMiB);
  EXPECT_TRUE(book_.Uncharge(2 * kMiB));
  EXPECT_FALSE(book_.Uncharge(2 * kMiB));
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

TEST_F(ChargeBookTest, TheQuotaIsTheBound) {
  EXPECT_EQ(book_.Charge(60 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(book_.Charge(8 * kMiB), CudaResult::kOutOfMemory);
  EXPECT_EQ(book_.bytes(), 60 * kMiB);
}

TEST_F(ChargeBookTest, OnePieceTakesThePlaceOfAll) {
  EXPECT_EQ(book_.Charge(40 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(book_.Charge(20 * kMiB), CudaResult::kSuccess);
  const Reservation others = quota_->Reserve(4 * kMiB, 4 * kMiB, 1);
  // Out of what there was, although the quota is used up.
  EXPECT_TRUE(book_.Replace(58 * kMiB));
  EXPECT_EQ(quota_->used_bytes(), 62 * kMiB);
  EXPECT_FALSE(book_.Uncharge(40 * kMiB));
  EXPECT_TRUE(book_.Replace(60 * kMiB));
  EXPECT_FALSE(book_.Replace(62 * kMiB));
  EXPECT_EQ(quota_->used_bytes(), 4 * kMiB);
  EXPECT_TRUE(book_.Replace(2 * kMiB));
  EXPECT_TRUE(book_.Uncharge(2 * kMiB));
  EXPECT_TRUE(book_.Replace(0));
  EXPECT_EQ(quota_->used_bytes(), 4 * kMiB);
}

TEST_F(ChargeBookTest, TheEndLeavesTheHoldToTheCaller) {
  EXPECT_EQ(book_.Charge(60 * kMiB), CudaResult::kSuccess);
  {
    const Reservation held = book_.End();
    EXPECT_EQ(held.bytes(), 60 * kMiB);
    EXPECT_EQ(book_.bytes(), 0u);
    EXPECT_FALSE(book_.Uncharge(60 * kMiB));
    EXPECT_EQ(quota_->used_bytes(), 60 * kMiB);
  }
  EXPECT_EQ(quota_->used_bytes(), 0u);
}

}  // namespace
}  // namespace warpline::server
