// Before cuInit, its refusals, forks and exit. Each case runs in a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/lifecycle/initialization.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/testing/core_fixture.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

// The exit status of a child that runs `body`.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A CUresult that does not fit an exit status becomes 255.
int AsStatus(CUresult result) { return result < 255 ? static_cast<int>(result) : 255; }

TEST(LifecycleTest, CallsBeforeCuInitAreNotInitialized) {
  EXPECT_EQ(InChild([] {
              int count;
              CUcontext context;
              CUdeviceptr pointer;
              const bool right = cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                                 cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_INITIALIZED &&
                                 cuMemAlloc_v2(&pointer, 1) == CUDA_ERROR_NOT_INITIALIZED &&
                                 cuStreamSynchronize(nullptr) == CUDA_ERROR_NOT_INITIALIZED;
              return right ? 0 : 1;
            }),
            0);
}

TEST(LifecycleTest, VersionAndErrorTextsNeedNoInitialization) {
  EXPECT_EQ(InChild([] {
              setenv("WARPLINE_DRIVER_VERSION", "12080", 1);
              int version;
              const char* name;
              const bool right = cuDriverGetVersion(&version) == CUDA_SUCCESS && version == 12080 &&
                                 cuGetErrorName(CUDA_ERROR_NOT_READY, &name) == CUDA_SUCCESS &&
                                 std::string_view(name) == "CUDA_ERROR_NOT_READY";
              return right ? 0 : 1;
            }),
            0);
}

// Does what a runtime library does that is newer than the server's driver; it then gives up.
TEST(LifecycleTest, LibrariesThatAreTooNewAreNamedOnceInTheLog) {
  EXPECT_EQ(InChild([] {
              setenv("WARPLINE_DRIVER_VERSION", "12080", 1);
              testing::internal::CaptureStderr();
              int version;
              cuDriverGetVersion(&version);
              const std::string before = testing::internal::GetCapturedStderr();
              void* found = nullptr;
              cuGetProcAddress_v2("cuCtxSynchronize", &found, 13000, 0, nullptr);
              testing::internal::CaptureStderr();
              cuDriverGetVersion(&version);
              const std::string first = testing::internal::GetCapturedStderr();
              testing::internal::CaptureStderr();
              cuDriverGetVersion(&version);
              const std::string second = testing::internal::GetCapturedStderr();
              const bool said = first.find("CUDA 13") != std::string::npos &&
                                first.find("CUDA 12.8") != std::string::npos;
              return version == 12080 && before.empty() && said && second.empty() ? 0 : 1;
            }),
            0);
}

