#include "server/worker/order/completion.h"

#include <algorithm>
#include <iterator>

#include "common/log/log.h"
#include "server/worker/executors/session_log.h"

namespace warpline::worker {

void Completion::AddExecutor(std::shared_ptr<Executor> executor) {
  MutexLock lock(&mu_);
  executors_.push_back(std::move(executor));
}

std::vector<std::shared_ptr<Executor>> Completion::TakeFinishedExecutors() {
  std::vector<std::shared_ptr<Executor>> finished;
  MutexLock lock(&mu_);
  const auto first =
      std::stable_partition(executors_.begin(), executors_.end(),
                            [](const auto& executor) { return !executor->finished(); });
  std::move(first, executors_.end(), std::back_inserter(finished));
  executors_.erase(first, executors_.end());
  return finished;
}

void Completion::StopExecutors() {
  std::vector<std::shared_ptr<Executor>> executors;
  {
    MutexLock lock(&mu_);
    executors = executors_;
  }
  // Threads end before anything that they use is destroyed.
  for (const auto& executor : executors) executor->Stop();
  MutexLock lock(&mu_);
  watches_.clear();
  executors_.clear();
}

void Completion::SetDecoded(uint64_t seq) { decoded_seq_.store(seq, std::memory_order_release); }

void Completion::AfterDecoded(uint64_t retired) {
  if (retired > 0) {
    const uint64_t total = retired_count_.fetch_add(retired) + retired;
    parts_.usage->commands_complete.fetch_add(retired, std::memory_order_relaxed);
    const uint64_t all = AllSeq(nullptr);
    RaiseReported(all);
    parts_.sink->Retired(0, 0, all, total);
  }
  if (watch_count_.load() > 0) RunWatches();
  if (parts_.recorder != nullptr) PublishIfIdle(AllSeq(nullptr));
}

void Completion::ResumeAfter(uint64_t seq) {
  retired_count_.store(seq);
  parts_.usage->commands_complete.store(seq);
  reported_seq_.store(seq);
  decoded_seq_.store(seq, std::memory_order_release);
  // The former worker's last report may not have been sent.
  parts_.sink->Retired(0, 0, seq, seq);
}

bool Completion::Idle() {
  if (!parts_.sink->AllAnswered() || watch_count_.load() != 0) return false;
  MutexLock lock(&mu_);
  return std::all_of(executors_.begin(), executors_.end(), [](const auto& executor) {
    return executor->delivered() == executor->appended();
  });
}

// What is complete counts when it is answered. A client that does not read its answers stalls, too.
absl::Time Completion::StalledSince() {
  absl::Time since = absl::InfiniteFuture();
  MutexLock lock(&mu_);
  for (const auto& executor : executors_) {
    if (executor->issued() != executor->delivered())
      since = std::min(since, executor->under_way_since());
  }
  return since;
}

bool Completion::SetFault(CudaResult result) {
  CudaResult none = CudaResult::kSuccess;
  if (!fault_.compare_exchange_strong(none, result)) return false;
  if (parts_.recorder != nullptr) parts_.recorder->OnFault();
  return true;
}

// The text of a failed assertion comes before its error.
void Completion::TellFault(uint64_t seq, CommandId id, CudaResult result, std::string_view why) {
  LogWarning("fault command=", seq, " call=", FindCommand(id).name,
             " error=", CudaResultName(result));
  (void)parts_.prints->Send(0);
  parts_.sink->Failed(seq, id, result, why);
}

// For the client what is complete has succeeded, unless it has heard of an error before.
void Completion::FailUnasked(CudaResult result, std::string_view why) {
  if (fault() != CudaResult::kSuccess) return;
  // A client that has heard of it may ask for its memory at once.
  if (parts_.recorder != nullptr) parts_.recorder->OnFault();
  TellFault(0, CommandId::kStreamSync, result, why);
  SetFault(result);
}

void Completion::FailBecause(uint64_t seq, CommandId id, CudaResult result, std::string_view why) {
  if (IsSticky(result)) {
    if (parts_.on_fault) parts_.on_fault();
    if (SetFault(result)) TellFault(seq, id, result, why);
    return;
  }
  if (fault() != CudaResult::kSuccess) return;
  const CommandInfo& command = FindCommand(id);
  if (const LogPermit permit = parts_.log->Ask(command.audit ? kAuditedLine : kRefusedLine)) {
    permit.Info("refused command=", seq, " call=", command.name, " error=", CudaResultName(result));
  }
  parts_.sink->Failed(seq, id, result, why);
}

void Completion::OnRetired(Executor* executor, uint64_t count, std::string* batch) {
  executor->AssertOnExecutor();
  const uint64_t total = retired_count_.fetch_add(count) + count;
  parts_.progress->Notify();
  parts_.usage->commands_complete.fetch_add(count, std::memory_order_relaxed);
  const uint64_t all = AllSeq(executor);
  RaiseReported(all);
  AppendNotice(ReplyId::kRetired, executor->retired_seq(),
               notice::Retired{executor->stream(), all, total}, {}, batch);
}

void Completion::AfterRetired() {
  // Two executors may finish at the same time; neither report then includes the other.
  uint64_t all = AllSeq(nullptr);
  if (all == decoded_seq_.load(std::memory_order_acquire) && RaiseReported(all)) {
    parts_.sink->Retired(0, 0, all, retired_count());
  }
  if (watch_count_.load() > 0) {
    RunWatches();
    // The decoder may have gone on meanwhile and found a watch that was still running.
    all = AllSeq(nullptr);
  }
  if (parts_.recorder != nullptr) PublishIfIdle(all);
  parts_.progress->Notify();
}

bool Completion::RaiseReported(uint64_t all) {
  uint64_t reported = reported_seq_.load(std::memory_order_relaxed);
  while (reported < all) {
    if (reported_seq_.compare_exchange_weak(reported, all)) return true;
  }
  return false;
}

// Reads what is decoded first: an executor counts a command as appended before the command counts
// as decoded.
uint64_t Completion::AllSeq(const Executor* reporter) {
  uint64_t all = decoded_seq_.load(std::memory_order_acquire);
  MutexLock lock(&mu_);
  for (const auto& executor : executors_) {
    uint64_t seq = executor->delivered_seq();
    uint64_t ticket = executor->delivered();
    if (executor.get() == reporter) {
      executor->AssertOnExecutor();
      seq = executor->retired_seq();
      ticket = executor->retired();
    }
    if (ticket != executor->appended()) all = std::min(all, seq);
  }
  return all;
}

void Completion::PublishIfIdle(uint64_t all) {
  if (all != decoded_seq_.load(std::memory_order_acquire) || !parts_.sink->AllAnswered() ||
      watch_count_.load() != 0) {
    return;
  }
  parts_.recorder->journal()->PublishRetired(all);
}

void Completion::WhenRetired(const std::function<bool(const Executor&)>& wanted,
                             std::function<void()> done) {
  Watch watch;
  watch.done = std::move(done);
  MutexLock lock(&mu_);
  for (const auto& executor : executors_) {
    if (wanted(*executor) && executor->delivered() != executor->appended()) {
      watch.executors.emplace_back(executor, executor->appended());
    }
  }
  watches_.push_back(std::move(watch));
  watch_count_.fetch_add(1);
}

void Completion::WhenAllRetired(std::function<void()> done) {
  WhenRetired([](const Executor&) { return true; }, std::move(done));
}

void Completion::WhenDeviceRetired(uint32_t device, std::function<void()> done) {
  WhenRetired(
      [device](const Executor& executor) {
        return executor.kind() != Executor::Kind::kControl && executor.device() == device;
      },
      std::move(done));
}

void Completion::RunWatches() {
  std::vector<Watch> ready;
  {
    MutexLock lock(&mu_);
    const auto done = [](const Watch& watch) {
      return std::all_of(watch.executors.begin(), watch.executors.end(), [](const auto& entry) {
        return entry.first->delivered() >= entry.second;
      });
    };
    const auto first = std::stable_partition(watches_.begin(), watches_.end(), std::not_fn(done));
    std::move(first, watches_.end(), std::back_inserter(ready));
    watches_.erase(first, watches_.end());
  }
  for (const Watch& watch : ready) {
    watch.done();
    watch_count_.fetch_sub(1);
  }
}

}  // namespace warpline::worker
