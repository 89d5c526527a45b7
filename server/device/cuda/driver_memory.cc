#include "server/device/cuda/driver_memory.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace warpline::device {

// For an address that it does not know, the driver succeeds and leaves every answer 0. Memory of
// the host, page-locked or registered, is of another type.
bool DriverMemory::FindVariables(uint64_t address, VariableBlock* block) {
  unsigned type = 0;
  unsigned managed = 0;
  int ordinal = -1;
  CUdeviceptr start = 0;
  size_t bytes = 0;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
      CU_POINTER_ATTRIBUTE_RANGE_SIZE,
  };
  void* answers[] = {&type, &managed, &ordinal, &start, &bytes};
  static_assert(std::size(attributes) == std::size(answers));
  if (api_->p_cuPointerGetAttributes(std::size(attributes), attributes, answers, address) !=
      CUDA_SUCCESS) {
    return false;
  }
  if (type != CU_MEMORYTYPE_DEVICE && managed == 0) return false;
  const auto device = std::find(devices_.begin(), devices_.end(), ordinal);
  if (device == devices_.end()) return false;
  *block = {start, bytes, static_cast<uint32_t>(device - devices_.begin())};
  return true;
}

}  // namespace warpline::device
