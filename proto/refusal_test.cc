#include "proto/refusal.h"

#include <string>

#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

using warpline_internal::Refusal;

TEST(RefusalTest, StatusSaysWhy) {
  EXPECT_EQ(RefusalOf(ArenaUnavailable("taken")).reason(), Refusal::ARENA_UNAVAILABLE);
  const Refusal large = RefusalOf(ArenaTooLarge(1ull << 42, 1ull << 36));
  EXPECT_EQ(large.reason(), Refusal::ARENA_TOO_LARGE);
  EXPECT_EQ(large.most_arena_bytes(), 1ull << 36);
  EXPECT_EQ(RefusalOf(NoRoom("full")).reason(), Refusal::NO_ROOM);
  EXPECT_EQ(RefusalOf(NoServer("none is up")).reason(), Refusal::NO_SERVER);
  EXPECT_EQ(RefusalOf(absl::AbortedError("no arena")).reason(), Refusal::UNSPECIFIED);
  EXPECT_EQ(RefusalOf(absl::OkStatus()).reason(), Refusal::UNSPECIFIED);
}

TEST(RefusalTest, PayloadsFitWhatTransportsCarry) {
  const auto payload = ArenaTooLarge(~0ull, ~0ull).GetPayload(kRefusalPayload);
  ASSERT_TRUE(payload.has_value());
  EXPECT_LE(payload->size(), kMaxRefusalBytes);
}

TEST(RefusalTest, GarbageAndWhatIsTooLongSayNothing) {
  absl::Status status = absl::AbortedError("x");
  for (const std::string& payload : {std::string("\xff\xff\xff"), std::string(100000, '\x08')}) {
    status.SetPayload(kRefusalPayload, absl::Cord(payload));
    EXPECT_EQ(RefusalOf(status).reason(), Refusal::UNSPECIFIED);
  }
}

}  // namespace
}  // namespace warpline