TEST(LifecycleTest, EntryPointsThatAreNotThereAreNullAndNoError) {
  int place = 0;
  void* found = &place;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(cuGetProcAddress_v2("cuNoSuch", &found, 13000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  found = &place;
  EXPECT_EQ(cuGetProcAddress_v2("cuMemAllocAsync", &found, 9000, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(found, nullptr);
  found = &place;
  EXPECT_EQ(cuGetProcAddress_v2("cuInit", &found, 13000, uint64_t{1} << 40, &status),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGetProcAddress("cuNoSuch", &found, 13000, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(found, &place);
}

TEST(LifecycleTest, UnsetEndpointIsNoDevice) {
  EXPECT_EQ(InChild([] {
              unsetenv("WARPLINE_ENDPOINT");
              return AsStatus(cuInit(0));
            }),
            CUDA_ERROR_NO_DEVICE);
}

TEST(LifecycleTest, HiddenDevicesAreNoDevice) {
  EXPECT_EQ(InChild([] {
              UseFakeSession();
              setenv("CUDA_VISIBLE_DEVICES", "", 1);
              return AsStatus(cuInit(0));
            }),
            CUDA_ERROR_NO_DEVICE);
}

TEST(LifecycleTest, TheListOfDevicesEndsBeforeOneThatTheServerDoesNotHave) {
  EXPECT_EQ(InChild([] {
              UseFakeSession();
              setenv("CUDA_VISIBLE_DEVICES", "1,0,7,2", 1);
              SetSessionOpener(
                  [](const SessionOptions& options) -> absl::StatusOr<std::unique_ptr<Session>> {
                    if (options.device.find('7') != std::string::npos) {
                      return absl::NotFoundError("no such device");
                    }
                    if (options.device != "1,0") return absl::InternalError(options.device);
                    return std::make_unique<FakeSession>(2);
                  });
              int count = 0;
              return cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS &&
                             count == 2
                         ? 0
                         : 1;
            }),
            0);
}

TEST(LifecycleTest, UnreachableServerIsSystemNotReadyEveryTime) {
  EXPECT_EQ(
      InChild([] {
        UseFakeSession();
        SetSessionOpener([](const SessionOptions&) -> absl::StatusOr<std::unique_ptr<Session>> {
          return absl::UnavailableError("nobody answers");
        });
        return cuInit(0) == CUDA_ERROR_SYSTEM_NOT_READY && cuInit(0) == CUDA_ERROR_SYSTEM_NOT_READY
                   ? 0
                   : 1;
      }),
      0);
}

TEST(LifecycleTest, OlderServerIsADriverMismatch) {
  EXPECT_EQ(InChild([] {
              UseFakeSession();
              setenv("WARPLINE_DRIVER_VERSION", "13010", 1);
              return cuInit(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH ? 0 : 1;
            }),
            0);
}

TEST(LifecycleTest, VisibleDevicesAreAskedFor) {
  EXPECT_EQ(InChild([] {
              UseFakeSession();
              setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
              SetSessionOpener(
                  [](const SessionOptions& options) -> absl::StatusOr<std::unique_ptr<Session>> {
                    if (options.device != "3,1") return absl::InternalError(options.device);
                    return std::make_unique<FakeSession>();
                  });
              return AsStatus(cuInit(0));
            }),
            CUDA_SUCCESS);
}

TEST(LifecycleTest, FlagsOfCuInitMustBeZero) {
  EXPECT_EQ(InChild([] { return AsStatus(cuInit(1)); }), CUDA_ERROR_INVALID_VALUE);
}

TEST(LifecycleTest, ChildOfAForkAfterCuInitIsNotInitialized) {
  EXPECT_EQ(InChild([] {
              UseFakeSession();
              CUcontext context;
              CUdeviceptr pointer;
              if (cuInit(0) != CUDA_SUCCESS) return 1;
              if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return 2;
              if (cuCtxSetCurrent(context) != CUDA_SUCCESS) return 3;
              const int child = InChild([&] {
                int count;
                const bool right =
                    cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                    cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                    cuMemAlloc_v2(&pointer, 8) == CUDA_ERROR_NOT_INITIALIZED &&
                    cuStreamSynchronize(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_INITIALIZED;
                return right ? 0 : 1;
              });
              if (child != 0) return 4;
              return cuMemAlloc_v2(&pointer, 8) == CUDA_SUCCESS ? 0 : 5;
            }),
            0);
}

TEST(LifecycleTest, ChildOfAForkBeforeCuInitMayInitialize) {
  EXPECT_EQ(InChild([] {
              UseFakeSession();
              return InChild([] { return AsStatus(cuInit(0)); });
            }),
            CUDA_SUCCESS);
}

// Makes the calls that libraries make from exit handlers that run after ours.
void CallLate() {
  CUdeviceptr pointer;
  const bool right = cuMemFree_v2(FakeSession::kArenaBase) == CUDA_SUCCESS &&
                     cuLibraryUnload(nullptr) == CUDA_SUCCESS &&
                     cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS &&
                     cuStreamDestroy_v2(nullptr) == CUDA_SUCCESS &&
                     cuMemAlloc_v2(&pointer, 8) == CUDA_ERROR_DEINITIALIZED &&
                     static_cast<FakeSession&>(*runtime().session).closed();
  _exit(right ? 42 : 1);
}

TEST(LifecycleTest, AfterExitBeganEntriesAnswerWithoutTheSession) {
  EXPECT_EQ(InChild([] {
              UseFakeSession();
              atexit(CallLate);
              return AsStatus(cuInit(0));
            }),
            42);
}

}  // namespace
}  // namespace warpline::stub
