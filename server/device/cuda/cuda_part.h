// What every part of a GPU's context has: the driver, and the context that is made current.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_PART_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_PART_H_

#include <cstdint>
#include <memory>

#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_group.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/native.h"
#include "server/device/cuda/shared/cuda_share.h"
#include "server/device/cuda/shared/legacy_order.h"
#include "server/device/cuda/shared/quiet_moments.h"
#include "server/device/cuda/shared/session_stream.h"
#include "server/device/cuda/shared/session_streams.h"
#include "server/device/facets/types.h"
#include "server/device/gate/address_gate.h"

namespace warpline::device {

// A context among those that were opened together.
struct CudaMember {
  const DriverApi* api = nullptr;
  std::shared_ptr<CudaGroup> group;
  uint32_t place = 0;  // Its place among the group's members
  // What it has of a shared device; null for a context of any other.
  std::unique_ptr<CudaShare> share = nullptr;
};

class CudaPart {
 protected:
  explicit CudaPart(const CudaMember& member)
      : api_(member.api),
        group_(member.group.get()),
        place_(member.place),
        device_(group_->members()[place_].device),
        context_(group_->members()[place_].context),
        share_(member.share.get()) {}

  // Makes the context current on the calling thread. It calls the driver only when the thread used
  // another context last.
  void Enter() const;
  bool is_shared() const { return share_ != nullptr; }
  // Issues one operation: returns what `call`, given the driver's stream, returns. In a context of
  // a shared device this is where CUDA's legacy order is made, whose failures are returned, too,
  // where the stream gets the multiprocessors for its work, and where kernels may be held back.
  template <typename Call>
  CudaResult IssueTo(StreamId stream, const Call& call, const StreamWork& work = {}) const {
    if (share_ == nullptr) return ToResult(call(Native(stream)));
    SessionStream* const to = share_->streams->Of(stream);
    const QuietMoments::Launch launch(work.blocks > 0 ? share_->streams->moments() : nullptr);
    const LegacyOrder::Scope scope(share_->streams->order(), to, work);
    if (scope.error() != CUDA_SUCCESS) return ToResult(scope.error());
    if (work.blocks > 0) to->AddKernel();
    return ToResult(call(scope.native()));
  }
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
  CudaShare* const share_;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_PART_H_
