#include "client_stub/core/launch/launch_check.h"

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr DeviceLimits kDevice = {{0x7fffffff, 65535, 65535}, {1024, 1024, 64}, 1024, 65536, 32};
constexpr KernelLimits kKernel = {1024, 32, 48 << 10};

CUresult Check(const LaunchGeometry& launch, const KernelLimits& kernel = kKernel) {
  return CheckLaunch(launch, kDevice, kernel);
}

TEST(LaunchCheckTest, AcceptsWhatTheDeviceHas) {
  EXPECT_EQ(Check({{1, 1, 1}, {1, 1, 1}, 0}), CUDA_SUCCESS);
  EXPECT_EQ(Check({{0x7fffffff, 65535, 65535}, {1024, 1, 1}, 48 << 10}), CUDA_SUCCESS);
  EXPECT_EQ(Check({{1, 1, 1}, {4, 4, 64}, 0}), CUDA_SUCCESS);
}

TEST(LaunchCheckTest, ZeroInAnyDimensionIsInvalid) {
  for (int i = 0; i < 3; ++i) {
    LaunchGeometry grid = {{1, 1, 1}, {1, 1, 1}, 0};
    grid.grid[i] = 0;
    EXPECT_EQ(Check(grid), CUDA_ERROR_INVALID_VALUE);
    LaunchGeometry block = {{1, 1, 1}, {1, 1, 1}, 0};
    block.block[i] = 0;
    EXPECT_EQ(Check(block), CUDA_ERROR_INVALID_VALUE);
  }
}

TEST(LaunchCheckTest, BeyondTheDeviceIsInvalid) {
  EXPECT_EQ(Check({{0x80000000u, 1, 1}, {1, 1, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 65536, 1}, {1, 1, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 1, 1}, {1025, 1, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 1, 1}, {1, 1, 65}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 1, 1}, {32, 33, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 1, 1}, {1024, 1024, 64}, 0}), CUDA_ERROR_INVALID_VALUE);
}

TEST(LaunchCheckTest, MoreThreadsThanRegistersAllowAreTooManyResources) {
  const KernelLimits heavy = {256, 255, 48 << 10};
  EXPECT_EQ(Check({{1, 1, 1}, {256, 1, 1}, 0}, heavy), CUDA_SUCCESS);
  EXPECT_EQ(Check({{1, 1, 1}, {512, 1, 1}, 0}, heavy), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

TEST(LaunchCheckTest, MoreDynamicSharedMemoryThanTheKernelMayTakeIsInvalid) {
  EXPECT_EQ(Check({{1, 1, 1}, {1, 1, 1}, (48 << 10) + 1}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Check({{1, 1, 1}, {1, 1, 1}, 0xffffffffu}), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace warpline::stub
