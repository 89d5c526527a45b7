// One end of a session's connection over TLS, by TCP: each frame is its kind and size, and then its
// payload. How fast it goes is TCP's affair: an end that takes no frames is sent none.
#ifndef WARPLINE_TRANSPORT_TLS_TLS_END_H_
#define WARPLINE_TRANSPORT_TLS_TLS_END_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/link_end.h"
#include "transport/loop_bell.h"
#include "transport/tls/tls_stream.h"

namespace warpline {

class TlsEnd final : public AwaitedEnd {
 public:
  // The end of a stream whose handshake is complete and whose hello has been read or written.
  // RESOURCE_EXHAUSTED when the process has no descriptor left.
  static absl::StatusOr<std::unique_ptr<TlsEnd>> Create(std::unique_ptr<TlsStream> stream);
  // Connects to the session's place at one of `places` (transport/tcp/connect.h), and returns when
  // the other end has let this one in. UNAVAILABLE when that has not happened until then,
  // UNAUTHENTICATED when the other end does not know the secret, and what it refused with.
  static absl::StatusOr<std::unique_ptr<TlsEnd>> Connect(absl::string_view places,
                                                         const std::string& secret,
                                                         absl::Time until);
  // Waits up to a second for what was put to leave.
  ~TlsEnd() override;

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
  struct Header {
    uint32_t kind;
    uint32_t bytes;
  };

  TlsEnd(std::unique_ptr<TlsStream> stream, UniqueFd bell);

  // Waits until the other end has let this one in.
  absl::Status AwaitWelcome(absl::Time until) RUNS_ON(channel_loop);
  // Reads what there is of the next frame. Returns whether it is complete.
  bool Receive() RUNS_ON(channel_loop);
  // Reads into `to` until all of `bytes` are there; `*done` of them are already. Returns whether
  // they are.
  bool Fill(void* to, size_t bytes, size_t* done) RUNS_ON(channel_loop);
  void PutBytes(uint32_t kind, uint32_t own, std::string_view payload) RUNS_ON(channel_loop);
  // Sends what can be sent of what was put.
  void Flush() RUNS_ON(channel_loop);
  // Nothing can be sent any more. The other end's last frames may still be there to be taken.
  void GoMute() RUNS_ON(channel_loop);
  void BreakWith(const absl::Status& why) RUNS_ON(channel_loop);

  const std::unique_ptr<TlsStream> stream_;
  LoopBell bell_;
  bool rung_ = false;  // The bell ended the last sleep; the sleeper's alone.
  // A sleeper waits for these besides the bell.
  std::atomic<bool> wants_bytes_{true};
  std::atomic<bool> wants_room_{false};

  // Frames that were put and have not left: outgoing_ from sent_ on.
  std::string outgoing_ ABSL_GUARDED_BY(channel_loop);
  size_t sent_ ABSL_GUARDED_BY(channel_loop) = 0;
  // The frame that is coming: its header, then its payload.
  Header header_ ABSL_GUARDED_BY(channel_loop) = {};
  size_t header_got_ ABSL_GUARDED_BY(channel_loop) = 0;
  bool own_ ABSL_GUARDED_BY(channel_loop) = false;  // It is the connection's own.
  std::string payload_ ABSL_GUARDED_BY(channel_loop);
  size_t payload_got_ ABSL_GUARDED_BY(channel_loop) = 0;
  bool mute_ ABSL_GUARDED_BY(channel_loop) = false;
  bool said_end_ ABSL_GUARDED_BY(channel_loop) = false;
  bool expects_welcome_ ABSL_GUARDED_BY(channel_loop) = false;
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(channel_loop);
  std::optional<absl::Status> broken_ ABSL_GUARDED_BY(channel_loop);
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_TLS_TLS_END_H_
