// What an application has said of the pages of one range of managed memory: cuMemAdvise's advice
// and where it was last prefetched to.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_RANGE_ADVICE_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_RANGE_ADVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "client_stub/core/base/cuda_api.h"

namespace warpline::stub {

// Of type CU_MEM_LOCATION_TYPE_INVALID where there is none.
struct Advice {
  bool read_mostly = false;
  CUmemLocation preferred = {};
  CUmemLocation prefetched = {};
  std::set<int> accessed_by;  // Devices, and CU_DEVICE_CPU.
};

// Thread-compatible.
class RangeAdvice {
 public:
  // Changes what is said of [begin, end), offsets of whole pages.
  void Change(uint64_t begin, uint64_t end, const std::function<void(Advice*)>& change);

  // What holds for all of [begin, end).
  Advice Common(uint64_t begin, uint64_t end) const;

  // How many parts differ from the one before, and the first.
  size_t parts() const { return parts_.size(); }

 private:
  using Parts = std::map<uint64_t, Advice>;
  Parts::iterator Split(uint64_t at);

  Parts parts_ = {{0, {}}};  // By where each begins; it ends where the next begins.
};

// One of CUDA's attributes of a range, as cuMemRangeGetAttribute writes it.
// CUDA_ERROR_INVALID_VALUE for an unknown one and for a size that it does not have.
CUresult GiveRangeAttribute(const Advice& advice, CUmem_range_attribute attribute, void* data,
                            size_t bytes);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_RANGE_ADVICE_H_
