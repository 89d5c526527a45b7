// Holds common/cuda/cuda_result.h and cuda_numbers.h, which must not include CUDA's headers, to
// what they say.
#include "common/cuda/cuda_result.h"

#include <string>

#include "common/cuda/cuda_numbers.h"
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

TEST(CudaNumbersTest, NumbersAreCudas) {
  EXPECT_EQ(reinterpret_cast<CUstream>(kLegacyStreamHandle), CU_STREAM_LEGACY);
  EXPECT_EQ(reinterpret_cast<CUstream>(kPerThreadStreamHandle), CU_STREAM_PER_THREAD);
  EXPECT_EQ(kStreamNonBlocking, uint32_t{CU_STREAM_NON_BLOCKING});
  EXPECT_EQ(kEventDisableTiming, uint32_t{CU_EVENT_DISABLE_TIMING});
  EXPECT_EQ(kFunctionSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  EXPECT_EQ(kFunctionLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  EXPECT_EQ(kFunctionRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
  EXPECT_EQ(kLimitStackSize, CU_LIMIT_STACK_SIZE);
  EXPECT_EQ(kLimitPrintfFifoSize, CU_LIMIT_PRINTF_FIFO_SIZE);
  EXPECT_EQ(kLimitMallocHeapSize, CU_LIMIT_MALLOC_HEAP_SIZE);
  EXPECT_EQ(kLimitPendingLaunches, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT);
  EXPECT_EQ(kLimitL2FetchGranularity, CU_LIMIT_MAX_L2_FETCH_GRANULARITY);
  EXPECT_EQ(kLimitPersistingL2Size, CU_LIMIT_PERSISTING_L2_CACHE_SIZE);
}

}  // namespace
}  // namespace warpline
