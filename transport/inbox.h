// The way of received frames from a channel's loop to its handler, with room for the one frame that
// the handler refused for now.
#ifndef WARPLINE_TRANSPORT_INBOX_H_
#define WARPLINE_TRANSPORT_INBOX_H_

#include "transport/channel.h"

namespace warpline {

// Used on the loop alone.
class Inbox {
 public:
  // Where the next frame is received. Not to be touched while a frame is held.
  Frame* frame() { return &frame_; }

  // Offers what frame() holds, unless frames are dropped, and keeps it when it is refused.
  void Deliver(ChannelHandler* handler) {
    if (open_) held_ = handler->OnFrame(&frame_) == Accept::kLater;
  }
  // Offers the held frame again. Returns whether there was one and it has been taken.
  bool OfferHeld(ChannelHandler* handler) {
    if (!held_ || handler->OnFrame(&frame_) == Accept::kLater) return false;
    held_ = false;
    return true;
  }
  // From now on frames are dropped, also the one that is held.
  void Shut() {
    open_ = false;
    held_ = false;
  }

  bool open() const { return open_; }
  bool held() const { return held_; }

 private:
  Frame frame_;
  bool open_ = true;
  bool held_ = false;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_INBOX_H_
