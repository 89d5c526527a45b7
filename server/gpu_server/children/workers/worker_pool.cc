#include "server/gpu_server/children/workers/worker_pool.h"

#include <algorithm>
#include <utility>

namespace warpline::server {
namespace {

enum PoolLine : size_t { kDiedLine, kNotReadyLine, kPoolLineCount };
constexpr LogKind kPoolLines[kPoolLineCount] = {{"waiting_workers_died", 10, absl::Minutes(1)},
                                                {"no_workers_ready", 10, absl::Minutes(1)}};

}  // namespace

// A worker that waits, or that is starting in order to wait.
class WorkerPool::Entry : public WorkerEvents {
 public:
  Entry(WorkerPool* pool, WorkerDevice device, bool ready = false)
      : pool_(pool), device_(std::move(device)), ready_(ready) {}

  const WorkerDevice& device() const { return device_; }
  bool ready() const { return ready_; }

  void OnWorkerPrepared(const warpline_internal::WorkerOpened& prepared) override
      RUNS_ON(control_loop) {
    if (prepared.error() != 0) {
      pool_->OnFailed(this, prepared.message());
    } else {
      ready_ = true;
      pool_->OnReady(this);
    }
  }
  void OnWorkerDied(const std::string& why) override RUNS_ON(control_loop) {
    pool_->OnFailed(this, why);
  }
  void OnWorkerGone() override RUNS_ON(control_loop) { pool_->OnGone(this); }

  std::shared_ptr<WorkerProcess> worker;

