// The memory requests that are under way.
#ifndef WARPLINE_CLIENT_STUB_SESSION_MEMORY_GRANT_TABLE_H_
#define WARPLINE_CLIENT_STUB_SESSION_MEMORY_GRANT_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "client_stub/session/session.h"
#include "client_stub/session/waits/one_shot.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// A thread that waits for a grant. It lives on that thread's stack.
struct GrantWaiter {
  // The request.
  uint64_t va = 0;
  uint64_t min_bytes = 0;
  uint64_t want_bytes = 0;
  // The request is for a token; the server names the place and size of what it stands for.
  bool for_token = false;
  // The answer.
  CudaResult result = CudaResult::kSuccess;
  Grant grant;
  std::string token;
  OneShot done;
};

// Only the loop passes in answers and failures; Expect() is thread-safe.
class GrantTable {
 public:
  // Registers `waiter` and returns its request's id; 0, with the error in `*error`, when the table
  // has failed.
  uint64_t Expect(GrantWaiter* waiter, CudaResult* error);

  // Takes the answer to request `id`; `bytes` is 0 when it was refused with `error`. Returns false
  // when there is no such request or the grant does not match it: the caller then fails the
  // session, and thereby the waiter.
  bool Answer(uint64_t id, const Grant& grant, CudaResult error, std::string token = {})
      RUNS_ON(channel_loop);

  // Every wait ends with `error`, and so does every later one.
  void Fail(CudaResult error) RUNS_ON(channel_loop);

 private:
  Mutex mu_;
  CudaResult error_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uint64_t, GrantWaiter*> waiters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_MEMORY_GRANT_TABLE_H_
