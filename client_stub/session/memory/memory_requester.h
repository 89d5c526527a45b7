// The memory requests of a session, which are sent as frames of their own and waited for.
#ifndef WARPLINE_CLIENT_STUB_SESSION_MEMORY_MEMORY_REQUESTER_H_
#define WARPLINE_CLIENT_STUB_SESSION_MEMORY_MEMORY_REQUESTER_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "client_stub/session/connection/control_queue.h"
#include "client_stub/session/counters.h"
#include "client_stub/session/memory/grant_table.h"
#include "client_stub/session/memory/host_memory_link.h"
#include "client_stub/session/memory/read_back_table.h"
#include "client_stub/session/memory/refusal_log.h"
#include "client_stub/session/memory/shared_events.h"
#include "client_stub/session/memory_requests.h"
#include "client_stub/session/session_status.h"
#include "common/cuda/cuda_result.h"
#include "proto/session.pb.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// Thread-safe, except for what runs on the loop.
class MemoryRequester final : public MemoryRequests {
 public:
  // All are borrowed.
  MemoryRequester(const SessionStatus* status, ControlQueue* control, Counters* counters);

  // The source of host memory and of the completion board.
  HostMemoryLink& host_memory() { return host_memory_; }

  CudaResult RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                           Grant* grant) override;
  void NoteRefusedMemory(CudaResult error, std::string_view why) override;
  void ReturnMemory(const Grant& grant) override;
  CudaResult CreateHandles(uint64_t first, uint64_t bytes, uint64_t count,
                           uint64_t* created) override;
  void ReturnHandle(uint64_t handle) override;
  CudaResult Share(const SharedWhat& what, SharedMemory* shared) override;
  void EndSharedEvent(uint64_t event) override { shared_events_.End(event); }
  CudaResult OpenShared(const std::string& token, uint64_t handle, uint64_t bytes) override;
  CudaResult ShareHostMemory(HostSharing what, uint64_t va, uint64_t bytes, UniqueFd* fd) override;
  CudaResult ReadBack(void* dst, uint64_t va, uint64_t bytes) override;

  // Handle the payloads of kMemoryGrant and kReadBackDone. Return false for an answer without a
  // request.
  bool HandleGrant(std::string_view payload) RUNS_ON(channel_loop);
  bool HandleReadBack(std::string_view payload) RUNS_ON(channel_loop);
  // Handles the payload of kRefused; false when it is none.
  bool HandleRefused(std::string_view payload) RUNS_ON(channel_loop);
  // Every request ends with `error`, and so does every later one.
  void Lose(CudaResult error) RUNS_ON(channel_loop) {
    grants_.Fail(error);
    host_memory_.Lose();
  }
  // Sends the requests to read back memory that have no answer once more: they or their answers
  // were lost with the former connection.
  void ReadBackAgain() RUNS_ON(channel_loop);
  // Ends the requests to read back memory in the same way: nothing of the memory is left.
  void LoseWhatWasLeft(CudaResult error) RUNS_ON(channel_loop) { read_backs_.Fail(error); }

 private:
  // Sends a request, whose id is filled in, and waits for its answer in `waiter`.
  CudaResult Ask(warpline_internal::MemoryRequest request, GrantWaiter* waiter);
  void SendReadBack(const ReadBackTable::Asked& asked);

  const SessionStatus* const status_;
  ControlQueue* const control_;
  Counters* const counters_;
  const std::chrono::nanoseconds spin_;
  HostMemoryLink host_memory_;  // Without a place on another host.
  GrantTable grants_;
  ReadBackTable read_backs_;
  RefusalLog refusals_;
  SharedEvents shared_events_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_MEMORY_MEMORY_REQUESTER_H_
