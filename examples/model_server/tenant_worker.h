// A tenant's worker: the process that has the tenant's session, and computes one text at a time.
#ifndef WARPLINE_EXAMPLES_MODEL_SERVER_TENANT_WORKER_H_
#define WARPLINE_EXAMPLES_MODEL_SERVER_TENANT_WORKER_H_

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "examples/model_server/tenants.h"

namespace model_server {

// The process is `warpline run` with worker.cu's program below it, and starts with the first text.
// So a tenant has its own lease, its own session, and its own address space on both hosts; no code
// here ever sees two tenants' texts together. When it ends, the next text starts another one. Owns
// the process, which ends with this object. Thread-safe.
class TenantWorker {
 public:
  struct Options {
    std::vector<std::string> command;      // Such as {"warpline", "run", "--", "model_worker"}.
    std::vector<std::string> environment;  // NAME=VALUE, all of it.
    int most_calls = 8;                    // That have or await a turn at a time.
  };
  explicit TenantWorker(Options options);
  ~TenantWorker();
  TenantWorker(const TenantWorker&) = delete;
  TenantWorker& operator=(const TenantWorker&) = delete;

  // Goes on with a prompt: calls `take` with each of `count` tokens, until it returns false.
  // `is_gone` says whether the caller has gone away; it is asked while the call waits for its turn.
  // The prompt and what follows have at most model::kContext tokens together.
  //
  // OK also where `take` has ended it. CANCELLED when the caller is gone, RESOURCE_EXHAUSTED when
  // too many calls are there, UNAVAILABLE when there is no session, or when it was lost.
  absl::Status Generate(const std::vector<int>& prompt, int count,
                        const std::function<bool(int)>& take, const std::function<bool()>& is_gone);

 private:
  absl::Status GenerateInTurn(const std::vector<int>& prompt, int count,
                              const std::function<bool(int)>& take,
                              const std::function<bool()>& is_gone);
  absl::Status Start(const std::function<bool()>& is_gone);
  // Ends the process.
  void Stop();
  // Sends a line, and returns the answer.
  absl::StatusOr<std::string> Ask(const std::string& line);
  absl::StatusOr<std::string> ReadLine(const std::function<bool()>& is_gone);

  const Options options_;
  std::mutex mu_;
  std::condition_variable turn_ends_;
  int calls_ = 0;          // That have or await a turn; guarded by mu_.
  bool is_taken_ = false;  // Guarded by mu_.

  // These belong to the call whose turn it is.
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;  // The process's standard input and output.
  std::string unread_;
};

}  // namespace model_server

#endif  // WARPLINE_EXAMPLES_MODEL_SERVER_TENANT_WORKER_H_
