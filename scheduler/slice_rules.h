// What a slice may be, who may have it, and what it makes of a lease.
//
// An operator names shapes of a vGPU (SliceRecord) and says which of them a tenant may have. A
// lease of a slice has that shape as it was when the lease was made. The tenant's own limits bound
// it in any case: they are checked as for a lease without a slice.
#ifndef WARPLINE_SCHEDULER_SLICE_RULES_H_
#define WARPLINE_SCHEDULER_SLICE_RULES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lease/entitlement.h"
#include "proto/leases.pb.h"
#include "scheduler/records.h"

namespace warpline::scheduler {

// INVALID_ARGUMENT, naming the part and its bounds, for what is no slice.
absl::Status CheckSlice(const SliceRecord& slice);

// INVALID_ARGUMENT for what no new slice may be called. One of that name may be there from before.
absl::Status CheckNewSlice(const std::string& name);

// Whether `tenant` may be given these slices: INVALID_ARGUMENT for a list that is none, NOT_FOUND
// for a slice that is not in `known`.
absl::Status CheckSlicesOf(const TenantRecord& tenant, const std::vector<SliceRecord>& known);

// The slice of a lease of `tenant` that asks for the one called `wanted`, or names none; without a
// name where it has none. NOT_FOUND for an unknown one, PERMISSION_DENIED for one that the tenant
// may not have.
absl::StatusOr<SliceRecord> SliceFor(const TenantRecord& tenant, const std::string& wanted,
                                     const std::vector<SliceRecord>& known);

// Asks for what the slice is where `request` does not say how much it wants. RESOURCE_EXHAUSTED
// where it wants more.
absl::Status ShapeRequest(const SliceRecord& slice, const TenantRecord& tenant, bool by_sessions,
                          warpline_internal::AcquireRequest* request);

// How a lease stands among others that want its device.
struct LeaseTerms {
  uint32_t weight = 1;
  uint32_t copy_weight = 1;
  uint32_t priority = 0;
};

// Those of a lease of this shape. What the shape does not say is the tenant's.
LeaseTerms TermsOf(const SliceShape& shape, const TenantRecord& tenant);

// The part of a device's time that a lease of this shape has reserved, in thousandths, rounded up;
// 0 for none. Those on a device are together no more than placement::kMostTime.
uint32_t TimeOf(const SliceShape& shape);

// What a token of the lease says of the slice.
DeviceSlice TokenSliceOf(const LeaseRecord& lease, const TenantRecord& tenant);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SLICE_RULES_H_
