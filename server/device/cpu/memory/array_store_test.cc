#include "server/device/cpu/memory/array_store.h"

#include "gtest/gtest.h"

namespace warpline::cpu {
namespace {

using device::ArrayId;
using device::ArrayShape;

constexpr uint32_t kFloat = 0x20, kLayered = 1, kCubemap = 4;

CudaResult Create(ArrayShape shape) {
  ArrayStore store;
  ArrayId id{};
  return store.Create(&shape, &id);
}

TEST(ArrayStoreTest, RefusesWhatCudaHasNoArrayOf) {
  EXPECT_EQ(Create({64, 16, 0, kFloat, 1}), CudaResult::kSuccess);
  EXPECT_EQ(Create({0, 16, 0, kFloat, 1}), CudaResult::kInvalidValue);
  EXPECT_EQ(Create({64, 16, 0, kFloat, 3}), CudaResult::kInvalidValue);
  EXPECT_EQ(Create({64, 16, 0, 0x7f, 1}), CudaResult::kInvalidValue);
  EXPECT_EQ(Create({64, 0, 4, kFloat, 1}), CudaResult::kInvalidValue);
  EXPECT_EQ(Create({64, 0, 4, kFloat, 1, kLayered}), CudaResult::kSuccess);
  EXPECT_EQ(Create({64, 32, 6, kFloat, 1, kCubemap}), CudaResult::kInvalidValue);
  EXPECT_EQ(Create({64, 64, 6, kFloat, 1, kCubemap}), CudaResult::kSuccess);
  EXPECT_EQ(Create({~uint64_t{0}, 1, 0, kFloat, 1}), CudaResult::kInvalidValue);
  EXPECT_EQ(Create({64, 16, 0, kFloat, 1, ArrayShape::kSparse}), CudaResult::kNotSupported);
  EXPECT_EQ(Create({64, 16, 0, 0x91, 4}), CudaResult::kNotSupported);
}

TEST(ArrayStoreTest, BoxesLieWithinWholeElements) {
  ArrayStore store;
  ArrayShape shape = {8, 4, 2, kFloat, 2};
  ArrayId id{};
  ASSERT_EQ(store.Create(&shape, &id), CudaResult::kSuccess);
  const auto array = store.Find(id);
  BoxPlace place;
  EXPECT_TRUE(array->Find(0, 0, 0, {64, 4, 2}, &place));
  EXPECT_EQ(place.pitch, 64u);
  EXPECT_EQ(place.slice, 256u);
  EXPECT_TRUE(array->Find(56, 3, 1, {8, 1, 1}, &place));
  EXPECT_FALSE(array->Find(56, 3, 1, {16, 1, 1}, &place));
  EXPECT_FALSE(array->Find(4, 0, 0, {8, 1, 1}, &place));
  EXPECT_FALSE(array->Find(0, 4, 0, {8, 1, 1}, &place));
  EXPECT_FALSE(array->Find(0, 0, ~uint64_t{0}, {8, 1, 1}, &place));
}

TEST(ArrayStoreTest, LevelsEndWithTheWhole) {
  ArrayStore store;
  ArrayShape shape = {8, 4, 0, kFloat, 1};
  shape.levels = 3;
  ArrayId id{}, level{};
  ASSERT_EQ(store.Create(&shape, &id), CudaResult::kSuccess);
  ArrayShape part;
  ASSERT_EQ(store.Level(id, 2, &part, &level), CudaResult::kSuccess);
  EXPECT_EQ(part.width, 2u);
  EXPECT_EQ(part.height, 1u);
  EXPECT_EQ(store.Level(id, 3, &part, &level), CudaResult::kInvalidValue);
  EXPECT_EQ(store.Destroy(id), CudaResult::kSuccess);
  EXPECT_EQ(store.Find(level), nullptr);
  EXPECT_EQ(store.Destroy(id), CudaResult::kInvalidHandle);
}

}  // namespace
}  // namespace warpline::cpu
