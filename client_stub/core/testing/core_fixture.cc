#include "client_stub/core/testing/core_fixture.h"

#include <cstdlib>
#include <memory>

#include "client_stub/core/runtime.h"

namespace warpline::stub {

void UseFakeSession() {
  setenv("WARPLINE_ENDPOINT", "fake:1", 1);
  SetSessionOpener([](const SessionOptions&) -> absl::StatusOr<std::unique_ptr<Session>> {
    return std::make_unique<FakeSession>();
  });
}

FakeSession& CoreTest::session() { return static_cast<FakeSession&>(*runtime().session); }

void CoreTest::SetUp() {
  UseFakeSession();
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  session().Clear();
}

void CoreTest::TearDown() {
  session().Clear();
  EXPECT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
}

CUfunction CoreTest::LoadKernel() {
  CUmodule module;
  EXPECT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  CUfunction kernel = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&kernel, module, "kernel"), CUDA_SUCCESS);
  return kernel;
}

}  // namespace warpline::stub
