// What contexts of GPUs that were opened together know of each other: the arena, and to which of
// them the memory in it belongs.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_GROUP_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_GROUP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/driver_memory.h"
#include "server/device/device.h"
#include "server/device/gate/address_gate.h"

namespace warpline::device {

// Thread-safe.
class CudaGroup {
 public:
  struct Member {
    CUdevice device = 0;
    CUcontext context = nullptr;
    uint32_t reaches = 0;     // The members whose memory its kernels reach, as bits; its own too.
    uint32_t reached_by = 0;  // The members whose kernels reach its memory.
  };

  // Retains the primary contexts of `ordinals`, and lets them reach each other's memory where the
  // hardware can.
  static absl::StatusOr<std::shared_ptr<CudaGroup>> Open(const DriverApi* api,
                                                         absl::Span<const int> ordinals);
  ~CudaGroup();
  CudaGroup(const CudaGroup&) = delete;
  CudaGroup& operator=(const CudaGroup&) = delete;

  // Reserve device addresses: [at, at + bytes) and nowhere else, and the same for the arena, which
  // the gate knows then. `bytes` is a power of two, and `at` a multiple of it. A context must be
  // current.
  CudaResult ReserveAt(uint64_t at, uint64_t bytes);
  CudaResult ReserveArena(uint64_t base, uint64_t bytes);
  // Every address that a command names passes it.
  AddressGate& gate() { return gate_; }

  const std::vector<Member>& members() const { return members_; }

  // Tell that a chunk of `owner` was mapped at `va`, and that it was unmapped.
  void OnMapped(uint64_t va, uint64_t bytes, uint32_t owner);
  void OnUnmapped(uint64_t va);
  // The member whose context a copy made by `place` names with the span: `place` where the memory
  // is the host's, or of no known owner.
  uint32_t MemberOf(const GatedSpan& span, uint32_t place);

 private:
  struct Chunk {
    uint64_t bytes = 0;
    uint32_t owner = 0;
  };

  explicit CudaGroup(const DriverApi* api) : api_(api), memory_(api) {}
  void EnablePeers();

  const DriverApi* const api_;
  std::vector<Member> members_;
  DriverMemory memory_;
  AddressGate gate_{&memory_};
  Mutex mu_;
  std::map<uint64_t, Chunk> chunks_ ABSL_GUARDED_BY(mu_);  // By address; empty with one member.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_GROUP_H_
