#include "client_stub/session/handshake/arena_search.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "proto/refusal.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

std::vector<ArenaCandidate> Candidates() {
  std::vector<ArenaCandidate> candidates;
  for (const uint64_t bytes : {64 * kGiB, 16 * kGiB, 4 * kGiB}) {
    for (uint64_t base = 1; base <= 3; ++base) candidates.push_back({base << 40, bytes});
  }
  return candidates;
}

TEST(ArenaSearchTest, GoesThroughTheCandidatesInOrder) {
  ArenaSearch search({{1ull << 40, 4 * kGiB}, {2ull << 40, 4 * kGiB}});
  EXPECT_EQ(search.Next()->base, 1ull << 40);
  EXPECT_EQ(search.Next()->base, 2ull << 40);
  EXPECT_FALSE(search.Next().has_value());
  EXPECT_TRUE(absl::StrContains(search.Failure().message(), "this process's address space"));
}

TEST(ArenaSearchTest, LargerOnesThanTheServerAllowsAreLeftOut) {
  ArenaSearch search(Candidates());
  ASSERT_EQ(search.Next()->bytes, 64 * kGiB);
  EXPECT_TRUE(search.OnRefused(ArenaTooLarge(64 * kGiB, 8 * kGiB)));
  EXPECT_EQ(search.Next()->bytes, 4 * kGiB);
}

TEST(ArenaSearchTest, ServerThatAllowsNoneIsBelieved) {
  ArenaSearch search(Candidates());
  ASSERT_TRUE(search.Next().has_value());
  EXPECT_TRUE(search.OnRefused(ArenaTooLarge(64 * kGiB, 0)));
  EXPECT_FALSE(search.Next().has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(search.Failure()));
}

TEST(ArenaSearchTest, EndsAfterSoManyRefusals) {
  ArenaSearch search(Candidates());
  for (int i = 0; i < ArenaSearch::kMostRefusals; ++i) {
    ASSERT_TRUE(search.Next().has_value());
    EXPECT_TRUE(search.OnRefused(ArenaUnavailable("a library is there")));
  }
  EXPECT_FALSE(search.Next().has_value());
  EXPECT_TRUE(absl::StrContains(search.Failure().message(), "a library is there"));
}

TEST(ArenaSearchTest, OtherRefusalsEndIt) {
  ArenaSearch search(Candidates());
  ASSERT_TRUE(search.Next().has_value());
  EXPECT_FALSE(search.OnRefused(absl::AbortedError("the arena's addresses are taken")));
  EXPECT_FALSE(search.OnRefused(absl::UnavailableError("draining")));
  // This reason is one that only a newer server knows.
  warpline_internal::Refusal newer;
  newer.set_reason(static_cast<warpline_internal::Refusal::Reason>(77));
  absl::Status status = absl::AbortedError("newer");
  status.SetPayload(kRefusalPayload, absl::Cord(newer.SerializeAsString()));
  EXPECT_FALSE(search.OnRefused(status));
}

}  // namespace
}  // namespace warpline::stub
