// The server's end of one MPS daemon: the process that keeps it (server/mps), its jail, its folder.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_MPS_GROUPS_MPS_PROCESS_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_MPS_GROUPS_MPS_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"
#include "server/hostlink/process/running_process.h"
#include "server/jail/jailer.h"

namespace warpline::server {

// How daemons are started.
struct MpsOptions {
  ProcessLauncher* launcher = nullptr;               // Borrowed.
  jail::Jailer* jailer = nullptr;                    // Borrowed. Null for no jail, in tests.
  ChildOptions program;                              // warpline-mps.
  std::string control;                               // The path of nvidia-cuda-mps-control.
  std::string folder;                                // In which groups have theirs.
  absl::Duration start_timeout = absl::Seconds(10);  // Of a daemon.
  // How long a daemon stays without workers.
  absl::Duration idle = absl::Seconds(10);
  // For how long a group that had none is not given another.
  absl::Duration retry = absl::Seconds(10);
};

// Shared, since its start may be under way when its owner has let go of it.
class MpsProcess : public std::enable_shared_from_this<MpsProcess> {
 public:
  struct Events {
    std::function<void()> ready;  // The daemon takes clients. Once.
    // It does not, or not any more. Once.
    std::function<void(const std::string& why)> over;
    // The last call: nothing is left of it. Comes after End(), too.
    std::function<void()> gone;
  };

  // The loops are borrowed.
  MpsProcess(EventLoop* control, EventLoop* spawner) : control_(control), spawner_(spawner) {}

  // Starts a daemon of the device in `folder`, which is made.
  void Start(const MpsOptions& options, int ordinal, std::string folder, Events events)
      RUNS_ON(control_loop);
  // Ends it. Its clients should be gone. Only `gone` follows.
  void End() RUNS_ON(control_loop);

  const std::string& folder() const RUNS_ON(control_loop) { return folder_; }
  // The process of NVIDIA's in which the driver counts what clients do on the device; 0 where it is
  // not known, and before it is ready.
  pid_t server() const RUNS_ON(control_loop) { return server_; }
  // Whose user its clients must have; null without a jail, and before it is ready.
  std::shared_ptr<const jail::Cell> cell() const RUNS_ON(control_loop) { return cell_; }

 private:
  struct Spawned {
    absl::StatusOr<std::unique_ptr<RunningProcess>> process;
    UniqueFd socket;
    std::unique_ptr<jail::Cell> cell;
  };
  // On the spawner's loop.
  static Spawned Spawn(const MpsOptions& options, int ordinal, const std::string& folder);
  void OnSpawned(Spawned spawned, const MpsOptions& options) RUNS_ON(control_loop);
  void OnPacket() RUNS_ON(control_loop);
  void OnExit() RUNS_ON(control_loop);
  void Over(const std::string& why) RUNS_ON(control_loop);
  void CloseSocket() RUNS_ON(control_loop);
  void GoneIfNothingIsLeft() RUNS_ON(control_loop);
  // The processes are gone: removes the folder.
  void Gone() RUNS_ON(control_loop);

  EventLoop* const control_;
  EventLoop* const spawner_;
  Events events_ ABSL_GUARDED_BY(control_loop);
  std::string folder_ ABSL_GUARDED_BY(control_loop);
  // Null before it is started, and once it is gone.
  std::unique_ptr<RunningProcess> process_ ABSL_GUARDED_BY(control_loop);
  std::shared_ptr<jail::Cell> cell_ ABSL_GUARDED_BY(control_loop);
  // Whose other end is that of the second process (server/mps/keep.h), which outlives the first.
  UniqueFd socket_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token socket_watch_ ABSL_GUARDED_BY(control_loop) = 0;
  EventLoop::Token exit_watch_ ABSL_GUARDED_BY(control_loop) = 0;
  EventLoop::Token kill_timer_ ABSL_GUARDED_BY(control_loop) = 0;
  bool ready_ ABSL_GUARDED_BY(control_loop) = false;
  pid_t server_ ABSL_GUARDED_BY(control_loop) = 0;
  bool over_ ABSL_GUARDED_BY(control_loop) = false;
  bool spawning_ ABSL_GUARDED_BY(control_loop) = false;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_MPS_GROUPS_MPS_PROCESS_H_
