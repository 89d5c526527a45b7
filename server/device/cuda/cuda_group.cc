#include "server/device/cuda/cuda_group.h"

#include <iterator>

#include "absl/memory/memory.h"

namespace warpline::device {

absl::StatusOr<std::shared_ptr<CudaGroup>> CudaGroup::Open(const DriverApi* api,
                                                           absl::Span<const int> ordinals) {
  std::shared_ptr<CudaGroup> group = absl::WrapUnique(new CudaGroup(api));
  for (const int ordinal : ordinals) {
    Member member;
    CUresult result = api->p_cuDeviceGet(&member.device, ordinal);
    if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "cuDeviceGet");
    result = api->p_cuDevicePrimaryCtxRetain(&member.context, member.device);
    if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "primary context");
    member.reaches = member.reached_by = 1u << group->members_.size();
    group->memory_.AddDevice(member.device);
    group->members_.push_back(member);
  }
  group->EnablePeers();
  return group;
}

// Chunks that are still mapped keep the reservation; a worker's process ends with its contexts
// anyway.
CudaGroup::~CudaGroup() {
  if (gate_.arena_bytes() > 0) {
    api_->p_cuMemAddressFree(gate_.arena_base(), gate_.arena_bytes());
  }
  for (const Member& member : members_) api_->p_cuDevicePrimaryCtxRelease(member.device);
}

// Mappings of chunks state themselves which devices reach them. This is for the rest, such as
// modules' variables and arrays, and lets the driver copy without a detour through the host.
void CudaGroup::EnablePeers() {
  for (size_t i = 0; i < members_.size(); ++i) {
    for (size_t j = 0; j < members_.size(); ++j) {
      int can = 0;
      if (i == j ||
          api_->p_cuDeviceCanAccessPeer(&can, members_[i].device, members_[j].device) !=
              CUDA_SUCCESS ||
          can == 0 || api_->p_cuCtxPushCurrent(members_[i].context) != CUDA_SUCCESS) {
        continue;
      }
      const CUresult result = api_->p_cuCtxEnablePeerAccess(members_[j].context, 0);
      CUcontext popped = nullptr;
      api_->p_cuCtxPopCurrent(&popped);
      if (result != CUDA_SUCCESS && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) continue;
      members_[i].reaches |= 1u << j;
      members_[j].reached_by |= 1u << i;
    }
  }
}

CudaResult CudaGroup::ReserveAt(uint64_t at, uint64_t bytes) {
  CUdeviceptr got = 0;
  const CUresult result = api_->p_cuMemAddressReserve(&got, bytes, bytes, at, 0);
  if (result != CUDA_SUCCESS) return ToResult(result);
  if (got != at) {
    api_->p_cuMemAddressFree(got, bytes);
    return CudaResult::kInvalidValue;
  }
  return CudaResult::kSuccess;
}

CudaResult CudaGroup::ReserveArena(uint64_t base, uint64_t bytes) {
  const CudaResult result = ReserveAt(base, bytes);
  if (result == CudaResult::kSuccess) gate_.SetArena(base, bytes);
  return result;
}

void CudaGroup::OnMapped(uint64_t va, uint64_t bytes, uint32_t owner) {
  if (members_.size() == 1) return;
  MutexLock lock(&mu_);
  chunks_[va] = {bytes, owner};
}

void CudaGroup::OnUnmapped(uint64_t va) {
  if (members_.size() == 1) return;
  MutexLock lock(&mu_);
  chunks_.erase(va);
}

uint32_t CudaGroup::MemberOf(const GatedSpan& span, uint32_t place) {
  if (members_.size() == 1 || span.kind() == MemoryKind::kHost) return place;
  if (span.kind() == MemoryKind::kVariables) return span.owner();
  MutexLock lock(&mu_);
  const auto next = chunks_.upper_bound(span.address());
  if (next == chunks_.begin()) return place;
  const auto& [va, chunk] = *std::prev(next);
  return span.address() - va < chunk.bytes ? chunk.owner : place;
}

}  // namespace warpline::device
