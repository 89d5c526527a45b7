// Module images that a session's worker asks for and offers.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_MODULES_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_MODULES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/audit/session_audit.h"
#include "server/gpu_server/children/workers/worker_link.h"
#include "server/gpu_server/modules/module_cache.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

// Shared with what the cache has been asked for.
class SessionModules : public std::enable_shared_from_this<SessionModules> {
 public:
  // All are borrowed until Stop(). `cache` is null where no images are kept. `lost` is told when
  // the worker cannot be answered.
  SessionModules(EventLoop* control, ModuleCache* cache, WorkerLink* worker,
                 std::function<void(const std::string& why)> lost,
                 std::shared_ptr<SessionAudit> audit)
      : control_(control),
        cache_(cache),
        worker_(worker),
        lost_(std::move(lost)),
        audit_(std::move(audit)) {}

  bool kept() const { return cache_ != nullptr; }
  // Whose images the session sees, and who pays for those that it offers.
  void SetTenant(std::string tenant, std::string payer) RUNS_ON(control_loop) {
    tenant_ = std::move(tenant);
    payer_ = std::move(payer);
  }
  // Another worker has taken over: it asks again if it has to.
  void OnOtherWorker() RUNS_ON(control_loop);
  void Stop() RUNS_ON(control_loop);

  // The worker asks for an image. INVALID_ARGUMENT, in words for the log, when it may not now.
  absl::Status Find(const warpline_internal::FindModule& find) RUNS_ON(control_loop);
  // The worker offers one, which is kept if there is room.
  void Keep(const warpline_internal::KeepModule& keep, UniqueFd image) RUNS_ON(control_loop);
  // The worker says what a module was made of. INVALID_ARGUMENT, in words for the log, where that
  // is no hash.
  absl::Status Loaded(const warpline_internal::ModuleLoaded& loaded) RUNS_ON(control_loop);

 private:
  void Answer(uint64_t worker, const ContentHash& hash, uint64_t bytes, const UniqueFd& image)
      RUNS_ON(control_loop);

  EventLoop* const control_;
  ModuleCache* const cache_;
  WorkerLink* const worker_;
  const std::function<void(const std::string& why)> lost_;
  const std::shared_ptr<SessionAudit> audit_;
  std::string tenant_ ABSL_GUARDED_BY(control_loop);
  std::string payer_ ABSL_GUARDED_BY(control_loop);
  uint64_t worker_number_ ABSL_GUARDED_BY(control_loop) = 0;
  bool finding_ ABSL_GUARDED_BY(control_loop) = false;  // For that worker.
  int keeping_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_MODULES_H_
