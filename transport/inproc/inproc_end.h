// One end of an in-process link: its side of the queues, and its bell. Private to transport/inproc.
#ifndef WARPLINE_TRANSPORT_INPROC_INPROC_END_H_
#define WARPLINE_TRANSPORT_INPROC_INPROC_END_H_

#include <chrono>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/inproc/inproc_link.h"
#include "transport/link_end.h"
#include "transport/park_state.h"

namespace warpline::inproc_internal {

// The part of an end that its peer may still ring when the end itself is gone.
class Bell {
 public:
  void Wake();

  // On the loop of its end.
  void Announce() RUNS_ON(channel_loop);
  void Await(std::optional<std::chrono::nanoseconds> at_most) RUNS_ON(channel_loop);
  void Retract() RUNS_ON(channel_loop) { park_.Retract(); }

 private:
  ParkState park_;
  Mutex mu_;
  CondVar rung_changed_;
  bool rung_ ABSL_GUARDED_BY(mu_) = false;
};

class InprocEnd : public LinkEnd {
 public:
  InprocEnd(int end, std::shared_ptr<InprocLink> link, std::shared_ptr<Bell> bell,
            std::shared_ptr<Bell> peer_bell);

  Taken Take(Frame* frame, absl::Status* why) RUNS_ON(channel_loop) override;
  bool HasRoom() RUNS_ON(channel_loop) override { return link_->HasRoom(end_); }
  void Put(Frame frame) RUNS_ON(channel_loop) override;
  void PutEnd(const absl::Status& status) RUNS_ON(channel_loop) override;
  void Break() RUNS_ON(channel_loop) override;
  void BeginSleep() RUNS_ON(channel_loop) override { bell_->Announce(); }
  void Sleep(std::optional<std::chrono::nanoseconds> at_most) RUNS_ON(channel_loop) override {
    bell_->Await(at_most);
  }
  void EndSleep() RUNS_ON(channel_loop) override { bell_->Retract(); }
  void Ring() override { bell_->Wake(); }

 private:
  const int end_;
  const std::shared_ptr<InprocLink> link_;
  const std::shared_ptr<Bell> bell_;
  const std::shared_ptr<Bell> peer_bell_;
};

}  // namespace warpline::inproc_internal

#endif  // WARPLINE_TRANSPORT_INPROC_INPROC_END_H_
