#include "server/gpu_server/dispatch/testing/simulated_gpu.h"

#include <algorithm>
#include <utility>

namespace warpline::dispatch {
namespace {

constexpr Engine kAll[kEngines] = {Engine::kCompute, Engine::kCopyIn, Engine::kCopyOut};

int64_t simulated_now_ns = 1'000'000'000;
int64_t SimulatedNow() { return simulated_now_ns; }

}  // namespace

SimulatedTenant::SimulatedTenant(const ContenderTerms& terms, std::vector<SimulatedWork> program)
    : terms_(terms), program_(std::move(program)) {
  auto page = DispatchPage::Create();
  page_ = page->get();
  gates_ = std::make_unique<SessionGates>(*std::move(page), &SimulatedNow);
  turns_ = std::make_unique<ExecutorTurns>(gates_.get(), 0);
}

int64_t SimulatedTenant::TakeUsed(Engine engine) {
  return std::exchange(used_ns_[EngineIndex(engine)], 0);
}

void SimulatedTenant::ExecutorLooks(int64_t now_ns) {
  if (killed() || now_ns < look_ns_) return;
  if (complete_ != retired_) {
    retired_ = complete_;
    turns_->OnRetired(retired_);
  }
  while ((on_ || waits_) && ready_ns_ <= now_ns) {
    const SimulatedWork& work = program_[next_ % program_.size()];
    if (issued_ns_ == 0) {
      waits_ = in_flight_.size() >= 64 || !turns_->MayIssue(work.engine);
      if (waits_) break;
      turns_->OnIssuing(work.engine);
    }
    if (issued_ns_ == 0 && work.issue_ns > 0) {
      look_ns_ = issued_ns_ = now_ns + work.issue_ns;
      return;
    }
    issued_ns_ = 0;
    const uint64_t bytes = work.engine == Engine::kCompute ? 0 : uint64_t{1} << 20;
    turns_->OnIssued(work.engine, ++tickets_, bytes);
    in_flight_.push_back({work, tickets_, work.ns, ready_ns_});
    ++next_;
    // A host that waits has its next command when this one is complete.
    ready_ns_ = work.host_ns < 0 ? ready_ns_ : INT64_MAX;
  }
  const int64_t nap_ns = absl::ToInt64Nanoseconds(turns_->NapAtMost(absl::Microseconds(50)));
  look_ns_ = now_ns + nap_ns;
}

SimulatedGpu::SimulatedGpu(policy::Policy* policy, ArbiterOptions options)
    : dispatches_(policy != nullptr) {
  for (const Engine engine : kAll) {
    options.engine = engine == Engine::kCompute ? 0 : 1;
    options.direction = engine == Engine::kCopyOut ? 1 : 0;
    arbiters_[EngineIndex(engine)] = std::make_unique<EngineArbiter>(options, policy);
    arbiters_[EngineIndex(engine)]->RecordTo(&recorder_, EngineIndex(engine));
  }
}

SimulatedTenant* SimulatedGpu::Add(const ContenderTerms& terms,
                                   std::vector<SimulatedWork> program) {
  tenants_.push_back(std::make_unique<SimulatedTenant>(terms, std::move(program)));
  SimulatedTenant* const tenant = tenants_.back().get();
  tenant->ready_ns_ = simulated_now_ns;
  for (const Engine engine : kAll) {
    tenant->contenders_[EngineIndex(engine)] = arbiters_[EngineIndex(engine)]->Add(terms);
  }
  return tenant;
}

void SimulatedGpu::Leave(SimulatedTenant* tenant) {
  for (const Engine engine : kAll) {
    arbiters_[EngineIndex(engine)]->Remove(tenant->contender(engine));
  }
  std::erase_if(tenants_, [tenant](const auto& one) { return one.get() == tenant; });
}

int64_t SimulatedGpu::now_ns() const { return simulated_now_ns; }

bool SimulatedGpu::Switches() {
  const SimulatedTenant* computes = nullptr;
  for (const auto& tenant : tenants_) {
    const auto& queue = tenant->in_flight_;
    if (queue.empty() || queue.front().work.engine != Engine::kCompute) continue;
    if (computes != nullptr) return false;
    computes = tenant.get();
  }
  if (computes == nullptr) return false;
  if (std::exchange(computed_, computes) != computes) switched_ns_ = simulated_now_ns + switch_ns;
  return simulated_now_ns < switched_ns_;
}

// Each engine gives the same time to every process that has work for it.
void SimulatedGpu::Work() {
  for (const auto& tenant : tenants_) {
    if (!tenant->killed() || simulated_now_ns < tenant->killed_ns_ + kKillNs) continue;
    tenant->in_flight_.clear();
  }
  const bool switches = Switches();
  for (const Engine engine : kAll) {
    if (engine == Engine::kCompute && switches) continue;
    int64_t busy = 0;
    for (const auto& tenant : tenants_) {
      const auto& queue = tenant->in_flight_;
      if (!queue.empty() && queue.front().work.engine == engine) ++busy;
    }
    for (const auto& tenant : tenants_) {
      auto& queue = tenant->in_flight_;
      if (queue.empty() || queue.front().work.engine != engine) continue;
      int64_t left_ns = kStepNs / std::max<int64_t>(busy, 1);
      while (left_ns > 0 && !queue.empty() && queue.front().work.engine == engine) {
        SimulatedTenant::Command& command = queue.front();
        const int64_t part_ns = std::min(left_ns, command.left_ns);
        command.left_ns -= part_ns;
        left_ns -= part_ns;
        tenant->used_ns_[EngineIndex(engine)] += part_ns;
        if (command.left_ns > 0) break;
        tenant->complete_ = command.ticket;
        tenant->latency_ns_ = simulated_now_ns - command.ready_ns;
        if (command.work.host_ns >= 0) {
          tenant->ready_ns_ = simulated_now_ns + command.work.host_ns;
          if (command.work.every_ns > 0) {
            tenant->ready_ns_ =
                std::max(simulated_now_ns, command.ready_ns + command.work.every_ns);
          }
          // Its client has the executor look at once.
          tenant->look_ns_ = std::min(tenant->look_ns_, simulated_now_ns + 20'000);
        }
        queue.pop_front();
      }
    }
  }
}

void SimulatedGpu::Arbitrate() {
  if (!dispatches_ || simulated_now_ns < look_ns_) return;
  look_ns_ = simulated_now_ns + kLookNs;
  for (const auto& tenant : tenants_) {
    if (tenant->lie) tenant->lie(tenant.get());
  }
  for (const Engine engine : kAll) {
    const size_t at = EngineIndex(engine);
    for (const auto& tenant : tenants_) {
      const SlotReading read = tenant->readers_[at].Read(tenant->line(engine), simulated_now_ns);
      if (tenant->killed()) {
        tenant->contenders_[at]->See({});
        continue;
      }
      tenant->contenders_[at]->See({.waiting = read.waiting > 0,
                                    .in_flight = read.in_flight,
                                    .worked = read.commands > 0,
                                    .executors = read.waiting,
                                    .commands = read.commands,
                                    .bytes = read.bytes});
    }
    arbiters_[at]->Look(simulated_now_ns);
    for (const auto& tenant : tenants_) {
      tenant->page_->device(0)[at].SetGrant(tenant->contenders_[at]->grant());
      const bool kill = tenant->contenders_[at]->TakeKill().has_value();
      if (kill && !tenant->killed()) tenant->killed_ns_ = simulated_now_ns;
    }
  }
}

void SimulatedGpu::Run(int64_t ns) {
  const int64_t end_ns = simulated_now_ns + ns;
  while (simulated_now_ns < end_ns) {
    Arbitrate();
    for (const auto& tenant : tenants_) tenant->ExecutorLooks(simulated_now_ns);
    simulated_now_ns += kStepNs;
    Work();
  }
}

std::vector<TraceSpan> SpansOf(const SimulatedGpu& gpu, TraceKind kind, uint32_t slice) {
  std::vector<TraceSpan> spans = gpu.recorder().Latest(FlightRecorder::kSpans);
  std::erase_if(spans, [&](const TraceSpan& s) { return s.kind != kind || s.slice != slice; });
  return spans;
}

}  // namespace warpline::dispatch
