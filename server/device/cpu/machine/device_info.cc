#include "server/device/cpu/machine/device_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/machine/device_limits.h"

namespace warpline::cpu {
namespace {

constexpr size_t kMaxNameBytes = 200;

std::string CpuModel() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.find(':');
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      const size_t start = line.find_first_not_of(" \t", colon + 1);
      return start == std::string::npos ? "unknown" : line.substr(start, kMaxNameBytes);
    }
  }
  return "unknown";
}

// The memory limit of this process's container; the largest number when there is none.
uint64_t ContainerMemoryBytes() {
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream in(path);
    uint64_t bytes;
    if (in >> bytes) return bytes;
  }
  return UINT64_MAX;
}

// Pairs of a CUdevice_attribute's number and its value. An attribute that is absent reads as zero:
// not supported.
std::vector<std::pair<int, int>> Attributes(int cores, int ordinal) {
  const auto of = [](uint32_t value) { return static_cast<int>(value); };
  std::vector<std::pair<int, int>> list = {
      {1, of(kMaxThreadsPerBlock)},
      {2, of(kMaxBlockX)},
      {3, of(kMaxBlockY)},
      {4, of(kMaxBlockZ)},
      {5, of(kMaxGridX)},
      {6, of(kMaxGridY)},
      {7, of(kMaxGridZ)},
      {8, of(kSharedPerBlock)},
      {9, of(kConstBytes)},
      {10, 32},          // Warp size
      {11, 0x7fffffff},  // Pitch of copies
      {12, 65536},       // Registers per block
      {13, 1000000},     // kHz of clock64, which counts nanoseconds
      {14, 512},         // Alignment of textures, though there are none
      {16, cores},       // Multiprocessors
      {20, 0},           // Compute mode: default
      {30, 512},         // Alignment of surfaces
      {31, 1},           // Concurrent kernels
      {33, ordinal},     // PCI bus
      {34, 0},           // PCI device
      {36, 1000000},     // Memory kHz
      {37, 64},          // Memory bus bits
      {38, 2 << 20},     // L2 bytes
      {39, of(kMaxThreadsPerMultiprocessor)},
      {40, 1},   // Async engines: copies overlap with kernels
      {41, 1},   // Unified addressing
      {50, 0},   // PCI domain
      {51, 32},  // Alignment of texture pitch
      {75, of(kComputeCapability / 10)},
      {76, of(kComputeCapability % 10)},
      {78, 1},  // Stream priorities
      {79, 1},  // L1 caches global memory
      {80, 1},  // ... and local memory
      {81, of(kSharedPerMultiprocessor)},
      {82, 65536},  // Registers per multiprocessor
      {85, 0},      // Multi-GPU board group
      {87, 2},      // Speed of f32 over f64
      {90, 1},      // Compute preemption
      {95, 1},      // Cooperative launches
      {97, of(kSharedPerBlockOptIn)},
      {106, of(kMaxBlocksPerMultiprocessor)},
      {111, of(kReservedSharedPerBlock)},
      {115, 1},   // Memory pools
      {122, 1},   // Waits for words of 64 bits, and writes of them
      {123, 1},   // ... until a bit is not set
      {131, -1},  // NUMA node: unknown
      {134, -1},
  };
  // Adds the other ids that CUDA defines.
  constexpr int kLast = 150;
  std::vector<bool> present(kLast + 1, false);
  for (const auto& [id, value] : list) present[static_cast<size_t>(id)] = true;
  for (int id = 1; id <= kLast; ++id) {
    if (!present[static_cast<size_t>(id)]) list.emplace_back(id, 0);
  }
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace

uint64_t HostMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page <= 0) return 0;
  return std::min(static_cast<uint64_t>(pages) * static_cast<uint64_t>(page),
                  ContainerMemoryBytes());
}

int HostCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(CPU_COUNT(&set), 1);
}

device::DeviceInfo DescribeHost(int ordinal, int devices) {
  device::DeviceInfo info;
  // The devices of a host are of one model, as GPUs mostly are.
  info.name = absl::StrCat("Warpline CPU device (", CpuModel(), ")");
  info.total_bytes = HostMemoryBytes() / 2 / static_cast<uint64_t>(devices) / (2 << 20) * (2 << 20);
  info.driver_version = 13000;
  // NVIDIA's devices have as many. The worker orders launches by them.
  info.greatest_stream_priority = -5;
  info.pci_bus_id = absl::StrCat("0000:", absl::Hex(ordinal, absl::kZeroPad2), ":00.0");
  // Constant for a host: "WarplineCPU", the device's number and the host's id.
  const std::string tag = "WarplineCPU";
  std::copy(tag.begin(), tag.end(), info.uuid.begin());
  info.uuid[tag.size()] = static_cast<uint8_t>(ordinal);
  const auto host = static_cast<uint32_t>(gethostid());
  for (size_t i = 0; i < 4; ++i) info.uuid[12 + i] = static_cast<uint8_t>(host >> (8 * i));
  info.attributes = Attributes(HostCores(), ordinal);
  return info;
}

}  // namespace warpline::cpu
