// Which devices of a server are close to each other, as NVML says.
#ifndef WARPLINE_SERVER_GPU_SERVER_NVML_DEVICE_GROUPS_H_
#define WARPLINE_SERVER_GPU_SERVER_NVML_DEVICE_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/gpu_server/nvml/sampler.h"

namespace warpline::nvml {

// For each device the number of its group, from 1 on; 0 for one of which nothing is known.
struct DeviceGroups {
  // NVLink connects every two of a group, or a chain of them.
  std::vector<uint32_t> nvlink;
  // Their PCIe roots are of one NUMA node.
  std::vector<uint32_t> numa;
};

// Of the devices at these PCI addresses. A device without NVLink to another one has the group 0.
DeviceGroups GroupsOf(const Sample& sample, const std::vector<std::string>& pci_bus_ids);

}  // namespace warpline::nvml

#endif  // WARPLINE_SERVER_GPU_SERVER_NVML_DEVICE_GROUPS_H_
