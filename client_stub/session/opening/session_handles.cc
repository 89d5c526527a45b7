// Memory handles, and what sessions of a lease share.
#include <utility>

#include "client_stub/session/opening/session_impl.h"
#include "proto/frames.h"

namespace warpline::stub {

using warpline_internal::MemoryRequest;

CudaResult SessionImpl::CreateHandles(uint64_t first, uint64_t bytes, uint64_t count,
                                      uint64_t* created) {
  GrantWaiter waiter;
  MemoryRequest request;
  request.set_handle(first);
  request.set_min_bytes(bytes);
  request.set_want_bytes(bytes * count);
  const CudaResult result = AskForMemory(std::move(request), &waiter);
  // No fewer than one, or the answer would not have been taken.
  if (result == CudaResult::kSuccess) *created = waiter.grant.bytes / bytes;
  return result;
}

void SessionImpl::ReturnHandle(uint64_t handle) {
  if (error() != CudaResult::kSuccess) return;
  warpline_internal::MemoryReturn message;
  message.set_handle(handle);
  SendControl({kMemoryReturn, message.SerializeAsString()});
}

CudaResult SessionImpl::Share(const SharedWhat& what, SharedMemory* shared) {
  GrantWaiter waiter;
  waiter.for_token = true;
  MemoryRequest request;
  auto* const share = request.mutable_share();
  share->set_handle(what.handle);
  share->set_va(what.va);
  share->set_bytes(what.bytes);
  const CudaResult result = AskForMemory(std::move(request), &waiter);
  if (result != CudaResult::kSuccess) return result;
  *shared = {std::move(waiter.token), waiter.grant.va, waiter.grant.bytes};
  return CudaResult::kSuccess;
}

CudaResult SessionImpl::OpenShared(const std::string& token, uint64_t handle, uint64_t bytes) {
  GrantWaiter waiter;
  MemoryRequest request;
  request.set_handle(handle);
  request.set_open(token);
  request.set_min_bytes(handle == 0 ? kChunkGranularity : bytes);
  request.set_want_bytes(request.min_bytes());
  return AskForMemory(std::move(request), &waiter);
}

void SessionImpl::SetUnmappedCallback(std::function<void(uint64_t token)> callback) {
  MutexLock lock(&freed_mu_);
  unmapped_callback_ = std::move(callback);
}

}  // namespace warpline::stub
