#include <cstring>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

class LaunchCallsTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    kernel_ = LoadKernel();
    session().Clear();
  }

  CUresult Launch(unsigned int grid, unsigned int block, unsigned int shared_bytes = 0) {
    return cuLaunchKernel(kernel_, grid, 1, 1, block, 1, 1, shared_bytes, nullptr, parameters_,
                          nullptr);
  }

  uint64_t first_ = 0x1122334455667788;
  uint32_t second_ = 0x99aabbcc;
  void* parameters_[2] = {&first_, &second_};
  CUfunction kernel_ = nullptr;
};

TEST_F(LaunchCallsTest, PacksParametersByTheKernelsLayout) {
  ASSERT_EQ(Launch(3, 64, 128), CUDA_SUCCESS);
  std::string tail;
  const auto launch = session().Latest<cmd::Launch>(&tail);
  EXPECT_EQ(launch.stream, 1u);
  EXPECT_EQ(launch.grid_x, 3u);
  EXPECT_EQ(launch.block_x, 64u);
  EXPECT_EQ(launch.dynamic_shared_bytes, 128u);
  ASSERT_EQ(tail.size(), 16u);
  EXPECT_EQ(std::memcmp(tail.data(), &first_, 8), 0);
  EXPECT_EQ(tail.substr(8, 4), std::string(4, '\0'));
  EXPECT_EQ(std::memcmp(tail.data() + 12, &second_, 4), 0);
}

