// Links device code, apart from the control lane: a link takes seconds, and nothing but its own
// application waits for it.
#ifndef WARPLINE_SERVER_WORKER_LANES_LINK_LANE_H_
#define WARPLINE_SERVER_WORKER_LANES_LINK_LANE_H_

#include "server/worker/lanes/lane.h"

namespace warpline::worker {

class LinkLane : public Lane {
 public:
  explicit LinkLane(LaneHost* host) : Lane(host, Kind::kControl, 0) {}
  ~LinkLane() override { Stop(); }

 protected:
  Step Issue(Task& task) override;

 private:
  void Do(const cmd::LinkCreate& command, Task& task);
  void Do(const cmd::LinkAdd& command, Task& task);
  void Do(const cmd::LinkComplete& command, Task& task);
  void Do(const cmd::LinkRead& command, Task& task);
  void Do(const cmd::LinkLog& command, Task& task);
  void Do(const cmd::LinkDestroy& command, Task& task);
  template <typename Command>
  void Do(const Command&, Task&) {
    static_assert(FindCommand(CommandTraits<Command>::kId).lane != LaneKind::kLinker,
                  "the command has no Do()");
  }
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_LINK_LANE_H_
