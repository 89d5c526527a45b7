// How many streams each session may have, so that all sessions together leave the server the tasks
// (threads and processes) that it needs itself.
//
// A stream is a thread of its session's worker. Systems bound the tasks of a user or a container; a
// server at that bound could neither take a session nor start a worker. So what the system allows,
// less a reserve, is shared: every session up to the largest number of sessions is sure of some
// streams, and of the rest each may take a quarter of what nobody has taken yet.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_TASK_SHARES_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_TASK_SHARES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

struct TaskShareOptions {
  uint64_t tasks = 0;  // For server, keepers and workers together.
  int max_sessions = 64;
  uint64_t tasks_per_stream = 1;
  int devices = 1;       // Each has a keeper.
  int warm_workers = 0;  // Of each device, with the guarded tier's standby.
};

// Outlives its shares, which belong to the control loop as it does.
class TaskShares {
 public:
  // No session gets more.
  static constexpr uint64_t kMostStreams = 1024;

  explicit TaskShares(const TaskShareOptions& options);

  // What one session may have; what it takes beyond the sure part goes back with the share.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept;
    ~Share() { GiveBack(); }
    uint64_t streams() const { return streams_; }

   private:
    friend class TaskShares;
    void GiveBack();
    TaskShares* from_ = nullptr;
    uint64_t streams_ = 0;
    uint64_t extra_ = 0;
  };
  Share Take() RUNS_ON(control_loop);

  // What every session is sure of.
  uint64_t sure_streams() const { return sure_streams_; }
  // False where the tasks do not suffice for as many sessions as there may be.
  bool suffices() const { return suffices_; }

 private:
  const uint64_t tasks_per_stream_;
  uint64_t sure_streams_ = 0;
  bool suffices_ = false;
  uint64_t left_ ABSL_GUARDED_BY(control_loop) =
      0;  // Streams beyond the sure ones that nobody has.
};

// The tasks that this process and its children may become: the least of RLIMIT_NPROC, where it
// holds, of the process's control groups, less what runs in them, and of the kernel. `root` is what
// files are looked up under, for tests.
uint64_t SystemTaskLimit(const std::string& root = "");

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_TASK_SHARES_H_
