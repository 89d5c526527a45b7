// A client that sends whatever a test wants to a server.
#ifndef WARPLINE_TESTS_HOSTILE_RAW_CLIENT_H_
#define WARPLINE_TESTS_HOSTILE_RAW_CLIENT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/serving/tls_files.h"
#include "transport/channel.h"

namespace warpline::hostile {

// Thread-compatible; the channel's loop is another thread inside.
class RawClient : private ChannelHandler {
 public:
  // In plain text where `tls` is empty.
  static absl::StatusOr<std::unique_ptr<RawClient>> Connect(const std::string& address,
                                                            const TlsFiles& tls = {});
  // Cancels the stream: the server sees a client that vanished.
  ~RawClient() override;

  void Send(uint32_t kind, std::string payload);
  // Waits until everything was handed to the transport or the stream ended.
  void Flush();
  // Waits for the next frame, of whatever kind. Errors as those of Expect(). Of more than 64 MiB
  // that nobody asked for the oldest are dropped.
  absl::StatusOr<Frame> Next(absl::Duration timeout);
  // Waits for a frame of `kind`, dropping others. UNAVAILABLE when the stream ends first,
  // DEADLINE_EXCEEDED after `timeout`.
  absl::StatusOr<std::string> Expect(uint32_t kind, absl::Duration timeout);
  // Waits for the worker's answer to the command of number `seq`, and gives its CUresult.
  absl::StatusOr<int> ExpectReply(uint64_t seq, absl::Duration timeout);
  // Says Hello for an arena at a usual place and waits for the welcome. A resumable session that is
  // not closed in order lives on for a while.
  absl::Status Open(bool resumable = false);
  bool closed();
  // How the stream has ended; nothing while it goes on.
  std::optional<absl::Status> end();
  // Takes no more frames from the transport, as a client would that reads no answers.
  void StopReading();
  void StartReading();
  // Ends the stream in order.
  void Close();

 private:
  RawClient() = default;
  bool NextFrame(Frame* frame) override;
  Accept OnFrame(Frame* frame) override;
  void OnClosed(const absl::Status& status) override;

  Mutex mu_;
  CondVar changed_;
  std::deque<Frame> out_ ABSL_GUARDED_BY(mu_);
  std::deque<Frame> in_ ABSL_GUARDED_BY(mu_);
  size_t in_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool reading_ ABSL_GUARDED_BY(mu_) = true;
  absl::Status close_status_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Channel> channel_;
};

// Returns a Hello that a server accepts, with the token of the lease that `warpline run` gave us,
// if any.
std::string ValidHello(bool resumable = false);

}  // namespace warpline::hostile

#endif  // WARPLINE_TESTS_HOSTILE_RAW_CLIENT_H_
