#include "policy/bpf/map.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::policy::bpf {
namespace {

MapShape Array() { return {"array", MapKind::kArray, 4, 2, 3}; }
MapShape Hash(uint64_t capacity) { return {"hash", MapKind::kHash, 8, 2, capacity}; }

TEST(CheckShape, RefusesWhatCannotBeMade) {
  const std::vector<std::pair<MapShape, std::string>> refused = {
      {{"m", static_cast<MapKind>(0), 4, 1, 1}, "map m is of no known kind"},
      {{"m", static_cast<MapKind>(3), 4, 1, 1}, "map m is of no known kind"},
      {{"m", MapKind::kHash, 8, 1, 0}, "map m has a capacity of 0, and not of 1 to 1048576"},
      {{"m", MapKind::kHash, 8, 1, uint64_t{1} << 40},
       "map m has a capacity of 1099511627776, and not of 1 to 1048576"},
      {{"m", MapKind::kHash, 8, 1, ~uint64_t{0}},
       "map m has a capacity of 18446744073709551615, and not of 1 to 1048576"},
      {{"m", MapKind::kHash, 8, 0, 1}, "map m has values of 0 cells, and not of 1 to 64"},
      {{"m", MapKind::kHash, 8, 0x20000001, 1},
       "map m has values of 536870913 cells, and not of 1 to 64"},
      {{"m", MapKind::kHash, 0, 1, 1}, "map m has keys of 0 bytes, and not of 1 to 64"},
      {{"m", MapKind::kHash, 65, 1, 1}, "map m has keys of 65 bytes, and not of 1 to 64"},
      {{"m", MapKind::kArray, 8, 1, 1}, "map m is an array with keys of 8 bytes, and not of 4"},
  };
  for (const auto& [shape, reason] : refused) EXPECT_EQ(CheckShape(shape).message(), reason);
  EXPECT_TRUE(CheckShape(Array()).ok());
  EXPECT_TRUE(CheckShape(Hash(kMostEntries)).ok());
}

TEST(MapBytes, CountsPlacesAndKeys) {
  EXPECT_EQ(MapBytes(Array()), 3u * 2 * 8);
  EXPECT_EQ(MapBytes(Hash(5)), 16u * (1 + 1 + 2) * 8);  // 16 is the power of two above 10.
}

TEST(Map, AnArrayHasAllItsEntries) {
  Map map(Array());
  for (uint32_t index = 0; index < 3; ++index) {
    ASSERT_NE(map.Find(&index), nullptr);
    EXPECT_EQ(map.Find(&index)[0], 0u);
    EXPECT_EQ(map.FindOrAdd(&index), map.Find(&index));
    map.Find(&index)[1] = index;
  }
  for (const uint32_t index : {3u, 0x80000000u, 0xffffffffu}) {
    EXPECT_EQ(map.Find(&index), nullptr);
    EXPECT_EQ(map.FindOrAdd(&index), nullptr);
    EXPECT_FALSE(map.Remove(&index));
  }
  const uint32_t last = 2;
  EXPECT_EQ(map.Find(&last)[1], 2u);
  EXPECT_TRUE(map.Remove(&last));
  EXPECT_EQ(map.Find(&last)[1], 0u);
  EXPECT_EQ(map.Entries().size(), 3u);
}

TEST(Map, AHashTakesAsManyAsItsCapacity) {
  for (const uint64_t capacity : {1u, 2u, 3u, 100u, 4096u}) {
    Map map(Hash(capacity));
    for (uint64_t key = 0; key < capacity; ++key) {
      EXPECT_EQ(map.Find(&key), nullptr);
      Map::Cell* cells = map.FindOrAdd(&key);
      ASSERT_NE(cells, nullptr) << key << " of " << capacity;
      cells[0] = key * 3;
    }
    EXPECT_EQ(map.FindOrAdd(&capacity), nullptr);
    for (uint64_t key = 0; key < capacity; ++key) {
      ASSERT_NE(map.Find(&key), nullptr);
      EXPECT_EQ(map.Find(&key)[0], key * 3);
    }
    EXPECT_EQ(map.Entries().size(), capacity);
  }
}

TEST(Map, RemovedEntriesMakeRoomAndComeBackAsZeros) {
  Map map(Hash(2));
  for (uint64_t key = 0; key < 1000; ++key) {
    Map::Cell* cells = map.FindOrAdd(&key);
    ASSERT_NE(cells, nullptr);
    EXPECT_EQ(cells[0], 0u);
    EXPECT_EQ(cells[1], 0u);
    cells[0] = cells[1] = 7;
    if (key == 0) continue;
    const uint64_t before = key - 1;
    EXPECT_TRUE(map.Remove(&before));
    EXPECT_FALSE(map.Remove(&before));
    EXPECT_EQ(map.Find(&before), nullptr);
    EXPECT_NE(map.Find(&key), nullptr);
  }
  EXPECT_EQ(map.Entries().size(), 1u);
}

TEST(Map, KeysOfEverySize) {
  for (uint32_t bytes = 1; bytes <= kMostKeyBytes; ++bytes) {
    Map map({"keys", MapKind::kHash, bytes, 1, 3});
    std::string one(bytes, 'a');
    std::string other = one;
    other.back() = 'b';
    ASSERT_NE(map.FindOrAdd(one.data()), nullptr);
    EXPECT_EQ(map.Find(other.data()), nullptr);
    ASSERT_NE(map.FindOrAdd(other.data()), nullptr);
    EXPECT_NE(map.Find(one.data()), map.Find(other.data()));
    std::vector<std::string> keys;
    for (const Map::Entry& entry : map.Entries()) keys.push_back(entry.key);
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(keys, (std::vector<std::string>{one, other}));
  }
}

TEST(Map, ThreadsAddToTheSameEntries) {
  constexpr uint64_t kKeys = 50;
  Map map(Hash(kKeys));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&map] {
      for (uint64_t i = 0; i < 5000; ++i) {
        const uint64_t key = i % kKeys;
        map.FindOrAdd(&key)[0].fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t key = 0; key < kKeys; ++key) EXPECT_EQ(map.Find(&key)[0], 20000 / kKeys);
}

// A reader finds the entry that it looks for whatever happens to others, and none that is not
// there.
TEST(Map, ReadersAreNotConfusedByChanges) {
  Map map(Hash(8));
  const uint64_t stays = 1;
  map.FindOrAdd(&stays)[0] = 42;
  std::atomic<bool> is_over = false;
  std::thread changes([&] {
    for (uint64_t i = 0; i < 20000; ++i) {
      const uint64_t key = 2 + i % 100;
      if (map.FindOrAdd(&key) != nullptr) map.Remove(&key);
    }
    is_over = true;
  });
  const uint64_t never = 1000;
  while (!is_over) {
    const Map::Cell* cells = map.Find(&stays);
    ASSERT_NE(cells, nullptr);
    ASSERT_EQ(cells[0].load(), 42u);
    ASSERT_EQ(map.Find(&never), nullptr);
  }
  changes.join();
}

}  // namespace
}  // namespace warpline::policy::bpf
