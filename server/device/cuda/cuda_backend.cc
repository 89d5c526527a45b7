#include "server/device/cuda/cuda_backend.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/elf/search_folders.h"
#include "common/log/log.h"
#include "server/device/cuda/cuda_chunk_source.h"
#include "server/device/cuda/cuda_context.h"
#include "server/device/cuda/cuda_group.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/libraries/cublas_library.h"
#include "server/device/cuda/shared/cuda_shared_device.h"

namespace warpline::device {
namespace {

class CudaBackend : public Backend {
 public:
  CudaBackend(const DriverApi* api, int count) : api_(api), count_(count) {}

  int DeviceCount() override { return count_; }

  absl::StatusOr<int> Find(int ordinal, const std::string& pci_bus_id) override {
    if (pci_bus_id.empty()) return ordinal;
    CUdevice device;
    const CUresult found = api_->p_cuDeviceGetByPCIBusId(&device, pci_bus_id.c_str());
    if (found != CUDA_SUCCESS) {
      return absl::NotFoundError(
          absl::StrCat("the driver shows no device at ", pci_bus_id, " (device ", ordinal, ")"));
    }
    // The driver's handle of a device is its ordinal.
    return device;
  }

  absl::StatusOr<DeviceInfo> Info(int ordinal) override {
    DeviceInfo info;
    CUdevice device;
    char name[256] = {};
    char bus_id[32] = {};
    CUuuid uuid;
    size_t total = 0;
    const CUresult results[] = {
        api_->p_cuDeviceGet(&device, ordinal),
        api_->p_cuDeviceGetName(name, sizeof(name), device),
        api_->p_cuDeviceTotalMem(&total, device),
        api_->p_cuDeviceGetUuid(&uuid, device),
        api_->p_cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), device),
        api_->p_cuDriverGetVersion(&info.driver_version),
    };
    for (const CUresult result : results) {
      if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "device info");
    }
    info.name = name;
    info.total_bytes = total;
    info.pci_bus_id = bus_id;
    std::memcpy(info.uuid.data(), uuid.bytes, info.uuid.size());
    for (int id = 1; id < CU_DEVICE_ATTRIBUTE_MAX; ++id) {
      int value = 0;
      if (api_->p_cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(id), device) !=
          CUDA_SUCCESS) {
        continue;
      }
      info.attributes.emplace_back(id, value);
    }
    const absl::Status range = StreamPriorities(device, &info);
    if (!range.ok()) return range;
    return info;
  }

  absl::StatusOr<std::vector<std::unique_ptr<Context>>> OpenContexts(
      absl::Span<const int> ordinals) override {
    auto group = CudaGroup::Open(api_, ordinals);
    if (!group.ok()) return group.status();
    std::vector<std::unique_ptr<Context>> contexts;
    for (uint32_t place = 0; place < ordinals.size(); ++place) {
      contexts.push_back(std::make_unique<CudaContext>(
          std::make_unique<CudaMember>(CudaMember{api_, *group, place})));
    }
    return contexts;
  }

  absl::StatusOr<std::unique_ptr<SharedDevice>> OpenShared(
      int ordinal, const SharedDeviceOptions& options) override {
    return CudaSharedDevice::Open(api_, ordinal, options);
  }

  absl::StatusOr<std::unique_ptr<ChunkSource>> OpenChunkSource(int ordinal) override {
    return CudaChunkSource::Open(api_, ordinal);
  }

 private:
  // The range is a property of a context, so one is made for the question.
  absl::Status StreamPriorities(CUdevice device, DeviceInfo* info) {
    CUcontext context;
    CUresult result = api_->p_cuDevicePrimaryCtxRetain(&context, device);
    if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "primary context");
    // Pushing leaves the calling thread's own context as it is.
    result = api_->p_cuCtxPushCurrent(context);
    if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "context");
    result = api_->p_cuCtxGetStreamPriorityRange(&info->least_stream_priority,
                                                 &info->greatest_stream_priority);
    api_->p_cuCtxPopCurrent(&context);
    return StatusFromCudaResult(ToResult(result), "stream priority range");
  }

  const DriverApi* const api_;
  const int count_;
};

// Returns the folder of this program.
std::string ProgramFolder() {
  std::array<char, 4096> path;
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  const std::string_view text(path.data(), size > 0 ? static_cast<size_t>(size) : 0);
  return std::string(text.substr(0, text.rfind('/')));
}

}  // namespace

void LoadCudaLibraries() {
  const char* const folders = getenv("WARPLINE_CUDA_LIBRARIES");
  if (folders == nullptr || *folders == '\0') return;
  const absl::Status loaded =
      LoadCublas(elf::FoldersOf(folders, ":", ""),
                 absl::StrCat(ProgramFolder(), "/../lib/driver/libcuda.so.1"));
  if (!loaded.ok()) {
    LogWarning("guarded sessions have no cuBLAS: ", std::string(loaded.message()));
  }
}

absl::StatusOr<std::unique_ptr<Backend>> NewCudaBackend(int /*devices*/) {
  absl::StatusOr<const DriverApi*> api = LoadDriver();
  if (!api.ok()) return api.status();
  int count = 0;
  const CudaResult result = ToResult((*api)->p_cuDeviceGetCount(&count));
  if (result != CudaResult::kSuccess) return StatusFromCudaResult(result, "cuDeviceGetCount");
  if (count == 0) return absl::UnavailableError("the NVIDIA driver finds no device");
  return std::make_unique<CudaBackend>(*api, count);
}

}  // namespace warpline::device
