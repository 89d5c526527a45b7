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
#include "server/device/device.h"

namespace warpline::device {

// Thread-safe once the arena is reserved.
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

  // A context must be current.
  CudaResult ReserveArena(uint64_t base, uint64_t bytes);
  uint64_t arena_base() const { return arena_base_; }
  uint64_t arena_bytes() const { return arena_bytes_; }
  // Returns false before the arena is reserved.
  bool InArena(uint64_t address, uint64_t bytes) const {
    return address >= arena_base_ && address - arena_base_ <= arena_bytes_ &&
           bytes <= arena_bytes_ - (address - arena_base_);
  }

  const std::vector<Member>& members() const { return members_; }

  // Tell that a chunk of `owner` was mapped at `va`, and that it was unmapped.
  void OnMapped(uint64_t va, uint64_t bytes, uint32_t owner);
  void OnUnmapped(uint64_t va);
  // The member to which the memory at `address` belongs: its place among the members, or kUnknown
  // when no chunk is mapped there, as for a module's variables.
  static constexpr uint32_t kUnknown = ~uint32_t{0};
  uint32_t OwnerOf(uint64_t address);
  // Whether what lies at `address` is known to belong to another member than `place`.
  bool IsForeign(uint64_t address, uint32_t place) {
    if (members_.size() == 1) return false;
    const uint32_t owner = OwnerOf(address);
    return owner != kUnknown && owner != place;
  }
  // The context that a copy made by `place` names with `address`.
  CUcontext ContextOf(uint64_t address, uint32_t place);

 private:
  struct Chunk {
    uint64_t bytes = 0;
    uint32_t owner = 0;
  };

  explicit CudaGroup(const DriverApi* api) : api_(api) {}
  void EnablePeers();

  const DriverApi* const api_;
  std::vector<Member> members_;
  uint64_t arena_base_ = 0;
  uint64_t arena_bytes_ = 0;
  Mutex mu_;
  std::map<uint64_t, Chunk> chunks_ ABSL_GUARDED_BY(mu_);  // By address; empty with one member.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_GROUP_H_
