#include <climits>
#include <cstring>
#include <vector>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

CUlaunchAttribute Cluster(unsigned int x, unsigned int y, unsigned int z) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = x;
  attribute.value.clusterDim.y = y;
  attribute.value.clusterDim.z = z;
  return attribute;
}

class LaunchExCallsTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    kernel_ = LoadKernel();
    session().Clear();
  }

  CUresult Launch(unsigned int grid, std::vector<CUlaunchAttribute> attributes) {
    CUlaunchConfig config = {};
    config.gridDimX = grid;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 32;
    config.blockDimY = config.blockDimZ = 1;
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned int>(attributes.size());
    return cuLaunchKernelEx(&config, kernel_, parameters_, nullptr);
  }

  uint64_t first_ = 1;
  uint32_t second_ = 2;
  void* parameters_[2] = {&first_, &second_};
  CUfunction kernel_ = nullptr;
};

TEST_F(LaunchExCallsTest, WithoutAttributesItIsAPlainLaunch) {
  CUlaunchAttribute ignored = {};
  EXPECT_EQ(Launch(1, {}), CUDA_SUCCESS);
  EXPECT_EQ(Launch(1, {ignored}), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kLaunch), 2);
}

TEST_F(LaunchExCallsTest, AttributesGoInFrontOfTheParameters) {
  ASSERT_EQ(Launch(4, {Cluster(2, 1, 1)}), CUDA_SUCCESS);
  std::string tail;
  const auto launch = session().Latest<cmd::LaunchEx>(&tail);
  EXPECT_EQ(launch.grid_x, 4u);
  EXPECT_EQ(launch.attribute_count, 1u);
  ASSERT_EQ(tail.size(), 72u + 16u);
  uint32_t id, x;
  std::memcpy(&id, tail.data(), sizeof(id));
  std::memcpy(&x, tail.data() + 8, sizeof(x));
  EXPECT_EQ(id, static_cast<uint32_t>(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
  EXPECT_EQ(x, 2u);
  EXPECT_EQ(std::memcmp(tail.data() + 72, &first_, 8), 0);
}

TEST_F(LaunchExCallsTest, ClustersThatCannotBeAreRefusedBeforeAnythingIsSent) {
  EXPECT_EQ(Launch(5, {Cluster(2, 1, 1)}), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  EXPECT_EQ(Launch(4, {Cluster(0, 1, 1)}), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  EXPECT_EQ(Launch(4, {Cluster(2, 2, 1)}), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  EXPECT_EQ(Launch(16, {Cluster(16, 1, 1)}), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  EXPECT_TRUE(session().sent().empty());
  ASSERT_EQ(cuFuncSetAttribute(kernel_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
            CUDA_SUCCESS);
  EXPECT_EQ(Launch(16, {Cluster(16, 1, 1)}), CUDA_SUCCESS);
  EXPECT_EQ(Launch(32, {Cluster(32, 1, 1)}), CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

TEST_F(LaunchExCallsTest, AttributesOfStreamsAndUnknownOnesAreInvalid) {
  for (const int id : {3, 13, 15, 17, 99}) {
    CUlaunchAttribute attribute = {};
    attribute.id = static_cast<CUlaunchAttributeID>(id);
    EXPECT_EQ(Launch(1, {attribute}), CUDA_ERROR_INVALID_VALUE) << id;
  }
  CUlaunchAttribute carveout = {};
  carveout.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  carveout.value.sharedMemCarveout = 200;
  EXPECT_EQ(Launch(1, {carveout}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(session().sent().empty());
}

TEST_F(LaunchExCallsTest, EventsOfALaunchAreRecordedBehindIt) {
  CUevent event, timed;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&timed, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  session().Clear();
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  attribute.value.launchCompletionEvent.event = event;
  ASSERT_EQ(Launch(1, {attribute}), CUDA_SUCCESS);
  const auto sent = session().sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].id, CommandId::kLaunch);
  EXPECT_EQ(sent[1].id, CommandId::kEventRecord);
  attribute.value.launchCompletionEvent.event = timed;
  EXPECT_EQ(Launch(1, {attribute}), CUDA_ERROR_INVALID_VALUE);
  attribute.value.launchCompletionEvent.event = nullptr;
  EXPECT_EQ(Launch(1, {attribute}), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(LaunchExCallsTest, CooperativeLaunchesTakeAsManyBlocksAsRunAtOnce) {
  const auto launch = [this](unsigned int grid) {
    return cuLaunchCooperativeKernel(kernel_, grid, 1, 1, 64, 1, 1, 0, nullptr, parameters_);
  };
  // Two blocks on each of 132 multiprocessors.
  EXPECT_EQ(launch(264), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::LaunchEx>().cooperative, 1u);
  EXPECT_EQ(launch(265), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EXPECT_EQ(launch(0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(session().Count(CommandId::kMaxActiveBlocks), 1);
  EXPECT_EQ(session().Count(CommandId::kLaunchEx), 1);
}

TEST_F(LaunchExCallsTest, ClusterQuestionsAreAskedWithTheirAttributes) {
  CUlaunchAttribute cluster = Cluster(4, 1, 1);
  CUlaunchConfig config = {};
  config.gridDimX = 16;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int answer = 0;
  EXPECT_EQ(cuOccupancyMaxActiveClusters(&answer, kernel_, &config), CUDA_SUCCESS);
  EXPECT_EQ(answer, 8);
  std::string tail;
  EXPECT_EQ(session().Latest<cmd::ClusterOccupancy>(&tail).what, 0u);
  EXPECT_EQ(tail.size(), 72u);
  EXPECT_EQ(cuOccupancyMaxPotentialClusterSize(&answer, kernel_, &config), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::ClusterOccupancy>().what, 1u);
  EXPECT_EQ(cuOccupancyMaxActiveClusters(nullptr, kernel_, &config), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuOccupancyMaxActiveClusters(&answer, nullptr, &config), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(LaunchExCallsTest, LaunchesOfOldUseWhatTheFunctionWasGiven) {
  EXPECT_EQ(cuFuncSetBlockShape(kernel_, 16, 2, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncSetSharedSize(kernel_, 64), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSetv(kernel_, 0, &first_, 8), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSeti(kernel_, 12, 7), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSetSize(kernel_, 16), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchGrid(kernel_, 3, 2), CUDA_SUCCESS);
  std::string tail;
  const auto launch = session().Latest<cmd::Launch>(&tail);
  EXPECT_EQ(launch.grid_x, 3u);
  EXPECT_EQ(launch.grid_y, 2u);
  EXPECT_EQ(launch.block_x, 16u);
  EXPECT_EQ(launch.block_y, 2u);
  EXPECT_EQ(launch.dynamic_shared_bytes, 64u);
  EXPECT_EQ(tail[12], 7);
}

TEST_F(LaunchExCallsTest, LaunchesOfOldTakeParametersUpToTheSizeThatWasSet) {
  const uint64_t words[2] = {~0ull, ~0ull};
  std::string tail;
  // Without a size no bytes are taken; a smaller size takes fewer, and the bytes that were set are
  // kept.
  EXPECT_EQ(cuParamSetv(kernel_, 0, const_cast<uint64_t*>(words), 16), CUDA_SUCCESS);
  for (const size_t size : {0, 16, 8, 12, 16}) {
    if (size != 0) {
      EXPECT_EQ(cuParamSetSize(kernel_, static_cast<unsigned int>(size)), CUDA_SUCCESS);
    }
    ASSERT_EQ(cuLaunch(kernel_), CUDA_SUCCESS);
    session().Latest<cmd::Launch>(&tail);
    EXPECT_EQ(tail, std::string(size, '\xff') + std::string(16 - size, '\0')) << size;
  }
  // More bytes than the kernel has may be set, but not launched.
  EXPECT_EQ(cuParamSeti(kernel_, 16, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuParamSetf(kernel_, 32760, 1.0f), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunch(kernel_), CUDA_SUCCESS);
  for (const unsigned int size : {17u, 20u, 32764u}) {
    EXPECT_EQ(cuParamSetSize(kernel_, size), CUDA_SUCCESS);
    EXPECT_EQ(cuLaunchGrid(kernel_, 1, 1), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  }
  EXPECT_EQ(cuParamSetSize(kernel_, 32765), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuParamSetSize(kernel_, ~0u), CUDA_ERROR_INVALID_VALUE);
  for (const int offset : {-1, -4, 32761, 32764, INT_MAX, INT_MIN}) {
    EXPECT_EQ(cuParamSeti(kernel_, offset, 1), CUDA_ERROR_INVALID_VALUE) << offset;
    EXPECT_EQ(cuParamSetf(kernel_, offset, 1.0f), CUDA_ERROR_INVALID_VALUE) << offset;
  }
  EXPECT_EQ(cuParamSetv(kernel_, 0, &tail, 32765), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuParamSetv(kernel_, 8, &tail, ~0u), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuParamSetv(kernel_, 0, nullptr, 8), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchExCallsTest, WhatNoLaunchCouldUseIsNotKept) {
  EXPECT_EQ(cuFuncSetBlockShape(kernel_, 32, 2, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncSetSharedSize(kernel_, 47 << 10), CUDA_SUCCESS);
  const int wrong[][3] = {{0, 1, 1},      {1, -1, 1},  {1025, 1, 1},
                          {1, 1, 65},     {64, 64, 1}, {INT_MAX, INT_MAX, INT_MAX},
                          {INT_MIN, 1, 1}};
  for (const auto& shape : wrong) {
    EXPECT_EQ(cuFuncSetBlockShape(kernel_, shape[0], shape[1], shape[2]), CUDA_ERROR_INVALID_VALUE)
        << shape[0] << " " << shape[1] << " " << shape[2];
  }
  for (const unsigned int bytes : {(47u << 10) + 1, 1u << 20, ~0u}) {
    EXPECT_EQ(cuFuncSetSharedSize(kernel_, bytes), CUDA_ERROR_INVALID_VALUE) << bytes;
  }
  ASSERT_EQ(cuLaunch(kernel_), CUDA_SUCCESS);
  const auto launch = session().Latest<cmd::Launch>();
  EXPECT_EQ(launch.block_x, 32u);
  EXPECT_EQ(launch.block_y, 2u);
  EXPECT_EQ(launch.dynamic_shared_bytes, 47u << 10);
}

TEST_F(LaunchExCallsTest, LaunchesOfOldAreUnsafeInCaptures) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchGridAsync(kernel_, 1, 1, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuParamSeti(kernel_, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchGrid(kernel_, 1, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuLaunch(kernel_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuLaunchGridAsync(kernel_, 1, 1, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

}  // namespace
}  // namespace warpline::stub
