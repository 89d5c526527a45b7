#include "client_stub/core/memory/host_memory.h"

#include <cstring>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(HostMemoryTest, AllocatedMemoryIsUsableAndFound) {
  HostMemory memory;
  void* base = nullptr;
  ASSERT_EQ(memory.Allocate(5000, CU_MEMHOSTALLOC_PORTABLE, &base), CUDA_SUCCESS);
  std::memset(base, 1, 5000);
  HostMemory::Range range;
  ASSERT_TRUE(memory.Find(static_cast<char*>(base) + 4999, &range));
  EXPECT_EQ(range.base, base);
  EXPECT_EQ(range.bytes, 5000u);
  EXPECT_EQ(range.flags, static_cast<unsigned int>(CU_MEMHOSTALLOC_PORTABLE));
  EXPECT_FALSE(memory.Find(static_cast<char*>(base) + 5000, &range));
  EXPECT_TRUE(memory.Remove(base));
  EXPECT_FALSE(memory.Find(base, &range));
  EXPECT_FALSE(memory.Remove(base));
}

TEST(HostMemoryTest, NothingIsNullAndTooMuchIsRefused) {
  HostMemory memory;
  void* base = nullptr;
  EXPECT_EQ(memory.Allocate(0, 0, &base), CUDA_SUCCESS);
  EXPECT_EQ(base, nullptr);
  EXPECT_EQ(memory.Allocate(uint64_t{1} << 60, 0, &base), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory.Allocate(~uint64_t{0}, 0, &base), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(HostMemoryTest, RangesInPartInsideAreNotContained) {
  HostMemory memory;
  char storage[200];
  char* const buffer = storage + 50;
  ASSERT_EQ(memory.Register(buffer, 100, 0), CUDA_SUCCESS);
  EXPECT_TRUE(memory.Contains(buffer, 100));
  EXPECT_TRUE(memory.Contains(buffer + 40, 60));
  EXPECT_FALSE(memory.Contains(buffer + 40, 61));
  EXPECT_FALSE(memory.Contains(buffer - 1, 2));
}

TEST(HostMemoryTest, OverlappingRegistrationIsRefused) {
  HostMemory memory;
  char buffer[100];
  ASSERT_EQ(memory.Register(buffer + 20, 20, 0), CUDA_SUCCESS);
  EXPECT_EQ(memory.Register(buffer + 30, 20, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(memory.Register(buffer, 21, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(memory.Register(buffer, 20, 0), CUDA_SUCCESS);
  EXPECT_EQ(memory.Register(buffer + 40, 20, 0), CUDA_SUCCESS);
  EXPECT_EQ(memory.Register(nullptr, 20, 0), CUDA_ERROR_INVALID_VALUE);
  void* allocated = nullptr;
  ASSERT_EQ(memory.Allocate(100, 0, &allocated), CUDA_SUCCESS);
  EXPECT_EQ(memory.Register(allocated, 100, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(HostMemoryTest, RemembersTheLatestCopyIntoARange) {
  HostMemory memory;
  char buffer[100];
  ASSERT_EQ(memory.Register(buffer, 100, 0), CUDA_SUCCESS);
  memory.NoteCopy(buffer + 5, 1, 12);
  memory.NoteCopy(buffer + 50, 1, 9);
  HostMemory::Range range;
  ASSERT_TRUE(memory.Find(buffer, &range));
  EXPECT_EQ(range.last_copy, 12u);
}

}  // namespace
}  // namespace warpline::stub
