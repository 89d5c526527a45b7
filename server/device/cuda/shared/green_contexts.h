// The parts of a GPU's multiprocessors on which sessions run: green contexts, which are all made at
// once, because making one waits for running kernels.
//
//   GreenContexts contexts(api, device);
//   const GreenContexts::Lease lease = contexts.Take(16);
//   if (lease.context() != nullptr) api->p_cuGreenCtxStreamCreate(&stream, lease.context(), ...);
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_GREEN_CONTEXTS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_GREEN_CONTEXTS_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/shared/share_lattice.h"

namespace warpline::device {

// Thread-safe. It outlives the streams of its contexts.
class GreenContexts {
 public:
  // Part of the device for a user, or all of it. Movable; it ends before the GreenContexts does.
  class Lease {
   public:
    Lease() = default;
    Lease(GreenContexts* from, std::optional<size_t> part) : from_(from), part_(part) {}
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      std::swap(from_, other.from_);
      std::swap(part_, other.part_);
      return *this;
    }
    ~Lease() {
      if (part_) from_->lattice_.GiveBack(*part_);
    }
    // Null for all of the device.
    CUgreenCtx context() const { return part_ ? from_->parts_[*part_].context : nullptr; }

   private:
    GreenContexts* from_ = nullptr;
    std::optional<size_t> part_;
  };

  // Makes what the driver and the device can, which may be nothing. The device's primary context is
  // current, and stays retained.
  GreenContexts(const DriverApi* api, CUdevice device)
      : api_(api), parts_(Make(api, device)), lattice_(SizesOf(parts_)) {}
  GreenContexts(const GreenContexts&) = delete;
  GreenContexts& operator=(const GreenContexts&) = delete;
  ~GreenContexts();

  // As ShareLattice::Take().
  Lease Take(int multiprocessors) { return {this, lattice_.Take(multiprocessors)}; }
  size_t parts() const { return parts_.size(); }

 private:
  struct Part {
    CUgreenCtx context = nullptr;
    int multiprocessors = 0;
  };

  static std::vector<Part> Make(const DriverApi* api, CUdevice device);
  static std::vector<int> SizesOf(const std::vector<Part>& parts);

  const DriverApi* const api_;
  const std::vector<Part> parts_;
  ShareLattice lattice_;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_GREEN_CONTEXTS_H_
