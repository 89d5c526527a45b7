#include "server/device/staging_pool.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::device {
namespace {

constexpr size_t kUnit = StagingPool::kUnit;

TEST(StagingPoolTest, ItIsExhaustedAndWhatIsGivenBackJoins) {
  std::vector<char> memory(8 * kUnit);
  StagingPool pool(memory.data(), memory.size());
  void* const first = pool.Take(1);
  void* const second = pool.Take(2 * kUnit);
  void* const third = pool.Take(5 * kUnit);
  EXPECT_EQ(first, memory.data());
  ASSERT_NE(second, nullptr);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(pool.Take(1), nullptr);
  EXPECT_EQ(pool.free_bytes(), 0u);
  pool.GiveBack(first);
  pool.GiveBack(third);
  EXPECT_EQ(pool.Take(6 * kUnit), nullptr) << "not in one piece";
  pool.GiveBack(second);
  EXPECT_EQ(pool.Take(8 * kUnit), memory.data());
}

TEST(StagingPoolTest, NobodyReadsWhatAnotherLeft) {
  std::vector<char> memory(2 * kUnit);
  StagingPool pool(memory.data(), memory.size());
  void* const taken = pool.Take(kUnit + 1);
  std::memset(taken, 1, 2 * kUnit);
  pool.GiveBack(taken);
  EXPECT_EQ(memory, std::vector<char>(2 * kUnit));
}

TEST(StagingPoolTest, NonsenseDoesNoHarm) {
  std::vector<char> memory(2 * kUnit);
  StagingPool pool(memory.data(), memory.size());
  EXPECT_EQ(pool.Take(0), nullptr);
  EXPECT_EQ(pool.Take(SIZE_MAX), nullptr);
  void* const taken = pool.Take(1);
  pool.GiveBack(memory.data() + 1);
  pool.GiveBack(nullptr);
  pool.GiveBack(taken);
  pool.GiveBack(taken);
  EXPECT_EQ(pool.free_bytes(), 2 * kUnit);
  StagingPool none(nullptr, 0);
  EXPECT_EQ(none.Take(1), nullptr);
}

}  // namespace
}  // namespace warpline::device
