// The round trips that are under way: which thread waits for which reply, and where copied data
// goes.
#ifndef WARPLINE_CLIENT_STUB_SESSION_COMMANDS_REPLY_TABLE_H_
#define WARPLINE_CLIENT_STUB_SESSION_COMMANDS_REPLY_TABLE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "client_stub/session/waits/one_shot.h"
#include "client_stub/session/waits/spin_mutex.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "proto/commands.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// A thread that waits for `replies` replies. It lives on that thread's stack.
class ReplyWaiter {
 public:
  // `fields` may be null.
  explicit ReplyWaiter(int replies, std::string* fields = nullptr)
      : remaining_(replies), fields_(fields) {}

  // Waits until every reply has come; returns the first error among them.
  CudaResult Wait(std::chrono::nanoseconds spin) {
    done_.Wait(spin);
    return static_cast<CudaResult>(result_.load(std::memory_order_relaxed));
  }

  bool done() const { return done_.done(); }

  // Notes that one reply came. The last one wakes the thread.
  void Complete(CudaResult result, std::string_view fields) { CompleteMany(1, result, fields); }

  // Notes that `count` replies will not come, because their commands were not sent.
  void Abandon(int count, CudaResult result) { CompleteMany(count, result, {}); }

 private:
  void CompleteMany(int count, CudaResult result, std::string_view fields) {
    if (result != CudaResult::kSuccess) {
      int none = 0;
      result_.compare_exchange_strong(none, static_cast<int>(result), std::memory_order_relaxed);
    } else if (fields_ != nullptr) {
      fields_->assign(fields);
    }
    if (remaining_.fetch_sub(count, std::memory_order_acq_rel) == count) done_.Signal();
  }

  std::atomic<int> remaining_;
  std::atomic<int> result_{0};
  std::string* const fields_;
  OneShot done_;
};

// The reply that is expected for one command.
struct ExpectedReply {
  CommandId command{};
  ReplyWaiter* waiter = nullptr;  // Null when no thread waits.
  char* destination = nullptr;    // For CopyData: `bytes` bytes.
  uint64_t bytes = 0;
  uint64_t copied = 0;
  // `staged_bytes` from here are copied to `destination` as soon as the command, one of `stream`,
  // is known to be complete.
  const void* staged = nullptr;
  uint64_t staged_bytes = 0;
  uint64_t stream = 0;
  // Used instead of `destination` when its pitch is not 0: the data are the rows of this box.
  BoxPlace box = {};
  BoxExtent extent = {};
};

// Only the loop passes in replies, data and failures, so nothing is written to a destination after
// Fail().
class ReplyTable {
 public:
  // Registers the reply before the command can leave. Returns false, with the error in `*error`,
  // when the table has failed.
  bool Expect(uint64_t seq, const ExpectedReply& expected, CudaResult* error);

  enum class Outcome {
    kTaken,
    kUnexpected,  // No such round trip, or more or less data than it asked for.
    kUnclaimed,   // The command failed and no thread waits for it.
  };
  // Takes the reply to `seq`. Sets `*command` unless it returns kUnexpected.
  Outcome Reply(uint64_t seq, CudaResult result, std::string_view fields, CommandId* command)
      RUNS_ON(channel_loop);
  // Does what has to be done before anybody takes commands for complete: those of `stream` up to
  // `seq`, and all up to `all_seq`. The worker tells of a command's end before it replies.
  void BeforeRetired(uint64_t stream, uint64_t seq, uint64_t all_seq) RUNS_ON(channel_loop);
  // Takes data for `seq`.
  Outcome CopyData(uint64_t seq, uint64_t offset, std::string_view data) RUNS_ON(channel_loop);
  // Every wait ends with `error`, and so does every later one.
  void Fail(CudaResult error) RUNS_ON(channel_loop);

  // Returns true after Fail(), when stray replies are no surprise.
  bool failed() const RUNS_ON(channel_loop) { return failed_.load(std::memory_order_acquire); }

 private:
  void TakeStaged(const ExpectedReply& expected) RUNS_ON(channel_loop);

  std::atomic<bool> failed_{false};
  std::atomic<int> staged_{0};  // Expected replies whose staged bytes have not been copied
  SpinMutex mu_;
  CudaResult error_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
  absl::flat_hash_map<uint64_t, ExpectedReply> expected_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_COMMANDS_REPLY_TABLE_H_
