// What every part of a GPU's context has: the driver, and the context that is made current.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_PART_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_PART_H_

#include <cstdint>
#include <memory>

#include "server/device/cuda/cuda_group.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/gate/address_gate.h"

namespace warpline::device {

// A context among those that were opened together.
struct CudaMember {
  const DriverApi* api = nullptr;
  std::shared_ptr<CudaGroup> group;
  uint32_t place = 0;  // Its place among the group's members
};

class CudaPart {
 protected:
  explicit CudaPart(const CudaMember& member)
      : api_(member.api),
        group_(member.group.get()),
        place_(member.place),
        device_(group_->members()[place_].device),
        context_(group_->members()[place_].context) {}

  // Makes the context current on the calling thread. It calls the driver only when the thread used
  // another context last.
  void Enter() const;
  const AddressGate& gate() const { return group_->gate(); }
  // Whether the memory is known to belong to another of the contexts that were opened together.
  bool IsForeign(const GatedSpan& span) const { return group_->MemberOf(span, place_) != place_; }
  // The context that a copy names with the span.
  CUcontext ContextOf(const GatedSpan& span) const {
    return group_->members()[group_->MemberOf(span, place_)].context;
  }

  const DriverApi* const api_;
  CudaGroup* const group_;
  const uint32_t place_;
  const CUdevice device_;
  const CUcontext context_;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_PART_H_
