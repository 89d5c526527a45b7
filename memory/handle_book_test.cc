#include "memory/handle_book.h"

#include <fcntl.h>

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr uint64_t kMiB = 1ull << 20;

HeldMemory Memory(Quota* quota, const std::vector<uint64_t>& sizes) {
  HeldMemory memory;
  uint64_t bytes = 0;
  for (const uint64_t size : sizes) {
    memory.chunks.push_back(Chunk{size, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC))});
    bytes += size;
  }
  memory.reservation = quota->Reserve(bytes, bytes, 2 * kMiB);
  return memory;
}

TEST(HandleBookTest, CountsWhatItHolds) {
  const auto quota = Quota::Create(100 * kMiB);
  HandleBook book;
  EXPECT_TRUE(book.Add(7, Memory(quota.get(), {20 * kMiB, 2 * kMiB})));
  EXPECT_FALSE(book.Add(7, Memory(quota.get(), {2 * kMiB})));
  EXPECT_EQ(book.bytes(), 22 * kMiB);
  EXPECT_EQ(book.BytesOf(7), 22 * kMiB);
  EXPECT_EQ(book.BytesOf(8), 0u);
  EXPECT_EQ(book.chunk_count(), 2u);
  EXPECT_TRUE(book.Remove(7).has_value());
  EXPECT_FALSE(book.Remove(7).has_value());
  EXPECT_EQ(book.bytes(), 0u);
  EXPECT_EQ(quota->used_bytes(), 0u);
}

TEST(HandleBookTest, SharedMemoryTakesItsQuotaUntilTheLastHolderIsGone) {
  const auto quota = Quota::Create(100 * kMiB);
  HandleBook first, second;
  ASSERT_TRUE(first.Add(1, Memory(quota.get(), {2 * kMiB, 2 * kMiB})));
  auto chunks = first.Share(1);
  ASSERT_TRUE(chunks.ok());
  HeldMemory opened;
  opened.chunks = *std::move(chunks);
  ASSERT_TRUE(second.Add(9, std::move(opened)));
  EXPECT_EQ(quota->used_bytes(), 4 * kMiB);

  // The session that made it goes first; nothing goes back to the pool yet.
  std::vector<Reservation> bill;
  EXPECT_TRUE(TakeUnshared(std::move(first.Remove(1)->chunks), &bill).empty());
  EXPECT_TRUE(bill.empty());
  EXPECT_EQ(quota->used_bytes(), 4 * kMiB);
  EXPECT_EQ(TakeUnshared(std::move(second.Remove(9)->chunks), &bill).size(), 2u);
  // Who frees the chunks keeps the bill until that is done.
  EXPECT_EQ(quota->used_bytes(), 4 * kMiB);
  bill.clear();
  EXPECT_EQ(quota->used_bytes(), 0u);
}

TEST(HandleBookTest, TwoHoldsGivenBackTogetherGiveTheChunkBackOnce) {
  const auto quota = Quota::Create(100 * kMiB);
  HandleBook book;
  ASSERT_TRUE(book.Add(1, Memory(quota.get(), {2 * kMiB})));
  auto chunks = book.Share(1);
  ASSERT_TRUE(chunks.ok());
  for (auto& [handle, memory] : book.Clear()) chunks->push_back(std::move(memory.chunks[0]));
  std::vector<Reservation> bill;
  EXPECT_EQ(TakeUnshared(*std::move(chunks), &bill).size(), 1u);
}

TEST(HandleBookTest, HandlesAreTakenWhole) {
  const auto quota = Quota::Create(100 * kMiB);
  HandleBook book;
  ASSERT_TRUE(book.Add(1, Memory(quota.get(), {2 * kMiB, 2 * kMiB})));
  ASSERT_TRUE(book.Add(2, Memory(quota.get(), {4 * kMiB})));
  {
    const auto hold = book.Share(2);
    ASSERT_TRUE(hold.ok());
    book.EndShares(quota.get());
    const auto taken = book.TakeIf([&](uint64_t, const HeldMemory& memory) {
      return !IsShared(memory.chunks[0], quota.get());
    });
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(taken.begin()->first, 1u);
    EXPECT_EQ(taken.begin()->second.reservation.bytes(), 4 * kMiB);
    EXPECT_EQ(book.bytes(), 4 * kMiB);
    EXPECT_EQ(book.chunk_count(), 1u);
  }
  book.EndShares(quota.get());
  const auto taken = book.TakeIf([](uint64_t, const HeldMemory&) { return true; });
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken.begin()->second.reservation.bytes(), 4 * kMiB);
}

TEST(HandleBookTest, NobodySharesWhatThereIsNot) {
  HandleBook book;
  EXPECT_EQ(book.Share(3).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace warpline
