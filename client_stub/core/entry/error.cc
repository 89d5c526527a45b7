// The names and texts of CUDA's errors. These calls work before cuInit, after exit and in children.
#include "client_stub/core/base/cuda_api.h"

namespace {

struct ErrorText {
  const char* name;
  const char* text;
};

// The switch has no default, so that the compiler reports an error of cuda.h that is missing here.
ErrorText Describe(CUresult error) {
  switch (error) {
#define WARPLINE_ERROR(code, text) \
  case code:                       \
    return {#code, text}
    WARPLINE_ERROR(CUDA_SUCCESS, "no error");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument");
    WARPLINE_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory");
    WARPLINE_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error");
    WARPLINE_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down");
    WARPLINE_ERROR(CUDA_ERROR_PROFILER_DISABLED,
                   "profiler disabled while using external profiling tool");
    WARPLINE_ERROR(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "profiler not initialized");
    WARPLINE_ERROR(CUDA_ERROR_PROFILER_ALREADY_STARTED, "profiler already started");
    WARPLINE_ERROR(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "profiler already stopped");
    WARPLINE_ERROR(CUDA_ERROR_STUB_LIBRARY, "the loaded driver is a stub library");
    WARPLINE_ERROR(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "the call requires a newer driver");
    WARPLINE_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "the CUDA device is busy or unavailable");
    WARPLINE_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal");
    WARPLINE_ERROR(CUDA_ERROR_DEVICE_NOT_LICENSED, "the device has no license");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context");
    WARPLINE_ERROR(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "context already current");
    WARPLINE_ERROR(CUDA_ERROR_MAP_FAILED, "mapping failed");
    WARPLINE_ERROR(CUDA_ERROR_UNMAP_FAILED, "unmapping failed");
    WARPLINE_ERROR(CUDA_ERROR_ARRAY_IS_MAPPED, "array is mapped");
    WARPLINE_ERROR(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped");
    WARPLINE_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU,
                   "no kernel image is available for execution on the device");
    WARPLINE_ERROR(CUDA_ERROR_ALREADY_ACQUIRED, "resource already acquired");
    WARPLINE_ERROR(CUDA_ERROR_NOT_MAPPED, "resource not mapped");
    WARPLINE_ERROR(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "resource not mapped as array");
    WARPLINE_ERROR(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "resource not mapped as pointer");
    WARPLINE_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered");
    WARPLINE_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture");
    WARPLINE_ERROR(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "context is already bound to another thread");
    WARPLINE_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                   "peer access is not supported between these two devices");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid OpenGL or DirectX context");
    WARPLINE_ERROR(CUDA_ERROR_NVLINK_UNCORRECTABLE,
                   "uncorrectable NVLink error detected during the execution");
    WARPLINE_ERROR(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX JIT compiler library not found");
    WARPLINE_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                   "the provided PTX was compiled with an unsupported toolchain");
    WARPLINE_ERROR(CUDA_ERROR_JIT_COMPILATION_DISABLED, "PTX JIT compilation was disabled");
    WARPLINE_ERROR(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the execution affinity is not supported");
    WARPLINE_ERROR(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC,
                   "the PTX calls cudaDeviceSynchronize, which is not supported");
    WARPLINE_ERROR(CUDA_ERROR_CONTAINED, "an exception on the device was contained");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_SOURCE, "device kernel source is invalid");
    WARPLINE_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found");
    WARPLINE_ERROR(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found");
    WARPLINE_ERROR(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed");
    WARPLINE_ERROR(CUDA_ERROR_OPERATING_SYSTEM,
                   "OS call failed or operation not supported on this OS");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle");
    WARPLINE_ERROR(CUDA_ERROR_ILLEGAL_STATE,
                   "the operation cannot be performed in the present state");
    WARPLINE_ERROR(CUDA_ERROR_LOSSY_QUERY, "the query would discard information");
    WARPLINE_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found");
    WARPLINE_ERROR(CUDA_ERROR_NOT_READY, "device not ready");
    WARPLINE_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered");
    WARPLINE_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch");
    WARPLINE_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated");
    WARPLINE_ERROR(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING,
                   "launch uses incompatible texturing mode");
    WARPLINE_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled");
    WARPLINE_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled");
    WARPLINE_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is already active");
    WARPLINE_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed");
    WARPLINE_ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered");
    WARPLINE_ERROR(CUDA_ERROR_TOO_MANY_PEERS, "peer mapping resources exhausted");
    WARPLINE_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                   "part or all of the memory range is already registered");
    WARPLINE_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                   "pointer does not correspond to a registered memory region");
    WARPLINE_ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error");
    WARPLINE_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered");
    WARPLINE_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_ADDRESS_SPACE,
                   "operation not supported on global or shared address space");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_PC, "invalid program counter");
    WARPLINE_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure");
    WARPLINE_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                   "too many blocks in cooperative launch");
    WARPLINE_ERROR(CUDA_ERROR_TENSOR_MEMORY_LEAK,
                   "tensor memory was not released at the end of a kernel");
    WARPLINE_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted");
    WARPLINE_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported");
    WARPLINE_ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized");
    WARPLINE_ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "the versions of the drivers do not match");
    WARPLINE_ERROR(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
                   "forward compatibility is not supported on this hardware");
    WARPLINE_ERROR(CUDA_ERROR_MPS_CONNECTION_FAILED,
                   "the connection to the MPS control daemon failed");
    WARPLINE_ERROR(CUDA_ERROR_MPS_RPC_FAILURE, "a call between MPS client and server failed");
    WARPLINE_ERROR(CUDA_ERROR_MPS_SERVER_NOT_READY, "the MPS server takes no new clients");
    WARPLINE_ERROR(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "too many MPS clients");
    WARPLINE_ERROR(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED,
                   "too many device connections through MPS");
    WARPLINE_ERROR(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS client was terminated by the server");
    WARPLINE_ERROR(CUDA_ERROR_CDP_NOT_SUPPORTED,
                   "dynamic parallelism is not supported in this configuration");
    WARPLINE_ERROR(CUDA_ERROR_CDP_VERSION_MISMATCH, "versions of dynamic parallelism do not match");
    WARPLINE_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                   "operation not permitted when stream is capturing");
    WARPLINE_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                   "operation failed due to a previous error during capture");
    WARPLINE_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would merge two separate captures");
    WARPLINE_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                   "the capture was not started in this stream");
    WARPLINE_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                   "the capture has work that was not joined to its first stream");
    WARPLINE_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                   "a dependency would cross the border of the capture");
    WARPLINE_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                   "operation would depend on an uncaptured legacy stream");
    WARPLINE_ERROR(CUDA_ERROR_CAPTURED_EVENT,
                   "operation not permitted on an event last recorded in a capturing stream");
    WARPLINE_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                   "the capture must be ended by the thread that began it");
    WARPLINE_ERROR(CUDA_ERROR_TIMEOUT, "wait operation timed out");
    WARPLINE_ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update violated a constraint");
    WARPLINE_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, "an error occurred in a device outside of CUDA");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size");
    WARPLINE_ERROR(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function is not loaded");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_RESOURCE_TYPE, "invalid resource type");
    WARPLINE_ERROR(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
                   "insufficient or inapplicable resources");
    WARPLINE_ERROR(CUDA_ERROR_KEY_ROTATION, "an error happened during key rotation");
    WARPLINE_ERROR(CUDA_ERROR_UNKNOWN, "unknown error");
#undef WARPLINE_ERROR
  }
  return {nullptr, nullptr};
}

CUresult Give(const char* text, const char** out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = text;
  return text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** pStr) {
  return Give(Describe(error).name, pStr);
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char** pStr) {
  return Give(Describe(error).text, pStr);
}

}  // extern "C"
