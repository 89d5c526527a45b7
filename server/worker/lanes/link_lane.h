// Links device code. It is apart from the control lane because a link takes seconds, and only the
// application that asked waits for it.
#ifndef WARPLINE_SERVER_WORKER_LANES_LINK_LANE_H_
#define WARPLINE_SERVER_WORKER_LANES_LINK_LANE_H_

#include "absl/base/thread_annotations.h"
#include "common/loop/loop_affinity.h"
#include "server/worker/lanes/lane.h"

namespace warpline::worker {

class LinkLane : public Lane {
 public:
  explicit LinkLane(const LaneHost* host) : Lane(host, Kind::kControl, 0) {}
  ~LinkLane() override { Stop(); }

 protected:
  Step Issue(Task& task) RUNS_ON(on_lane_) override;

 private:
  // Declares a function for each command of this lane in the table.
#define WARPLINE_DO(Command) void Do(const cmd::Command& command, Task& task) RUNS_ON(on_lane_);
  WARPLINE_LANE_LINKER(WARPLINE_DO)
#undef WARPLINE_DO
  // The decoder sends other commands elsewhere.
  template <typename Command>
  void Do(const Command&, Task&) {
    static_assert(FindCommand(CommandTraits<Command>::kId).lane != LaneKind::kLinker);
  }
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_LINK_LANE_H_
