// The devices that CUDA can show on this machine, MIG instances among them.
#ifndef WARPLINE_SERVER_GPU_SERVER_NVML_CUDA_DEVICES_H_
#define WARPLINE_SERVER_GPU_SERVER_NVML_CUDA_DEVICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/gpu_server/nvml/readings.h"

namespace warpline::nvml {

// A GPU, or a part of one that the operator has made: a compute instance in a GPU instance.
struct CudaDevice {
  // "GPU-..." or "MIG-...", as CUDA_VISIBLE_DEVICES takes it.
  std::string uuid;
  std::string pci_bus_id;  // Of the GPU.
  uint32_t minor = 0;      // Of the GPU's file, /dev/nvidiaN.
  bool is_instance = false;
  // Of an instance, as NVIDIA's driver numbers them on their GPU.
  uint32_t gpu_instance = 0;
  uint32_t compute_instance = 0;

  // The 16 bytes of its UUID; empty where the text is none.
  std::string UuidBytes() const;
};

// All GPUs in NVML's order, that of the PCI bus, and in place of each that is in MIG mode its
// instances, of which there may be none. Nothing is changed. UNAVAILABLE where NVML does not say.
absl::StatusOr<std::vector<CudaDevice>> ReadCudaDevices(const Library& library);
// Whether one of them is an instance.
bool HasInstances(const std::vector<CudaDevice>& devices);

}  // namespace warpline::nvml

#endif  // WARPLINE_SERVER_GPU_SERVER_NVML_CUDA_DEVICES_H_
