#include "server/hostlink/dispatch_gate/executor_turns.h"

#include <algorithm>
#include <utility>

namespace warpline::dispatch {
namespace {

constexpr Engine kAllEngines[kEngines] = {Engine::kCompute, Engine::kCopyIn, Engine::kCopyOut};

// The number of commands ahead before it is known how long a command takes.
constexpr int64_t kUnknownAhead = 8;
// One command runs and one follows it without a gap.
constexpr uint64_t kLeastAhead = 2;
// No command would begin once the expected session has come.
constexpr uint64_t kBriefLeastAhead = 1;
constexpr int64_t kAverageOver = 32;
// The longest command is forgotten over this many.
constexpr int64_t kLongestOver = 256;
// Between two looks while the engine is the executor's, and when its turn is near.
constexpr int64_t kShortNapNs = 50'000;
constexpr int64_t kNearNapNs = 25'000;

}  // namespace

ExecutorTurns::ExecutorTurns(const SessionGates* gates, size_t device)
    : gates_(gates),
      device_(device),
      slots_(gates == nullptr ? nullptr : &gates->device(device)),
      ranks_(gates == nullptr ? nullptr : &gates->ranks(device)) {}

void ExecutorTurns::SetPriority(int32_t priority, bool makes_way) {
  if (slots_ == nullptr) return;
  rank_ = RankOf(priority);
  makes_way_ = makes_way;
  ShowRank();
}

bool ExecutorTurns::IsFreeBesideOthers(Engine engine, uint64_t bytes) {
  const uint32_t sharers = slot(engine).server.sharers.load(std::memory_order_relaxed);
  return gates_->free_copies(device_, engine).Take(bytes, gates_->now_ns(), sharers);
}

bool ExecutorTurns::MakesWayNow() {
  if (!ranks_->BeginsAbove(rank_)) {
    makes_way_since_ns_ = 0;
    return false;
  }
  const int64_t now_ns = gates_->now_ns();
  if (makes_way_since_ns_ == 0) makes_way_since_ns_ = now_ns;
  return now_ns - makes_way_since_ns_ < kMostWayNs;
}

void ExecutorTurns::ShowRank() {
  const InFlight& own = in_flight(Engine::kCompute);
  const bool busy = own.commands > 0 || issuing_ == Engine::kCompute;
  const bool waits = waits_for_ == Engine::kCompute;
  const uint32_t rank = busy || waits ? rank_ : 0;
  const bool beginning = rank != 0 && !busy;
  if (rank == shown_rank_ && beginning == shown_beginning_) return;
  // It is never missing meanwhile.
  if (rank != 0) CountRank(rank, beginning, 1);
  if (shown_rank_ != 0) CountRank(shown_rank_, shown_beginning_, -1u);
  shown_rank_ = rank;
  shown_beginning_ = beginning;
}

void ExecutorTurns::CountRank(uint32_t rank, bool beginning, uint32_t by) {
  RankLine::Rank& counts = ranks_->ranks[rank - 1];
  if (beginning) counts.beginning.fetch_add(by, std::memory_order_relaxed);
  counts.at_work.fetch_add(by, std::memory_order_relaxed);
  ranks_->raised.fetch_add(by, std::memory_order_relaxed);
}

bool ExecutorTurns::Ask(Engine engine, Grant grant) {
  if (grant.state() != Grant::State::kClosed && Outranked(engine)) {
    if (MakesWayNow())
      grant = Grant::Closed(0);
    else
      grant = (grant.open() ? Grant::Shared() : grant).Brief();
  }
  if (grant.open()) {
    limited_ = Engine::kNothing;
    StopWaiting();
    return true;
  }
  limited_ = engine;
  likely_ns_ = 0;
  const bool shared = grant.state() == Grant::State::kShared;
  brief_ = grant.brief();
  ahead_ns_ = brief_ ? kBriefAheadNs : shared ? kSharedAheadNs : kAheadNs;
  switch (grant.state()) {
    case Grant::State::kShared:
      StopWaiting();
      return HasRoom(engine, 0);
    case Grant::State::kTurn:
      if (HasRoom(engine, grant.time_ns())) {
        StopWaiting();
        return true;
      }
      break;
    default:
      likely_ns_ = grant.time_ns();
      break;
  }
  // An executor with work in flight wants the engine without saying so. But that work may end
  // before another slice's turn does.
  WaitFor(engine);
  return false;
}

// The mean decides how much keeps an engine busy. But a program's long kernels follow each other,
// and by the mean of the short ones before them many would be in flight. So an executor that must
// not be in the way uses the longest.
int64_t ExecutorTurns::LengthOf(const InFlight& own) const {
  if (own.expected_ns == 0) return ahead_ns_ / kUnknownAhead;
  return brief_ ? std::max(own.expected_ns, own.longest_ns) : own.expected_ns;
}

bool ExecutorTurns::HasRoom(Engine engine, int64_t until_ns) {
  const InFlight& own = in_flight(engine);
  const auto commands = static_cast<int64_t>(own.commands);
  if (until_ns != 0) {
    for (const Engine other : kAllEngines) {
      if (other != engine && in_flight(other).commands > 0) return false;
    }
    // A command that would begin after the turn must not be issued.
    if (gates_->now_ns() + commands * own.expected_ns >= until_ns) return false;
  }
  return own.commands < (brief_ ? kBriefLeastAhead : kLeastAhead) ||
         commands * LengthOf(own) < ahead_ns_;
}

void ExecutorTurns::WaitFor(Engine engine) {
  if (waits_for_ == engine) return;
  StopWaiting();
  waits_for_ = engine;
  shows_kernel_ = false;
  slot(engine).worker.executors_waiting.fetch_add(1, std::memory_order_relaxed);
  if (engine == Engine::kCompute) ShowRank();
}

void ExecutorTurns::StopWaiting() {
  if (waits_for_ == Engine::kNothing) return;
  slot(waits_for_).worker.executors_waiting.fetch_sub(1, std::memory_order_relaxed);
  if (std::exchange(waits_for_, Engine::kNothing) == Engine::kCompute) ShowRank();
}

void ExecutorTurns::ShowKernel(KernelFacts kernel) {
  if (kernel.name != 0) kernel.expected_ns = gates_->kernel_times().ExpectedNs(kernel.name);
  gates_->kernel(device_).Write(kernel);
  shows_kernel_ = true;
}

void ExecutorTurns::Note(Engine engine, uint64_t ticket, uint64_t bytes, uint64_t kernel) {
  if (!issued_.empty() && issued_.back().last == ticket) return;
  if (engine == Engine::kCompute) ShowShare();
  if (bytes > 0) slot(engine).worker.bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (in_flight(engine).commands++ == 0) {
    const int64_t now_ns = gates_->now_ns();
    if (std::exchange(issuing_, Engine::kNothing) == engine) {
      in_flight(engine).since_ns = now_ns;
    } else {
      BeginWork(engine, now_ns);
    }
  }
  if (!issued_.empty() && issued_.back().engine == engine && issued_.back().kernel == kernel) {
    issued_.back().last = ticket;
    ++issued_.back().count;
  } else {
    issued_.push_back({engine, kernel, ticket, 1});
  }
}

void ExecutorTurns::ShowShare() {
  const uint32_t share = gates_->share();
  if (share == share_) return;
  share_ = share;
  slot(Engine::kCompute).worker.share.store(share, std::memory_order_relaxed);
}

void ExecutorTurns::Settle(uint64_t ticket) {
  const int64_t now_ns = gates_->now_ns();
  std::array<uint64_t, kEngines> counts{};
  complete_.clear();
  const auto take = [&](const Run& run, uint64_t count) {
    counts[EngineIndex(run.engine)] += count;
    if (run.kernel != 0) complete_.emplace_back(run.kernel, count);
  };
  while (!issued_.empty() && issued_.front().last <= ticket) {
    take(issued_.front(), issued_.front().count);
    issued_.pop_front();
  }
  if (!issued_.empty()) {
    // Commands of no engine may stand between those of a run, so this is how many are left at most.
    Run& run = issued_.front();
    const uint64_t left = std::min(run.count, run.last - ticket);
    if (left < run.count) take(run, run.count - left);
    run.count = left;
  }
  for (const Engine engine : kAllEngines) {
    const uint64_t count = counts[EngineIndex(engine)];
    if (count == 0) continue;
    if (engine == Engine::kCompute && !complete_.empty()) Learn(count, now_ns);
    Complete(engine, count, now_ns);
  }
}

// The time since the last mark is divided among the kernels by what is known of them. A kernel
// without a known time has taken the mean.
void ExecutorTurns::Learn(uint64_t commands, int64_t now_ns) {
  const auto passed_ns = static_cast<double>(now_ns - in_flight(Engine::kCompute).since_ns);
  if (passed_ns <= 0) return;
  KernelTimes& times = gates_->kernel_times();
  const double mean_ns = passed_ns / static_cast<double>(commands);
  const auto expected = [&](uint64_t kernel) {
    const int64_t known_ns = times.ExpectedNs(kernel);
    return known_ns == 0 ? mean_ns : static_cast<double>(known_ns);
  };
  uint64_t others = commands;
  double sum_ns = 0;
  for (const auto& [kernel, count] : complete_) {
    others -= count;
    sum_ns += expected(kernel) * static_cast<double>(count);
  }
  const double scale = passed_ns / (sum_ns + static_cast<double>(others) * mean_ns);
  for (const auto& [kernel, count] : complete_) {
    times.Learn(kernel, static_cast<int64_t>(expected(kernel) * scale), count);
  }
}

void ExecutorTurns::Complete(Engine engine, uint64_t commands, int64_t now_ns) {
  InFlight& own = in_flight(engine);
  const int64_t each_ns =
      std::max<int64_t>(0, now_ns - own.since_ns) / static_cast<int64_t>(commands);
  // Programs mix long and short ones: what counts is how long a number of them takes.
  const auto part = static_cast<int64_t>(std::min<uint64_t>(commands, kAverageOver));
  own.expected_ns = own.expected_ns == 0
                        ? each_ns
                        : own.expected_ns + (each_ns - own.expected_ns) * part / kAverageOver;
  own.expected_ns = std::max<int64_t>(own.expected_ns, 1);
  own.longest_ns = std::max(each_ns, own.longest_ns - own.longest_ns * part / kLongestOver);
  own.since_ns = now_ns;
  own.commands -= commands;
  slot(engine).worker.commands.fetch_add(commands, std::memory_order_relaxed);
  if (own.commands == 0) EndWork(engine, now_ns);
}

void ExecutorTurns::BeginIssuing(Engine engine) {
  issuing_ = engine;
  BeginWork(engine, gates_->now_ns());
}

void ExecutorTurns::EndIssuing() {
  EndWork(std::exchange(issuing_, Engine::kNothing), gates_->now_ns());
}

void ExecutorTurns::BeginWork(Engine engine, int64_t now_ns) {
  in_flight(engine).since_ns = now_ns;
  WorkerLine& line = slot(engine).worker;
  if (line.executors_in_flight.fetch_add(1, std::memory_order_acq_rel) == 0) {
    line.busy_since_ns.store(now_ns, std::memory_order_relaxed);
  }
  if (engine == Engine::kCompute) ShowRank();
}

void ExecutorTurns::EndWork(Engine engine, int64_t now_ns) {
  WorkerLine& line = slot(engine).worker;
  const int64_t since_ns = line.busy_since_ns.load(std::memory_order_relaxed);
  const bool was_last = line.executors_in_flight.fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (was_last && since_ns > 0 && since_ns < now_ns) {
    line.busy_ns.fetch_add(static_cast<uint64_t>(now_ns - since_ns), std::memory_order_relaxed);
  }
  if (engine == Engine::kCompute) ShowRank();
}

uint64_t ExecutorTurns::MarkEvery(uint64_t most) const {
  if (limited_ == Engine::kNothing) return most;
  const int64_t ahead = ahead_ns_ / LengthOf(in_flight_[EngineIndex(limited_)]);
  return std::clamp<uint64_t>(static_cast<uint64_t>(ahead / 2), 1, most);
}

absl::Duration ExecutorTurns::NapAtMost(absl::Duration nap) const {
  if (limited_ == Engine::kNothing || ahead_ns_ == kSharedAheadNs) return nap;
  // Where nothing follows a command, the engine is idle until the executor has seen its end.
  int64_t most_ns = brief_ ? kNearNapNs : kShortNapNs;
  if (waits_for_ != Engine::kNothing) {
    const int64_t left_ns = likely_ns_ == 0 ? 0 : likely_ns_ - gates_->now_ns();
    most_ns = std::max(kNearNapNs, left_ns - 2 * kShortNapNs);
  }
  return std::min(nap, absl::Nanoseconds(most_ns));
}

void ExecutorTurns::Leave() {
  if (slots_ == nullptr) return;
  StopWaiting();
  OnNotIssued();
  if (issued_.empty()) return;
  const int64_t now_ns = gates_->now_ns();
  for (const Engine engine : kAllEngines) {
    if (std::exchange(in_flight(engine).commands, 0) > 0) EndWork(engine, now_ns);
  }
  issued_.clear();
}

}  // namespace warpline::dispatch
