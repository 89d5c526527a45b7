// What a session tells its client of commands that are complete, and who waits for that.
#include <algorithm>
#include <utility>

#include "server/worker/session/session.h"

namespace warpline::worker {

void Session::OnRetired(Lane* lane, uint64_t count, std::string* batch) {
  const uint64_t total = retired_count_.fetch_add(count, std::memory_order_relaxed) + count;
  usage_->commands_complete.fetch_add(count, std::memory_order_relaxed);
  const uint64_t all = AllSeq(lane);
  RaiseReported(all);
  AppendNotice(ReplyId::kRetired, lane->retired_seq(), notice::Retired{lane->stream(), all, total},
               {}, batch);
}

void Session::AfterRetired() {
  // Of two lanes that finish at once neither knew of the other when it wrote its report.
  uint64_t all = AllSeq(nullptr);
  if (all == decoded_seq_.load(std::memory_order_acquire) && RaiseReported(all)) {
    sink_.Retired(0, 0, all, retired_count_.load(std::memory_order_relaxed));
  }
  if (watch_count_.load() > 0) {
    RunWatches();
    // The decoder may have gone on meanwhile, and found a watch that was still running.
    all = AllSeq(nullptr);
  }
  if (recorder_ != nullptr) PublishIfIdle(all);
}

bool Session::RaiseReported(uint64_t all) {
  uint64_t reported = reported_seq_.load(std::memory_order_relaxed);
  while (reported < all) {
    if (reported_seq_.compare_exchange_weak(reported, all)) return true;
  }
  return false;
}

// Decoded first: a lane counts a command as appended before the command counts as decoded.
uint64_t Session::AllSeq(const Lane* reporter) {
  uint64_t all = decoded_seq_.load(std::memory_order_acquire);
  MutexLock lock(&mu_);
  for (const auto& lane : all_lanes_) {
    const bool own = lane.get() == reporter;
    const uint64_t seq = own ? lane->retired_seq() : lane->delivered_seq();
    const uint64_t ticket = own ? lane->retired() : lane->delivered();
    if (ticket != lane->appended()) all = std::min(all, seq);
  }
  return all;
}

template <typename Wanted>
void Session::WhenRetired(const Wanted& wanted, std::function<void()> done) {
  Watch watch;
  watch.done = std::move(done);
  MutexLock lock(&mu_);
  for (const auto& lane : all_lanes_) {
    if (wanted(*lane) && lane->delivered() != lane->appended()) {
      watch.lanes.emplace_back(lane, lane->appended());
    }
  }
  watches_.push_back(std::move(watch));
  watch_count_.fetch_add(1);
}

void Session::WhenAllRetired(std::function<void()> done) {
  WhenRetired([](const Lane&) { return true; }, std::move(done));
}

void Session::WhenDeviceRetired(uint32_t device, std::function<void()> done) {
  WhenRetired(
      [device](const Lane& lane) {
        return lane.kind() != Lane::Kind::kControl && lane.device() == device;
      },
      std::move(done));
}

void Session::RunWatches() {
  std::vector<Watch> ready;
  {
    MutexLock lock(&mu_);
    const auto done = [](const Watch& watch) {
      return std::all_of(watch.lanes.begin(), watch.lanes.end(), [](const auto& entry) {
        return entry.first->delivered() >= entry.second;
      });
    };
    for (size_t i = 0; i < watches_.size();) {
      if (!done(watches_[i])) {
        ++i;
        continue;
      }
      ready.push_back(std::move(watches_[i]));
      watches_.erase(watches_.begin() + i);
    }
  }
  for (const Watch& watch : ready) {
    watch.done();
    watch_count_.fetch_sub(1);
  }
}

}  // namespace warpline::worker
