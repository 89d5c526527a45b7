// Numbers of CUDA's driver interface that code needs which must not include CUDA's headers.
// //client_stub:cuda_result_test holds them to cuda.h.
#ifndef WARPLINE_COMMON_CUDA_CUDA_NUMBERS_H_
#define WARPLINE_COMMON_CUDA_CUDA_NUMBERS_H_

#include <cstdint>

namespace warpline {

// CU_STREAM_LEGACY: the handle of a device's legacy stream, with the device's number above it
// (proto/devices.h).
inline constexpr uint64_t kLegacyStreamHandle = 1;
// CU_STREAM_PER_THREAD: the last of the handles that are CUDA's own.
inline constexpr uint64_t kPerThreadStreamHandle = 2;

inline constexpr uint32_t kStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
inline constexpr uint32_t kEventDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING

// CUfunction_attribute.
inline constexpr int kFunctionSharedBytes = 1;
inline constexpr int kFunctionLocalBytes = 3;
inline constexpr int kFunctionRegisters = 4;
inline constexpr int kFunctionPtxVersion = 5;

// CUlimit.
inline constexpr int kLimitStackSize = 0;
inline constexpr int kLimitPrintfFifoSize = 1;
inline constexpr int kLimitMallocHeapSize = 2;
inline constexpr int kLimitPendingLaunches = 4;
inline constexpr int kLimitL2FetchGranularity = 5;
inline constexpr int kLimitPersistingL2Size = 6;

}  // namespace warpline

#endif  // WARPLINE_COMMON_CUDA_CUDA_NUMBERS_H_
