// The Session over a Channel.
//
// Application threads append to the command queue and wait in the tables; the channel's loop takes
// from the queue and answers into the tables (session_events.cc). Only the loop fails the tables,
// so no reply is written anywhere after a wait has ended.
#ifndef WARPLINE_CLIENT_STUB_SESSION_SESSION_IMPL_H_
#define WARPLINE_CLIENT_STUB_SESSION_SESSION_IMPL_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client_stub/session/arena_reservation.h"
#include "client_stub/session/command_queue.h"
#include "client_stub/session/completion_board.h"
#include "client_stub/session/counters.h"
#include "client_stub/session/grant_table.h"
#include "client_stub/session/handshake.h"
#include "client_stub/session/read_back_table.h"
#include "client_stub/session/reply_table.h"
#include "client_stub/session/session.h"
#include "common/mutex.h"
#include "proto/wire.h"
#include "transport/channel.h"

namespace warpline::stub {

// Opens a channel to the server and returns it, or why not, within the deadline. Blocks.
using Dialer = std::function<absl::StatusOr<std::unique_ptr<Channel>>(ChannelHandler* handler,
                                                                      absl::Duration deadline)>;

class SessionImpl final : public Session, public ChannelHandler {
 public:
  explicit SessionImpl(ArenaReservation arena);
  ~SessionImpl() override;

  // Connects and shakes hands. Called once, before anything else; a session whose Start() failed
  // can only be destroyed.
  absl::Status Start(const SessionOptions& options, const Dialer& dialer);

  const RemoteDevice& device() const override { return welcomed_.device; }
  uint64_t arena_base() const override { return arena_.base(); }
  uint64_t arena_bytes() const override { return arena_.bytes(); }
  const Grant& initial_grant() const override { return welcomed_.initial_grant; }
  Counters& counters() override { return counters_; }
  CudaResult error() const override {
    return static_cast<CudaResult>(error_.load(std::memory_order_relaxed));
  }
  CudaResult TakeDeferred() override;
  void BeginGroup() override { queue_.BeginGroup(); }
  void EndGroup() override;
  CudaResult CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool wait,
                     uint64_t* seq) override;
  uint64_t last_seq() const override { return queue_.last_seq(); }
  bool Retired(uint64_t stream, uint64_t seq) const override { return board_.Retired(stream, seq); }
  void ForgetStream(uint64_t stream) override { board_.Forget(stream, last_seq()); }
  void SetFreedCallback(std::function<void(uint64_t token)> callback) override;
  CudaResult RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                           Grant* grant) override;
  void ReturnMemory(const Grant& grant) override;
  CudaResult ReadBack(void* dst, uint64_t va, uint64_t bytes) override;
  void Close(absl::Duration deadline) override;

  // The payloads of the command frames that the server has not received.
  std::vector<std::string> PendingReplay() const { return queue_.PendingReplay(); }

  // ChannelHandler, on the loop.
  bool NextFrame(Frame* frame) override;
  Accept OnFrame(Frame* frame) override;
  void OnClosed(const absl::Status& status) override;

 protected:
  uint64_t Append(CommandId id, const void* body, size_t body_bytes,
                  std::string_view tail) override;
  CudaResult RoundTrip(WaitKind kind, CommandId id, const void* body, size_t body_bytes,
                       std::string_view tail, std::string* fields) override;

 private:
  // Appends and, when `expected` is given, registers it first. Returns the command's number or 0.
  uint64_t Submit(CommandId id, const void* body, size_t body_bytes, std::string_view tail,
                  const ExpectedReply* expected);
  void CountCommand(CommandId id);
  void CountWait(WaitKind kind, CommandId id);
  void SendControl(Frame frame);
  void WakeChannel();

  // The loop's.
  bool HandleFrame(const Frame& frame, std::string* problem);
  bool HandleWelcome(std::string_view payload, std::string* problem);
  bool HandleReplies(std::string_view payload, std::string* problem);
  bool HandleReply(const ReplyView& reply, std::string* problem);
  bool HandleRetired(const ReplyView& reply, std::string* problem);
  bool HandleFailed(const ReplyView& reply, std::string* problem);
  bool HandleGrant(std::string_view payload, std::string* problem);
  bool HandleReadBack(std::string_view payload);
  void HandleFault(std::string_view payload);
  void CommandFailed(CommandId command, uint64_t seq, CudaResult result, std::string_view what);
  void Lose(CudaResult error);
  void CloseChannel(const absl::Status& status);

  const ArenaReservation arena_;
  std::chrono::nanoseconds spin_;  // Constant.
  Counters counters_;

  std::atomic<int> error_{0};
  std::atomic<int> deferred_{0};
  std::atomic<bool> closing_{false};

  CommandQueue queue_;
  ReplyTable replies_;
  GrantTable grants_;
  ReadBackTable read_backs_;
  CompletionBoard board_;

  Mutex freed_mu_;
  std::function<void(uint64_t)> freed_callback_ ABSL_GUARDED_BY(freed_mu_);

  // Frames other than commands; they do not wait for the window.
  Mutex control_mu_;
  std::deque<Frame> control_ ABSL_GUARDED_BY(control_mu_);
  std::atomic<bool> has_control_{false};

  // Opening and closing.
  Mutex state_mu_;
  CondVar state_changed_;
  std::optional<absl::StatusOr<Welcomed>> answer_ ABSL_GUARDED_BY(state_mu_);
  bool closed_ ABSL_GUARDED_BY(state_mu_) = false;
  std::atomic<bool> flushing_{false};
  bool welcome_seen_ = false;  // The loop's.
  bool lost_ = false;          // The loop's.
  Welcomed welcomed_;          // Constant once Start() has returned.

  // Borrowed from the owner below; null until the dialer returned it.
  std::atomic<Channel*> channel_{nullptr};
  std::unique_ptr<Channel> owned_channel_;
};

// Opens a session through `dialer`, trying one place for the arena after another while this process
// or the server refuses it. Errors as Session::Open.
absl::StatusOr<std::unique_ptr<SessionImpl>> OpenSession(const SessionOptions& options,
                                                         const Dialer& dialer);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_SESSION_IMPL_H_
