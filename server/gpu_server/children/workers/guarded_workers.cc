#include "server/gpu_server/children/workers/guarded_workers.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/refusal.h"

namespace warpline::server {

GuardedWorkers::GuardedWorkers(EventLoop* control, EventLoop* spawner, DeathWatch* deaths,
                               GuardedWorkersOptions options)
    : options_(std::move(options)),
      log_(kGuardedLines),
      parts_({.control = control,
              .spawner = spawner,
              .deaths = deaths,
              .timers = options_.timers == nullptr ? control : options_.timers,
              .log = &log_}) {}

absl::StatusOr<std::shared_ptr<Worker>> GuardedWorkers::Take(const WorkerDevice& wanted,
                                                             WorkerEvents* events) {
  if (wanted.several()) {
    return absl::InvalidArgumentError("a guarded session has one device");
  }
  if (stopping_) return absl::UnavailableError("the server is shutting down");
  Device& device = DeviceOf(wanted);
  // It may be dying already, which is told in a moment.
  if (device.current != nullptr && !device.current->usable()) {
    device.current = device.standby->TakeOver(*device.current);
  }
  if (device.current == nullptr) device.current = Start(wanted);
  if (device.current->full()) {
    return NoRoom(absl::StrCat("device ", wanted.ordinal,
                               " is full: ", options_.process.max_sessions, " guarded sessions"));
  }
  std::shared_ptr<Worker> worker = device.current->Take(events);
  if (InUse(device)) device.standby->Want();
  return worker;
}

GuardedWorkers::Device& GuardedWorkers::DeviceOf(const WorkerDevice& wanted) {
  Device& device = devices_[wanted.ordinal];
  if (device.standby == nullptr) {
    device.standby = std::make_unique<GuardedStandby>(
        parts_.timers, &log_, wanted.ordinal, options_.standby,
        [this, wanted, &device]() -> std::shared_ptr<GuardedWorker> {
          control_loop.AssertOnLoop();
          return InUse(device) ? Start(wanted) : nullptr;
        });
  }
  return device;
}

bool GuardedWorkers::InUse(const Device& device) {
  return device.current != nullptr && device.current->prepared() && device.current->sessions() > 0;
}

std::shared_ptr<GuardedWorker> GuardedWorkers::Start(const WorkerDevice& device) {
  auto process = std::make_shared<GuardedWorker>(parts_, options_.process,
                                                 static_cast<GuardedWorkerEvents*>(this));
  WorkerStart start;
  start.launcher = options_.launcher;
  start.program = options_.program;
  start.jailer = options_.jailer;
  start.prepare.set_backend(device.backend);
  start.prepare.set_ordinal(device.ordinal);
  if (options_.read_others != nullptr) {
    measures_[process.get()] = ContextMeasure::Begin(
        [read = options_.read_others, ordinal = device.ordinal](ContextMeasure::Answer answer) {
          read(ordinal, std::move(answer));
        });
  }
  process->Start(std::move(start));
  processes_.push_back(process);
  return process;
}

// What else opens on the device meanwhile, such as another process's context, counts as well, so
// that only much more than is kept says something.
void GuardedWorkers::SayContext(const GuardedWorker& process, uint64_t bytes) {
  const LogPermit permit = log_.Ask(kGuardedContextLine);
  if (!permit) return;
  const uint64_t kept = options_.kept_bytes(process.ordinal());
  const std::string keys = absl::StrCat(" gpu=", process.ordinal(), " worker_pid=", process.pid(),
                                        " bytes=", bytes, " kept_bytes=", kept);
  if (bytes <= kept + kept / 2) return permit.Info("guarded worker's context", keys);
  permit.Warning("guarded worker's context takes more than is kept for it", keys,
                 ": see --guarded_context_memory");
}

void GuardedWorkers::OnPrepared(GuardedWorker* process) {
  if (const auto found = measures_.find(process); found != measures_.end()) {
    found->second->End([this, process](uint64_t bytes) {
      control_loop.AssertOnLoop();
      SayContext(*process, bytes);
    });
  }
  for (auto& [ordinal, device] : devices_) {
    if (device.standby->OnPrepared(*process)) return;
    if (device.current.get() == process && InUse(device)) device.standby->Want();
  }
}

void GuardedWorkers::OnUnusable(GuardedWorker* process, const std::string& why) {
  for (auto& [ordinal, device] : devices_) {
    if (device.standby->OnUnusable(*process, why)) return;
    if (device.current.get() == process) device.current = device.standby->TakeOver(*process);
  }
}

void GuardedWorkers::OnGone(GuardedWorker* process) {
  measures_.erase(process);
  std::erase_if(processes_, [process](const std::shared_ptr<GuardedWorker>& one) {
    return one.get() == process;
  });
  if (stopping_ && processes_.empty() && stopped_) std::exchange(stopped_, nullptr)();
}

void GuardedWorkers::Renew() {
  for (auto& [ordinal, device] : devices_) {
    device.standby->End();
    if (device.current != nullptr) std::exchange(device.current, nullptr)->Retire();
  }
}

void GuardedWorkers::Stop(std::function<void()> stopped) {
  stopping_ = true;
  for (auto& [ordinal, device] : devices_) {
    device.standby->End();
    device.current = nullptr;
  }
  if (processes_.empty()) return stopped();
  stopped_ = std::move(stopped);
  const auto processes = processes_;
  for (const auto& process : processes) process->Kill();
}

}  // namespace warpline::server