 private:
  WorkerPool* const pool_;
  const WorkerDevice device_;
  bool ready_;
};

WorkerPool::WorkerPool(EventLoop* control, EventLoop* spawner, DeathWatch* deaths,
                       WorkerPoolOptions options)
    : control_(control),
      spawner_(spawner),
      deaths_(deaths),
      options_(std::move(options)),
      log_(kPoolLines) {}

std::shared_ptr<WorkerProcess> WorkerPool::Start(const WorkerDevice& device, WorkerEvents* events) {
  WorkerStart start;
  start.launcher = options_.launcher;
  start.program = options_.program;
  start.jailer = options_.jailer;
  start.prepare.set_backend(device.backend);
  start.prepare.set_ordinal(device.ordinal);
  for (const int ordinal : device.more_ordinals) start.prepare.add_more_ordinals(ordinal);
  auto worker = std::make_shared<WorkerProcess>(control_, spawner_, deaths_, events);
  worker->set_generation(generation_);
  if (device.mps != nullptr) {
    worker->StartIn(device.mps, std::move(start));
  } else {
    worker->Start(std::move(start));
  }
  return worker;
}

std::shared_ptr<WorkerProcess> WorkerPool::Take(const WorkerDevice& device, WorkerEvents* events) {
  if (device.several() || device.mps != nullptr) return Start(device, events);
  auto& entries = devices_[device.ordinal].entries;
  // A worker that has almost started is better than a new one.
  auto found = std::find_if(entries.begin(), entries.end(),
                            [](const auto& entry) { return entry->ready(); });
  if (found == entries.end()) found = entries.begin();
  if (found == entries.end()) return Start(device, events);
  std::shared_ptr<WorkerProcess> worker = std::move((*found)->worker);
  worker->Attach(events);
  entries.erase(found);
  return worker;
}

void WorkerPool::GiveBack(const WorkerDevice& wanted, std::shared_ptr<WorkerProcess> worker) {
  auto& entries = devices_[wanted.ordinal].entries;
  auto entry = std::make_shared<Entry>(this, wanted, worker->prepared());
  worker->Attach(entry.get());
  entry->worker = std::move(worker);
  const bool wanted_here = !wanted.several() && !entry->worker->in_group() &&
                           entry->worker->generation() == generation_ &&
                           static_cast<int>(entries.size()) < options_.warm;
  if (wanted_here && !stopping_) {
    entries.push_back(std::move(entry));
    return;
  }
  entry->worker->Kill();
  leaving_.push_back(std::move(entry));
}

void WorkerPool::Refill(const WorkerDevice& wanted) {
  if (wanted.several()) return;
  Device& device = devices_[wanted.ordinal];
  const bool starting = std::any_of(device.entries.begin(), device.entries.end(),
                                    [](const auto& entry) { return !entry->ready(); });
  if (stopping_ || starting || device.timer != 0 ||
      static_cast<int>(device.entries.size()) >= options_.warm) {
    return;
  }
  auto entry = std::make_shared<Entry>(this, wanted);
  device.entries.push_back(entry);
  entry->worker = Start(wanted, entry.get());
}

void WorkerPool::OnReady(Entry* entry) {
  Device& device = devices_[entry->device().ordinal];
  device.backoff = absl::ZeroDuration();
  device.complained = false;
  Refill(entry->device());
}

void WorkerPool::OnFailed(Entry* entry, const std::string& why) {
  const WorkerDevice wanted = entry->device();
  Device& device = devices_[wanted.ordinal];
  const auto found = std::find_if(device.entries.begin(), device.entries.end(),
                                  [&](const auto& candidate) { return candidate.get() == entry; });
  if (found == device.entries.end()) return;
  leaving_.push_back(std::move(*found));
  device.entries.erase(found);
  if (entry->ready()) {
    if (const LogPermit permit = log_.Ask(kDiedLine)) {
      permit.Warning("a waiting worker died gpu=", wanted.ordinal, " by=", why);
    }
  } else if (!std::exchange(device.complained, true)) {
    if (const LogPermit permit = log_.Ask(kNotReadyLine)) {
      permit.Error("no worker can be kept ready gpu=", wanted.ordinal, " error=", why);
    }
  }
  entry->worker->Kill();
  if (stopping_ || device.timer != 0) return;
  device.backoff = std::clamp(device.backoff * 2, options_.first_backoff, options_.last_backoff);
  device.timer = control_->RunAfter(device.backoff, [this, wanted] {
    control_loop.AssertOnLoop();
    devices_[wanted.ordinal].timer = 0;
    Refill(wanted);
  });
}

void WorkerPool::OnGone(Entry* entry) {
  std::erase_if(leaving_, [&](const auto& candidate) { return candidate.get() == entry; });
  for (auto& [ordinal, device] : devices_) {
    std::erase_if(device.entries, [&](const auto& candidate) { return candidate.get() == entry; });
  }
  if (stopping_ && leaving_.empty() && stopped_) return std::exchange(stopped_, nullptr)();
  if (options_.waiting_gone != nullptr) options_.waiting_gone();
}

void WorkerPool::EndAll(Device* device) {
  for (auto& entry : device->entries) {
    entry->worker->Kill();
    leaving_.push_back(std::move(entry));
  }
  device->entries.clear();
}

bool WorkerPool::EndWaiting(int ordinal) {
  const auto device = devices_.find(ordinal);
  if (device == devices_.end() || device->second.entries.empty()) return false;
  EndAll(&device->second);
  return true;
}

bool WorkerPool::leaving(int ordinal) const {
  return std::any_of(leaving_.begin(), leaving_.end(),
                     [&](const auto& entry) { return entry->device().ordinal == ordinal; });
}

void WorkerPool::Renew() {
  ++generation_;
  for (auto& [ordinal, device] : devices_) {
    if (device.entries.empty()) continue;
    const WorkerDevice wanted = device.entries.front()->device();
    EndAll(&device);
    Refill(wanted);
  }
}

void WorkerPool::Stop(std::function<void()> stopped) {
  stopping_ = true;
  for (auto& [ordinal, device] : devices_) {
    control_->Remove(device.timer);
    EndAll(&device);
  }
  if (leaving_.empty()) return stopped();
  stopped_ = std::move(stopped);
}

int WorkerPool::waiting() const {
  int count = 0;
  for (const auto& [ordinal, device] : devices_) {
    count += static_cast<int>(std::count_if(device.entries.begin(), device.entries.end(),
                                            [](const auto& entry) { return entry->ready(); }));
  }
  return count;
}

}  // namespace warpline::server