TEST_F(LaunchCallsTest, TakesPackedParameters) {
  char packed[16] = "packed already.";
  size_t bytes = sizeof(packed);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  ASSERT_EQ(cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), CUDA_SUCCESS);
  std::string tail;
  session().Latest<cmd::Launch>(&tail);
  EXPECT_EQ(tail, std::string(packed, sizeof(packed)));
  bytes = 8;
  ASSERT_EQ(cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), CUDA_SUCCESS);
  session().Latest<cmd::Launch>(&tail);
  EXPECT_EQ(tail, std::string(packed, 8) + std::string(8, '\0'));
  EXPECT_EQ(cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters_, extra),
            CUDA_ERROR_INVALID_VALUE);
  bytes = 17;
  EXPECT_EQ(cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  bytes = 0;
  EXPECT_EQ(cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchCallsTest, ArgumentErrorsAreFoundBeforeAnythingIsSent) {
  EXPECT_EQ(Launch(0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(1, 2048), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(1, 1, 48 << 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters_, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, reinterpret_cast<CUstream>(kernel_),
                           parameters_, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_TRUE(session().sent().empty());
}

TEST_F(LaunchCallsTest, MoreSharedMemoryOnceTheKernelMayTakeIt) {
  EXPECT_EQ(cuFuncSetAttribute(kernel_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuFuncSetAttribute(kernel_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10),
            CUDA_SUCCESS);
  ASSERT_EQ(cuFuncSetAttribute(kernel_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10),
            CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kKernelSetAttribute), 1);
  EXPECT_EQ(Launch(1, 1, 100 << 10), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncSetAttribute(kernel_, CU_FUNC_ATTRIBUTE_NUM_REGS, 1), CUDA_ERROR_INVALID_VALUE);
}

// The worker never lowers the size that it once allowed the device, so this is the only check.
TEST_F(LaunchCallsTest, LessSharedMemoryOnceTheKernelMayTakeLess) {
  constexpr auto kAttribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  ASSERT_EQ(cuFuncSetAttribute(kernel_, kAttribute, 100 << 10), CUDA_SUCCESS);
  ASSERT_EQ(Launch(1, 1, 100 << 10), CUDA_SUCCESS);
  ASSERT_EQ(cuFuncSetAttribute(kernel_, kAttribute, 1 << 10), CUDA_SUCCESS);
  EXPECT_EQ(Launch(1, 1, (1 << 10) + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Launch(1, 1, 1 << 10), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kLaunch), 2);
}

TEST_F(LaunchCallsTest, LaunchBlockingWaitsForEachLaunch) {
  runtime().launch_blocking = true;
  session().SetComplete(false);
  session().SetAnswer(CommandId::kStreamSync, [](const FakeSession::Sent&, std::string*) {
    return CudaResult::kIllegalAddress;
  });
  EXPECT_EQ(Launch(1, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  runtime().launch_blocking = false;
  EXPECT_EQ(Launch(1, 1), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamSync), 1);
}

TEST_F(LaunchCallsTest, LibraryIsSentWhenAKernelIsLookedUpAndOnlyOnce) {
  CUlibrary library;
  ASSERT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  EXPECT_TRUE(session().sent().empty());
  CUkernel kernel, again;
  EXPECT_EQ(cuLibraryGetKernel(&kernel, library, "missing"), CUDA_ERROR_NOT_FOUND);
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetKernel(&again, library, "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(kernel, again);
  EXPECT_EQ(session().Count(CommandId::kModuleLoad), 1);
  EXPECT_EQ(session().Count(CommandId::kKernelFind), 2);
  std::string image;
  session().Latest<cmd::ImageData>(&image);
  EXPECT_EQ(image, kPtx);
  // The runtime passes a CUkernel for a CUfunction.
  EXPECT_EQ(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr,
                           parameters_, nullptr),
            CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kModuleUnload), 1);
  EXPECT_EQ(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr,
                           parameters_, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(LaunchCallsTest, LibraryThatIsNoImageFailsAtItsFirstLookUp) {
  CUlibrary library;
  ASSERT_EQ(cuLibraryLoadData(&library, "no image", nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  CUkernel kernel;
  EXPECT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_TRUE(session().sent().empty());
}

TEST_F(LaunchCallsTest, AvailableSharedMemoryIsAsNvidiasDriverGivesIt) {
  session().SetAnswer(CommandId::kMaxActiveBlocks, [](const FakeSession::Sent&, std::string* out) {
    const cmd::MaxActiveBlocksReply reply = {32, 0};
    out->assign(reinterpret_cast<const char*>(&reply), sizeof(reply));
    return CudaResult::kSuccess;
  });
  ASSERT_EQ(cuFuncSetAttribute(kernel_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 226 << 10),
            CUDA_SUCCESS);
  size_t bytes;
  // A kernel with 1 KiB of its own on an H200.
  const std::pair<int, size_t> expected[] = {{1, 231424}, {2, 115712}, {5, 45568}, {32, 6272}};
  for (const auto& [blocks, available] : expected) {
    EXPECT_EQ(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel_, blocks, 64), CUDA_SUCCESS);
    EXPECT_EQ(bytes, available) << blocks;
  }
  EXPECT_EQ(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel_, 33, 64),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchCallsTest, VariablesMayBeCopiedToAndFrom) {
  CUmodule module;
  CUdeviceptr address;
  size_t bytes;
  // No memory without a name is there.
  session().SetAnswer(CommandId::kVariableBlockFind,
                      [](const FakeSession::Sent&, std::string*) { return CudaResult::kNotFound; });
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetGlobal_v2(&address, &bytes, module, "missing"), CUDA_ERROR_NOT_FOUND);
  char data[FakeSession::kGlobalBytes + 1] = {};
  EXPECT_EQ(cuMemcpyHtoD_v2(FakeSession::kGlobalAddress, data, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuModuleGetGlobal_v2(&address, &bytes, module, "global"), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, data, bytes), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, data, bytes + 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, data, bytes), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchCallsTest, LoadingAndUnloadingGoesOn) {
  for (int i = 0; i < 1000; ++i) {
    CUmodule module;
    CUfunction kernel;
    ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&kernel, module, "kernel"), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  }
  EXPECT_EQ(session().Count(CommandId::kModuleUnload), 1000);
}

TEST_F(LaunchCallsTest, FailedLoadGivesTheServersErrorAndNoModule) {
  session().SetAnswer(CommandId::kModuleCheck, [](const FakeSession::Sent&, std::string*) {
    return CudaResult::kInvalidPtx;
  });
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, kPtx), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(module, nullptr);
  EXPECT_EQ(cuModuleLoadData(&module, "no image"), CUDA_ERROR_INVALID_IMAGE);
}

TEST_F(LaunchCallsTest, OccupancyIsAskedOnceForEachSetOfArguments) {
  int blocks = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_, 128, 0), CUDA_SUCCESS);
  }
  EXPECT_EQ(blocks, 2);
  EXPECT_EQ(session().Count(CommandId::kMaxActiveBlocks), 1);
  int grid, block;
  ASSERT_EQ(cuOccupancyMaxPotentialBlockSize(&grid, &block, kernel_, nullptr, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(block, 1024);
  EXPECT_EQ(grid, 264);
}

TEST_F(LaunchCallsTest, MalformedKernelReplyIsRefused) {
  session().SetAnswer(CommandId::kKernelFind, [](const FakeSession::Sent&, std::string* fields) {
    *fields = std::string(64, '\0') + std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    return CudaResult::kSuccess;
  });
  CUmodule module;
  CUfunction kernel;
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&kernel, module, "kernel"), CUDA_ERROR_UNKNOWN);
}

}  // namespace
}  // namespace warpline::stub
