// What a session's worker takes of a device outside the arena: arrays, variables of modules,
// stacks.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_CHARGE_BOOK_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_CHARGE_BOOK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "common/cuda/cuda_result.h"
#include "memory/quota.h"

namespace warpline::server {

// Thread-compatible. Its size is bounded by the quota's: pieces of the same size are one entry, and
// not many different multiples of the unit fit into a quota.
class ChargeBook {
 public:
  // The worker rounds up to it.
  static constexpr uint64_t kUnitBytes = 64 << 10;

  explicit ChargeBook(std::shared_ptr<Quota> quota) : quota_(std::move(quota)) {}

  // kInvalidValue for a piece that is not in units, kOutOfMemory beyond the quota.
  CudaResult Charge(uint64_t bytes);
  // False when no such piece was charged.
  bool Uncharge(uint64_t bytes);
  // Has one piece in place of all others, or none for 0. False, and nothing left, beyond the quota.
  bool Replace(uint64_t bytes);
  // Forgets all pieces and returns the hold on the quota for them.
  Reservation End();

  uint64_t bytes() const { return held_.bytes(); }

 private:
  const std::shared_ptr<Quota> quota_;
  std::map<uint64_t, uint64_t> pieces_;  // How many, by size.
  Reservation held_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_CHARGE_BOOK_H_
