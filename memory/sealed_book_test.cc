#include "memory/sealed_book.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kBase = 1ull << 32;

class SealedBookTest : public testing::Test {
 protected:
  SealedBookTest() {
    // As two chunks.
    book_.Add(kBase, 64 * kMiB);
    book_.Add(kBase + 64 * kMiB, 64 * kMiB);
  }
  absl::StatusCode CodeOfReturn(uint64_t va, uint64_t bytes) {
    return book_.Return(va, bytes).code();
  }
  absl::StatusCode CodeOfTake(uint64_t va, uint64_t min_bytes, uint64_t want_bytes) {
    return book_.Take(va, min_bytes, want_bytes).status().code();
  }

  SealedBook book_;
};

TEST_F(SealedBookTest, WhatIsReturnedIsTakenAgain) {
  EXPECT_EQ(CodeOfTake(kBase, 2 * kMiB, 2 * kMiB), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOfReturn(kBase, 128 * kMiB), absl::StatusCode::kOk);
  EXPECT_EQ(book_.Take(kBase, 2 * kMiB, 32 * kMiB).value(), 32 * kMiB);
  EXPECT_EQ(book_.Take(kBase + 64 * kMiB, 2 * kMiB, 128 * kMiB).value(), 64 * kMiB);
  EXPECT_EQ(book_.Take(kBase + 32 * kMiB, 32 * kMiB, 32 * kMiB).value(), 32 * kMiB);
  EXPECT_EQ(CodeOfReturn(kBase, 128 * kMiB), absl::StatusCode::kOk);
}

TEST_F(SealedBookTest, NothingIsTakenBeyondWhatThereIs) {
  EXPECT_EQ(CodeOfTake(kBase + 128 * kMiB, 2 * kMiB, 4 * kMiB),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOfTake(0, 2 * kMiB, 4 * kMiB), absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(CodeOfReturn(kBase + 126 * kMiB, 2 * kMiB), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOfTake(kBase + 126 * kMiB, 4 * kMiB, 4 * kMiB),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(book_.Take(kBase + 126 * kMiB, 2 * kMiB, 4 * kMiB).value(), 2 * kMiB);
}

TEST_F(SealedBookTest, WhatTheClientHasIsNotTakenTwice) {
  ASSERT_EQ(CodeOfReturn(kBase, 8 * kMiB), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOfTake(kBase, 16 * kMiB, 16 * kMiB), absl::StatusCode::kInvalidArgument);
  // Just before all of it.
  EXPECT_EQ(CodeOfTake(kBase - 2 * kMiB, 16 * kMiB, 16 * kMiB), absl::StatusCode::kInvalidArgument);
}

TEST_F(SealedBookTest, WhatTheClientDoesNotHaveIsNotReturned) {
  EXPECT_EQ(CodeOfReturn(kBase - 2 * kMiB, 4 * kMiB), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOfReturn(kBase + 126 * kMiB, 4 * kMiB), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOfReturn(kBase, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOfReturn(kBase + kMiB, 2 * kMiB), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOfReturn(kBase, ~uint64_t{0} - 2 * kMiB + 1), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(CodeOfReturn(kBase, 4 * kMiB), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOfReturn(kBase, 2 * kMiB), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace warpline
