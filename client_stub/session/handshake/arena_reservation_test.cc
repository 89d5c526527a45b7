#include "client_stub/session/handshake/arena_reservation.h"

#include <sys/mman.h>

#include <utility>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

ArenaReservation FirstFree() {
  for (const ArenaCandidate& candidate : ArenaCandidates()) {
    ArenaReservation arena = ArenaReservation::At(candidate.base, candidate.bytes);
    if (arena.held()) return arena;
  }
  return {};
}

TEST(ArenaReservationTest, CandidatesArePowersOfTwoAlignedToTheirSize) {
  uint64_t last = ~0ull;
  for (const ArenaCandidate& candidate : ArenaCandidates()) {
    EXPECT_EQ(candidate.bytes & (candidate.bytes - 1), 0u);
    EXPECT_GE(candidate.bytes, 4 * kGiB);
    EXPECT_EQ(candidate.base % candidate.bytes, 0u);
    EXPECT_LE(candidate.base + candidate.bytes, 1ull << 47);
    EXPECT_LE(candidate.bytes, last);
    last = candidate.bytes;
  }
}

TEST(ArenaReservationTest, FindsAPlaceInThisProcess) { EXPECT_TRUE(FirstFree().held()); }

TEST(ArenaReservationTest, TakenRangeIsRefusedUntilItIsGivenBack) {
  ArenaReservation first = FirstFree();
  ASSERT_TRUE(first.held());
  EXPECT_FALSE(ArenaReservation::At(first.base(), first.bytes()).held());
  const uint64_t base = first.base();
  const uint64_t bytes = first.bytes();
  ArenaReservation moved = std::move(first);
  // What a move leaves is the test.
  EXPECT_FALSE(first.held());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  moved = ArenaReservation();
  ArenaReservation again;
  again = ArenaReservation::At(base, bytes);
  EXPECT_TRUE(again.held());
}

}  // namespace
}  // namespace warpline::stub
