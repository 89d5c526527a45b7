#include "memory/arena_book.h"

#include <fcntl.h>

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/frames.h"

namespace warpline {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kGiB = 1ull << 30;
constexpr ArenaRange kArena = {1ull << 40, 8 * kGiB};

Grant GrantOf(uint64_t va, const std::vector<uint64_t>& sizes) {
  Grant grant;
  grant.va = va;
  for (const uint64_t size : sizes) grant.chunks.push_back(Chunk{size, UniqueFd()});
  return grant;
}

// Its chunks have descriptors that can be duplicated.
Grant SharableGrant(uint64_t va, const std::vector<uint64_t>& sizes) {
  Grant grant = GrantOf(va, sizes);
  for (Chunk& chunk : grant.chunks) chunk.fd = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return grant;
}

bool Refused(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument;
}

TEST(ValidateArenaTest, TakesPowersOfTwoOnMultiplesOfThemselves) {
  EXPECT_TRUE(ValidateArena({4 * kGiB, 4 * kGiB}, kMaxArenaBytes).ok());
  EXPECT_TRUE(ValidateArena({1ull << 45, 1ull << 45}, kMaxArenaBytes).ok());
}

TEST(ValidateArenaTest, LeavesTheMemoryAloneThatHostAndDeviceShare) {
  EXPECT_TRUE(ValidateArena({kHostArenaBase - 4 * kGiB, 4 * kGiB}, kMaxArenaBytes).ok());
  EXPECT_TRUE(ValidateArena({kHostArenaBase + kHostArenaBytes, 4 * kGiB}, kMaxArenaBytes).ok());
  EXPECT_TRUE(Refused(ValidateArena({kHostArenaBase, kHostArenaBytes}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(ValidateArena({kHostArenaBase, 4 * kGiB}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(
      ValidateArena({kHostArenaBase + kHostArenaBytes - 4 * kGiB, 4 * kGiB}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(ValidateArena({1ull << 46, 1ull << 45}, kMaxArenaBytes)));
}

TEST(ValidateArenaTest, RefusesTheRest) {
  EXPECT_TRUE(Refused(ValidateArena({0, 0}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(ValidateArena({0, 4 * kGiB}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(ValidateArena({4 * kGiB, 2 * kGiB}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(ValidateArena({12 * kGiB, 6 * kGiB}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(ValidateArena({4 * kGiB, 8 * kGiB}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(ValidateArena({1ull << 46, 1ull << 46}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(ValidateArena({1ull << 47, 4 * kGiB}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(ValidateArena({~0ull << 32, 4 * kGiB}, kMaxArenaBytes)));
  EXPECT_TRUE(Refused(ValidateArena({1ull << 40, 1ull << 40}, 1ull << 39)));
}

TEST(ArenaBookTest, RequestMustBeAlignedAndOrdered) {
  const ArenaBook book(kArena);
  EXPECT_TRUE(book.CheckRequest(kArena.base, 2 * kMiB, 4 * kMiB).ok());
  EXPECT_TRUE(Refused(book.CheckRequest(kArena.base + kMiB, 2 * kMiB, 4 * kMiB)));
  EXPECT_TRUE(Refused(book.CheckRequest(kArena.base, kMiB, 4 * kMiB)));
  EXPECT_TRUE(Refused(book.CheckRequest(kArena.base, 2 * kMiB, 3 * kMiB)));
  EXPECT_TRUE(Refused(book.CheckRequest(kArena.base, 0, 4 * kMiB)));
  EXPECT_TRUE(Refused(book.CheckRequest(kArena.base, 6 * kMiB, 4 * kMiB)));
}

TEST(ArenaBookTest, RequestMustLieInTheArena) {
  const ArenaBook book(kArena);
  const uint64_t end = kArena.base + kArena.bytes;
  EXPECT_TRUE(book.CheckRequest(kArena.base, 2 * kMiB, kArena.bytes).ok());
  EXPECT_TRUE(book.CheckRequest(end - 2 * kMiB, 2 * kMiB, 2 * kMiB).ok());
  EXPECT_TRUE(Refused(book.CheckRequest(kArena.base - 2 * kMiB, 2 * kMiB, 2 * kMiB)));
  EXPECT_TRUE(Refused(book.CheckRequest(end - 2 * kMiB, 2 * kMiB, 4 * kMiB)));
  EXPECT_TRUE(Refused(book.CheckRequest(end, 2 * kMiB, 2 * kMiB)));
  EXPECT_TRUE(Refused(book.CheckRequest(kArena.base, 2 * kMiB, kArena.bytes + 2 * kMiB)));
  EXPECT_TRUE(Refused(book.CheckRequest(~0ull << 21, 2 * kMiB, ~0ull << 21)));
}

TEST(ArenaBookTest, BackedRangesAreNotGrantedAgain) {
  ArenaBook book(kArena);
  const uint64_t va = kArena.base + 64 * kMiB;
  ASSERT_TRUE(book.Add(GrantOf(va, {4 * kMiB})).ok());
  EXPECT_TRUE(book.CheckRequest(va - 2 * kMiB, 2 * kMiB, 2 * kMiB).ok());
  EXPECT_TRUE(book.CheckRequest(va + 4 * kMiB, 2 * kMiB, 2 * kMiB).ok());
  EXPECT_TRUE(Refused(book.CheckRequest(va - 2 * kMiB, 2 * kMiB, 4 * kMiB)));
  EXPECT_TRUE(Refused(book.CheckRequest(va + 2 * kMiB, 2 * kMiB, 2 * kMiB)));
  EXPECT_TRUE(Refused(book.CheckRequest(kArena.base, 2 * kMiB, kArena.bytes)));
  EXPECT_TRUE(Refused(book.Add(GrantOf(va + 2 * kMiB, {2 * kMiB}))));
  EXPECT_EQ(book.backed_bytes(), 4 * kMiB);
}

TEST(ArenaBookTest, ReturnTakesWholeGrantsOnly) {
  ArenaBook book(kArena);
  const uint64_t va = kArena.base;
  ASSERT_TRUE(book.Add(GrantOf(va, {2 * kMiB, 2 * kMiB})).ok());
  ASSERT_TRUE(book.Add(GrantOf(va + 4 * kMiB, {2 * kMiB})).ok());
  ASSERT_TRUE(book.Add(GrantOf(va + 8 * kMiB, {2 * kMiB})).ok());
  EXPECT_FALSE(book.Remove(va, 2 * kMiB).ok());
  EXPECT_FALSE(book.Remove(va + 2 * kMiB, 2 * kMiB).ok());
  EXPECT_FALSE(book.Remove(va, 8 * kMiB).ok());
  EXPECT_FALSE(book.Remove(va, 0).ok());
  EXPECT_FALSE(book.Remove(va, ~0ull).ok());
  EXPECT_EQ(book.chunk_count(), 4u);
  const auto removed = book.Remove(va, 6 * kMiB);
  ASSERT_TRUE(removed.ok());
  ASSERT_EQ(removed->size(), 2u);
  EXPECT_EQ((*removed)[0].va, va);
  EXPECT_EQ((*removed)[1].va, va + 4 * kMiB);
  EXPECT_EQ(book.backed_bytes(), 2 * kMiB);
  EXPECT_EQ(book.chunk_count(), 1u);
}

TEST(ArenaBookTest, WhatIsTakenAndWhatIsLeftAreGrantsWithTheirParts) {
  ArenaBook book(kArena);
  auto quota = Quota::Create(64 * kMiB);
  Grant grant = SharableGrant(kArena.base, {2 * kMiB, 4 * kMiB, 2 * kMiB, 2 * kMiB});
  grant.reservation = quota->Reserve(10 * kMiB, 10 * kMiB, kMiB);
  ASSERT_TRUE(book.Add(std::move(grant)).ok());
  Grant other = GrantOf(kArena.base + 64 * kMiB, {2 * kMiB});
  other.reservation = quota->Reserve(2 * kMiB, 2 * kMiB, kMiB);
  ASSERT_TRUE(book.Add(std::move(other)).ok());
  auto shared = book.Share(kArena.base + 2 * kMiB, kMiB);
  ASSERT_TRUE(shared.ok());
  ASSERT_EQ(shared->chunks.size(), 1u);

  book.EndShares(quota.get());
  auto taken =
      book.TakeIf([&](uint64_t, const Chunk& chunk) { return !IsShared(chunk, quota.get()); });
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken[0].va, kArena.base);
  EXPECT_EQ(taken[0].bytes(), 2 * kMiB);
  EXPECT_EQ(taken[0].reservation.bytes(), 2 * kMiB);
  EXPECT_EQ(taken[1].va, kArena.base + 6 * kMiB);
  EXPECT_EQ(taken[1].bytes(), 4 * kMiB);
  EXPECT_EQ(taken[1].reservation.bytes(), 4 * kMiB);
  EXPECT_EQ(taken[2].va, kArena.base + 64 * kMiB);
  EXPECT_EQ(book.backed_bytes(), 4 * kMiB);
  EXPECT_TRUE(book.Backs(kArena.base + 2 * kMiB, 4 * kMiB));
  EXPECT_FALSE(book.Backs(kArena.base, 4 * kMiB));
  EXPECT_EQ(quota->used_bytes(), 12 * kMiB);

  // A client gives a grant back as one range, also after it was taken apart.
  for (Grant& one : taken) ASSERT_TRUE(book.Add(std::move(one)).ok());
  taken.clear();
  const auto removed = book.Remove(kArena.base, 10 * kMiB);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_EQ(removed->size(), 3u);
}

TEST(ArenaBookTest, AShareEndsWithTheLastOtherHolder) {
  ArenaBook book(kArena);
  auto quota = Quota::Create(64 * kMiB);
  Grant grant = SharableGrant(kArena.base, {2 * kMiB});
  grant.reservation = quota->Reserve(2 * kMiB, 2 * kMiB, kMiB);
  ASSERT_TRUE(book.Add(std::move(grant)).ok());
  auto shared = book.Share(kArena.base, kMiB);
  ASSERT_TRUE(shared.ok());
  shared->chunks.clear();
  book.EndShares(quota.get());
  const auto taken =
      book.TakeIf([](uint64_t, const Chunk& chunk) { return chunk.share == nullptr; });
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].reservation.bytes(), 2 * kMiB);
}

TEST(ArenaBookTest, ClearingGivesBackTheQuota) {
  ArenaBook book(kArena);
  auto quota = Quota::Create(64 * kMiB);
  for (int i = 0; i < 3; ++i) {
    Grant grant = GrantOf(kArena.base + 2 * kMiB * static_cast<uint64_t>(i), {2 * kMiB});
    grant.reservation = quota->Reserve(2 * kMiB, 2 * kMiB, 2 * kMiB);
    ASSERT_TRUE(book.Add(std::move(grant)).ok());
  }
  EXPECT_EQ(quota->used_bytes(), 6 * kMiB);
  EXPECT_EQ(book.Clear().size(), 3u);
  EXPECT_EQ(book.backed_bytes(), 0u);
  EXPECT_EQ(book.chunk_count(), 0u);
  EXPECT_EQ(quota->used_bytes(), 0u);
}

}  // namespace
}  // namespace warpline
