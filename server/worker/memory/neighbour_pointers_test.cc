#include "server/worker/memory/neighbour_pointers.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/frames.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kOwn = 0x300000000000;
constexpr uint64_t kNeighbour = kOwn + 64 * kGiB;

class NeighbourPointersTest : public testing::Test {
 protected:
  NeighbourPointersTest() { arenas_.Add(kOwn, 4 * kGiB); }

  static std::string Words(const std::vector<uint64_t>& words) {
    return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t)};
  }
  uint64_t Look(absl::Span<const device::ParamLayout> layout, const std::string& params) {
    pointers_.Look(layout, params);
    return ReadUsage(usage_)[Usage::kNeighbourPointers];
  }

  ArenaBook arenas_;
  SharedUsage usage_;
  NeighbourPointers pointers_{&arenas_, kOwn, 4 * kGiB, &usage_};
};

TEST_F(NeighbourPointersTest, WithoutNeighboursNothingIsCounted) {
  EXPECT_EQ(Look({{{0, 8}}}, Words({kOwn + 64})), 0u);
  EXPECT_EQ(Look({{{0, 8}}}, Words({kNeighbour})), 0u);
}

TEST_F(NeighbourPointersTest, AddressesOfOthersAreCountedAndOnlyThose) {
  arenas_.Add(kNeighbour, 4 * kGiB);
  EXPECT_EQ(Look({{{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}}},
                 Words({kOwn, kOwn + 4 * kGiB - 1, kHostArenaBase + 64, 0, kOwn + 32 * kGiB})),
            0u);
  EXPECT_EQ(Look({{{0, 8}, {8, 8}}}, Words({kNeighbour, kNeighbour + 4 * kGiB})), 1u);
  EXPECT_EQ(Look({{{0, 8}, {8, 8}}}, Words({kOwn, kNeighbour + 4 * kGiB - 1})), 2u);
}

TEST_F(NeighbourPointersTest, WordsOfStructuresCountAndPairsOfNumbersDoNot) {
  arenas_.Add(kNeighbour, 4 * kGiB);
  const std::string params = Words({kNeighbour, kOwn, kNeighbour + 8, kNeighbour});
  EXPECT_EQ(Look({{{0, 24}, {24, 4}, {28, 4}}}, params), 2u);
}

TEST_F(NeighbourPointersTest, ABufferThatIsTooShortIsReadToItsEnd) {
  arenas_.Add(kNeighbour, 4 * kGiB);
  EXPECT_EQ(Look({{{0, 4096}}}, Words({kNeighbour}) + "1234567"), 1u);
  EXPECT_EQ(Look({{{4, ~uint32_t{0}}}}, Words({kNeighbour, kNeighbour})), 2u);
  EXPECT_EQ(Look({{{~uint32_t{0}, ~uint32_t{0}}}}, Words({kNeighbour})), 2u);
}

TEST_F(NeighbourPointersTest, SoManyWordsAreLookedAt) {
  arenas_.Add(kNeighbour, 4 * kGiB);
  constexpr size_t kWords = 4000;
  EXPECT_EQ(Look({{{0, 8 * kWords}, {0, 8}}}, Words(std::vector<uint64_t>(kWords, kNeighbour))),
            NeighbourPointers::kMostWords);
}

}  // namespace
}  // namespace warpline::worker
