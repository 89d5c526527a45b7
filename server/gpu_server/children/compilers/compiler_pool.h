// The compilers of all tenants: one for each tenant with guarded sessions, which stays when they
// end, with what it has compiled, for the tenant's next session.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_COMPILERS_COMPILER_POOL_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_COMPILERS_COMPILER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/log/log_budget.h"
#include "common/unique_fd.h"
#include "server/gpu_server/children/compilers/compiler_process.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

// A worker's connection to its tenant's compiler. The compiler stays while a connection to it is
// open.
struct CompilerConnection {
  std::shared_ptr<CompilerProcess> process;
  UniqueFd socket;  // For the worker. Invalid where the system has no descriptors left.
};

// Call Stop() before destroying it.
class CompilerPool {
 public:
  // Compilers that no session uses stay, while there are no more than so many.
  static constexpr size_t kMostIdle = 8;

  // The loops are borrowed; `options` are those of every compiler.
  CompilerPool(EventLoop* control, EventLoop* spawner, CompilerOptions options);

  // A connection for one worker of the tenant's. It does not wait for the compiler to start.
  CompilerConnection Connect(const std::string& tenant) RUNS_ON(control_loop);
  // Whether machine code, and not guarded PTX, is to be asked for.
  bool compiles() const { return options_.compiles; }
  // Ends them all.
  void Stop() RUNS_ON(control_loop);

  size_t compilers() const RUNS_ON(control_loop) { return by_tenant_.size(); }

 private:
  struct Tenant {
    std::shared_ptr<CompilerProcess> process;
    uint64_t used = 0;  // The higher, the later.
  };
  std::shared_ptr<CompilerProcess> NewProcess() RUNS_ON(control_loop);
  // Ends those that are too many, the longest unused first.
  void EndIdle() RUNS_ON(control_loop);
  void OnReady(const std::string& library_version, const std::string& no_library)
      RUNS_ON(control_loop);
  void OnOver(const std::string& why) RUNS_ON(control_loop);

  EventLoop* const control_;
  EventLoop* const spawner_;
  const CompilerOptions options_;
  std::map<std::string, Tenant> by_tenant_ ABSL_GUARDED_BY(control_loop);
  uint64_t last_use_ ABSL_GUARDED_BY(control_loop) = 0;
  bool said_library_ ABSL_GUARDED_BY(control_loop) = false;
  LogBudget log_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_COMPILERS_COMPILER_POOL_H_
