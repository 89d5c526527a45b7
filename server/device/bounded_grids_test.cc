#include "server/device/bounded_grids.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace warpline::device {
namespace {

constexpr uint32_t kLargest = UINT32_MAX;

TEST(BoundedGrids, AllowAnyRowOfBlocks) {
  EXPECT_FALSE(HasTooManyBlocks({1, 1, 1}));
  EXPECT_FALSE(HasTooManyBlocks({(uint32_t{1} << 31) - 1, 1, 1}));
  EXPECT_FALSE(HasTooManyBlocks({uint32_t{1} << 31, 1, 1}));
  EXPECT_FALSE(HasTooManyBlocks({1 << 15, 1 << 15, 2}));
  EXPECT_FALSE(HasTooManyBlocks({65535, 32768, 1}));
}

TEST(BoundedGrids, RefuseWhatIsLarger) {
  EXPECT_TRUE(HasTooManyBlocks({(uint32_t{1} << 31) + 1, 1, 1}));
  EXPECT_TRUE(HasTooManyBlocks({(uint32_t{1} << 31) - 1, 2, 1}));
  EXPECT_TRUE(HasTooManyBlocks({1 << 15, 1 << 15, 3}));
  EXPECT_TRUE(HasTooManyBlocks({1, 65535, 65535}));
}

// A product of the three has more than 64 bits.
TEST(BoundedGrids, RefuseWhatIsFarTooLarge) {
  EXPECT_TRUE(HasTooManyBlocks({(uint32_t{1} << 31) - 1, 65535, 65535}));
  EXPECT_TRUE(HasTooManyBlocks({uint32_t{1} << 31, uint32_t{1} << 31, 4}));
  EXPECT_TRUE(HasTooManyBlocks({kLargest, kLargest, kLargest}));
}

// That is an error of another kind, which the device finds.
TEST(BoundedGrids, LeaveEmptyGridsToTheDevice) {
  EXPECT_FALSE(HasTooManyBlocks({0, 1, 1}));
  EXPECT_FALSE(HasTooManyBlocks({kLargest, kLargest, 0}));
}

}  // namespace
}  // namespace warpline::device
