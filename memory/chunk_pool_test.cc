#include "memory/chunk_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
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
      made.emplace_back(memfd_create("fake-chunk", MFD_CLOEXEC));
      created_bytes += bytes;
      ++created;
    }
    return made;
  }

  absl::StatusOr<std::optional<uint64_t>> FreeBytes() override {
    if (!failure.ok()) return failure;
    return free_bytes;
  }

  absl::Status failure;
  std::optional<uint64_t> free_bytes;
  uint64_t device_bytes = 100 * kGiB;
  uint64_t created_bytes = 0;
  size_t created = 0;
};

bool SameFile(int one, int other) {
  struct stat of_one;
  struct stat of_other;
  return fstat(one, &of_one) == 0 && fstat(other, &of_other) == 0 &&
         of_one.st_ino == of_other.st_ino && of_one.st_dev == of_other.st_dev;
}

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
  // The chunks' process is gone.
  void Return(ChunkPool* pool, std::vector<Chunk> chunks) {
    pool->Return(std::move(chunks), {});
    pool->Settle(now_);
  }
  static void FillStock(ChunkPool* pool) {
    while (pool->Restock()) {
    }
  }

  FakeMaker maker_;
  absl::Time now_ = absl::UnixEpoch();
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

TEST_F(ChunkPoolTest, WhatOthersClaimIsNotGranted) {
  ChunkPool pool({.capacity_bytes = kGiB}, &maker_);
  FillStock(&pool);
  EXPECT_FALSE(pool.Claim(kGiB + 2 * kMiB));
  const auto taken = MustTake(&pool, 512 * kMiB, 512 * kMiB);
  EXPECT_FALSE(pool.Claim(514 * kMiB));
  EXPECT_TRUE(pool.Claim(500 * kMiB)) << "of what was in stock, too";
  EXPECT_LE(pool.stats().stock_bytes, 12 * kMiB);
  EXPECT_EQ(pool.stats().claimed_bytes, 500 * kMiB);
  EXPECT_EQ(TotalBytes(MustTake(&pool, 2 * kMiB, kGiB)), 12 * kMiB);
  EXPECT_FALSE(pool.Claim(2 * kMiB));
  pool.Unclaim(500 * kMiB);
  EXPECT_EQ(TotalBytes(MustTake(&pool, 2 * kMiB, kGiB)), 500 * kMiB);
}

TEST_F(ChunkPoolTest, AChunkThatAWorkerHadIsNeverGrantedAgain) {
  ChunkPool pool({.capacity_bytes = 64 * kMiB}, &maker_);
  auto taken = MustTake(&pool, 64 * kMiB, 64 * kMiB);
  // Somebody kept a descriptor.
  const UniqueFd kept(fcntl(taken[0].fd.get(), F_DUPFD_CLOEXEC, 0));
  Return(&pool, std::move(taken));
  EXPECT_EQ(pool.stats().granted_bytes, 0u);
  EXPECT_EQ(pool.stats().chunks, 0u);
  for (int i = 0; i < 3; ++i) {
    auto again = MustTake(&pool, 64 * kMiB, 64 * kMiB);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_FALSE(SameFile(again[0].fd.get(), kept.get()));
    Return(&pool, std::move(again));
  }
  EXPECT_EQ(maker_.created, 4u);
}

TEST_F(ChunkPoolTest, WhatNobodyHadGoesBackToTheStock) {
  ChunkPool pool({.capacity_bytes = 64 * kMiB}, &maker_);
  auto taken = MustTake(&pool, 64 * kMiB, 64 * kMiB);
  pool.ReturnUnused(std::move(taken));
  EXPECT_EQ(pool.stats().stock_bytes, 64 * kMiB);
  MustTake(&pool, 64 * kMiB, 64 * kMiB);
  EXPECT_EQ(maker_.created, 1u);
}

TEST_F(ChunkPoolTest, MemoryThatIsLeavingIsNotGivenOut) {
  ChunkPool pool({.capacity_bytes = 64 * kMiB}, &maker_);
  const auto quota = Quota::Create(64 * kMiB);
  maker_.free_bytes = 0;
  std::vector<Reservation> bill;
  bill.push_back(quota->Reserve(64 * kMiB, 64 * kMiB, 1));
  pool.Return(MustTake(&pool, 64 * kMiB, 64 * kMiB), std::move(bill));
  pool.Settle(now_);
  EXPECT_EQ(pool.stats().leaving_bytes, 64 * kMiB);
  EXPECT_EQ(pool.stats().granted_bytes, 0u);
  EXPECT_EQ(quota->used_bytes(), 64 * kMiB);
  EXPECT_EQ(pool.Take(2 * kMiB, 2 * kMiB).status().code(), absl::StatusCode::kResourceExhausted);
  maker_.free_bytes = 64 * kMiB;
  pool.Settle(now_);
  EXPECT_EQ(quota->used_bytes(), 0u);
  EXPECT_TRUE(pool.Take(64 * kMiB, 64 * kMiB).ok());
}

