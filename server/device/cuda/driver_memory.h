// What NVIDIA's driver says of addresses outside the arena.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_DRIVER_MEMORY_H_
#define WARPLINE_SERVER_DEVICE_CUDA_DRIVER_MEMORY_H_

#include <cstdint>
#include <vector>

#include "server/device/cuda/driver_api.h"
#include "server/device/gate/address_gate.h"

namespace warpline::device {

// Thread-safe once all devices are added. Outside the arena, the worker has no memory of a device
// but that of modules: their variables, among them managed ones, and fillers in their place.
class DriverMemory : public MemoryFacts {
 public:
  explicit DriverMemory(const DriverApi* api) : api_(api) {}

  // The devices of the contexts that are opened together, in their order.
  void AddDevice(CUdevice device) { devices_.push_back(device); }

  // Always true: the driver refuses copies and fills of what is not mapped.
  bool IsMapped(uint64_t, uint64_t, MemoryUse) override { return true; }
  bool FindVariables(uint64_t address, VariableBlock* block) override;

 private:
  const DriverApi* const api_;
  std::vector<CUdevice> devices_;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_DRIVER_MEMORY_H_
