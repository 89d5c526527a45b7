// The server's end of a tenant's compiler: a process that guards and compiles what the tenant's
// workers send it (server/compiler/).
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_COMPILERS_COMPILER_PROCESS_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_COMPILERS_COMPILER_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "proto/compiler.pb.h"
#include "server/hostlink/process/child_process.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"
#include "server/hostlink/process/running_process.h"
#include "server/jail/jailer.h"

namespace warpline::server {

// How compilers are started.
struct CompilerOptions {
  ProcessLauncher* launcher = nullptr;  // Borrowed.
  jail::Jailer* jailer = nullptr;       // Borrowed; null for no jail, in tests.
  ChildOptions program = {};
  // Devices want machine code, and not guarded PTX.
  bool compiles = true;
  // Where NVIDIA's libnvJitLink lies; empty for where it usually does.
  std::string library = {};
  // Of one tenant's results; 0 for the compiler's choice.
  uint64_t cache_bytes = 0;
};

// What the process says is checked like a tenant's: it hashes what tenants write.
class CompilerProcess : public std::enable_shared_from_this<CompilerProcess> {
 public:
  // `control` is the control loop; on `spawner` the process is started. Both are borrowed.
  CompilerProcess(EventLoop* control, EventLoop* spawner) : control_(control), spawner_(spawner) {}

  // What becomes of it.
  struct Events {
    // It serves. `no_library` says why it makes no machine code, and is empty if it does.
    std::function<void(const std::string& library_version, const std::string& no_library)> ready;
    // The last call: it has ended by itself, and workers that it served find that.
    std::function<void(const std::string& why)> over;
  };

  // Starts it. Called once.
  void Start(const CompilerOptions& options, Events events) RUNS_ON(control_loop);
  // Hands it an end of a socket whose other end a worker has, now or when it has started.
  void AddWorker(UniqueFd socket) RUNS_ON(control_loop);
  // Ends the process, without a further event.
  void End() RUNS_ON(control_loop);

  bool over() const RUNS_ON(control_loop) { return over_; }

 private:
  struct Spawned {
    absl::StatusOr<std::unique_ptr<RunningProcess>> process;
    UniqueFd socket;
    std::unique_ptr<jail::Cell> cell;
  };
  static Spawned Spawn(const CompilerOptions& options);
  void OnSpawned(Spawned spawned, warpline_internal::PrepareCompiler prepare) RUNS_ON(control_loop);
  void OnPacket() RUNS_ON(control_loop);
  void Over(const std::string& why) RUNS_ON(control_loop);

  EventLoop* const control_;
  EventLoop* const spawner_;
  Events events_ ABSL_GUARDED_BY(control_loop);
  std::unique_ptr<RunningProcess> process_ ABSL_GUARDED_BY(control_loop);
  std::unique_ptr<jail::Cell> cell_ ABSL_GUARDED_BY(control_loop);
  UniqueFd socket_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token socket_watch_ ABSL_GUARDED_BY(control_loop) = 0;
  bool ready_ ABSL_GUARDED_BY(control_loop) = false;
  bool over_ ABSL_GUARDED_BY(control_loop) = false;
  // Until it is ready.
  std::vector<UniqueFd> waiting_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_COMPILERS_COMPILER_PROCESS_H_
