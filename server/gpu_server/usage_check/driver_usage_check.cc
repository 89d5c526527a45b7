#include "server/gpu_server/usage_check/driver_usage_check.h"

#include <algorithm>
#include <utility>

namespace warpline::server {
namespace {

using dispatch::GpuUse;
using dispatch::SliceUse;
using dispatch::WorkerUse;

constexpr int64_t kWhole = 1000;

double Part(int64_t some_ns, int64_t whole_ns) {
  return whole_ns <= 0
             ? 0
             : std::clamp(static_cast<double>(some_ns) / static_cast<double>(whole_ns), 0.0, 1.0);
}

}  // namespace

std::vector<Overdraft> DriverUsageCheck::Observe(int64_t now_ns,
                                                 const std::vector<nvml::ProcessUse>& samples,
                                                 const GpuUse& use) {
  Forget(now_ns, use);
  const bool first = read_ns_ == 0;
  Meet(now_ns, use);
  // Without a new sample the next reading is about this time, too.
  if (samples.empty() && !first) return {};
  const Reading reading = Read(now_ns, samples, use);
  std::vector<Overdraft> found;
  for (const SliceUse& slice : use.slices) Draw(now_ns, reading, slice, &found);
  read_ns_ = now_ns;
  looked_ns_ = use.looked_ns;
  return found;
}

void DriverUsageCheck::Meet(int64_t now_ns, const GpuUse& use) {
  for (const SliceUse& one : use.slices) {
    const auto [at, fresh] = slices_.try_emplace(one.slice, options_.excess);
    Slice& slice = at->second;
    // One that is there for the first time, or again, has counted from 0.
    if (fresh || slice.vgpu != one.vgpu) {
      slice.vgpu = one.vgpu;
      slice.noted_sum_ns = 0;
      slice.others_sum_ns = 0;
      slice.worked_sum_ns = 0;
    }
    const int64_t worked_ns = one.noted_ns - std::exchange(slice.worked_sum_ns, one.noted_ns);
    if (!named_) worked_ns_ += worked_ns;
    slice.tenant = one.tenant;
    slice.share = one.share;
    slice.seen_ns = now_ns;
    for (const WorkerUse& worker : one.workers) MeetWorker(worker, one.slice);
  }
}

void DriverUsageCheck::MeetWorker(const WorkerUse& worker, const std::string& slice) {
  // A process of many sessions is nobody's; that the driver names it is known all the same. That of
  // an MPS group is the group's, and none of its sessions'.
  const uint64_t session = worker.trusted ? 0 : worker.session;
  const auto [at, fresh] = processes_.try_emplace(worker.pid);
  Process& process = at->second;
  if (fresh || process.session != session || process.since_us != worker.since_us) {
    process = {session, worker.trusted ? "" : slice, worker.since_us, worker.busy_ns, 0};
  }
}

DriverUsageCheck::Reading DriverUsageCheck::Read(int64_t now_ns,
                                                 const std::vector<nvml::ProcessUse>& samples,
                                                 const GpuUse& use) {
  Reading reading;
  int64_t newest_us = since_us_;
  int64_t percents = 0;
  for (const nvml::ProcessUse& sample : samples) {
    newest_us = std::max(newest_us, sample.time_us);
    percents += sample.percent;
  }
  const int64_t passed_ns = now_ns - read_ns_;
  reading.looked_ns = use.looked_ns - looked_ns_;
  const bool known = read_ns_ != 0 && since_us_ != 0 && newest_us > since_us_ &&
                     passed_ns <= absl::ToInt64Nanoseconds(options_.longest_reading) &&
                     // The dispatcher's thread came to look for a quarter of the time or more.
                     reading.looked_ns >= passed_ns / 4;
  if (known) reading.span_ns = passed_ns;
  for (const nvml::ProcessUse& sample : samples) {
    const auto process = processes_.find(sample.pid);
    if (process == processes_.end()) continue;
    named_ |= sample.percent > 0;
    if (sample.time_us <= std::max(since_us_, process->second.since_us)) continue;
    reading.parts[sample.pid] +=
        sample.percent / static_cast<double>(std::max<int64_t>(percents, 100));
  }
  since_us_ = newest_us;
  return reading;
}

void DriverUsageCheck::Draw(int64_t now_ns, const Reading& reading, const SliceUse& use,
                            std::vector<Overdraft>* found) {
  Slice& slice = slices_.at(use.slice);
  const int64_t looked_ns = reading.looked_ns;
  const int64_t noted_ns = use.noted_ns - std::exchange(slice.noted_sum_ns, use.noted_ns);
  const int64_t others_ns =
      use.others_wanted_ns - std::exchange(slice.others_sum_ns, use.others_wanted_ns);
  const double noted = Part(noted_ns, looked_ns);
  const double expected = std::max(noted, std::exchange(slice.noted_before, noted));
  // What nobody else wanted is nobody's loss.
  const bool contested = reading.span_ns > 0 && others_ns * 2 >= looked_ns;
  double seen = 0;
  for (const WorkerUse& worker : use.workers) {
    Process& process = processes_.at(worker.pid);
    const int64_t busy_ns = worker.busy_ns - std::exchange(process.busy_ns, worker.busy_ns);
    const auto part = reading.parts.find(worker.pid);
    const double had = part == reading.parts.end() ? 0 : part->second;
    if (worker.trusted || !contested) continue;
    seen += had;
    process.beyond_ns += static_cast<int64_t>(had * static_cast<double>(reading.span_ns)) - busy_ns;
  }
  const bool own = std::any_of(use.workers.begin(), use.workers.end(),
                               [](const WorkerUse& worker) { return !worker.trusted; });
  if (!contested || !own) return;
  const double least = ended_ns_.contains(Payer(use.slice, slice)) ? options_.end_evidence / 2 : 0;
  seen = std::min(seen, 1.0);
  slice.drift.Draw(seen, expected, 1.0 / options_.dependence, least, options_.end_evidence);
  if (slice.drift.evidence() <= least) BeginAnew(use.slice, &slice);
  const auto span = static_cast<double>(reading.span_ns);
  slice.lasted_ns += reading.span_ns;
  slice.used_ns += static_cast<int64_t>(seen * span);
  slice.noted_ns += static_cast<int64_t>(noted * span);
  slice.owed_ns += static_cast<int64_t>((seen - noted) * span);
  const bool ends = Judge(&slice);
  Debit(now_ns, use.slice, ends, &slice, found);
}

void DriverUsageCheck::BeginAnew(const std::string& name, Slice* slice) {
  slice->lasted_ns = slice->used_ns = slice->noted_ns = slice->owed_ns = 0;
  for (auto& [pid, process] : processes_) {
    if (process.slice == name) process.beyond_ns = 0;
  }
}

bool DriverUsageCheck::Judge(Slice* slice) {
  if (slice->drift.evidence() < options_.debit_evidence || slice->lasted_ns <= 0) return false;
  const int64_t used = slice->used_ns * kWhole / slice->lasted_ns;
  const int64_t noted = slice->noted_ns * kWhole / slice->lasted_ns;
  if (used <= slice->share || slice->owed_ns <= 0) return false;
  slice->debt_ns = std::min(slice->debt_ns + std::exchange(slice->owed_ns, 0),
                            absl::ToInt64Nanoseconds(options_.most_debt));
  return slice->drift.evidence() >= options_.end_evidence && used - noted >= options_.end_above &&
         used >= slice->share + options_.above_share;
}

void DriverUsageCheck::Debit(int64_t now_ns, const std::string& name, bool ends, Slice* slice,
                             std::vector<Overdraft>* found) {
  const bool due = slice->debited_ns == 0 ||
                   now_ns - slice->debited_ns >= absl::ToInt64Nanoseconds(options_.debit_every);
  if (slice->debt_ns <= 0 || !(due || ends)) return;
  Overdraft over;
  int64_t most_ns = 0;
  for (const auto& [pid, process] : processes_) {
    if (process.session == 0 || process.slice != name) continue;
    if (over.session != 0 && process.beyond_ns <= most_ns) continue;
    most_ns = process.beyond_ns;
    over.session = process.session;
    over.pid = pid;
  }
  if (over.session == 0) return;
  over.slice = name;
  over.tenant = slice->tenant;
  over.share = slice->share;
  const int64_t lasted_ns = std::max<int64_t>(slice->lasted_ns, 1);
  over.used = slice->used_ns * kWhole / lasted_ns;
  over.noted = slice->noted_ns * kWhole / lasted_ns;
  over.lasted = absl::Nanoseconds(slice->lasted_ns);
  over.stolen_ns = std::min(slice->debt_ns, absl::ToInt64Nanoseconds(options_.debit));
  over.ends = ends;
  slice->debt_ns -= over.stolen_ns;
  slice->debited_ns = now_ns;
  if (ends) {
    ended_ns_[Payer(name, *slice)] = now_ns;
    slice->drift = DriftEvidence(options_.excess);
    BeginAnew(name, slice);
  }
  found->push_back(std::move(over));
}

void DriverUsageCheck::Forget(int64_t now_ns, const GpuUse& use) {
  const auto there = [&use](pid_t pid) {
    return std::any_of(use.slices.begin(), use.slices.end(), [pid](const SliceUse& slice) {
      return std::any_of(slice.workers.begin(), slice.workers.end(),
                         [pid](const WorkerUse& worker) { return worker.pid == pid; });
    });
  };
  std::erase_if(processes_, [&](const auto& entry) { return !there(entry.first); });
  const int64_t memory_ns = absl::ToInt64Nanoseconds(options_.memory);
  std::erase_if(slices_,
                [&](const auto& entry) { return now_ns - entry.second.seen_ns >= memory_ns; });
  std::erase_if(ended_ns_, [&](const auto& entry) { return now_ns - entry.second >= memory_ns; });
  while (slices_.size() > kMostSlices) {
    slices_.erase(std::min_element(
        slices_.begin(), slices_.end(),
        [](const auto& a, const auto& b) { return a.second.seen_ns < b.second.seen_ns; }));
  }
}

}  // namespace warpline::server
