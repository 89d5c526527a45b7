// Threads that share a context and hand each other handles.
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

using ThreadsTest = CoreTest;

void RunOnThreads(CUcontext context, int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ThreadsTest, EachUsesItsOwnObjects) {
  const CUfunction kernel = LoadKernel();
  RunOnThreads(context_, 4, [&](int) {
    for (int i = 0; i < 50; ++i) {
      CUstream stream;
      CUevent event;
      CUdeviceptr memory;
      char host[32] = {};
      uint64_t first = 1;
      uint32_t second = 2;
      void* parameters[] = {&first, &second};
      ASSERT_EQ(cuStreamCreate(&stream, i % 2), CUDA_SUCCESS);
      ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
      ASSERT_EQ(cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
      ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory, host, 32, stream), CUDA_SUCCESS);
      ASSERT_EQ(cuLaunchKernel_ptsz(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr),
                CUDA_SUCCESS);
      ASSERT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
      ASSERT_EQ(cuStreamWaitEvent(nullptr, event, 0), CUDA_SUCCESS);
      ASSERT_EQ(cuMemcpyDtoH_v2(host, memory, 32), CUDA_SUCCESS);
      ASSERT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
      ASSERT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
      ASSERT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    }
  });
}

TEST_F(ThreadsTest, RecordAndQueryOfOneEvent) {
  CUevent event;
  CUstream streams[2];
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  for (CUstream& stream : streams) ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  RunOnThreads(context_, 3, [&](int thread) {
    for (int i = 0; i < 500; ++i) {
      if (thread == 0) {
        ASSERT_EQ(cuEventRecord(event, streams[i % 2]), CUDA_SUCCESS);
      } else {
        ASSERT_EQ(cuEventQuery(event), CUDA_SUCCESS);
      }
    }
  });
}

TEST_F(ThreadsTest, OneOfTwoDestroysAStream) {
  for (int i = 0; i < 50; ++i) {
    CUstream stream;
    ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
    std::atomic<int> destroyed{0};
    RunOnThreads(context_, 2,
                 [&](int) { destroyed += cuStreamDestroy_v2(stream) == CUDA_SUCCESS ? 1 : 0; });
    EXPECT_EQ(destroyed, 1);
  }
}

TEST_F(ThreadsTest, LookUpOfOneKernelGivesOneHandle) {
  CUlibrary library;
  ASSERT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  CUkernel kernels[4] = {};
  RunOnThreads(context_, 4, [&](int thread) {
    ASSERT_EQ(cuLibraryGetKernel(&kernels[thread], library, "kernel"), CUDA_SUCCESS);
  });
  for (const CUkernel kernel : kernels) EXPECT_EQ(kernel, kernels[0]);
  EXPECT_EQ(session().Count(CommandId::kModuleLoad), 1);
}

}  // namespace
}  // namespace warpline::stub
