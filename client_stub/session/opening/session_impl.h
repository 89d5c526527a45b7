// The Session over a Channel.
//
// Application threads append to the command queue and wait in the tables; the channel's loop takes
// from the queue and answers into the tables (session_events.cc). Only the loop fails the tables,
// so no reply is written anywhere after a wait has ended.
//
// When the connection is lost, or another one is wanted, a thread of its own, the redialer, opens a
// new channel and has the session resumed on it (session_resume.cc). What belongs to the loop
// belongs to the redialer while there is no channel.
#ifndef WARPLINE_CLIENT_STUB_SESSION_OPENING_SESSION_IMPL_H_
#define WARPLINE_CLIENT_STUB_SESSION_OPENING_SESSION_IMPL_H_

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client_stub/session/commands/command_queue.h"
#include "client_stub/session/commands/completion_board.h"
#include "client_stub/session/commands/reply_table.h"
#include "client_stub/session/counters.h"
#include "client_stub/session/handshake/arena_reservation.h"
#include "client_stub/session/handshake/handshake.h"
#include "client_stub/session/link/channel_slot.h"
#include "client_stub/session/link/control_queue.h"
#include "client_stub/session/memory/grant_table.h"
#include "client_stub/session/memory/host_memory_link.h"
#include "client_stub/session/memory/read_back_table.h"
#include "client_stub/session/memory/refusal_log.h"
#include "client_stub/session/session.h"
#include "client_stub/session/status/output_buffer.h"
#include "client_stub/session/status/session_log.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"
#include "proto/devices.h"
#include "proto/session.pb.h"
#include "proto/wire.h"
#include "transport/channel.h"

namespace warpline::stub {

// An address, and for the path of a unix socket that was only heard of, which user must listen
// there.
struct DialTarget {
  std::string endpoint;
  std::optional<uint32_t> listener_uid = std::nullopt;
};

// Opens a channel to the server at an address and returns it, or why not, within the deadline.
// Blocks. Called by one thread at a time, for as long as the session lives.
using Dialer = std::function<absl::StatusOr<std::unique_ptr<Channel>>(
    const DialTarget& target, ChannelHandler* handler, absl::Duration deadline)>;

// How a session stands to its connection.
enum class LinkState {
  kOpening,
  kUp,
  kMoving,    // The connection is ended for another.
  kDown,      // There is none.
  kResuming,  // There is one; the server's answer is awaited.
  kOver,
};

class SessionImpl final : public Session, public ChannelHandler {
 public:
  explicit SessionImpl(ArenaReservation arena);
  ~SessionImpl() override;

  // Connects and shakes hands. Called once, before anything else; a session whose Start() failed
  // can only be destroyed.
  absl::Status Start(const SessionOptions& options, const Dialer& dialer);

  // Whether Start() failed because the connection was lost before the server had answered.
  bool LostWhileOpening();

