#include "server/workers/guarded_workers.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/refusal.h"

namespace warpline::server {

GuardedWorkers::GuardedWorkers(EventLoop* control, EventLoop* spawner, DeathWatch* deaths,
                               GuardedWorkersOptions options)
    : options_(std::move(options)),
      log_(kGuardedLines),
      parts_({.control = control, .spawner = spawner, .deaths = deaths, .log = &log_}) {}

absl::StatusOr<std::shared_ptr<Worker>> GuardedWorkers::Take(const WorkerDevice& device,
                                                             WorkerEvents* events) {
  if (device.several()) {
    return absl::InvalidArgumentError("a guarded session has one device");
  }
  if (stopping_) return absl::UnavailableError("the server is shutting down");
  std::shared_ptr<GuardedWorker>& current = current_[device.ordinal];
  if (current == nullptr || !current->usable()) current = Start(device);
  if (current->full()) {
    return NoRoom(absl::StrCat("device ", device.ordinal,
                               " is full: ", options_.process.max_sessions, " guarded sessions"));
  }
  return current->Take(events);
}

std::shared_ptr<GuardedWorker> GuardedWorkers::Start(const WorkerDevice& device) {
  auto process =
      std::make_shared<GuardedWorker>(parts_, options_.process, [this](GuardedWorker* gone) {
        control_loop.AssertOnLoop();
        OnGone(gone);
      });
  WorkerStart start;
  start.launcher = options_.launcher;
  start.program = options_.program;
  start.jailer = options_.jailer;
  start.prepare.set_backend(device.backend);
  start.prepare.set_ordinal(device.ordinal);
  process->Start(std::move(start));
  processes_.push_back(process);
  return process;
}

void GuardedWorkers::OnGone(const GuardedWorker* process) {
  const auto same = [process](const std::shared_ptr<GuardedWorker>& one) {
    return one.get() == process;
  };
  std::erase_if(current_, [&](const auto& entry) { return same(entry.second); });
  std::erase_if(processes_, same);
  if (stopping_ && processes_.empty() && stopped_) std::exchange(stopped_, nullptr)();
}

void GuardedWorkers::Renew() {
  for (const auto& [ordinal, process] : std::exchange(current_, {})) process->Retire();
}

void GuardedWorkers::Stop(std::function<void()> stopped) {
  stopping_ = true;
  current_.clear();
  if (processes_.empty()) return stopped();
  stopped_ = std::move(stopped);
  const auto processes = processes_;
  for (const auto& process : processes) process->Kill();
}

}  // namespace warpline::server
