#include "server/gpu_server/memory/guarded_sizes.h"

#include <bit>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kArena = 4 * kGiB;

TEST(GuardedSizesTest, PartsAreWithinTheQuota) {
  for (const uint64_t arena : {kArena, 64 * kGiB, 1024 * kGiB}) {
    for (uint64_t bytes = 128 * kMiB; bytes <= 80 * kGiB; bytes = bytes * 5 / 4) {
      const auto sizes = GuardedSizesFor(bytes, arena);
      ASSERT_TRUE(sizes.ok()) << bytes << sizes.status();
      EXPECT_LE(sizes->own_bytes() + sizes->outside_bytes + sizes->memory_bytes, bytes);
      EXPECT_TRUE(std::has_single_bit(sizes->sink_granule_bytes));
      EXPECT_GE(sizes->sink_granule_bytes, 4 * kMiB);
      EXPECT_LE(sizes->sink_granule_bytes, 64 * kMiB);
      EXPECT_EQ(sizes->variable_bytes % (2 * kMiB), 0u);
      EXPECT_LE(sizes->variable_bytes, arena / 16) << "the room for modules";
      EXPECT_EQ(sizes->memory_bytes % (2 * kMiB), 0u);
    }
  }
}

TEST(GuardedSizesTest, TheDefaultIsMostlyTheProgramsAndSixtyFourFitOnACard) {
  const auto sizes = GuardedSizesFor(kGiB, kArena);
  ASSERT_TRUE(sizes.ok());
  EXPECT_EQ(sizes->sink_granule_bytes, 16 * kMiB);
  EXPECT_EQ(sizes->variable_bytes, 64 * kMiB);
  EXPECT_EQ(sizes->own_bytes(), 82 * kMiB);
  EXPECT_EQ(sizes->memory_bytes, 878 * kMiB);
  // An H100 of 79.6 GiB, less its reserve and two contexts.
  EXPECT_LE(64 * (sizes->own_bytes() + sizes->memory_bytes), 79 * kGiB - 4 * kGiB - 4 * kGiB);
}

TEST(GuardedSizesTest, SmallSessionsPayLittle) {
  const auto sizes = GuardedSizesFor(32 * kMiB, kArena);
  ASSERT_TRUE(sizes.ok());
  EXPECT_EQ(sizes->own_bytes(), 12 * kMiB);
  EXPECT_EQ(sizes->memory_bytes, 18 * kMiB);
}

TEST(GuardedSizesTest, LargerArenasTakeLargerGranules) {
  EXPECT_EQ(GuardedSizesFor(512 * kMiB, kArena)->sink_granule_bytes, 8 * kMiB);
  EXPECT_EQ(GuardedSizesFor(512 * kMiB, 16 * kGiB)->sink_granule_bytes, 32 * kMiB);
  EXPECT_EQ(GuardedSizesFor(512 * kMiB, 1024 * kGiB)->sink_granule_bytes, 64 * kMiB);
}

TEST(GuardedSizesTest, TooLittleIsRefusedWithWhatItTakes) {
  EXPECT_TRUE(GuardedSizesFor(16 * kMiB, kArena).ok());
  for (const uint64_t bytes : {uint64_t{0}, 2 * kMiB, 14 * kMiB}) {
    const absl::Status refusal = GuardedSizesFor(bytes, kArena).status();
    EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(refusal.message().find("12582912 bytes of the device"), std::string::npos);
  }
}

}  // namespace
}  // namespace warpline::server
