// The worker's own reports of what is complete, on a board that it shares with this process
// (transport/shm_board.h): there as soon as the device is done, while the same report on its way
// through the server takes several hand-overs more.
//
// A report counts only when everything ordered that the worker said before it has been handled:
// data that a copy brings, errors, what kernels print. Both sides count those from the same point
// on.
#ifndef WARPLINE_CLIENT_STUB_SESSION_COMMANDS_SHARED_BOARD_H_
#define WARPLINE_CLIENT_STUB_SESSION_COMMANDS_SHARED_BOARD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "transport/channel_loop.h"
#include "transport/shm_board.h"

namespace warpline::stub {

// Thread-safe. What the worker writes is believed as far as what it sends is: the number of a
// command.
class SharedBoard {
 public:
  // `source` gives the board's descriptor, or none, when it is first needed. Called at most once,
  // before the first command.
  void SetSource(std::function<UniqueFd()> source) { source_ = std::move(source); }

  // Sees to the board being there, if there is one; returns whether. The first call asks the
  // source.
  bool Open();

  // Whether a report says that command `seq` of `stream` is complete, of the stream or of the whole
  // session.
  bool Retired(uint64_t stream, uint64_t seq) const;

  // Returns true when the command is complete by a report, but replies from before the report have
  // not been handled.
  bool IsAhead(uint64_t stream, uint64_t seq) const;

  // Sleeps until another reply has been handled, or `done`, or `timeout` has passed.
  void SleepUntilHandled(absl::Duration timeout, absl::FunctionRef<bool()> done) const;

  // Sleeps until there may be a report that Retired() is true, or `done`, or `timeout` has passed.
  // REQUIRES: Open() was true.
  void Sleep(uint64_t stream, uint64_t seq, absl::Duration timeout,
             absl::FunctionRef<bool()> done) const {
    board_.load(std::memory_order_acquire)->Sleep(stream, seq, timeout, done);
  }

  // A worker begins to write, and the counting with it.
  void OnBegins(uint64_t generation) RUNS_ON(channel_loop);
  // A reply or notice for which IsOrdered() holds has been handled.
  void OnOrdered() RUNS_ON(channel_loop);

 private:
  // Returns what a report about the key says of the command.
  enum class Said { kNothing, kComplete, kAhead };
  Said Ask(const BoardReader& board, uint64_t key, uint64_t seq) const;

  std::function<UniqueFd()> source_;
  absl::once_flag opened_;
  std::unique_ptr<BoardReader> reader_;
  std::atomic<const BoardReader*> board_{nullptr};  // reader_ once it is there.
  // Written by the loop: the generation after the count that belongs to it.
  std::atomic<uint64_t> generation_{0};
  std::atomic<uint64_t> ordered_{0};
  // Threads in SleepUntilHandled().
  mutable std::atomic<int> sleepers_{0};
  mutable Mutex mu_;  // Orders a notification after the look of a thread that is about to sleep.
  mutable CondVar handled_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_COMMANDS_SHARED_BOARD_H_
