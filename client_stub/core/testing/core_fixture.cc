#include "client_stub/core/testing/core_fixture.h"

#include <cstdlib>
#include <memory>

#include "client_stub/core/lifecycle/initialization.h"
#include "client_stub/core/runtime/runtime.h"

namespace warpline::stub {
namespace {

uint32_t g_devices = 1;

}  // namespace

void UseFakeSession(uint32_t devices) {
  g_devices = devices;
  setenv("WARPLINE_ENDPOINT", "fake:1", 1);
  SetSessionOpener([](const SessionOptions&) -> absl::StatusOr<std::unique_ptr<Session>> {
    return std::make_unique<FakeSession>(g_devices);
  });
}

FakeSession& CoreTest::session() { return static_cast<FakeSession&>(*runtime().session); }

namespace {

// Ends a device's primary context, however often it was retained.
void EndPrimary(CUdevice device) {
  EXPECT_EQ(cuDevicePrimaryCtxReset_v2(device), CUDA_SUCCESS);
  while (cuDevicePrimaryCtxRelease_v2(device) == CUDA_SUCCESS) {
  }
}

}  // namespace

void CoreTest::SetUp() {
  UseFakeSession();
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  session().Clear();
}

void CoreTest::TearDown() {
  session().Clear();
  EndPrimary(0);
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
}

CUfunction LoadKernel() {
  CUmodule module;
  EXPECT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  CUfunction kernel = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&kernel, module, "kernel"), CUDA_SUCCESS);
  return kernel;
}

FakeSession& DevicesTest::session() { return static_cast<FakeSession&>(*runtime().session); }

void DevicesTest::SetUp() {
  UseFakeSession(kDevices);
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  for (int i = 0; i < kDevices; ++i) {
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_[i], i), CUDA_SUCCESS);
  }
  Use(0);
  session().Clear();
}

void DevicesTest::TearDown() {
  session().Clear();
  for (int i = 0; i < kDevices; ++i) EndPrimary(i);
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
}

void DevicesTest::Use(int device) { ASSERT_EQ(cuCtxSetCurrent(context_[device]), CUDA_SUCCESS); }

CUdeviceptr DevicesTest::Allocate(size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc_v2(&address, bytes), CUDA_SUCCESS);
  return address;
}

CUstream DevicesTest::NewStream(unsigned int flags) {
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
  return stream;
}

CUlibrary DevicesTest::LoadLibrary() {
  CUlibrary library = nullptr;
  EXPECT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  return library;
}

CUresult DevicesTest::Launch(void* function, CUstream stream) {
  uint64_t a = 0;
  uint32_t b = 0;
  void* parameters[] = {&a, &b};
  return cuLaunchKernel(static_cast<CUfunction>(function), 1, 1, 1, 32, 1, 1, 0, stream, parameters,
                        nullptr);
}

}  // namespace warpline::stub
