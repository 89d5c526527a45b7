// Links device code. It is apart from the control executor because a link takes seconds, and only
// the application that asked waits for it.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_LINK_EXECUTOR_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_LINK_EXECUTOR_H_

#include "absl/base/thread_annotations.h"
#include "common/loop/loop_affinity.h"
#include "server/worker/executors/executor.h"

namespace warpline::worker {

class LinkExecutor : public Executor {
 public:
  explicit LinkExecutor(const ExecutorHost* host) : Executor(host, Kind::kControl, 0) {}
  ~LinkExecutor() override { Stop(); }

 protected:
  Step Issue(Task& task) RUNS_ON(on_executor_) override;

 private:
  // Declares a function for each command of this executor in the table.
#define WARPLINE_DO(Command) void Do(const cmd::Command& command, Task& task) RUNS_ON(on_executor_);
  WARPLINE_EXECUTOR_LINKER(WARPLINE_DO)
#undef WARPLINE_DO
  // The decoder sends other commands elsewhere.
  template <typename Command>
  void Do(const Command&, Task&) {
    static_assert(FindCommand(CommandTraits<Command>::kId).executor != ExecutorKind::kLinker);
  }
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_LINK_EXECUTOR_H_
