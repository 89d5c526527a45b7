// The entrance of a session's commands: it numbers, appends and counts the commands of the
// application's threads, and lets the threads wait.
//
// Threads append to the queue and wait in the table of replies; the channel's loop takes from the
// queue and answers into the table. The parts that every command touches are held by value.
#ifndef WARPLINE_CLIENT_STUB_SESSION_COMMANDS_COMMAND_PORT_H_
#define WARPLINE_CLIENT_STUB_SESSION_COMMANDS_COMMAND_PORT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "client_stub/session/commands.h"
#include "client_stub/session/commands/command_queue.h"
#include "client_stub/session/commands/completion_board.h"
#include "client_stub/session/commands/reply_table.h"
#include "client_stub/session/commands/shared_board.h"
#include "client_stub/session/connection/channel_slot.h"
#include "client_stub/session/counters.h"
#include "client_stub/session/status/session_errors.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "common/log/log_budget.h"
#include "common/steady_time.h"
#include "proto/wire.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// Thread-safe.
class CommandPort final : public Commands {
 public:
  // `log`, with the kinds of session_log.h, is borrowed. Waits with a deadline go by `now`.
  explicit CommandPort(LogBudget* log, std::function<absl::Time()> now = &SteadyNow);

  // Returns false when there is no memory for commands; nothing may be sent then.
  bool ok() const { return queue_.ok(); }
  // Sets the terms of the welcome. Called once, before the first command.
  void SetTerms(uint32_t version, uint64_t window_bytes, uint64_t window_commands);

  CudaResult WatchWithin(WaitKind kind, absl::Duration limit,
                         absl::FunctionRef<bool()> done) override;
  CudaResult CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool wait,
                     uint64_t* seq) override;
  CudaResult CopyStaged(uint64_t stream, void* dst, const void* staged, uint64_t src,
                        uint64_t bytes, uint64_t* seq) override;
  CudaResult CopyBoxOut(uint64_t stream, const BoxPlace& dst, const BoxPlace& src,
                        const BoxExtent& extent, bool wait, uint64_t* seq) override;
  CudaResult CopyArrayOut(const cmd::CopyFromArray& command, const BoxPlace& dst, bool wait,
                          uint64_t* seq) override;
  uint64_t last_seq() const override { return queue_.last_seq(); }
  bool Retired(uint64_t stream, uint64_t seq) const override {
    return board_.Retired(stream, seq) || shared_board_.Retired(stream, seq);
  }
  void ForgetStream(uint64_t stream) override { board_.Forget(stream, last_seq()); }

  // Every wait ends with `error`, and so does every later one. Waiting threads are told last, so
  // that they then see the error.
  void Lose(CudaResult error) RUNS_ON(channel_loop);

  // For the other parts of the session.
  CommandQueue& queue() { return queue_; }
  ReplyTable& replies() { return replies_; }
  CompletionBoard& board() { return board_; }
  SharedBoard& shared_board() { return shared_board_; }
  SessionErrors& errors() { return errors_; }
  Counters& counters() { return counters_; }
  ChannelSlot& channel() { return channel_; }
  const ChannelSlot& channel() const { return channel_; }

 private:
  uint64_t Append(CommandId id, const void* body, size_t body_bytes,
                  std::string_view tail) override;
  CudaResult RoundTrip(WaitKind kind, CommandId id, const void* body, size_t body_bytes,
                       std::string_view tail, std::string* fields) override;
  CudaResult WatchOrCall(WaitKind kind, uint64_t stream, uint64_t seq, CommandId id,
                         const void* body, size_t body_bytes) override;
  std::unique_ptr<AnnouncedWait> AnnounceWait(WaitKind kind, uint64_t stream, uint64_t seq,
                                              CommandId id, const void* body,
                                              size_t body_bytes) override;

  // A round trip whose answer somebody waits for later, and a watch that begins later.
  class AnnouncedCall;
  class AnnouncedWatch;

  // Why a command could not be sent; never kSuccess.
  CudaResult NotSent();
  // The end of a round trip that was sent.
  CudaResult Finish(WaitKind kind, ReplyWaiter* waiter);
  // WatchOrCall() where there is a shared board.
  CudaResult WatchBoard(WaitKind kind, uint64_t stream, uint64_t seq);
  // Appends a command and, when `expected` is given, registers it first. Returns the command's
  // number or 0.
  uint64_t Submit(CommandId id, const void* body, size_t body_bytes, std::string_view tail,
                  const ExpectedReply* expected);
  // Copies the rows of a box to `dst`, with a command that asks for them.
  CudaResult BoxOut(CommandId id, const void* body, size_t body_bytes, const BoxPlace& dst,
                    const BoxExtent& extent, bool wait, uint64_t* seq);
  // Waits until Retired(stream, seq) or the session is lost. REQUIRES: the shared board is open.
  void Watch(uint64_t stream, uint64_t seq);
  // Does the channel's work for a moment where it may, and then sleeps until the replies are there.
  CudaResult WaitFor(ReplyWaiter* waiter);
  // Whether the server knows the command; logs once that it does not.
  bool Knows(CommandId id);
  void CountCommand(CommandId id);
  void CountWait(WaitKind kind, CommandId id);

  LogBudget* const log_;
  const std::chrono::nanoseconds spin_;
  const std::function<absl::Time()> now_;
  uint32_t version_ = 0;  // Constant once SetTerms() was called.
  std::atomic<bool> said_unknown_{false};
  Counters counters_;
  SessionErrors errors_;
  CommandQueue queue_;
  ReplyTable replies_;
  CompletionBoard board_;
  SharedBoard shared_board_;
  ChannelSlot channel_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_COMMANDS_COMMAND_PORT_H_
