#include "server/gpu_server/session/session_children.h"

#include <utility>

namespace warpline::server {
namespace {

GuardedWorkerOptions WithQuota(GuardedWorkerOptions options, std::shared_ptr<Quota> quota) {
  options.windows.quota = std::move(quota);
  return options;
}

}  // namespace

SessionChildren::SessionChildren(EventLoop* control, SessionChildrenOptions options,
                                 const SessionOptions& session, std::shared_ptr<Quota> host_memory,
                                 Links links)
    : options_(std::move(options)),
      mps_(options_.mps == nullptr
               ? nullptr
               : std::make_unique<MpsGroups>(control, &spawner_, *options_.mps)),
      workers_(control, &spawner_, &deaths_,
               WorkerPoolOptions{.launcher = options_.launcher,
                                 .jailer = options_.jailer,
                                 .program = session.worker,
                                 .warm = session.warm_workers,
                                 .waiting_gone = std::move(links.waiting_gone)}),
      guarded_(control, &spawner_, &deaths_,
               GuardedWorkersOptions{
                   .launcher = options_.launcher,
                   .jailer = options_.jailer,
                   .program = session.guarded.worker,
                   .process = WithQuota(session.guarded.process, std::move(host_memory)),
                   .standby = session.guarded.standby,
                   .read_others = std::move(links.read_others),
                   .kept_bytes = std::move(links.kept_bytes)}),
      hangs_(session.guarded.hang_pause),
      compilers_(options_.compilers == nullptr
                     ? nullptr
                     : std::make_unique<CompilerPool>(control, &spawner_, *options_.compilers)) {}

void SessionChildren::Renew() {
  workers_.Renew();
  guarded_.Renew();
}

void SessionChildren::Stop(std::function<void()> stopped) {
  workers_.Stop([this, stopped = std::move(stopped)] {
    control_loop.AssertOnLoop();
    guarded_.Stop([this, stopped] {
      control_loop.AssertOnLoop();
      const auto end_compilers = [this, stopped] {
        control_loop.AssertOnLoop();
        if (compilers_ != nullptr) compilers_->Stop();
        stopped();
      };
      if (mps_ == nullptr) return end_compilers();
      mps_->Stop(end_compilers);
    });
  });
}

}  // namespace warpline::server
