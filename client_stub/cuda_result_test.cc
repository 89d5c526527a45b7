// Holds common/cuda/cuda_result.h, which must not include CUDA's headers, to what they say.
#include "common/cuda/cuda_result.h"

#include <string>

#include "cuda.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(CudaResultTest, ListedErrorsHaveCudasNumbersAndNames) {
  int listed = 0;
  for (int number = 0; number < 1000; ++number) {
    const std::string name = CudaResultName(static_cast<CudaResult>(number));
    if (name == "CUDA_ERROR_" + std::to_string(number)) continue;
    ++listed;
    const char* cuda_name = nullptr;
    ASSERT_EQ(cuGetErrorName(static_cast<CUresult>(number), &cuda_name), CUDA_SUCCESS) << name;
    EXPECT_EQ(name, cuda_name);
  }
  EXPECT_GT(listed, 30);
}

TEST(CudaResultTest, UnknownErrorHasNoName) {
  const char* name = "";
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &name), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(name, nullptr);
}

}  // namespace
}  // namespace warpline
