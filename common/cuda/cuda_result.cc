#include "common/cuda/cuda_result.h"

#include "absl/strings/str_cat.h"

namespace warpline {

bool IsSticky(CudaResult result) {
  switch (result) {
    case CudaResult::kIllegalAddress:
    case CudaResult::kLaunchTimeout:
    case CudaResult::kAssert:
    case CudaResult::kHardwareStackError:
    case CudaResult::kIllegalInstruction:
    case CudaResult::kMisalignedAddress:
    case CudaResult::kInvalidAddressSpace:
    case CudaResult::kInvalidPc:
    case CudaResult::kLaunchFailed:
    case CudaResult::kDeviceUnavailable:
      return true;
    default:
      return false;
  }
}

std::string CudaResultName(CudaResult result) {
  switch (result) {
#define WARPLINE_NAME(constant, name) \
  case CudaResult::constant:          \
    return name
    WARPLINE_NAME(kSuccess, "CUDA_SUCCESS");
    WARPLINE_NAME(kInvalidValue, "CUDA_ERROR_INVALID_VALUE");
    WARPLINE_NAME(kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY");
    WARPLINE_NAME(kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED");
    WARPLINE_NAME(kDeinitialized, "CUDA_ERROR_DEINITIALIZED");
    WARPLINE_NAME(kDeviceUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE");
    WARPLINE_NAME(kNoDevice, "CUDA_ERROR_NO_DEVICE");
    WARPLINE_NAME(kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE");
    WARPLINE_NAME(kInvalidImage, "CUDA_ERROR_INVALID_IMAGE");
    WARPLINE_NAME(kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT");
    WARPLINE_NAME(kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU");
    WARPLINE_NAME(kUnsupportedLimit, "CUDA_ERROR_UNSUPPORTED_LIMIT");
    WARPLINE_NAME(kInvalidPtx, "CUDA_ERROR_INVALID_PTX");
    WARPLINE_NAME(kJitCompilerNotFound, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND");
    WARPLINE_NAME(kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
    WARPLINE_NAME(kFileNotFound, "CUDA_ERROR_FILE_NOT_FOUND");
    WARPLINE_NAME(kOperatingSystem, "CUDA_ERROR_OPERATING_SYSTEM");
    WARPLINE_NAME(kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE");
    WARPLINE_NAME(kIllegalState, "CUDA_ERROR_ILLEGAL_STATE");
    WARPLINE_NAME(kNotFound, "CUDA_ERROR_NOT_FOUND");
    WARPLINE_NAME(kNotReady, "CUDA_ERROR_NOT_READY");
    WARPLINE_NAME(kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS");
    WARPLINE_NAME(kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
    WARPLINE_NAME(kLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT");
    WARPLINE_NAME(kPrimaryContextActive, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE");
    WARPLINE_NAME(kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED");
    WARPLINE_NAME(kAssert, "CUDA_ERROR_ASSERT");
    WARPLINE_NAME(kHardwareStackError, "CUDA_ERROR_HARDWARE_STACK_ERROR");
    WARPLINE_NAME(kIllegalInstruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION");
    WARPLINE_NAME(kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS");
    WARPLINE_NAME(kInvalidAddressSpace, "CUDA_ERROR_INVALID_ADDRESS_SPACE");
    WARPLINE_NAME(kInvalidPc, "CUDA_ERROR_INVALID_PC");
    WARPLINE_NAME(kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED");
    WARPLINE_NAME(kCooperativeLaunchTooLarge, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE");
    WARPLINE_NAME(kNotPermitted, "CUDA_ERROR_NOT_PERMITTED");
    WARPLINE_NAME(kNotSupported, "CUDA_ERROR_NOT_SUPPORTED");
    WARPLINE_NAME(kSystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY");
    WARPLINE_NAME(kSystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
    WARPLINE_NAME(kTimeout, "CUDA_ERROR_TIMEOUT");
    WARPLINE_NAME(kInvalidResourceConfiguration, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION");
    WARPLINE_NAME(kUnknown, "CUDA_ERROR_UNKNOWN");
#undef WARPLINE_NAME
  }
  return absl::StrCat("CUDA_ERROR_", static_cast<int>(result));
}

CudaResult CudaResultFromStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return CudaResult::kSuccess;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return CudaResult::kInvalidValue;
    case absl::StatusCode::kResourceExhausted:
      return CudaResult::kOutOfMemory;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return CudaResult::kNotPermitted;
    case absl::StatusCode::kUnimplemented:
      return CudaResult::kNotSupported;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return CudaResult::kSystemNotReady;
    case absl::StatusCode::kNotFound:
      return CudaResult::kNotFound;
    case absl::StatusCode::kFailedPrecondition:
      return CudaResult::kIllegalState;
    default:
      return CudaResult::kUnknown;
  }
}

absl::Status StatusFromCudaResult(CudaResult result, const std::string& what) {
  const std::string message = absl::StrCat(what, ": ", CudaResultName(result));
  switch (result) {
    case CudaResult::kSuccess:
      return absl::OkStatus();
    case CudaResult::kInvalidValue:
      return absl::InvalidArgumentError(message);
    case CudaResult::kOutOfMemory:
      return absl::ResourceExhaustedError(message);
    case CudaResult::kNotFound:
      return absl::NotFoundError(message);
    case CudaResult::kNotSupported:
      return absl::UnimplementedError(message);
    case CudaResult::kNotPermitted:
      return absl::PermissionDeniedError(message);
    case CudaResult::kSystemNotReady:
    case CudaResult::kNoDevice:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace warpline
