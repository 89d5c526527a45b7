#include "server/gpu_server/open_devices.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "memory/chunk.h"
#include "server/hostlink/backends/backend_names.h"
#include "server/jail/device_files.h"

namespace warpline::server {
namespace {

// Sessions whose chunks are all small cannot use the rest of the device.
void WarnOfFewDescriptors(const DeviceMemory& device) {
  const uint64_t smallest = device.capacity_bytes() / kChunkClasses.back();
  if (smallest <= device.max_chunks()) return;
  LogWarning("the system lets the server have descriptors for chunks=", device.max_chunks(),
             " of gpu=", device.ordinal(),
             ", and all of its memory in the smallest is chunks=", smallest,
             ": give it more (LimitNOFILE, RLIMIT_NOFILE)");
}

void Select(int ordinal, const nvml::CudaDevice& device, jail::Jailer* jailer) {
  jail::Jailer::Selected selected;
  selected.pci_bus_id = device.pci_bus_id;
  selected.uuid = device.uuid;
  selected.is_instance = device.is_instance;
  if (device.is_instance) {
    auto files = jail::InstanceFilesOf(device.minor, device.gpu_instance, device.compute_instance);
    // Processes without a jail open them all the same.
    if (files.ok()) {
      selected.files = *std::move(files);
    } else {
      LogWarning("the files of instance=", device.uuid,
                 " are not known: ", files.status().message());
    }
  } else {
    selected.files = jail::DeviceFilesOf({device.pci_bus_id});
  }
  LogInfo("device gpu=", ordinal, " is ", device.uuid);
  jailer->SelectDevice(ordinal, std::move(selected));
}

}  // namespace

std::vector<nvml::CudaDevice> DevicesToSelect(
    const std::string& backend,
    const std::function<absl::StatusOr<std::unique_ptr<nvml::Library>>()>& load) {
  if (backend != "auto" && !UsesNvidiaDriver(backend)) return {};
  const auto library = load();
  if (!library.ok()) return {};
  auto devices = nvml::ReadCudaDevices(**library);
  if (!devices.ok()) {
    LogWarning("MIG instances are not recognised: ", devices.status().message());
    return {};
  }
  if (!nvml::HasInstances(*devices)) return {};
  return *std::move(devices);
}

absl::StatusOr<std::vector<std::unique_ptr<DeviceMemory>>> OpenDevices(OpenDevicesOptions options,
                                                                       jail::Jailer* jailer) {
  std::vector<std::unique_ptr<DeviceMemory>> devices;
  DeviceMemoryOptions& memory = options.memory;
  int count = options.selected.empty() ? 1 : static_cast<int>(options.selected.size());
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    memory.keeper.ordinal = ordinal;
    memory.max_chunks = options.descriptors / 2 / static_cast<size_t>(count);
    if (!options.selected.empty()) {
      const nvml::CudaDevice& selected = options.selected[static_cast<size_t>(ordinal)];
      Select(ordinal, selected, jailer);
      memory.keeper.uuid = selected.UuidBytes();
    }
    auto device = DeviceMemory::Open(memory);
    absl::Status usable = device.status();
    if (usable.ok()) {
      usable = CheckPageableAccess((*device)->info(), ordinal, options.pageable_access);
    }
    if (!usable.ok()) {
      return absl::Status(usable.code(),
                          absl::StrCat("device ", ordinal, ": ", std::string(usable.message())));
    }
    if (options.selected.empty()) {
      jailer->AddDevice(ordinal, (*device)->info().pci_bus_id());
      count = (*device)->device_count();
    }
    // What "auto" became for the first device holds for all.
    memory.keeper.backend = (*device)->backend();
    if (!(*device)->note().empty()) LogInfo("no GPU is used: ", (*device)->note());
    LogInfo("device gpu=", ordinal, " name=\"", (*device)->info().name(),
            "\" backend=", (*device)->backend(), " memory_bytes=", (*device)->info().total_bytes(),
            " capacity_bytes=", (*device)->capacity_bytes(),
            " guarded_contexts_bytes=", (*device)->shared_contexts_bytes());
    devices.push_back(std::move(*device));
  }
  for (const auto& device : devices) WarnOfFewDescriptors(*device);
  return devices;
}

}  // namespace warpline::server
