// The limits of the CPU device in one place, so that device attributes, launches and occupancy
// agree.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MACHINE_DEVICE_LIMITS_H_
#define WARPLINE_SERVER_DEVICE_CPU_MACHINE_DEVICE_LIMITS_H_

#include <cstdint>

namespace warpline::cpu {

// Compute capability 7.5 stands for independent threads, and promises nothing of tensor cores.
inline constexpr uint32_t kComputeCapability = 75;

// The latest PTX, which is that of CUDA 13.0.
inline constexpr int kPtxMajor = 9;
inline constexpr int kPtxMinor = 0;

inline constexpr uint32_t kMaxThreadsPerBlock = 1024;
inline constexpr uint32_t kMaxBlockX = 1024;
inline constexpr uint32_t kMaxBlockY = 1024;
inline constexpr uint32_t kMaxBlockZ = 64;
inline constexpr uint32_t kMaxGridX = 0x7fffffff;
inline constexpr uint32_t kMaxGridY = 65535;
inline constexpr uint32_t kMaxGridZ = 65535;
inline constexpr uint32_t kMaxThreadsPerMultiprocessor = 1024;
inline constexpr uint32_t kMaxBlocksPerMultiprocessor = 16;
inline constexpr uint32_t kSharedPerBlock = 48 << 10;
inline constexpr uint32_t kSharedPerBlockOptIn = 99 << 10;
inline constexpr uint32_t kSharedPerMultiprocessor = 100 << 10;
inline constexpr uint32_t kReservedSharedPerBlock = 0;
inline constexpr uint32_t kConstBytes = 64 << 10;
inline constexpr uint32_t kMaxParamBytes = 32764;

// The default and the largest stacks of a kernel that calls itself.
inline constexpr uint64_t kDefaultStackBytes = 1024;
inline constexpr uint64_t kMaxLocalStack = 512 << 10;
inline constexpr uint64_t kMaxRegisterStack = 64 << 20;
inline constexpr uint64_t kMaxCallDepth = 1 << 16;

// Limits that have an effect only on hardware.
inline constexpr uint64_t kDefaultPendingLaunches = 2048;
inline constexpr uint64_t kDefaultL2Fetch = 64;

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MACHINE_DEVICE_LIMITS_H_