  std::span<const RemoteDevice> devices() const override { return welcomed_.devices; }
  uint64_t features() const override { return welcomed_.features; }
  bool same_host() const override { return welcomed_.same_host; }
  uint64_t arena_base() const override { return arena_.base(); }
  uint64_t arena_bytes() const override { return arena_.bytes(); }
  const Grant& initial_grant() const override { return welcomed_.initial_grant; }
  Counters& counters() override { return counters_; }
  CudaResult error() const override {
    return static_cast<CudaResult>(error_.load(std::memory_order_relaxed));
  }
  CudaResult TakeDeferred() override;
  CudaResult ShareHostMemory(uint64_t va, uint64_t bytes, bool give_back, UniqueFd* fd) override;
  void WriteOutput() override { output_.Write(); }
  bool ExpectsOutput() const override { return output_.expected(); }
  void BeginGroup() override { queue_.BeginGroup(); }
  void EndGroup() override;
  CudaResult CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool wait,
                     uint64_t* seq) override;
  CudaResult CopyBoxOut(uint64_t stream, const BoxPlace& dst, const BoxPlace& src,
                        const BoxExtent& extent, bool wait, uint64_t* seq) override;
  CudaResult CopyArrayOut(const cmd::CopyFromArray& command, const BoxPlace& dst, bool wait,
                          uint64_t* seq) override;
  uint64_t last_seq() const override { return queue_.last_seq(); }
  bool Retired(uint64_t stream, uint64_t seq) const override { return board_.Retired(stream, seq); }
  void ForgetStream(uint64_t stream) override { board_.Forget(stream, last_seq()); }
  void SetFreedCallback(uint32_t device, std::function<void(uint64_t token)> callback) override;
  void SetUnmappedCallback(std::function<void(uint64_t token)> callback) override;
  void SetHostDueCallback(std::function<void(uint64_t token)> callback) override;
  CudaResult RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                           Grant* grant) override;
  void NoteRefusedMemory(CudaResult error, std::string_view why) override;
  void ReturnMemory(const Grant& grant) override;
  void MoveTo(const std::string& endpoint) override { MoveTo(DialTarget{endpoint}); }
  CudaResult CreateHandles(uint64_t first, uint64_t bytes, uint64_t count,
                           uint64_t* created) override;
  void ReturnHandle(uint64_t handle) override;
  CudaResult Share(const SharedWhat& what, SharedMemory* shared) override;
  CudaResult OpenShared(const std::string& token, uint64_t handle, uint64_t bytes) override;
  CudaResult ReadBack(void* dst, uint64_t va, uint64_t bytes) override;
  void Close(absl::Duration deadline) override;

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
  // Has the rows of a box come to `dst`, by a command that asks for them.
  CudaResult BoxOut(CommandId id, const void* body, size_t body_bytes, const BoxPlace& dst,
                    const BoxExtent& extent, bool wait, uint64_t* seq);
  absl::Status AwaitWelcome(absl::Duration timeout);
  // Sends a request, whose id is filled in, and waits for its answer in `waiter`.
  CudaResult AskForMemory(warpline_internal::MemoryRequest request, GrantWaiter* waiter);
  void CountCommand(CommandId id);
  // Whether the server has such a command; says so once when it does not.
  bool Knows(CommandId id);
  void CountWait(WaitKind kind, CommandId id);
  void SendControl(Frame frame);
  void WakeChannel() { channel_.Wake(); }

  // The redialer's, but for MayResume(), which decides for the loop what an end means.
  bool MayResume(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_mu_);
  void StartRedialer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_mu_);
  void RunRedialer();
  void Redial();
  absl::Status TryResume(const DialTarget& target, absl::Time deadline);
  // Ends the channel; afterwards no loop runs.
  void DropChannel();
  void GiveUp(const absl::Status& status);
  void OfferOtherAddress(const SessionOptions& options);
  void MoveTo(const DialTarget& target);

  // The loop's.
  bool HandleFrame(const Frame& frame, std::string* problem);
  bool HandleWelcome(std::string_view payload, std::string* problem);
  bool HandleResumed(std::string_view payload, std::string* problem);
  bool NextAck(Frame* frame);
  bool HandleReplies(std::string_view payload, std::string* problem);
  bool HandleReply(const ReplyView& reply, std::string* problem);
  bool HandleRetired(const ReplyView& reply, std::string* problem);
  bool HandleFailed(const ReplyView& reply, std::string* problem);
  bool HandleOutput(const ReplyView& reply);
  bool HandleGrant(std::string_view payload, std::string* problem);
  bool HandleReadBack(std::string_view payload);
  void HandleFault(std::string_view payload);
  void CommandFailed(CommandId command, uint64_t seq, CudaResult result, std::string_view what);
  void Lose(CudaResult error);
  void HostDue(uint64_t token);
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
  RefusalLog refusals_;
  CompletionBoard board_;
  OutputBuffer output_;

  Mutex freed_mu_;
  // By device.
  std::array<std::function<void(uint64_t)>, kMaxSessionDevices> freed_callbacks_
      ABSL_GUARDED_BY(freed_mu_);
  std::function<void(uint64_t)> unmapped_callback_ ABSL_GUARDED_BY(freed_mu_);

  Mutex host_due_mu_;
  std::function<void(uint64_t)> host_due_callback_ ABSL_GUARDED_BY(host_due_mu_);

  // Frames other than commands; they do not wait for the window.
  ControlQueue control_;

  // Opening and closing.
  Mutex state_mu_;
  CondVar state_changed_;
  std::optional<absl::Status> answer_ ABSL_GUARDED_BY(state_mu_);
  bool lost_opening_ ABSL_GUARDED_BY(state_mu_) = false;
  bool closed_ ABSL_GUARDED_BY(state_mu_) = false;
  LinkState link_ ABSL_GUARDED_BY(state_mu_) = LinkState::kOpening;
  absl::Status down_status_ ABSL_GUARDED_BY(state_mu_);  // Why there is no connection.
  std::optional<DialTarget> move_to_ ABSL_GUARDED_BY(state_mu_);
  bool goodbye_ ABSL_GUARDED_BY(state_mu_) = false;   // Nothing is left to come back for.
  bool stopping_ ABSL_GUARDED_BY(state_mu_) = false;  // The redialer ends.
  std::atomic<bool> flushing_{false};
  bool welcome_seen_ = false;     // The loop's.
  bool lost_ = false;             // The loop's.
  bool resume_due_ = false;       // The loop's: kResume is the next frame.
  bool resumed_awaited_ = false;  // The loop's: nothing else is sent or taken before kResumed.
  uint64_t attempt_ = 0;          // The redialer's.
  bool moving_ = false;           // The redialer's: the connection is given up for another.
  bool counts_ = false;           // The loop's: the session can be resumed.
  uint64_t handled_frames_ = 0;   // The loop's: counted frames of the server.
  uint64_t unacked_frames_ = 0;   // Of those.
  uint64_t unacked_bytes_ = 0;
  std::atomic<bool> said_unknown_{false};
  LogBudget log_{kSessionLines, "session"};
  Welcomed welcomed_;                            // Constant once the welcome was seen.
  std::unique_ptr<HostMemoryLink> host_memory_;  // Likewise; null on another host.

  Dialer dialer_;                      // Constant once Start() has begun.
  absl::Duration resume_for_;          // Likewise.
  std::vector<DialTarget> endpoints_;  // The redialer's; the session's own is the last.

  // Borrowed from the owner below; empty until the dialer returned it.
  ChannelSlot channel_;
  std::unique_ptr<Channel> owned_channel_;
  std::thread redialer_;
};

// Opens a session through `dialer`, trying one place for the arena after another while this process
// has it in use or the server says that it cannot have it there (ArenaSearch). `options.deadline`
// counts anew for each place that the server has refused. Errors as Session::Open.
absl::StatusOr<std::unique_ptr<SessionImpl>> OpenSession(const SessionOptions& options,
                                                         const Dialer& dialer);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_OPENING_SESSION_IMPL_H_
