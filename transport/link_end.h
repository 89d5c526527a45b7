// One end of a link: what carries frames between two processes, or two parties of one, where that
// is nobody else's event loop. A LinkLoop drives it.
#ifndef WARPLINE_TRANSPORT_LINK_END_H_
#define WARPLINE_TRANSPORT_LINK_END_H_

#include <chrono>
#include <optional>

#include "absl/status/status.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline {

// Only Ring() is thread-safe; the rest is the loop's. Nothing blocks but Sleep().
class LinkEnd {
 public:
  enum class Taken {
    kFrame,
    kNothing,  // So far.
    kEnd,      // The other end's last word, after all its frames.
    kBroken,   // The other end is gone, or has broken the link.
  };

  virtual ~LinkEnd() = default;

  // Takes the next frame. `*why` gets the status with which the other end has ended, or why the
  // link is broken.
  virtual Taken Take(Frame* frame, absl::Status* why) RUNS_ON(channel_loop) = 0;

  // Whether a frame of any size may be put.
  virtual bool HasRoom() RUNS_ON(channel_loop) = 0;
  // Puts a frame of at most kMaxFramePayload bytes, for which HasRoom() found room.
  virtual void Put(Frame frame) RUNS_ON(channel_loop) = 0;
  // Puts this end's last word.
  virtual void PutEnd(const absl::Status& status) RUNS_ON(channel_loop) = 0;
  // From now on the link is broken for the other end.
  virtual void Break() RUNS_ON(channel_loop) = 0;

  // Sleeping takes three steps: after BeginSleep() whatever the other end does and each Ring() ends
  // the next Sleep(), so that the loop looks once more for something to do in between. While one
  // thread sleeps another may be the loop and call the functions above.
  virtual void BeginSleep() RUNS_ON(channel_loop) = 0;
  virtual void Sleep(std::optional<std::chrono::nanoseconds> at_most) RUNS_ON(channel_loop) = 0;
  virtual void EndSleep() RUNS_ON(channel_loop) = 0;
  virtual void Ring() = 0;
};

// An end whose other end has connected, and waits to be let in. PutEnd() refuses it.
class AwaitedEnd : public LinkEnd {
 public:
  virtual void Welcome() RUNS_ON(channel_loop) = 0;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_LINK_END_H_
