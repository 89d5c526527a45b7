#include "memory/quarantine.h"

#include <fcntl.h>

#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kCapacity = 1000 * kMiB;

class QuarantineTest : public testing::Test {
 protected:
  // A process is gone that had a chunk of so many bytes.
  void Add(uint64_t bytes) {
    std::vector<Chunk> chunks;
    chunks.push_back(Chunk{bytes, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC))});
    std::vector<Reservation> bill;
    bill.push_back(quota_->Reserve(bytes, bytes, 1));
    quarantine_.Add(std::move(chunks), std::move(bill));
  }
  void Settle() {
    quarantine_.Settle(now_, [this] { return known_; });
  }
  uint64_t billed() const { return quota_->used_bytes(); }

  const std::shared_ptr<Quota> quota_ = Quota::Create(100000 * kMiB);
  Quarantine quarantine_{{.capacity_bytes = kCapacity, .patience = absl::Seconds(2)}};
  absl::Time now_ = absl::UnixEpoch();
  absl::StatusOr<std::optional<uint64_t>> known_ = std::optional<uint64_t>(kCapacity);
};

TEST_F(QuarantineTest, WithoutACountMemoryIsFreeWhenItIsClosed) {
  known_ = std::optional<uint64_t>();
  Add(64 * kMiB);
  EXPECT_EQ(quarantine_.open_bytes(), 64 * kMiB);
  EXPECT_TRUE(quarantine_.pending());
  Settle();
  EXPECT_FALSE(quarantine_.pending());
  EXPECT_EQ(quarantine_.leaving_bytes(), 0u);
  EXPECT_EQ(billed(), 0u);
}

TEST_F(QuarantineTest, MemoryIsBilledUntilTheDeviceCountsIt) {
  Add(64 * kMiB);
  // The chunk is closed, and the device does not have it yet.
  int asked = 0;
  const auto late = [&]() -> absl::StatusOr<std::optional<uint64_t>> {
    return std::optional<uint64_t>(asked++ == 0 ? kCapacity : kCapacity - 64 * kMiB);
  };
  quarantine_.Settle(now_, late);
  EXPECT_EQ(quarantine_.open_bytes(), 0u);
  EXPECT_EQ(quarantine_.leaving_bytes(), 64 * kMiB);
  EXPECT_TRUE(quarantine_.pending());
  EXPECT_EQ(billed(), 64 * kMiB);
  now_ += absl::Seconds(1);
  Settle();
  EXPECT_FALSE(quarantine_.pending());
  EXPECT_EQ(quarantine_.leaving_bytes(), 0u);
  EXPECT_EQ(billed(), 0u);
}

TEST_F(QuarantineTest, ReturnsAreClosedOneAfterTheOther) {
  Add(64 * kMiB);
  Add(20 * kMiB);
  int asked = 0;
  quarantine_.Settle(now_, [&]() -> absl::StatusOr<std::optional<uint64_t>> {
    return std::optional<uint64_t>(asked++ == 0 ? kCapacity : kCapacity - 64 * kMiB);
  });
  EXPECT_EQ(quarantine_.open_bytes(), 20 * kMiB);
  EXPECT_EQ(quarantine_.settled(), 0u);
  Settle();
  EXPECT_EQ(quarantine_.settled(), 2u);
  EXPECT_EQ(billed(), 0u);
}

TEST_F(QuarantineTest, WhatDoesNotComeBackStaysOnItsBillUntilItDoes) {
  Add(64 * kMiB);
  Settle();  // The device counts it as before.
  ASSERT_EQ(billed(), 0u);
  Add(100 * kMiB);
  int asked = 0;
  quarantine_.Settle(now_, [&]() -> absl::StatusOr<std::optional<uint64_t>> {
    return std::optional<uint64_t>(asked++ == 0 ? kCapacity : kCapacity - 100 * kMiB);
  });
  known_ = std::optional<uint64_t>(kCapacity - 100 * kMiB);
  now_ += absl::Seconds(1);
  Settle();
  EXPECT_TRUE(quarantine_.pending());
  now_ += absl::Seconds(1);
  Settle();
  EXPECT_FALSE(quarantine_.pending());
  EXPECT_EQ(quarantine_.stuck_bytes(), 100 * kMiB);
  EXPECT_EQ(billed(), 100 * kMiB);
  // Others are not held up.
  Add(20 * kMiB);
  Settle();
  EXPECT_EQ(billed(), 100 * kMiB);
  EXPECT_EQ(quarantine_.leaving_bytes(), 0u);
  EXPECT_EQ(quarantine_.stuck_bytes(), 100 * kMiB);
  known_ = std::optional<uint64_t>(kCapacity);
  Settle();
  EXPECT_EQ(quarantine_.stuck_bytes(), 0u);
  EXPECT_EQ(billed(), 0u);
}

