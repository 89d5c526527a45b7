// The device files of a GPU, as NVIDIA's driver names them.
#ifndef WARPLINE_SERVER_JAIL_DEVICE_FILES_H_
#define WARPLINE_SERVER_JAIL_DEVICE_FILES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline::jail {

// The files of the GPUs with these addresses on the PCI bus ("00000000:04:00.0"), or, where the
// driver does not say which they are, of all GPUs; none for a device without an address. `root` is
// where /dev and /proc lie, for tests.
std::vector<std::string> DeviceFilesOf(const std::vector<std::string>& pci_bus_ids,
                                       const std::string& root = "");
// Those of a MIG instance, by the numbers of its GPU's file and of the instance on it: the GPU's,
// and those that the driver wants opened by whoever uses the instance. NOT_FOUND where the driver
// does not say which these are.
absl::StatusOr<std::vector<std::string>> InstanceFilesOf(uint32_t minor, uint32_t gpu_instance,
                                                         uint32_t compute_instance,
                                                         const std::string& root = "");
// Of all GPUs.
std::vector<std::string> AllDeviceFiles(const std::string& root = "");
// The groups without which the files cannot be opened; none where everybody may.
std::vector<gid_t> GroupsOf(const std::vector<std::string>& files);

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_DEVICE_FILES_H_
