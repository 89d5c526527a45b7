#include "server/gpu_server/dispatch/dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "policy/band.h"
#include "policy/builtin.h"
#include "transport/loop_thread.h"

namespace warpline::dispatch {
namespace {

// A verdict on a reading of power or temperature lasts until the next one, if there is one.
constexpr int64_t kReadingHoldsNs = 500'000'000;

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

int64_t RealTimeUs() { return absl::GetCurrentTimeNanos() / 1000; }

DispatchRegistration::~DispatchRegistration() { dispatcher_->Leave(this); }

DispatchUsage DispatchRegistration::usage() { return dispatcher_->UsageOf(this); }

void DispatchRegistration::SetWorker(pid_t pid, pid_t server) {
  dispatcher_->SetWorker(this, pid, server);
}

void DispatchRegistration::ForgetWorker() {
  dispatcher_->SetWorker(this, 0, 0);
  page_->ForgetWorker();
}

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

absl::StatusOr<std::unique_ptr<DispatchRegistration>> Dispatcher::Join(DispatchTerms terms) {
  auto page = DispatchPage::Create();
  if (!page.ok()) return page.status();
  std::unique_ptr<DispatchRegistration> registration(
      new DispatchRegistration(this, std::move(terms), *std::move(page)));
  MutexLock lock(&mu_);
  const std::vector<int>& gpus = registration->terms_.gpus;
  for (size_t i = 0; i < std::min<size_t>(gpus.size(), kMaxSessionDevices); ++i) {
    GpuDispatch& gpu =
        gpus_.try_emplace(gpus[i], gpus[i], options_.arbiter, policy_.get()).first->second;
    gpu.Join(registration.get(), i);
    // Its worker is not there yet, and finds the engines at rest.
    if (policy_->wishes().asked_always) gpu.Look(options_.clock());
  }
  joined_ = true;
  if (slow_) changed_.NotifyAll();
  return registration;
}

std::shared_ptr<policy::Policy> Dispatcher::SetPolicy(std::shared_ptr<policy::Policy> policy) {
  MutexLock lock(&mu_);
  return Replace(std::move(policy));
}

std::shared_ptr<policy::Policy> Dispatcher::Replace(std::shared_ptr<policy::Policy> policy) {
  policy_.swap(policy);
  for (auto& [ordinal, gpu] : gpus_) gpu.SetPolicy(policy_.get());
  // The new policy may want to be asked about GPUs that were not looked at so far.
  joined_ = true;
  if (slow_) changed_.NotifyAll();
  return policy;
}

absl::Duration Dispatcher::Patience() const {
  return std::max(options_.patience, absl::Nanoseconds(policy_->wishes().longest_wait_ns));
}

void Dispatcher::SetPower(int ordinal, const DevicePower& power) {
  MutexLock lock(&mu_);
  const int32_t before_c = std::exchange(power_[ordinal], power).temperature_c;
  const auto found = gpus_.find(ordinal);
  if (found == gpus_.end() || !found->second.is_dispatched()) return;
  const int64_t now_ns = options_.clock();
  policy::PowerContext context;
  context.head.now_ns = static_cast<uint64_t>(now_ns);
  context.power_mw = power.power_mw;
  context.power_limit_mw = power.limit_mw;
  context.temperature_c = power.temperature_c;
  int64_t hold_ns = HoldOf(policy_->OnPower(context));
  uint32_t throttle_us = 0;
  if (power.temperature_c != 0) {
    const policy::Verdict verdict = policy_->OnThermal(HeatOf(ordinal, before_c));
    hold_ns = std::max(hold_ns, HoldOf(verdict));
    if (verdict.action == policy::Action::kThrottle) throttle_us = verdict.argument;
  }
  found->second.HoldAll(hold_ns == 0 ? 0 : now_ns + hold_ns);
  found->second.Throttle(throttle_us, now_ns + kReadingHoldsNs);
}

policy::ThermalContext Dispatcher::HeatOf(int ordinal, int32_t before_c) {
  policy::ThermalContext context;
  context.head.now_ns = static_cast<uint64_t>(options_.clock());
  context.temperature_c = power_[ordinal].temperature_c;
  if (before_c != 0) context.change_c = context.temperature_c - before_c;
  context.device = static_cast<uint32_t>(ordinal);
  return context;
}

int64_t Dispatcher::HoldOf(const policy::Verdict& verdict) const {
  if (verdict.action != policy::Action::kHold) return 0;
  const int64_t most_ns =
      std::clamp<int64_t>(policy_->wishes().longest_wait_ns, kMostHoldNs, kReadingHoldsNs);
  const int64_t asked_ns = verdict.argument == 0 ? most_ns : verdict.argument * int64_t{1000};
  return std::min(asked_ns, most_ns);
}

void Dispatcher::Leave(DispatchRegistration* registration) {
  MutexLock lock(&mu_);
  for (auto& [ordinal, gpu] : gpus_) gpu.Leave(registration);
  // The next look tells the sessions whose kernels went slowly for its sake.
  joined_ = true;
  if (slow_) changed_.NotifyAll();
}

void Dispatcher::SetWorker(DispatchRegistration* registration, pid_t pid, pid_t server) {
  MutexLock lock(&mu_);
  registration->worker_ = pid;
  registration->server_ = server;
  registration->nap_us_ = 0;
  registration->worker_since_us_ = options_.wall_clock_us();
}

std::map<int, GpuUse> Dispatcher::Uses() {
  std::map<int, GpuUse> uses;
  MutexLock lock(&mu_);
  for (const auto& [ordinal, gpu] : gpus_) {
    if (gpu.is_dispatched()) uses.emplace(ordinal, gpu.Use());
  }
  return uses;
}

void Dispatcher::ChargeStolen(int ordinal, uint64_t session, int64_t stolen_ns) {
  MutexLock lock(&mu_);
  const auto found = gpus_.find(ordinal);
  if (found != gpus_.end()) found->second.ChargeStolen(session, stolen_ns);
}

void Dispatcher::AddMove(int ordinal, const MemoryMove& move) {
  MutexLock lock(&mu_);
  const auto found = gpus_.find(ordinal);
  if (found != gpus_.end()) found->second.AddMove(move, options_.clock());
}

policy::ContextHead Dispatcher::HeadOf(const std::string& tenant, uint64_t session) const {
  policy::ContextHead head;
  head.tenant = GpuDispatch::TenantNumber(tenant);
  head.session = session;
  head.now_ns = static_cast<uint64_t>(options_.clock());
  return head;
}

policy::Verdict Dispatcher::AskSubmit(const std::string& tenant, int ordinal, uint64_t session,
                                      policy::SubmitContext context) {
  MutexLock lock(&mu_);
  context.head = HeadOf(tenant, session);
  const auto found = gpus_.find(ordinal);
  if (found != gpus_.end()) context.queue_depth = found->second.SessionsOf(tenant);
  return policy_->OnSubmit(context);
}

policy::Verdict Dispatcher::AskMemFault(const std::string& tenant,
                                        policy::MemFaultContext context) {
  MutexLock lock(&mu_);
  context.head = HeadOf(tenant, 0);
  return policy_->OnMemFault(context);
}

policy::Verdict Dispatcher::AskReclaim(const std::string& tenant, uint64_t session,
                                       policy::ReclaimContext context) {
  MutexLock lock(&mu_);
  context.head = HeadOf(tenant, session);
  return policy_->OnReclaim(context);
}

DispatchUsage Dispatcher::UsageOf(DispatchRegistration* registration) {
  MutexLock lock(&mu_);
  const int64_t now_ns = options_.clock();
  for (const int ordinal : registration->terms_.gpus) {
    const auto found = gpus_.find(ordinal);
    if (found != gpus_.end()) found->second.ReadUsage(registration, now_ns);
  }
  DispatchUsage usage = registration->usage_;
  usage[EngineIndex(Engine::kCompute)].busy_ns += registration->stolen_ns_;
  return usage;
}

std::map<int, TracePart> Dispatcher::Trace(const std::map<int, uint64_t>& after, size_t most) {
  std::map<int, TracePart> parts;
  MutexLock lock(&mu_);
  for (const auto& [ordinal, gpu] : gpus_) {
    const auto since = after.find(ordinal);
    parts[ordinal] = gpu.recorder().After(since == after.end() ? 0 : since->second, most);
  }
  return parts;
}

absl::Duration Dispatcher::LookNow() {
  Failure failure;
  absl::Duration nap;
  std::vector<std::function<void()>> orders;
  {
    MutexLock lock(&mu_);
    joined_ = false;
    nap = Look(&failure);
    for (auto& [ordinal, gpu] : gpus_) {
      for (auto& order : gpu.TakeOrders()) orders.push_back(std::move(order));
    }
    slow_ = nap > absl::Milliseconds(1);
  }
  for (const auto& order : orders) order();
  if (failure.policy != nullptr && options_.policy_failed) {
    options_.policy_failed(failure.policy, failure.why);
  }
  return nap;
}

absl::Duration Dispatcher::Look(Failure* failure) {
  const int64_t now_ns = options_.clock();
  const absl::Duration patience = Patience();
  Surroundings surroundings;
  surroundings.day_second =
      static_cast<uint32_t>(options_.wall_clock_us() / 1'000'000 % (24 * 60 * 60));
  absl::Duration nap = absl::InfiniteDuration();
  for (auto& [ordinal, gpu] : gpus_) {
    const DevicePower& power = power_[ordinal];
    surroundings.power_mw = power.power_mw;
    surroundings.power_limit_mw = power.limit_mw;
    surroundings.temperature_c = power.temperature_c;
    gpu.SetSurroundings(surroundings);
    nap = std::min(nap, NapOf(gpu.Look(now_ns)));
    const absl::Duration held = absl::Nanoseconds(gpu.held_ns());
    if (held < patience || failure->policy != nullptr) continue;
    failure->why = absl::StrCat("it has had everybody wait for gpu ", ordinal, " for ",
                                absl::FormatDuration(absl::Trunc(held, absl::Milliseconds(1))));
    failure->policy = Replace(std::make_shared<policy::Band>());
  }
  return nap;
}

void Dispatcher::Run() {
  for (;;) {
    const absl::Duration nap = LookNow();
    MutexLock lock(&mu_);
    if (stop_) return;
    if (joined_) continue;  // Meanwhile.
    if (nap == absl::InfiniteDuration()) {
      changed_.Wait(&mu_);
    } else {
      changed_.WaitWithTimeout(&mu_, nap);
    }
    if (stop_) return;
  }
}

}  // namespace warpline::dispatch
