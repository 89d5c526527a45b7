#include "scheduler/simulation/simulation.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "scheduler/placement/fit.h"
#include "scheduler/simulation/fairness.h"

namespace warpline::simulation {
namespace {

using warpline_placement::Decision;
using warpline_placement::Event;

constexpr uint64_t kDeviceBytes = 80ull << 30;
constexpr int64_t kStart = 1'800'000'000'000'000'000;

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string SizeOf(const Session& session) {
  if (session.members > 1) return "gang";
  if (session.milli < 1000) return "part";
  if (session.gpus == 1) return "1";
  return session.gpus < 8 ? "2-4" : "8";
}

placement::Want WantOf(const Session& session) {
  return {
      .memory_bytes = session.milli == 1000 ? kDeviceBytes : kDeviceBytes / 1000 * session.milli,
      .sm_percent = session.milli / 10,
      .weight = 1,
      .gpus = session.gpus};
}

double AtPart(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<size_t>(part * static_cast<double>(sorted.size()));
  return sorted[std::min(at, sorted.size() - 1)];
}

}  // namespace

class Simulation::State {
 public:
  State(SimulationOptions options, Workload workload)
      : options_(std::move(options)), workload_(std::move(workload)) {}

  absl::StatusOr<Figures> Run(const std::function<void(const Sample&)>& progress);

 private:
  struct Running {
    size_t got = 0;  // Leases of its members.
    double placed_s = 0;
    double left_s = 0;         // What it has to run yet.
    uint32_t interrupted = 0;  // How often its leases were taken back.
  };
  // Something that is to happen to a session.
  struct Happening {
    double at_s;
    size_t session;
    uint32_t interrupted;  // It ends unless it was interrupted since.
    bool operator>(const Happening& other) const {
      return std::tie(at_s, session, interrupted) >
             std::tie(other.at_s, other.session, other.interrupted);
    }
  };

  Decision Apply(Event event, double now_s, bool tick = false);
  void PutPool();
  absl::Status Arrive(size_t session, double now_s);
  absl::Status AskFor(size_t session, uint32_t member, double now_s);
  void Release(size_t session, double now_s);
  void End(size_t session, double now_s);
  // Those whose leases' time has come ask for others, for what they have not done yet.
  absl::Status Interrupt(double now_s);
  absl::Status TakePlaced(double now_s);
  void TakeSample(double now_s, Sample* sample);
  double BestFitBound() const;
  absl::Status Check() const;
  void Sum(Figures* figures) const;

