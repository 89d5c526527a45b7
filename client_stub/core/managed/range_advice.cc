#include "client_stub/core/managed/range_advice.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace warpline::stub {
namespace {

bool Same(const CUmemLocation& a, const CUmemLocation& b) {
  return a.type == b.type && a.id == b.id;
}

bool Same(const Advice& a, const Advice& b) {
  return a.read_mostly == b.read_mostly && Same(a.preferred, b.preferred) &&
         Same(a.prefetched, b.prefetched) && a.accessed_by == b.accessed_by;
}

// Returns a location in the form of the calls without types. A node of the host counts as the host.
int DeviceOf(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return location.id;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return CU_DEVICE_CPU;
    default:
      return CU_DEVICE_INVALID;
  }
}

CUresult GiveWord(int value, void* data, size_t bytes) {
  if (bytes != sizeof(value)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

CUresult GiveDevices(const std::set<int>& devices, void* data, size_t bytes) {
  if (bytes == 0 || bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto device = devices.begin();
  for (size_t at = 0; at < bytes; at += sizeof(int)) {
    const int value = device == devices.end() ? CU_DEVICE_INVALID : *device++;
    std::memcpy(static_cast<char*>(data) + at, &value, sizeof(value));
  }
  return CUDA_SUCCESS;
}

}  // namespace

RangeAdvice::Parts::iterator RangeAdvice::Split(uint64_t at) {
  const auto next = parts_.lower_bound(at);
  if (next != parts_.end() && next->first == at) return next;
  return parts_.emplace_hint(next, at, std::prev(next)->second);
}

void RangeAdvice::Change(uint64_t begin, uint64_t end, const std::function<void(Advice*)>& change) {
  if (begin >= end) return;
  const auto first = Split(begin);
  const auto last = Split(end);
  for (auto it = first; it != last; ++it) change(&it->second);
  // Neighbours that no longer differ become one, so that there are never more parts than
  // differences.
  auto it = first == parts_.begin() ? first : std::prev(first);
  while (it != parts_.end() && it->first <= end) {
    const auto next = std::next(it);
    if (next == parts_.end()) break;
    if (Same(it->second, next->second)) {
      parts_.erase(next);
    } else {
      it = next;
    }
  }
}

Advice RangeAdvice::Common(uint64_t begin, uint64_t end) const {
  auto it = std::prev(parts_.upper_bound(begin));
  Advice common = it->second;
  for (++it; it != parts_.end() && it->first < end; ++it) {
    const Advice& advice = it->second;
    common.read_mostly &= advice.read_mostly;
    if (!Same(common.preferred, advice.preferred)) common.preferred = {};
    if (!Same(common.prefetched, advice.prefetched)) common.prefetched = {};
    std::erase_if(common.accessed_by,
                  [&](int device) { return !advice.accessed_by.contains(device); });
  }
  return common;
}

CUresult GiveRangeAttribute(const Advice& advice, CUmem_range_attribute attribute, void* data,
                            size_t bytes) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return GiveWord(advice.read_mostly ? 1 : 0, data, bytes);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return GiveWord(DeviceOf(advice.preferred), data, bytes);
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      return GiveDevices(advice.accessed_by, data, bytes);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return GiveWord(DeviceOf(advice.prefetched), data, bytes);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return GiveWord(static_cast<int>(advice.preferred.type), data, bytes);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return GiveWord(advice.preferred.id, data, bytes);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return GiveWord(static_cast<int>(advice.prefetched.type), data, bytes);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return GiveWord(advice.prefetched.id, data, bytes);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace warpline::stub
