// CUDA's error numbers, for code that must not include CUDA's headers.
//
// The values are those of CUresult in cuda.h; client_stub/cuda_result_test.cc compares the two.
// Applications always see the exact number that CUDA would give. absl::Status is used for
// everything that is not a CUDA call, and only here is one turned into the other.
#ifndef WARPLINE_COMMON_CUDA_CUDA_RESULT_H_
#define WARPLINE_COMMON_CUDA_CUDA_RESULT_H_

#include <string>

#include "absl/status/status.h"

namespace warpline {

enum class CudaResult : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kUnsupportedLimit = 215,
  kInvalidPtx = 218,
  kJitCompilerNotFound = 221,
  kUnsupportedPtxVersion = 222,
  kFileNotFound = 301,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kPrimaryContextActive = 708,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kCooperativeLaunchTooLarge = 720,
  kNotPermitted = 800,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kTimeout = 909,
  kInvalidResourceConfiguration = 915,
  kUnknown = 999,
};

// The result of a round trip that a cancelled stream drops (cmd::StreamCancel).
inline constexpr CudaResult kCancelled = CudaResult::kIllegalState;

// True for the errors after which cuda.h calls the process's CUDA state inconsistent. Every later
// call of the session returns the same error.
bool IsSticky(CudaResult result);

// Returns a name such as "CUDA_ERROR_ILLEGAL_ADDRESS", or "CUDA_ERROR_<number>" for an error that
// is not listed above.
std::string CudaResultName(CudaResult result);

// Maps RESOURCE_EXHAUSTED to out of memory, PERMISSION_DENIED to not permitted, INVALID_ARGUMENT to
// invalid value, UNAVAILABLE to system not ready, UNIMPLEMENTED to not supported, and so on.
CudaResult CudaResultFromStatus(const absl::Status& status);

// Maps the other way, with `what` and the error's name as the message. Returns OK for kSuccess.
absl::Status StatusFromCudaResult(CudaResult result, const std::string& what);

}  // namespace warpline

#endif  // WARPLINE_COMMON_CUDA_CUDA_RESULT_H_
