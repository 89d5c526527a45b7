#include "server/device/cuda/shared/share_lattice.h"

#include <optional>

#include "gtest/gtest.h"

namespace warpline::device {
namespace {

TEST(ShareLatticeTest, TheLeastSizeThatIsEnoughIsTaken) {
  ShareLattice lattice({64, 8, 16, 32});
  EXPECT_EQ(lattice.Take(1), 1u);
  EXPECT_EQ(lattice.Take(8), 1u) << "though it has a user, and larger ones have none";
  EXPECT_EQ(lattice.Take(9), 2u);
  EXPECT_EQ(lattice.Take(33), 0u);
  EXPECT_EQ(lattice.Take(64), 0u);
}

TEST(ShareLatticeTest, TheLeastUsedOfOneSizeIsTaken) {
  ShareLattice lattice({8, 8, 8, 16});
  EXPECT_EQ(lattice.Take(8), 0u);
  EXPECT_EQ(lattice.Take(8), 1u);
  EXPECT_EQ(lattice.Take(8), 2u);
  EXPECT_EQ(lattice.Take(8), 0u);
  lattice.GiveBack(2);
  EXPECT_EQ(lattice.Take(5), 2u);
  lattice.GiveBack(1);
  EXPECT_EQ(lattice.Take(5), 1u);
}

TEST(ShareLatticeTest, TheWholeDeviceIsNoPart) {
  ShareLattice lattice({8, 16});
  EXPECT_EQ(lattice.Take(0), std::nullopt);
  EXPECT_EQ(lattice.Take(-1), std::nullopt);
  EXPECT_EQ(lattice.Take(17), std::nullopt);
  ShareLattice empty({});
  EXPECT_EQ(empty.Take(1), std::nullopt);
}

}  // namespace
}  // namespace warpline::device
