// One end of a connection over UCX: frames as active messages.
//
// UCX knows nothing of who is at the other end: whoever reaches a worker's port may connect to it
// and send. So each message begins with the secret of the connection, which both ends have from
// elsewhere, and what begins otherwise is dropped unread. What the kernel and UCX themselves read
// of a stranger's bytes before that is the reason why the server's end lives in a process of its
// own (server/relay/), and why UCX is used in trusted networks only.
#ifndef WARPLINE_TRANSPORT_UCX_UCX_END_H_
#define WARPLINE_TRANSPORT_UCX_UCX_END_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/link_end.h"
#include "transport/loop_bell.h"
#include "transport/ucx/ucx_address.h"
#include "transport/ucx/ucx_transports.h"
#include "transport/ucx/ucx_worker.h"

namespace warpline {

// How many bytes of secret a connection has.
inline constexpr size_t kUcxSecretBytes = 16;

class UcxEnd : public AwaitedEnd, private ucx_internal::UcxWorkerEvents {
 public:
  // Loads what the other two would load. UNAVAILABLE where UCX is not to be had.
  static absl::Status Load();
  // UNAVAILABLE, naming it, where the UCX that is loaded lacks one of the transports, or this host
  // a device for it.
  static absl::Status CheckTransports(const UcxTransports& transports);
  // The end that waits for the other: for who reaches this host from `peer`, an IP address, and
  // shows the secret. `port_range` is as in UcxWorker. UNAVAILABLE where UCX is not to be had.
  static absl::StatusOr<std::unique_ptr<UcxEnd>> Listen(const std::string& peer,
                                                        const std::string& port_range,
                                                        const std::string& secret,
                                                        const UcxTransports& transports = {});
  // The end that connects; returns when the other has taken it. UNAVAILABLE when that has not
  // happened until then.
  static absl::StatusOr<std::unique_ptr<UcxEnd>> Connect(const UcxAddress& address,
                                                         const std::string& secret,
                                                         absl::Time until,
                                                         const UcxTransports& transports = {});
  ~UcxEnd() override;

  // Where the other end connects to.
  const UcxAddress& address() const { return address_; }
  // Of an end that listens, before anything else: waits until the other end has shown the secret.
  // UNAVAILABLE when it has not until then.
  absl::Status AwaitPeer(absl::Time until) RUNS_ON(channel_loop);
  void Welcome() RUNS_ON(channel_loop) override;

  Taken Take(Frame* frame, absl::Status* why) RUNS_ON(channel_loop) override;
  bool HasRoom() RUNS_ON(channel_loop) override;
  void Put(Frame frame) RUNS_ON(channel_loop) override;
  void PutEnd(const absl::Status& status) RUNS_ON(channel_loop) override;
  void Break() RUNS_ON(channel_loop) override;
  void BeginSleep() RUNS_ON(channel_loop) override;
  void Sleep(std::optional<std::chrono::nanoseconds> at_most) RUNS_ON(channel_loop) override;
  void EndSleep() RUNS_ON(channel_loop) override { bell_.Retract(rung_); }
  void Ring() override { bell_.Ring(); }

 private:
  using MessageHeader = ucx_internal::MessageHeader;

  UcxEnd(UniqueFd bell, const std::string& secret);

  // UcxWorkerEvents.
  void OnMessage(const MessageHeader& header, std::string_view payload)
      RUNS_ON(channel_loop) override;
  void OnLost(const absl::Status& why) RUNS_ON(channel_loop) override;

  void OnHello(std::string_view payload) RUNS_ON(channel_loop);
  void OnFrame(uint32_t kind, std::string_view payload) RUNS_ON(channel_loop);
  void OnTaken(uint64_t taken) RUNS_ON(channel_loop);
  void Say(uint32_t what, uint32_t kind, Frame payload) RUNS_ON(channel_loop);
  void BreakWith(const absl::Status& why) RUNS_ON(channel_loop);

  LoopBell bell_;
  uint64_t token_[2];
  UcxAddress address_;
  std::unique_ptr<ucx_internal::UcxWorker> worker_ ABSL_PT_GUARDED_BY(channel_loop);
  bool rung_ = false;  // What ended the last sleep; the sleeper's alone.
  // A message has come, or may have, since the loop announced that it would sleep.
  std::atomic<bool> due_{false};

  std::deque<Frame> received_ ABSL_GUARDED_BY(channel_loop);
  // What frames cost, since the beginning: those sent, those of them that the other end has taken,
  // those received, those of them taken, and how many of these the other end knows of.
  uint64_t sent_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t sent_taken_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t got_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t taken_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t told_ ABSL_GUARDED_BY(channel_loop) = 0;
  // The other end answered the hello.
  bool answered_ ABSL_GUARDED_BY(channel_loop) = false;
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(channel_loop);
  std::optional<absl::Status> broken_ ABSL_GUARDED_BY(channel_loop);
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_UCX_UCX_END_H_
