// The way of received frames from a channel's loop to its handler, with room for the one frame that
// the handler refused for now.
#ifndef WARPLINE_TRANSPORT_INBOX_H_
#define WARPLINE_TRANSPORT_INBOX_H_

#include "absl/base/thread_annotations.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline {

class Inbox {
 public:
  // Where the next frame is received. Not to be touched while a frame is held.
  Frame* frame() RUNS_ON(channel_loop) { return &frame_; }

  // Offers what frame() holds, unless frames are dropped, and keeps it when it is refused.
  void Deliver(ChannelHandler* handler) RUNS_ON(channel_loop) {
    if (open_) held_ = handler->OnFrame(&frame_) == Accept::kLater;
  }
  // Offers the held frame again. Returns whether there was one and it has been taken.
  bool OfferHeld(ChannelHandler* handler) RUNS_ON(channel_loop) {
    if (!held_ || handler->OnFrame(&frame_) == Accept::kLater) return false;
    held_ = false;
    return true;
  }
  // From now on frames are dropped, also the one that is held.
  void Shut() RUNS_ON(channel_loop) {
    open_ = false;
    held_ = false;
  }

  bool open() const RUNS_ON(channel_loop) { return open_; }
  bool held() const RUNS_ON(channel_loop) { return held_; }

 private:
  Frame frame_ ABSL_GUARDED_BY(channel_loop);
  bool open_ ABSL_GUARDED_BY(channel_loop) = true;
  bool held_ ABSL_GUARDED_BY(channel_loop) = false;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_INBOX_H_
