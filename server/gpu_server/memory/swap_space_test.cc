#include "server/gpu_server/memory/swap_space.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/sealed_memory.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr uint64_t kGranule = SwapSpace::kGranule;

uint64_t Total(const SwapSpace::Place& place) {
  uint64_t bytes = 0;
  for (const auto& extent : place.extents()) bytes += extent.bytes;
  return bytes;
}

TEST(SwapSpaceTest, GivesWhatItHasAndTakesItBack) {
  const auto space = SwapSpace::Open(5 * kGranule - 1, 2);
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_EQ((*space)->bytes(), 5 * kGranule);
  ASSERT_EQ((*space)->blocks(), 1u);
  EXPECT_EQ((*space)->block_bytes(0), 5 * kGranule);
  {
    auto one = (*space)->Take(2 * kGranule);
    auto two = (*space)->Take(2 * kGranule);
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_EQ((*space)->free_bytes(), kGranule);
    EXPECT_TRUE(absl::IsResourceExhausted((*space)->Take(2 * kGranule).status()));
    EXPECT_EQ((*space)->free_bytes(), kGranule);
    *one = SwapSpace::Place();
    const auto three = (*space)->Take(3 * kGranule);
    ASSERT_TRUE(three.ok()) << three.status();
    EXPECT_EQ(Total(*three), 3 * kGranule);
    EXPECT_EQ(three->extents().size(), 2u);  // Around the second one.
    EXPECT_EQ((*space)->free_bytes(), 0u);
    const SwapSpace::Place moved = *std::move(two);
    EXPECT_EQ(Total(moved), 2 * kGranule);
  }
  EXPECT_EQ((*space)->free_bytes(), 5 * kGranule);
}

TEST(SwapSpaceTest, ExtentsOfTwoPlacesDoNotOverlap) {
  const auto space = SwapSpace::Open(8 * kGranule, 1);
  ASSERT_TRUE(space.ok()) << space.status();
  std::vector<SwapSpace::Place> places;
  std::vector<int> owners(8, 0);
  for (int i = 0; i < 4; ++i) places.push_back(*(*space)->Take(2 * kGranule));
  for (const auto& place : places) {
    for (const auto& extent : place.extents()) {
      for (uint64_t at = 0; at < extent.bytes; at += kGranule) {
        ++owners[(extent.offset + at) / kGranule];
      }
    }
  }
  EXPECT_EQ(owners, std::vector<int>(8, 1));
}

TEST(SwapSpaceTest, GivesExactlyWhatIsAskedForAndNothingTwice) {
  const auto space = SwapSpace::Open(8 * kGranule, 1);
  ASSERT_TRUE(space.ok()) << space.status();
  {
    const auto some =
        (*space)->TakeAt({{0, 2 * kGranule, kGranule}, {0, 5 * kGranule, 2 * kGranule}});
    ASSERT_TRUE(some.ok()) << some.status();
    EXPECT_EQ((*space)->free_bytes(), 5 * kGranule);
    for (const SwapSpace::Extent extent :
         {SwapSpace::Extent{0, 0, 3 * kGranule}, SwapSpace::Extent{0, 6 * kGranule, kGranule},
          SwapSpace::Extent{0, 7 * kGranule, 2 * kGranule},
          SwapSpace::Extent{0, 8 * kGranule, kGranule}, SwapSpace::Extent{0, 7 * kGranule, 0},
          SwapSpace::Extent{0, 7 * kGranule, ~uint64_t{0} / kGranule * kGranule},
          SwapSpace::Extent{0, ~uint64_t{0} / kGranule * kGranule, kGranule},
          SwapSpace::Extent{0, 1, kGranule}, SwapSpace::Extent{0, 0, kGranule / 2},
          SwapSpace::Extent{1, 0, kGranule}}) {
      EXPECT_TRUE(absl::IsInvalidArgument((*space)->TakeAt({{0, 0, kGranule}, extent}).status()))
          << extent.offset << " " << extent.bytes;
      EXPECT_EQ((*space)->free_bytes(), 5 * kGranule);
    }
    EXPECT_TRUE(absl::IsInvalidArgument(
        (*space)->TakeAt({{0, 0, 2 * kGranule}, {0, kGranule, kGranule}}).status()));
    const auto rest = (*space)->Take(5 * kGranule);
    ASSERT_TRUE(rest.ok()) << rest.status();
    for (const auto& extent : rest->extents()) {
      EXPECT_NE(extent.offset, 2 * kGranule);
      EXPECT_NE(extent.offset, 5 * kGranule);
    }
  }
  EXPECT_EQ((*space)->free_bytes(), 8 * kGranule);
}

TEST(SwapSpaceTest, GoesOnWithTheBlocksOfAnother) {
  auto former = SwapSpace::Open(3 * kGranule, 1);
  ASSERT_TRUE(former.ok()) << former.status();
  ASSERT_EQ(pwrite((*former)->block_fd(0), "kept", 4, kGranule), 4);
  const auto blocks = [&] {
    std::vector<UniqueFd> fds;
    fds.emplace_back(dup((*former)->block_fd(0)));
    return fds;
  };
  for (const uint64_t granules : {1, 3, 5}) {
    const auto space = SwapSpace::Open(granules * kGranule, 1, blocks());
    ASSERT_TRUE(space.ok()) << space.status();
    EXPECT_EQ((*space)->bytes(), std::max<uint64_t>(granules, 3) * kGranule);
    char kept[4];
    ASSERT_EQ(pread((*space)->block_fd(0), kept, 4, kGranule), 4);
    EXPECT_EQ(std::string(kept, 4), "kept");
    EXPECT_EQ((*space)->free_bytes(), (*space)->bytes());
  }
  std::vector<UniqueFd> none;
  none.emplace_back(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(absl::IsInvalidArgument(SwapSpace::Open(kGranule, 1, std::move(none)).status()));
  std::vector<UniqueFd> odd;
  odd.push_back(*NewSealedMemory("odd", kGranule + 4096));
  EXPECT_TRUE(absl::IsInvalidArgument(SwapSpace::Open(kGranule, 1, std::move(odd)).status()));
}

}  // namespace
}  // namespace warpline::server