TEST_F(QuarantineTest, APartThatShowsUpIsFreeAtOnce) {
  Add(1000 * kMiB);
  int asked = 0;
  quarantine_.Settle(now_, [&]() -> absl::StatusOr<std::optional<uint64_t>> {
    return std::optional<uint64_t>(asked++ == 0 ? kCapacity : kCapacity - 900 * kMiB);
  });
  EXPECT_EQ(quarantine_.leaving_bytes(), 900 * kMiB);
  EXPECT_EQ(billed(), 900 * kMiB);
  // Nothing more does. The bill falls no further, and does not rise with what others take.
  known_ = std::optional<uint64_t>(kCapacity - 950 * kMiB);
  now_ += absl::Seconds(2);
  Settle();
  EXPECT_EQ(quarantine_.leaving_bytes(), 0u);
  EXPECT_EQ(quarantine_.stuck_bytes(), 900 * kMiB);
  EXPECT_EQ(billed(), 900 * kMiB);
  known_ = std::optional<uint64_t>(kCapacity - 600 * kMiB);
  Settle();
  EXPECT_EQ(quarantine_.stuck_bytes(), 600 * kMiB);
  EXPECT_EQ(billed(), 600 * kMiB);
}

TEST_F(QuarantineTest, AContextThatOpensMeanwhileIsNotTakenForWhatIsMissing) {
  Add(40000 * kMiB);
  int asked = 0;
  quarantine_.Settle(now_, [&]() -> absl::StatusOr<std::optional<uint64_t>> {
    return std::optional<uint64_t>(asked++ == 0 ? kCapacity : kCapacity - 550 * kMiB);
  });
  EXPECT_FALSE(quarantine_.pending());
  EXPECT_EQ(quarantine_.stuck_bytes(), 0u);
  EXPECT_EQ(billed(), 0u);
}

TEST_F(QuarantineTest, NobodyIsHeldToWhatContextsTookOfTheReserve) {
  known_ = std::optional<uint64_t>(kCapacity + 500 * kMiB);
  Add(100 * kMiB);
  int asked = 0;
  quarantine_.Settle(now_, [&]() -> absl::StatusOr<std::optional<uint64_t>> {
    return std::optional<uint64_t>(kCapacity + (asked++ == 0 ? 500 : 0) * kMiB);
  });
  EXPECT_EQ(billed(), 100 * kMiB);
  known_ = std::optional<uint64_t>(kCapacity);
  now_ += absl::Seconds(2);
  Settle();
  EXPECT_EQ(quarantine_.stuck_bytes(), 0u);
  EXPECT_EQ(billed(), 0u);
}

TEST_F(QuarantineTest, NothingIsClosedWhileTheDeviceCannotBeAsked) {
  known_ = absl::UnavailableError("no keeper");
  Add(64 * kMiB);
  Settle();
  EXPECT_EQ(quarantine_.open_bytes(), 64 * kMiB);
  EXPECT_EQ(billed(), 64 * kMiB);
  known_ = std::optional<uint64_t>(kCapacity);
  Settle();
  EXPECT_EQ(billed(), 0u);
}

TEST_F(QuarantineTest, ABillWithoutChunksIsSettledInItsTurn) {
  std::vector<Reservation> bill;
  bill.push_back(quota_->Reserve(kMiB, kMiB, 1));
  quarantine_.Add({}, std::move(bill));
  EXPECT_EQ(billed(), kMiB);
  Settle();
  EXPECT_EQ(billed(), 0u);
  EXPECT_EQ(quarantine_.settled(), 1u);
}

}  // namespace
}  // namespace warpline
