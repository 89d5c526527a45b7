#include "client_stub/core/managed/range_advice.h"

#include <iterator>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kPage = 4096;
constexpr CUmemLocation kDevice = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
constexpr CUmemLocation kHost = {CU_MEM_LOCATION_TYPE_HOST, 0};

int Word(const Advice& advice, CUmem_range_attribute attribute) {
  int value = 77;
  EXPECT_EQ(GiveRangeAttribute(advice, attribute, &value, sizeof(value)), CUDA_SUCCESS);
  return value;
}

TEST(RangeAdviceTest, NothingIsSaidAtFirst) {
  const Advice advice = RangeAdvice().Common(0, 10 * kPage);
  EXPECT_EQ(Word(advice, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
  EXPECT_EQ(Word(advice, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), CU_DEVICE_INVALID);
  EXPECT_EQ(Word(advice, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), CU_DEVICE_INVALID);
  EXPECT_EQ(Word(advice, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY), CU_DEVICE_INVALID);
  EXPECT_EQ(Word(advice, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE),
            CU_MEM_LOCATION_TYPE_INVALID);
}

TEST(RangeAdviceTest, HoldsForARangeWhenItHoldsForEachOfItsPages) {
  RangeAdvice said;
  said.Change(kPage, 3 * kPage, [](Advice* advice) { advice->read_mostly = true; });
  EXPECT_TRUE(said.Common(kPage, 3 * kPage).read_mostly);
  EXPECT_TRUE(said.Common(2 * kPage, 3 * kPage).read_mostly);
  EXPECT_FALSE(said.Common(0, 2 * kPage).read_mostly);
  EXPECT_FALSE(said.Common(2 * kPage, 4 * kPage).read_mostly);
  said.Change(0, kPage, [](Advice* advice) { advice->preferred = kDevice; });
  said.Change(kPage, 2 * kPage, [](Advice* advice) { advice->preferred = kHost; });
  EXPECT_EQ(Word(said.Common(0, kPage), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), 0);
  EXPECT_EQ(Word(said.Common(kPage, 2 * kPage), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION),
            CU_DEVICE_CPU);
  EXPECT_EQ(Word(said.Common(0, 2 * kPage), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION),
            CU_DEVICE_INVALID);
  said.Change(0, 4 * kPage, [](Advice* advice) { advice->accessed_by.insert(0); });
  said.Change(0, kPage, [](Advice* advice) { advice->accessed_by.insert(CU_DEVICE_CPU); });
  EXPECT_EQ(said.Common(0, 4 * kPage).accessed_by, std::set<int>{0});
}

TEST(RangeAdviceTest, PartsThatAgreeAgainBecomeOne) {
  RangeAdvice said;
  for (uint64_t page = 0; page < 100; ++page) {
    said.Change(page * kPage, (page + 1) * kPage,
                [](Advice* advice) { advice->prefetched = kHost; });
  }
  EXPECT_EQ(said.parts(), 2u);
  said.Change(50 * kPage, 51 * kPage, [](Advice* advice) { advice->prefetched = kDevice; });
  EXPECT_EQ(said.parts(), 4u);
  said.Change(0, 100 * kPage, [](Advice* advice) { advice->prefetched = {}; });
  EXPECT_EQ(said.parts(), 1u);
}

TEST(RangeAdviceTest, ListsDevicesAndFillsTheRest) {
  Advice advice;
  advice.accessed_by = {0, CU_DEVICE_CPU};
  int devices[3] = {77, 77, 77};
  ASSERT_EQ(GiveRangeAttribute(advice, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, devices, 12),
            CUDA_SUCCESS);
  EXPECT_EQ(std::set<int>(devices, std::end(devices)),
            (std::set<int>{0, CU_DEVICE_CPU, CU_DEVICE_INVALID}));
  EXPECT_EQ(devices[2], CU_DEVICE_INVALID);
}

TEST(RangeAdviceTest, SizesAreThoseOfTheAttributes) {
  const Advice advice;
  int words[2];
  EXPECT_EQ(GiveRangeAttribute(advice, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, words, 8),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(GiveRangeAttribute(advice, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, words, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(GiveRangeAttribute(advice, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, words, 6),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(GiveRangeAttribute(advice, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, nullptr, 4),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(GiveRangeAttribute(advice, static_cast<CUmem_range_attribute>(99), words, 4),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace warpline::stub