TEST_F(ChunkPoolTest, WhatDoesNotComeBackIsGrantedIfTheDeviceHasItAfterAll) {
  ChunkPool pool({.capacity_bytes = 64 * kMiB, .patience = absl::Seconds(2)}, &maker_);
  maker_.free_bytes = 0;
  pool.Return(MustTake(&pool, 64 * kMiB, 64 * kMiB), {});
  pool.Settle(now_);
  now_ += absl::Seconds(2);
  maker_.free_bytes = 20 * kMiB;
  pool.Settle(now_);
  EXPECT_EQ(pool.stats().stuck_bytes, 44 * kMiB);
  EXPECT_FALSE(pool.leaving().pending());
  // Another has it.
  maker_.device_bytes = maker_.created_bytes;
  const absl::Status refused = pool.Take(2 * kMiB, 2 * kMiB).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), testing::HasSubstr("2097152 of them are in use outside"));
  // It was others that took memory when this came back.
  maker_.device_bytes += 64 * kMiB;
  EXPECT_TRUE(pool.Take(64 * kMiB, 64 * kMiB).ok());
}

TEST_F(ChunkPoolTest, ARefusalSaysWhenTheServerMayHaveNoMoreChunks) {
  ChunkPool pool({.capacity_bytes = 64 * kMiB, .max_chunks = 2}, &maker_);
  const auto taken = MustTake(&pool, 4 * kMiB, 4 * kMiB);
  EXPECT_THAT(pool.Take(2 * kMiB, 2 * kMiB).status().message(),
              testing::HasSubstr("all 2 chunks that the server may have"));
}

TEST_F(ChunkPoolTest, TheStockIsMadeAheadAndGrantedFirst) {
  ChunkPool pool({.capacity_bytes = 64 * kGiB}, &maker_);
  FillStock(&pool);
  EXPECT_EQ(pool.stats().stock_bytes, 2 * kGiB + kMiB * 8 * 64 + kMiB * 16 * 20 + kMiB * 64 * 2);
  EXPECT_EQ(pool.stats().chunks, 90u);
  const size_t created = maker_.created;
  const auto taken = MustTake(&pool, kGiB + 86 * kMiB, kGiB + 86 * kMiB);
  EXPECT_EQ(Sizes(taken), (std::vector<uint64_t>{kGiB, 64 * kMiB, 20 * kMiB, 2 * kMiB}));
  EXPECT_EQ(maker_.created, created);
  // What is left of 64 GiB has a part below 2 GiB.
  FillStock(&pool);
  EXPECT_EQ(maker_.created, created + 3);
}

TEST_F(ChunkPoolTest, TheStockIsASmallPartOfWhatNobodyHolds) {
  ChunkPool pool({.capacity_bytes = 4 * kGiB}, &maker_);
  FillStock(&pool);
  // A part of 128 MiB for each size.
  EXPECT_EQ(pool.stats().stock_bytes, kMiB * 2 * 64 + kMiB * 6 * 20 + kMiB * 64 * 2);
  const auto taken = MustTake(&pool, 3 * kGiB, 3 * kGiB);
  FillStock(&pool);
  // A part of 32 MiB.
  EXPECT_EQ(pool.stats().stock_bytes, 20 * kMiB + kMiB * 16 * 2);
}

TEST_F(ChunkPoolTest, AllOfTheDeviceCanBeGrantedInSpiteOfTheStock) {
  ChunkPool pool({.capacity_bytes = 4 * kGiB}, &maker_);
  FillStock(&pool);
  const auto taken = MustTake(&pool, 4 * kGiB, 4 * kGiB);
  EXPECT_EQ(TotalBytes(taken), 4 * kGiB);
  EXPECT_FALSE(pool.Restock());
  EXPECT_EQ(pool.stats().stock_bytes, 0u);
}

TEST_F(ChunkPoolTest, TheStockLeavesDescriptorsToOthers) {
  ChunkPool pool({.capacity_bytes = 64 * kGiB, .max_chunks = 64}, &maker_);
  FillStock(&pool);
  EXPECT_EQ(pool.stats().chunks, 8u);
}

TEST_F(ChunkPoolTest, OneStepMakesLittle) {
  ChunkPool pool({.capacity_bytes = 64 * kGiB}, &maker_);
  uint64_t before = 0;
  while (pool.Restock()) {
    EXPECT_LE(maker_.created_bytes - before, kGiB);
    EXPECT_TRUE(maker_.created_bytes - before == kGiB ||
                maker_.created_bytes - before <= 256 * kMiB);
    before = maker_.created_bytes;
  }
}

TEST_F(ChunkPoolTest, SmallChunksInStockMakeRoomForLargeOnes) {
  ChunkPool pool({.capacity_bytes = kGiB}, &maker_);
  std::vector<Chunk> many;
  for (int i = 0; i < 20; ++i) {
    for (Chunk& chunk : MustTake(&pool, 2 * kMiB, 2 * kMiB)) many.push_back(std::move(chunk));
  }
  pool.ReturnUnused(std::move(many));
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
  EXPECT_FALSE(pool.Restock());
  Return(&pool, std::move(taken));
  EXPECT_EQ(pool.stats().leaving_bytes, 4 * kMiB);
  EXPECT_EQ(pool.stats().chunks, 2u);
  maker_.failure = absl::OkStatus();
  pool.Settle(now_);
  EXPECT_EQ(pool.stats().leaving_bytes, 0u);
  EXPECT_EQ(pool.stats().chunks, 0u);
  EXPECT_TRUE(pool.Take(kGiB, kGiB).ok());
}

TEST_F(ChunkPoolTest, NumberOfChunksIsBounded) {
  ChunkPool pool({.capacity_bytes = kGiB, .max_chunks = 3}, &maker_);
  const auto taken = MustTake(&pool, 2 * kMiB, 62 * kMiB);
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_FALSE(pool.Take(2 * kMiB, 2 * kMiB).ok());
}

}  // namespace
}  // namespace warpline