  const SimulationOptions options_;
  const Workload workload_;
  std::unique_ptr<placement::RecordedAllocator> allocator_;
  std::vector<Running> running_;
  std::set<size_t> present_;  // Those that have arrived and not ended.
  std::vector<std::string> placed_;
  std::set<size_t> due_;
  std::vector<double> took_s_;  // Until their ends.
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
  std::vector<double> ask_seconds_;
  std::vector<double> waits_s_;
  std::vector<double> demand_, had_;  // By tenant, in devices.
  FairnessMeter fairness_;
  Figures figures_;
  double used_sum_ = 0;
  size_t used_samples_ = 0;
};

Decision Simulation::State::Apply(Event event, double now_s, bool tick) {
  event.set_at_ns(kStart + static_cast<int64_t>(now_s * 1e9));
  const bool ask = event.has_ask();
  const double before = ThreadSeconds();
  Decision decision = allocator_->Apply(event);
  const double took = ThreadSeconds() - before;
  (tick ? figures_.ticking_s : figures_.deciding_s) += took;
  if (ask) ask_seconds_.push_back(took);
  ++figures_.events;
  for (const std::string& ticket : decision.placed()) placed_.push_back(ticket);
  for (const auto& due : decision.due()) due_.insert(std::stoul(due.lease()));
  return decision;
}

void Simulation::State::PutPool() {
  for (const Organisation& organisation : workload_.organisations) {
    Event event;
    event.mutable_put_tenant()->set_name(organisation.name);
    event.mutable_put_tenant()->set_weight(organisation.weight);
    Apply(std::move(event), 0);
  }
  for (const Team& team : workload_.teams) {
    Event event;
    event.mutable_put_tenant()->set_name(team.name);
    event.mutable_put_tenant()->set_parent(workload_.organisations[team.organisation].name);
    event.mutable_put_tenant()->set_weight(team.weight);
    Apply(std::move(event), 0);
  }
  for (uint32_t s = 0; s < options_.servers; ++s) {
    Event event;
    auto* const server = event.mutable_put_server();
    server->set_name(absl::StrCat("host", s));
    server->set_up(true);
    for (uint32_t d = 0; d < options_.devices_each; ++d) {
      auto* const device = server->add_devices();
      device->set_uuid(absl::StrCat("GPU-", s, "-", d));
      device->set_capacity_bytes(kDeviceBytes);
      device->set_nvlink_group(1 + d / 4);
      device->set_numa_group(1 + d / 4);
    }
    Apply(std::move(event), 0);
  }
  figures_.deciding_s = 0;
}

absl::Status Simulation::State::AskFor(size_t number, uint32_t member, double now_s) {
  const Session& session = workload_.sessions[number];
  const placement::Want want = WantOf(session);
  Event event;
  auto* const ask = event.mutable_ask();
  ask->set_lease(absl::StrCat(number, ".", member));
  ask->set_ticket(ask->lease());
  ask->set_tenant(workload_.teams[session.tenant].name);
  ask->mutable_shape()->set_memory_bytes(want.memory_bytes);
  ask->mutable_shape()->set_sm_percent(want.sm_percent);
  ask->set_gpus(session.gpus);
  ask->set_sessions(1);
  if (session.members > 1) {
    ask->set_gang(absl::StrCat("gang", number));
    ask->set_members(session.members);
  }
  const Decision decision = Apply(std::move(event), now_s);
  if (decision.outcome() == warpline_placement::REFUSED) {
    return absl::InternalError(
        absl::StrCat("session ", number, " was refused: ", decision.message()));
  }
  if (decision.outcome() != warpline_placement::GRANTED) return absl::OkStatus();
  ++figures_.placements;
  Running& running = running_[number];
  if (++running.got < session.members) return absl::OkStatus();
  running.placed_s = now_s;
  if (running.interrupted == 0) waits_s_[number] = now_s - session.arrives_s;
  had_[session.tenant] += session.devices();
  happenings_.push({now_s + running.left_s, number, running.interrupted});
  return absl::OkStatus();
}

absl::Status Simulation::State::Arrive(size_t number, double now_s) {
  const Session& session = workload_.sessions[number];
  demand_[session.tenant] += session.devices();
  present_.insert(number);
  running_[number].left_s = session.lasts_s;
  for (uint32_t member = 0; member < session.members; ++member) {
    if (auto status = AskFor(number, member, now_s); !status.ok()) return status;
  }
  return TakePlaced(now_s);
}

// Who is placed is a client that asks again at the time that it was told; here that is at once.
absl::Status Simulation::State::TakePlaced(double now_s) {
  while (!placed_.empty()) {
    const std::vector<std::string> tickets = std::exchange(placed_, {});
    for (const std::string& ticket : tickets) {
      const size_t dot = ticket.find('.');
      const size_t number = std::stoul(ticket.substr(0, dot));
      const auto member = static_cast<uint32_t>(std::stoul(ticket.substr(dot + 1)));
      // The last member of a gang was answered when it asked.
      if (allocator_->allocator().pool().Find(ticket) != nullptr) continue;
      if (auto status = AskFor(number, member, now_s); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

void Simulation::State::Release(size_t number, double now_s) {
  const Session& session = workload_.sessions[number];
  for (uint32_t member = 0; member < session.members; ++member) {
    Event event;
    event.set_release(absl::StrCat(number, ".", member));
    Apply(std::move(event), now_s);
  }
  had_[session.tenant] -= session.devices();
}

void Simulation::State::End(size_t number, double now_s) {
  Release(number, now_s);
  const Session& session = workload_.sessions[number];
  demand_[session.tenant] -= session.devices();
  took_s_[number] = now_s - session.arrives_s;
  present_.erase(number);
}

absl::Status Simulation::State::Interrupt(double now_s) {
  for (const size_t number : std::exchange(due_, {})) {
    const Session& session = workload_.sessions[number];
    Running& running = running_[number];
    // It may have ended, or been interrupted for another of its leases.
    if (present_.count(number) == 0 || running.got != session.members) continue;
    figures_.taken_back += session.members;
    const double ran_s = now_s - running.placed_s;
    const double repeats_s = std::min(absl::ToDoubleSeconds(options_.restart), ran_s);
    figures_.repeated_hours += repeats_s * session.devices() / 3600;
    running.left_s = std::max(running.left_s - ran_s + repeats_s, 1.0);
    running.got = 0;
    ++running.interrupted;
    Release(number, now_s);
    for (uint32_t member = 0; member < session.members; ++member) {
      if (auto status = AskFor(number, member, now_s); !status.ok()) return status;
    }
  }
  return TakePlaced(now_s);
}

double Simulation::State::BestFitBound() const {
  placement::Pool pool;
  for (const placement::ServerState& server : allocator_->allocator().pool().servers()) {
    std::vector<placement::DeviceSpec> specs;
    for (const placement::DeviceState& device : server.devices) specs.push_back(device.spec);
    pool.PutServer(server.name, specs, true);
  }
  std::vector<size_t> order(present_.begin(), present_.end());
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Session& x = workload_.sessions[a];
    const Session& y = workload_.sessions[b];
    return std::pair(x.gpus * x.milli, x.members) > std::pair(y.gpus * y.milli, y.members);
  });
  double used = 0;
  for (const size_t number : order) {
    const Session& session = workload_.sessions[number];
    const placement::Want want = WantOf(session);
    uint32_t placed = 0;
    for (; placed < session.members; ++placed) {
      const auto site = placement::FindSite(pool, want, placement::Order::kPack);
      if (!site.has_value()) break;
      placement::Allocation allocation;
      allocation.id = absl::StrCat(number, ".", placed);
      allocation.server = pool.servers()[site->server].name;
      for (const uint32_t i : site->devices) {
        allocation.devices.push_back(pool.at({site->server, i}).spec.uuid);
      }
      allocation.memory_bytes = site->memory_bytes;
      allocation.sm_percent = want.sm_percent;
      pool.Add(std::move(allocation));
    }
    if (placed == session.members) {
      used += session.devices();
      continue;
    }
    for (uint32_t i = 0; i < placed; ++i) pool.Remove(absl::StrCat(number, ".", i));
  }
  return used;
}

void Simulation::State::TakeSample(double now_s, Sample* sample) {
  const double devices = options_.servers * options_.devices_each;
  double used = 0;
  for (const double had : had_) used += had;
  sample->hours = now_s / 3600;
  sample->used = used / devices;
  sample->waiting = allocator_->allocator().line().requests();
  sample->bound = sample->used;
  figures_.most_waiting = std::max<size_t>(figures_.most_waiting, sample->waiting);
  if (sample->waiting == 0) return;
  sample->bound = BestFitBound() / devices;
  if (sample->bound > 0) {
    figures_.fragmentation += std::max(0.0, 1 - sample->used / sample->bound);
    ++figures_.bounded_samples;
  }
  fairness_.Add(demand_, had_);
}

absl::Status Simulation::State::Check() const {
  for (const placement::ServerState& server : allocator_->allocator().pool().servers()) {
    for (const placement::DeviceState& device : server.devices) {
      if (device.leased_bytes > device.spec.capacity_bytes || device.leased_sm > 100) {
        return absl::InternalError(
            absl::StrCat(device.spec.uuid, " is leased more than once over"));
      }
    }
  }
  for (const size_t number : present_) {
    const size_t got = running_[number].got;
    if (got != 0 && got != workload_.sessions[number].members) {
      return absl::InternalError(absl::StrCat("session ", number, " has ", got, " of its leases"));
    }
  }
  return absl::OkStatus();
}

void Simulation::State::Sum(Figures* figures) const {
  *figures = figures_;
  std::vector<double> asks = ask_seconds_;
  std::sort(asks.begin(), asks.end());
  figures->p50_us = AtPart(asks, 0.5) * 1e6;
  figures->p99_us = AtPart(asks, 0.99) * 1e6;
  figures->most_us = asks.empty() ? 0 : asks.back() * 1e6;
  figures->used = used_samples_ == 0 ? 0 : used_sum_ / static_cast<double>(used_samples_);
  if (figures->bounded_samples != 0) {
    figures->fragmentation /= static_cast<double>(figures->bounded_samples);
  }
  figures->fairness = fairness_.Jain();
  std::vector<double> took(workload_.teams.size()), ran(workload_.teams.size());
  for (size_t i = workload_.running; i < workload_.sessions.size(); ++i) {
    const Session& session = workload_.sessions[i];
    took[session.tenant] += took_s_[i] * session.devices();
    ran[session.tenant] += session.lasts_s * session.devices();
  }
  for (size_t t = 0; t < took.size(); ++t) {
    const double behind = ran[t] == 0 ? 1 : took[t] / ran[t];
    figures->most_behind = std::max(figures->most_behind, behind);
    figures->mean_behind += behind / static_cast<double>(took.size());
  }
  std::map<std::string, std::vector<double>> by_size;
  for (size_t i = workload_.running; i < workload_.sessions.size(); ++i) {
    by_size[SizeOf(workload_.sessions[i])].push_back(waits_s_[i]);
    by_size["all"].push_back(waits_s_[i]);
  }
  for (auto& [size, waits] : by_size) {
    std::sort(waits.begin(), waits.end());
    Waits& to = figures->waits[size];
    to.sessions = waits.size();
    for (const double wait : waits) {
      to.mean_s += wait / static_cast<double>(waits.size());
      if (wait > 0) ++to.waited;
    }
    to.p50_s = AtPart(waits, 0.5);
    to.p99_s = AtPart(waits, 0.99);
    to.most_s = waits.back();
  }
}

absl::StatusOr<Figures> Simulation::State::Run(const std::function<void(const Sample&)>& progress) {
  placement::AllocatorOptions options;
  options.order = options_.order;
  options.patience = options_.patience;
  options.epoch = options_.epoch;
  options.notice = options_.notice;
  // Who waits here asks when it is placed, and not before.
  options.silence = absl::Hours(24 * 365);
  options.max_waiting = options.max_waiting_of_tenant = 1u << 20;
  auto created = placement::RecordedAllocator::Create(
      options, {.folder = options_.decisions, .file_bytes = 64u << 20, .files = 1000});
  if (!created.ok()) return created.status();
  allocator_ = *std::move(created);
  const size_t sessions = workload_.sessions.size();
  running_.resize(sessions);
  waits_s_.resize(sessions);
  took_s_.resize(sessions);
  demand_.resize(workload_.teams.size());
  had_.resize(workload_.teams.size());
  fairness_ = FairnessMeter(workload_.organisations, workload_.teams);
  PutPool();
  const double tick_s = absl::ToDoubleSeconds(options_.tick);
  const double sample_s = absl::ToDoubleSeconds(options_.sample);
  double next_tick = tick_s;
  double next_sample = sample_s;
  size_t arrived = 0;
  double now_s = 0;
  while (arrived < sessions || !happenings_.empty()) {
    const double arrival = arrived < sessions ? workload_.sessions[arrived].arrives_s : HUGE_VAL;
    const double happening = happenings_.empty() ? HUGE_VAL : happenings_.top().at_s;
    const bool waits = allocator_->allocator().line().requests() != 0;
    // Where nothing waits, time passing changes nothing.
    const double tick = waits ? next_tick : HUGE_VAL;
    now_s = std::min({arrival, happening, tick, arrived < sessions ? next_sample : HUGE_VAL});
    while (next_tick <= now_s) next_tick += tick_s;
    absl::Status status;
    if (now_s == happening) {
      const Happening next = happenings_.top();
      happenings_.pop();
      if (next.interrupted == running_[next.session].interrupted) {
        End(next.session, now_s);
        status = TakePlaced(now_s);
      }
    } else if (now_s == arrival) {
      status = Arrive(arrived++, now_s);
    } else if (now_s == tick) {
      Event event;
      event.set_advance(true);
      Apply(std::move(event), now_s, /*tick=*/true);
      status = TakePlaced(now_s);
      if (status.ok()) status = Interrupt(now_s);
    } else {
      next_sample += sample_s;
      Sample sample;
      TakeSample(now_s, &sample);
      sample.arrived = arrived - std::min(arrived, workload_.running);
      used_sum_ += sample.used;
      ++used_samples_;
      if (progress) progress(sample);
      status = Check();
    }
    if (!status.ok()) return status;
    if (arrived == sessions && figures_.days == 0) figures_.days = now_s / 86400;
  }
  if (!present_.empty()) return absl::InternalError("some sessions never ran");
  if (!allocator_->log_status().ok()) return allocator_->log_status();
  figures_.sessions = sessions - workload_.running;
  Figures figures;
  Sum(&figures);
  return figures;
}

Simulation::Simulation(SimulationOptions options, Workload workload)
    : state_(std::make_unique<State>(std::move(options), std::move(workload))) {}
Simulation::~Simulation() = default;

absl::StatusOr<Figures> Simulation::Run(const std::function<void(const Sample&)>& progress) {
  return state_->Run(progress);
}

}  // namespace warpline::simulation
