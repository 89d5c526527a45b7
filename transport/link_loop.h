// The loop of a channel over a link: polls, parks, passes frames on, and ends the stream in order.
#ifndef WARPLINE_TRANSPORT_LINK_LOOP_H_
#define WARPLINE_TRANSPORT_LINK_LOOP_H_

#include <chrono>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/close_requests.h"
#include "transport/inbox.h"
#include "transport/linger.h"
#include "transport/link_end.h"

namespace warpline {

// Thread-safe, except for Run().
class LinkLoop {
 public:
  LinkLoop(std::unique_ptr<LinkEnd> link, const ChannelOptions& options);

  // Returns after OnClosed().
  void Run(ChannelHandler* handler) RUNS_ON(channel_loop);

  void Wake() { link_->Ring(); }
  // As Channel::Close().
  void Close(const absl::Status& status);
  // Ends at once, without a word to the other end.
  void Cancel();

 private:
  using Clock = Linger::Clock;

  // Returns whether anything happened.
  bool Turn() RUNS_ON(channel_loop);
  bool Receive() RUNS_ON(channel_loop);
  bool Send() RUNS_ON(channel_loop);
  void TakeRequests() RUNS_ON(channel_loop);
  void End(const absl::Status& status) RUNS_ON(channel_loop);
  void Finish(const absl::Status& status) RUNS_ON(channel_loop);
  void Park() RUNS_ON(channel_loop);

  const std::unique_ptr<LinkEnd> link_;
  const std::chrono::nanoseconds poll_;

  ChannelHandler* handler_ ABSL_GUARDED_BY(channel_loop) = nullptr;
  Inbox inbox_ ABSL_GUARDED_BY(channel_loop);
  // End(OK) once the handler has nothing more.
  bool flushing_ ABSL_GUARDED_BY(channel_loop) = false;
  bool sent_end_ ABSL_GUARDED_BY(channel_loop) = false;
  bool peer_ended_ ABSL_GUARDED_BY(channel_loop) = false;
  std::optional<absl::Status> finished_ ABSL_GUARDED_BY(channel_loop);
  Linger linger_ ABSL_GUARDED_BY(channel_loop);

  CloseRequests requests_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_LINK_LOOP_H_
