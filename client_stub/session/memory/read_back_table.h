// Requests to read what is left of a lost session's memory.
#ifndef WARPLINE_CLIENT_STUB_SESSION_MEMORY_READ_BACK_TABLE_H_
#define WARPLINE_CLIENT_STUB_SESSION_MEMORY_READ_BACK_TABLE_H_

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// Thread-safe. These waits are rare and long, so they sleep.
class ReadBackTable {
 public:
  // A request that is sent to the server.
  struct Asked {
    uint64_t id;
    uint64_t va;
    uint64_t bytes;
  };

  // Registers that the `bytes` at `va` are to be written to `dst`, and returns the request's id; 0
  // once the table has failed.
  uint64_t Expect(void* dst, uint64_t va, uint64_t bytes);
  // Waits for the answer to request `id`; afterwards nothing is written to its destination. Returns
  // kUnknown when none came within `deadline`.
  CudaResult Wait(uint64_t id, absl::Duration deadline);
  // Takes an answer. Returns false when there is no such request or it has another size.
  bool Answer(uint64_t id, CudaResult error, std::string_view data) RUNS_ON(channel_loop);
  // Returns the requests without an answer, in the order in which they were made.
  std::vector<Asked> Waiting() const;
  // Called when no answer comes any more.
  void Fail(CudaResult error) RUNS_ON(channel_loop);

 private:
  struct Request {
    void* dst = nullptr;
    uint64_t va = 0;
    uint64_t bytes = 0;
    bool done = false;
    CudaResult result = CudaResult::kSuccess;
  };

  mutable Mutex mu_;
  CondVar changed_;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  CudaResult failed_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
  std::map<uint64_t, Request> requests_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_MEMORY_READ_BACK_TABLE_H_
