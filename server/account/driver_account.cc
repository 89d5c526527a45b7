#include "server/account/driver_account.h"

#include <algorithm>
#include <utility>

namespace warpline::server {
namespace {

using dispatch::GpuUse;
using dispatch::SliceUse;
using dispatch::WorkerUse;

// The longest that the driver samples at once.
constexpr int64_t kMostSpanUs = 1'000'000;
constexpr int64_t kWhole = 1000;

}  // namespace

std::vector<Overdraft> DriverAccount::Observe(int64_t now_ns,
                                              const std::vector<nvml::ProcessUse>& samples,
                                              const GpuUse& use) {
  for (const SliceUse& slice : use.slices) NoteSlice(slice);
  NoteSamples(samples);
  if (!began_) {
    BeginWindow(now_ns, use);
    return {};
  }
  if (now_ns - window_ns_ < absl::ToInt64Nanoseconds(options_.window)) return {};
  std::vector<Overdraft> found = Judge(now_ns, use);
  BeginWindow(now_ns, use);
  return found;
}

void DriverAccount::NoteSlice(const SliceUse& use) {
  Slice& slice = slices_[use.slice];
  // One that is there for the first time, or again, has counted from 0.
  if (slice.vgpu != use.vgpu) {
    slice.vgpu = use.vgpu;
    slice.noted_sum_ns = 0;
    slice.others_sum_ns = 0;
  }
  slice.tenant = use.tenant;
  slice.share = use.share;
  const int64_t noted_ns = use.noted_ns - std::exchange(slice.noted_sum_ns, use.noted_ns);
  slice.noted_ns += noted_ns;
  slice.others_wanted_ns +=
      use.others_wanted_ns - std::exchange(slice.others_sum_ns, use.others_wanted_ns);
  if (!named_) worked_ns_ += noted_ns;
  for (const WorkerUse& worker : use.workers) NoteWorker(worker, use.slice);
}

void DriverAccount::NoteWorker(const WorkerUse& worker, const std::string& slice) {
  // A process of many sessions is nobody's; that the driver names it is known all the same.
  const uint64_t session = worker.trusted ? 0 : worker.session;
  const auto [at, fresh] = processes_.try_emplace(worker.pid);
  Process& process = at->second;
  if (fresh || process.session != session || process.since_us != worker.since_us) {
    process = {session, worker.trusted ? "" : slice, worker.since_us, 0, worker.busy_ns, 0};
  }
  process.noted_ns = worker.busy_ns - process.busy_ns;
}

void DriverAccount::NoteSamples(const std::vector<nvml::ProcessUse>& samples) {
  int64_t newest_us = since_us_;
  int64_t percents = 0;
  for (const nvml::ProcessUse& sample : samples) {
    newest_us = std::max(newest_us, sample.time_us);
    percents += sample.percent;
  }
  // What the first ones are about is not known.
  if (since_us_ != 0) covered_us_ += std::min(newest_us - since_us_, kMostSpanUs);
  for (const nvml::ProcessUse& sample : samples) {
    const auto found = processes_.find(sample.pid);
    if (found == processes_.end()) continue;
    named_ |= sample.percent > 0;
    const int64_t begin_us =
        std::max({since_us_, found->second.since_us, sample.time_us - kMostSpanUs});
    if (since_us_ == 0 || sample.time_us <= begin_us) continue;
    found->second.used_us +=
        (sample.time_us - begin_us) * sample.percent / std::max<int64_t>(percents, 100);
  }
  since_us_ = newest_us;
}

void DriverAccount::BeginWindow(int64_t now_ns, const GpuUse& use) {
  began_ = true;
  window_ns_ = now_ns;
  looked_ns_ = use.looked_ns;
  covered_us_ = 0;
  processes_.clear();
  std::map<std::string, Slice> former = std::exchange(slices_, {});
  for (const SliceUse& one : use.slices) {
    Slice& slice = slices_[one.slice];
    slice = std::move(former[one.slice]);
    slice.noted_ns = 0;
    slice.others_wanted_ns = 0;
    for (const WorkerUse& worker : one.workers) NoteWorker(worker, one.slice);
  }
}

std::vector<Overdraft> DriverAccount::Judge(int64_t now_ns, const GpuUse& use) {
  Forget(now_ns);
  std::vector<Overdraft> found;
  const int64_t window_ns = now_ns - window_ns_;
  const int64_t looked_ns = use.looked_ns - looked_ns_;
  // With samples of less than half of the window, or looks at less than a quarter, it is not known
  // what was going on.
  if (covered_us_ < window_ns / 1000 / 2 || looked_ns < window_ns / 4) return found;
  for (const auto& [name, slice] : slices_) JudgeSlice(now_ns, looked_ns, name, slice, &found);
  return found;
}

int64_t DriverAccount::UsedBy(const std::string& slice, Overdraft* over) const {
  int64_t used_us = 0;
  int64_t most_us = 0;
  for (const auto& [pid, process] : processes_) {
    if (process.session == 0 || process.slice != slice) continue;
    used_us += process.used_us;
    const int64_t beyond_us = process.used_us - process.noted_ns / 1000;
    if (over->session != 0 && beyond_us <= most_us) continue;
    most_us = beyond_us;
    over->session = process.session;
    over->pid = pid;
  }
  return used_us;
}

void DriverAccount::JudgeSlice(int64_t now_ns, int64_t looked_ns, const std::string& name,
                               const Slice& slice, std::vector<Overdraft>* found) {
  // What nobody else wanted is nobody's loss.
  if (slice.others_wanted_ns * 2 < looked_ns) return;
  Overdraft over;
  over.slice = name;
  over.tenant = slice.tenant;
  over.share = slice.share;
  over.noted = slice.noted_ns * kWhole / looked_ns;
  over.used = UsedBy(name, &over) * kWhole / covered_us_;
  if (over.session == 0) return;
  const int64_t beyond = over.used - over.noted;
  Record& record = records_[name];
  record.judged_ns = now_ns;
  if (beyond > options_.end_above && over.used > over.share + options_.above_share) {
    over.windows = ++record.windows;
  } else {
    const bool recent = record.ended_ns != 0 &&
                        now_ns - record.ended_ns < absl::ToInt64Nanoseconds(options_.memory);
    record.windows = recent ? options_.windows - 1 : 0;
  }
  if (beyond <= options_.debit_above || over.used <= over.share) return;
  over.stolen_ns = beyond * looked_ns / kWhole;
  over.ends = over.windows >= options_.windows;
  if (over.ends) {
    record.ended_ns = now_ns;
    record.windows = options_.windows - 1;
  }
  found->push_back(std::move(over));
}

void DriverAccount::Forget(int64_t now_ns) {
  const int64_t memory_ns = absl::ToInt64Nanoseconds(options_.memory);
  std::erase_if(records_,
                [&](const auto& entry) { return now_ns - entry.second.judged_ns >= memory_ns; });
  while (records_.size() > kMostRecords) {
    records_.erase(std::min_element(
        records_.begin(), records_.end(),
        [](const auto& a, const auto& b) { return a.second.judged_ns < b.second.judged_ns; }));
  }
}

}  // namespace warpline::server
