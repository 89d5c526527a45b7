#include "server/device/cuda/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/cuda/cuda_chunk_source.h"
#include "server/device/cuda/cuda_context.h"
#include "server/device/cuda/driver_api.h"

namespace warpline::device {
namespace {

// Attributes that promise what Warpline does not forward yet. A program that asks is told so
// instead of failing later.
constexpr int kAttributesAnsweredZero[] = {
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
    CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1,
    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1,
    CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
    CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH,
    CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
};

class CudaBackend : public Backend {
 public:
  CudaBackend(const DriverApi* api, int count) : api_(api), count_(count) {}

  int DeviceCount() override { return count_; }

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
      if (std::find(std::begin(kAttributesAnsweredZero), std::end(kAttributesAnsweredZero), id) !=
          std::end(kAttributesAnsweredZero)) {
        value = 0;
      }
      info.attributes.emplace_back(id, value);
    }
    const absl::Status range = StreamPriorities(device, &info);
    if (!range.ok()) return range;
    return info;
  }

  absl::StatusOr<std::unique_ptr<Context>> OpenContext(int ordinal) override {
    return CudaContext::Open(api_, ordinal);
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
    api_->p_cuCtxSetCurrent(context);
    result = api_->p_cuCtxGetStreamPriorityRange(&info->least_stream_priority,
                                                 &info->greatest_stream_priority);
    return StatusFromCudaResult(ToResult(result), "stream priority range");
  }

  const DriverApi* const api_;
  const int count_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> NewCudaBackend() {
  absl::StatusOr<const DriverApi*> api = LoadDriver();
  if (!api.ok()) return api.status();
  int count = 0;
  const CudaResult result = ToResult((*api)->p_cuDeviceGetCount(&count));
  if (result != CudaResult::kSuccess) return StatusFromCudaResult(result, "cuDeviceGetCount");
  if (count == 0) return absl::UnavailableError("the NVIDIA driver finds no device");
  return std::make_unique<CudaBackend>(*api, count);
}

}  // namespace warpline::device
