#include "memory/chunk_pool.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kGiB = 1ull << 30;

// Makes descriptors that stand for memory and notes what was asked of it.
class FakeMaker : public ChunkMaker {
 public:
  absl::StatusOr<std::vector<UniqueFd>> Create(uint64_t bytes, size_t count) override {
    if (!failure.ok()) return failure;
    std::vector<UniqueFd> made;
    while (made.size() < count && created_bytes + bytes <= device_bytes) {
      made.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
      created_bytes += bytes;
      ++created;
    }
    return made;
  }

  absl::Status Scrub(absl::Span<const Chunk> chunks) override {
    EXPECT_LE(chunks.size(), kMaxBatch);
    if (!failure.ok()) return failure;
    scrubbed += chunks.size();
    return absl::OkStatus();
  }

  absl::Status failure;
  uint64_t device_bytes = 100 * kGiB;
  uint64_t created_bytes = 0;
  size_t created = 0;
  size_t scrubbed = 0;
};

std::vector<uint64_t> Sizes(const std::vector<Chunk>& chunks) {
  std::vector<uint64_t> sizes;
  for (const Chunk& chunk : chunks) sizes.push_back(chunk.bytes);
  return sizes;
}

class ChunkPoolTest : public testing::Test {
 protected:
  std::vector<Chunk> MustTake(ChunkPool* pool, uint64_t min_bytes, uint64_t want_bytes) {
    auto taken = pool->Take(min_bytes, want_bytes);
    EXPECT_TRUE(taken.ok()) << taken.status();
    return taken.ok() ? std::move(*taken) : std::vector<Chunk>();
  }
  FakeMaker maker_;
};

TEST_F(ChunkPoolTest, SplitsGreedilyByClass) {
  ChunkPool pool({.capacity_bytes = 4 * kGiB}, &maker_);
  const auto taken = MustTake(&pool, 2 * kMiB, kGiB + 130 * kMiB + 2 * kMiB);
  EXPECT_EQ(Sizes(taken), (std::vector<uint64_t>{kGiB, 64 * kMiB, 64 * kMiB, 2 * kMiB, 2 * kMiB}));
  EXPECT_EQ(pool.stats().granted_bytes, kGiB + 132 * kMiB);
}

TEST_F(ChunkPoolTest, GrantsBetweenMinimumAndWantWhenShort) {
  ChunkPool pool({.capacity_bytes = 100 * kMiB}, &maker_);
  const auto taken = MustTake(&pool, 64 * kMiB, kGiB);
  EXPECT_EQ(TotalBytes(taken), 100 * kMiB);
  EXPECT_EQ(pool.Take(2 * kMiB, 2 * kMiB).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(ChunkPoolTest, BelowMinimumTakesNothing) {
  ChunkPool pool({.capacity_bytes = 100 * kMiB}, &maker_);
  EXPECT_FALSE(pool.Take(102 * kMiB, kGiB).ok());
  EXPECT_EQ(pool.stats().granted_bytes, 0u);
  EXPECT_EQ(maker_.created, 0u);
}

TEST_F(ChunkPoolTest, ReturnedChunksAreGrantedAgainOnlyAfterScrubbing) {
  ChunkPool pool({.capacity_bytes = 64 * kMiB}, &maker_);
  pool.Return(MustTake(&pool, 64 * kMiB, 64 * kMiB));
  EXPECT_EQ(pool.stats().dirty_bytes, 64 * kMiB);
  EXPECT_EQ(pool.stats().granted_bytes, 0u);
  const auto again = MustTake(&pool, 64 * kMiB, 64 * kMiB);
  EXPECT_EQ(maker_.scrubbed, 1u);
  EXPECT_EQ(maker_.created, 1u);
  EXPECT_EQ(pool.stats().granted_bytes, 64 * kMiB);
}

TEST_F(ChunkPoolTest, ScrubbingGoesInBatches) {
  ChunkPool pool({.capacity_bytes = 2 * kGiB}, &maker_);
  std::vector<Chunk> many;
  for (int i = 0; i < 250; ++i) {
    for (Chunk& chunk : MustTake(&pool, 2 * kMiB, 2 * kMiB)) many.push_back(std::move(chunk));
  }
  pool.Return(std::move(many));
  EXPECT_TRUE(pool.ScrubSome());
  EXPECT_FALSE(pool.ScrubSome());
  EXPECT_EQ(maker_.scrubbed, 250u);
  EXPECT_EQ(pool.stats().pooled_bytes, 500 * kMiB);
}

TEST_F(ChunkPoolTest, SmallPooledChunksMakeRoomForLargeOnes) {
  ChunkPool pool({.capacity_bytes = kGiB}, &maker_);
  std::vector<Chunk> many;
  for (int i = 0; i < 20; ++i) {
    for (Chunk& chunk : MustTake(&pool, 2 * kMiB, 2 * kMiB)) many.push_back(std::move(chunk));
  }
  pool.Return(std::move(many));
  const auto taken = MustTake(&pool, kGiB, kGiB);
  EXPECT_EQ(Sizes(taken), std::vector<uint64_t>{kGiB});
  EXPECT_EQ(pool.stats().chunks, 1u);
}

TEST_F(ChunkPoolTest, ShorterDeviceThanBooksStepsDownAndThenRunsOut) {
  maker_.device_bytes = 100 * kMiB;
  ChunkPool pool({.capacity_bytes = 4 * kGiB}, &maker_);
  const auto taken = MustTake(&pool, 64 * kMiB, kGiB);
  EXPECT_EQ(TotalBytes(taken), 100 * kMiB);
  EXPECT_EQ(pool.Take(2 * kMiB, 2 * kMiB).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(ChunkPoolTest, FailingMakerLeavesTheBooksRight) {
  ChunkPool pool({.capacity_bytes = kGiB}, &maker_);
  auto taken = MustTake(&pool, 4 * kMiB, 4 * kMiB);
  maker_.failure = absl::UnavailableError("keeper died");
  EXPECT_EQ(pool.Take(8 * kMiB, 8 * kMiB).status().code(), absl::StatusCode::kUnavailable);
  pool.Return(std::move(taken));
  EXPECT_FALSE(pool.ScrubSome());
  EXPECT_EQ(pool.stats().chunks, 0u);
  EXPECT_EQ(pool.stats().dirty_bytes, 0u);
  maker_.failure = absl::OkStatus();
  EXPECT_TRUE(pool.Take(kGiB, kGiB).ok());
}

TEST_F(ChunkPoolTest, TrimmingKeepsWhatIsGranted) {
  ChunkPool pool({.capacity_bytes = kGiB}, &maker_);
  const auto kept = MustTake(&pool, 4 * kMiB, 4 * kMiB);
  pool.Return(MustTake(&pool, 66 * kMiB, 66 * kMiB));
  EXPECT_FALSE(pool.ScrubSome());
  pool.Trim();
  EXPECT_EQ(pool.stats().pooled_bytes, 0u);
  EXPECT_EQ(pool.stats().granted_bytes, 4 * kMiB);
  EXPECT_EQ(pool.stats().chunks, kept.size());
}

TEST_F(ChunkPoolTest, NumberOfChunksIsBounded) {
  ChunkPool pool({.capacity_bytes = kGiB, .max_chunks = 3}, &maker_);
  const auto taken = MustTake(&pool, 2 * kMiB, 62 * kMiB);
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_FALSE(pool.Take(2 * kMiB, 2 * kMiB).ok());
}

}  // namespace
}  // namespace warpline
