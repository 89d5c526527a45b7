// An application's hints for the pages of one range of managed memory: cuMemAdvise's advice, and
// the latest prefetch.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_RANGE_ADVICE_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_RANGE_ADVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "client_stub/core/base/cuda_api.h"

namespace warpline::stub {

// The locations have the type CU_MEM_LOCATION_TYPE_INVALID where there is none.
struct Advice {
  bool read_mostly = false;
  CUmemLocation preferred = {};
  CUmemLocation prefetched = {};
  std::set<int> accessed_by;  // Devices, and CU_DEVICE_CPU.
};

// Thread-compatible.
class RangeAdvice {
 public:
  // Changes the advice for [begin, end), offsets of whole pages.
  void Change(uint64_t begin, uint64_t end, const std::function<void(Advice*)>& change);

  // Returns the advice that holds for all of [begin, end).
  Advice Common(uint64_t begin, uint64_t end) const;

  // Returns the number of parts: the first one, and each that differs from the one before it.
  size_t parts() const { return parts_.size(); }

 private:
  using Parts = std::map<uint64_t, Advice>;
  Parts::iterator Split(uint64_t at);

  Parts parts_ = {{0, {}}};  // Keyed by the begin of each part; a part ends where the next begins.
};

// Writes one of CUDA's attributes of a range as cuMemRangeGetAttribute does.
// CUDA_ERROR_INVALID_VALUE for an unknown attribute and for a size that it does not have.
CUresult GiveRangeAttribute(const Advice& advice, CUmem_range_attribute attribute, void* data,
                            size_t bytes);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_RANGE_ADVICE_H_
