// Passes frames on between two links, each way in order, until one of them ends; then the other
// ends in the same way.
#ifndef WARPLINE_SERVER_RELAY_RELAY_H_
#define WARPLINE_SERVER_RELAY_RELAY_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/link_end.h"
#include "transport/link_loop.h"

namespace warpline::relay {

class Relay {
 public:
  Relay(std::unique_ptr<LinkEnd> one, std::unique_ptr<LinkEnd> other);

  // Returns when both links have ended. The calling thread is the loop of the first link; that of
  // the other is a thread of its own meanwhile.
  void Run();

 private:
  // One link, and what waits to be sent on it.
  class Side : public ChannelHandler {
   public:
    explicit Side(std::unique_ptr<LinkEnd> link);

    // What comes on this link goes to `other`; borrowed, and set before anything runs.
    void Join(Side* other) { other_ = other; }
    void Run() RUNS_ON(channel_loop) { loop_.Run(this); }

    bool NextFrame(Frame* frame) override RUNS_ON(channel_loop);
    Accept OnFrame(Frame* frame) override RUNS_ON(channel_loop);
    void OnClosed(const absl::Status& status) override RUNS_ON(channel_loop);

   private:
    // Called by the other side's loop. False when too much waits already; then the other side is
    // woken when there is room again.
    bool Push(Frame* frame);
    // The other link has ended so. This one does when what came before has been sent.
    void End(const absl::Status& status);

    LinkLoop loop_;
    Side* other_ = nullptr;
    std::atomic<bool> has_frames_{false};  // To be asked all the time.
    Mutex mu_;
    std::deque<Frame> frames_ ABSL_GUARDED_BY(mu_);
    size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
    bool refused_ ABSL_GUARDED_BY(mu_) = false;
    std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  };

  Side one_;
  Side other_;
};

}  // namespace warpline::relay

#endif  // WARPLINE_SERVER_RELAY_RELAY_H_
