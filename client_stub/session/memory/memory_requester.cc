#include "client_stub/session/memory/memory_requester.h"

#include <algorithm>

#include "absl/time/time.h"
#include "client_stub/session/waits/wait_spin.h"
#include "common/log/log.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

using warpline_internal::MemoryRequest;

void Add(std::atomic<uint64_t>* counter) { counter->fetch_add(1, std::memory_order_relaxed); }

}  // namespace

MemoryRequester::MemoryRequester(const SessionStatus* status, ControlQueue* control,
                                 Counters* counters)
    : status_(status), control_(control), counters_(counters), spin_(ChooseWaitSpin()) {}

CudaResult MemoryRequester::ShareHostMemory(HostSharing what, uint64_t va, uint64_t bytes,
                                            UniqueFd* fd) {
  std::string why;
  const CudaResult result = host_memory_.Request(what, va, bytes, fd, &why);
  if (result == CudaResult::kOutOfMemory && !why.empty()) NoteRefusedMemory(result, why);
  return result;
}

CudaResult MemoryRequester::Ask(MemoryRequest request, GrantWaiter* waiter) {
  if (status_->error() != CudaResult::kSuccess) return status_->error();
  waiter->va = request.va();
  waiter->min_bytes = request.min_bytes();
  waiter->want_bytes = request.want_bytes();
  CudaResult lost;
  const uint64_t id = grants_.Expect(waiter, &lost);
  if (id == 0) return lost;
  request.set_id(id);
  Add(&counters_->memory_round_trips);
  control_->Push({kMemoryRequest, request.SerializeAsString()});
  waiter->done.Wait(spin_);
  return waiter->result;
}

CudaResult MemoryRequester::RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                                          Grant* grant) {
  GrantWaiter waiter;
  MemoryRequest request;
  request.set_va(va);
  request.set_min_bytes(min_bytes);
  request.set_want_bytes(want_bytes);
  const CudaResult result = Ask(std::move(request), &waiter);
  if (result == CudaResult::kSuccess) *grant = waiter.grant;
  return result;
}

void MemoryRequester::NoteRefusedMemory(CudaResult error, std::string_view why) {
  Add(&counters_->memory_refusals);
  const std::string line = refusals_.LineFor(error, why);
  if (!line.empty()) LogWarning(line);
}

void MemoryRequester::ReturnMemory(const Grant& grant) {
  if (status_->error() != CudaResult::kSuccess) return;
  warpline_internal::MemoryReturn message;
  message.set_va(grant.va);
  message.set_bytes(grant.bytes);
  control_->Push({kMemoryReturn, message.SerializeAsString()});
}

CudaResult MemoryRequester::ReadBack(void* dst, uint64_t va, uint64_t bytes) {
  constexpr absl::Duration kDeadline = absl::Seconds(60);
  if (status_->error() == CudaResult::kSuccess) return CudaResult::kIllegalState;
  for (uint64_t done = 0; done < bytes; done += kMaxReadBack) {
    const uint64_t piece = std::min(kMaxReadBack, bytes - done);
    const uint64_t id = read_backs_.Expect(static_cast<char*>(dst) + done, va + done, piece);
    if (id == 0) return status_->error();
    SendReadBack({id, va + done, piece});
    const CudaResult result = read_backs_.Wait(id, kDeadline);
    if (result != CudaResult::kSuccess) return result;
  }
  return CudaResult::kSuccess;
}

void MemoryRequester::SendReadBack(const ReadBackTable::Asked& asked) {
  warpline_internal::ReadBack request;
  request.set_id(asked.id);
  request.set_va(asked.va);
  request.set_bytes(asked.bytes);
  control_->Push({kReadBack, request.SerializeAsString()});
}

void MemoryRequester::ReadBackAgain() {
  for (const ReadBackTable::Asked& asked : read_backs_.Waiting()) SendReadBack(asked);
}

CudaResult MemoryRequester::CreateHandles(uint64_t first, uint64_t bytes, uint64_t count,
                                          uint64_t* created) {
  GrantWaiter waiter;
  MemoryRequest request;
  request.set_handle(first);
  request.set_min_bytes(bytes);
  request.set_want_bytes(bytes * count);
  const CudaResult result = Ask(std::move(request), &waiter);
  // At least one, or the answer would have been refused.
  if (result == CudaResult::kSuccess) *created = waiter.grant.bytes / bytes;
  return result;
}

void MemoryRequester::ReturnHandle(uint64_t handle) {
  if (status_->error() != CudaResult::kSuccess) return;
  warpline_internal::MemoryReturn message;
  message.set_handle(handle);
  control_->Push({kMemoryReturn, message.SerializeAsString()});
}

CudaResult MemoryRequester::Share(const SharedWhat& what, SharedMemory* shared) {
  if (what.event != 0) {
    *shared = {shared_events_.TokenOf(what.event)};
    if (!shared->token.empty()) return CudaResult::kSuccess;
  }
  GrantWaiter waiter;
  waiter.for_token = true;
  MemoryRequest request;
  auto* const share = request.mutable_share();
  share->set_handle(what.handle);
  share->set_va(what.va);
  share->set_bytes(what.bytes);
  if (what.event != 0) {
    for (std::string& token : shared_events_.TakeWithdrawn(kMostWithdrawn)) {
      share->add_withdrawn(std::move(token));
    }
  }
  const CudaResult result = Ask(std::move(request), &waiter);
  if (result != CudaResult::kSuccess) return result;
  if (what.event != 0) waiter.token = shared_events_.SetToken(what.event, waiter.token);
  *shared = {std::move(waiter.token), waiter.grant.va, waiter.grant.bytes};
  return CudaResult::kSuccess;
}

CudaResult MemoryRequester::OpenShared(const std::string& token, uint64_t handle, uint64_t bytes) {
  GrantWaiter waiter;
  MemoryRequest request;
  request.set_handle(handle);
  request.set_open(token);
  request.set_min_bytes(handle == 0 ? kChunkGranularity : bytes);
  request.set_want_bytes(request.min_bytes());
  return Ask(std::move(request), &waiter);
}

bool MemoryRequester::HandleGrant(std::string_view payload) {
  warpline_internal::MemoryGrant grant;
  const bool parsed = grant.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
  const auto error = static_cast<CudaResult>(grant.error());
  // Done before the waiting thread goes on, because the program may end then.
  if (parsed && grant.bytes() == 0) {
    NoteRefusedMemory(error == CudaResult::kSuccess ? CudaResult::kOutOfMemory : error,
                      grant.message());
  }
  return parsed && grants_.Answer(grant.id(), {grant.va(), grant.bytes()}, error, grant.token());
}

bool MemoryRequester::HandleRefused(std::string_view payload) {
  warpline_internal::MemoryRefused refused;
  if (!refused.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return false;
  NoteRefusedMemory(CudaResult::kOutOfMemory, refused.message());
  return true;
}

bool MemoryRequester::HandleReadBack(std::string_view payload) {
  warpline_internal::ReadBackDone done;
  return done.ParseFromArray(payload.data(), static_cast<int>(payload.size())) &&
         read_backs_.Answer(done.id(), static_cast<CudaResult>(done.error()), done.data());
}

}  // namespace warpline::stub
