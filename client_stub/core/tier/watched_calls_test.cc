// What calls tell the watch of a session of the guarded tier.
#include <string>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/testing/core_fixture.h"
#include "client_stub/core/tier/tier_watch.h"
#include "common/log/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

using testing::HasSubstr;

class WatchedCallsTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    runtime().tier_watch = &watch_;
  }
  void TearDown() override {
    runtime().tier_watch = nullptr;
    CoreTest::TearDown();
  }
  static void Answer(CommandId id, CudaResult result) {
    session().SetAnswer(id, [result](const FakeCommands::Sent&, std::string*) { return result; });
  }

  TierWatch watch_;
  LogCapture log_;
};

// Programs ask, and have other ways.
TEST_F(WatchedCallsTest, AttributesDenyWhatTheTierLacks) {
  const auto attribute = [](CUdevice_attribute id) {
    int value = -1;
    EXPECT_EQ(cuDeviceGetAttribute(&value, id, 0), CUDA_SUCCESS);
    return value;
  };
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED), 0);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES), 0);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH), 0);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED), 1);
  runtime().tier_watch = nullptr;
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED), 1);
}

TEST_F(WatchedCallsTest, ModulesWithoutPtx) {
  Answer(CommandId::kModuleCheck, CudaResult::kNoBinaryForGpu);
  // It lies in this program, whose name is said.
  CUmodule module;
  EXPECT_EQ(cuModuleLoadData(&module, kPtx), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(log_.Text(), HasSubstr("a module of watched_calls_test has no PTX for the device"));
}

TEST_F(WatchedCallsTest, KernelsThatTheGuardRefuses) {
  CUmodule module;
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  EXPECT_EQ(log_.Text(), "");
  Answer(CommandId::kKernelFind, CudaResult::kNotSupported);
  CUfunction function;
  EXPECT_EQ(cuModuleGetFunction(&function, module, "wild"), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(log_.Text(), HasSubstr("wild of a module is refused by the guard"));
}

TEST_F(WatchedCallsTest, KernelsThatAreNotThereAreNobodysFault) {
  CUmodule module;
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  Answer(CommandId::kKernelFind, CudaResult::kNotFound);
  CUfunction function;
  EXPECT_EQ(cuModuleGetFunction(&function, module, "other"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(log_.Text(), "");
}

TEST_F(WatchedCallsTest, MemoryThatIsRefused) {
  CUdeviceptr pointer;
  EXPECT_EQ(cuMemAlloc_v2(&pointer, size_t{1} << 40), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(log_.Text(), HasSubstr("more memory was refused"));
}

TEST_F(WatchedCallsTest, Arrays) {
  Answer(CommandId::kArrayCreate, CudaResult::kNotSupported);
  const CUDA_ARRAY_DESCRIPTOR shape = {
      .Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
  CUarray array;
  EXPECT_EQ(cuArrayCreate_v2(&array, &shape), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(log_.Text(), HasSubstr("the tier has no arrays"));
}

TEST_F(WatchedCallsTest, TheLinker) {
  Answer(CommandId::kLinkCreate, CudaResult::kNotSupported);
  CUlinkState link;
  EXPECT_EQ(cuLinkCreate_v2(0, nullptr, nullptr, &link), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(log_.Text(), HasSubstr("the tier has no linker"));
}

}  // namespace
}  // namespace warpline::stub
