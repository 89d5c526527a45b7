#include "server/dispatch/dispatcher.h"

#include <algorithm>
#include <utility>

#include "policy/builtin.h"
#include "transport/loop_thread.h"

namespace warpline::dispatch {
namespace {

absl::Duration NapOf(GpuDispatch::Pace pace) {
  switch (pace) {
    case GpuDispatch::Pace::kDraining:
      return absl::Microseconds(40);
    case GpuDispatch::Pace::kTurns:
      return absl::Microseconds(100);
    case GpuDispatch::Pace::kWatchful:
      return absl::Milliseconds(1);
    case GpuDispatch::Pace::kSlow:
      return absl::Milliseconds(10);
    case GpuDispatch::Pace::kNone:
      break;
  }
  return absl::InfiniteDuration();
}

}  // namespace

DispatchSeat::~DispatchSeat() { dispatcher_->Leave(this); }

SeatUsage DispatchSeat::usage() { return dispatcher_->UsageOf(this); }

absl::StatusOr<std::unique_ptr<Dispatcher>> Dispatcher::Create(DispatcherOptions options) {
  auto policy = policy::MakePolicy(options.policy);
  if (!policy.ok()) return policy.status();
  std::unique_ptr<Dispatcher> dispatcher(new Dispatcher(std::move(options), *std::move(policy)));
  if (!dispatcher->options_.has_thread) return dispatcher;
  auto thread = TryStartLoopThread("wl-dispatch", [raw = dispatcher.get()] { raw->Run(); });
  if (!thread.ok()) return thread.status();
  dispatcher->thread_ = *std::move(thread);
  return dispatcher;
}

Dispatcher::~Dispatcher() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::unique_ptr<DispatchSeat>> Dispatcher::Join(SeatTerms terms) {
  auto page = DispatchPage::Create();
  if (!page.ok()) return page.status();
  std::unique_ptr<DispatchSeat> seat(new DispatchSeat(this, std::move(terms), *std::move(page)));
  MutexLock lock(&mu_);
  const std::vector<int>& gpus = seat->terms_.gpus;
  for (size_t i = 0; i < std::min<size_t>(gpus.size(), kMaxSessionDevices); ++i) {
    gpus_.try_emplace(gpus[i], options_.arbiter, policy_.get()).first->second.Join(seat.get(), i);
  }
  if (slow_) changed_.NotifyAll();
  return seat;
}

std::unique_ptr<policy::Policy> Dispatcher::SetPolicy(std::unique_ptr<policy::Policy> policy) {
  MutexLock lock(&mu_);
  policy_.swap(policy);
  for (auto& [ordinal, gpu] : gpus_) gpu.SetPolicy(policy_.get());
  return policy;
}

void Dispatcher::Leave(DispatchSeat* seat) {
  MutexLock lock(&mu_);
  for (auto& [ordinal, gpu] : gpus_) gpu.Leave(seat);
}

SeatUsage Dispatcher::UsageOf(DispatchSeat* seat) {
  MutexLock lock(&mu_);
  const int64_t now_ns = options_.clock();
  for (const int ordinal : seat->terms_.gpus) {
    const auto found = gpus_.find(ordinal);
    if (found != gpus_.end()) found->second.ReadUsage(seat, now_ns);
  }
  return seat->usage_;
}

absl::Duration Dispatcher::LookNow() {
  MutexLock lock(&mu_);
  return Look();
}

absl::Duration Dispatcher::Look() {
  const int64_t now_ns = options_.clock();
  absl::Duration nap = absl::InfiniteDuration();
  for (auto& [ordinal, gpu] : gpus_) nap = std::min(nap, NapOf(gpu.Look(now_ns)));
  return nap;
}

void Dispatcher::Run() {
  MutexLock lock(&mu_);
  while (!stop_) {
    const absl::Duration nap = Look();
    slow_ = nap > absl::Milliseconds(1);
    if (nap == absl::InfiniteDuration()) {
      changed_.Wait(&mu_);
    } else {
      changed_.WaitWithTimeout(&mu_, nap);
    }
  }
}

}  // namespace warpline::dispatch
