#include "client_stub/core/base/handle_table.h"

#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

struct Thing {
  int value = 0;
};
using ReusingTable = HandleTable<Thing, HandleKind::kStream, true>;
using KeepingTable = HandleTable<Thing, HandleKind::kEvent, false>;

uint64_t Add(auto& table, int value) {
  return table.Add([value](Thing& thing, uint64_t) { thing.value = value; });
}

TEST(HandleTableTest, FindsWhatWasAdded) {
  static ReusingTable table;
  const uint64_t handle = Add(table, 7);
  ASSERT_NE(table.Find(handle), nullptr);
  EXPECT_EQ(table.Find(handle)->value, 7);
}

TEST(HandleTableTest, HandlesAreNoAddressesAndLeaveTheLowBitsFree) {
  static ReusingTable table;
  for (int i = 0; i < 5000; ++i) {
    const uint64_t handle = Add(table, i);
    EXPECT_EQ(handle & 0xf, 0u);
    EXPECT_EQ(handle >> 56, static_cast<uint64_t>(HandleKind::kStream));
  }
}

TEST(HandleTableTest, RemovedHandleStaysInvalidWhenItsSlotServesAgain) {
  static ReusingTable table;
  const uint64_t first = Add(table, 1);
  EXPECT_TRUE(table.Remove(first, [](Thing& thing) { EXPECT_EQ(thing.value, 1); }));
  const uint64_t second = Add(table, 2);
  EXPECT_NE(first, second);
  EXPECT_EQ(table.Find(first), nullptr);
  EXPECT_EQ(table.Find(second)->value, 2);
}

TEST(HandleTableTest, KeepingTableGivesEachObjectItsOwnSlot) {
  static KeepingTable table;
  const uint64_t first = Add(table, 1);
  Thing* kept = table.Find(first);
  EXPECT_TRUE(table.Remove(first, [](Thing&) {}));
  const uint64_t second = Add(table, 2);
  EXPECT_NE(table.Find(second), kept);
  EXPECT_EQ(kept->value, 1);
}

TEST(HandleTableTest, KnowsTheHandlesThatItGave) {
  static ReusingTable table;
  const uint64_t first = Add(table, 1);
  constexpr uint64_t kSlot = uint64_t{1} << 4, kGeneration = uint64_t{1} << 36;
  EXPECT_TRUE(table.Gave(first));
  EXPECT_FALSE(table.Gave(first + kGeneration));
  table.Remove(first, [](Thing&) {});
  EXPECT_TRUE(table.Gave(first));
  const uint64_t second = Add(table, 2);
  EXPECT_EQ(second, first + kGeneration);
  EXPECT_TRUE(table.Gave(first));
  EXPECT_TRUE(table.Gave(second));
  EXPECT_FALSE(table.Gave(0));
  EXPECT_FALSE(table.Gave(second + 1));
  EXPECT_FALSE(table.Gave(second + kSlot));
  EXPECT_FALSE(table.Gave(first - kGeneration));
  EXPECT_FALSE(table.Gave(second ^ uint64_t{1} << 56));
}

TEST(HandleTableTest, SecondRemoveFails) {
  static ReusingTable table;
  const uint64_t handle = Add(table, 1);
  EXPECT_TRUE(table.Remove(handle, [](Thing&) {}));
  EXPECT_FALSE(table.Remove(handle, [](Thing&) { FAIL(); }));
}

TEST(HandleTableTest, NumbersThatAreNoHandlesFindNothing) {
  static ReusingTable table;
  const uint64_t handle = Add(table, 1);
  for (const uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{2}, handle + 1, handle + 16,
                                handle ^ (uint64_t{1} << 40), handle ^ (uint64_t{1} << 57),
                                ~uint64_t{0}, reinterpret_cast<uint64_t>(&handle)}) {
    EXPECT_EQ(table.Find(number), nullptr) << number;
  }
}

TEST(HandleTableTest, ForEachVisitsTheValidOnesUntilToldToStop) {
  static ReusingTable table;
  const uint64_t a = Add(table, 1);
  const uint64_t b = Add(table, 2);
  const uint64_t c = Add(table, 3);
  table.Remove(b, [](Thing&) {});
  std::set<uint64_t> seen;
  table.ForEach([&](const Thing&, uint64_t handle) {
    seen.insert(handle);
    return true;
  });
  EXPECT_EQ(seen, (std::set<uint64_t>{a, c}));
  int visits = 0;
  table.ForEach([&](const Thing&, uint64_t) { return ++visits < 1; });
  EXPECT_EQ(visits, 1);
}

TEST(HandleTableTest, OneOfManyRemoversWins) {
  static ReusingTable table;
  for (int round = 0; round < 200; ++round) {
    const uint64_t handle = Add(table, round);
    std::atomic<int> wins{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] { wins += table.Remove(handle, [](Thing&) {}) ? 1 : 0; });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wins, 1);
  }
}

}  // namespace
}  // namespace warpline::stub
