#include "server/gpu_server/memory/device_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/steady_time.h"
#include "server/hostlink/backends/backend_names.h"

namespace warpline::server {
namespace {

// Between attempts to start a keeper that does not start.
constexpr absl::Duration kRestartDelay = absl::Seconds(1);
// Between looks at memory that is about to be free, and at such that should have been long ago.
constexpr absl::Duration kSettleDelay = absl::Milliseconds(2);
constexpr absl::Duration kStuckDelay = absl::Seconds(1);
constexpr uint64_t kMaxDefaultReserve = 4ull << 30;
// What a worker's context was seen to take of an H100, rounded up.
constexpr uint64_t kContextBytes = 576ull << 20;
// What a process of the guarded tier was seen to take of an H100 (docs/guarded-tier.md), rounded
// up. What it will take is not known before a device's memory is promised to sessions.
constexpr uint64_t kSharedContextBytes = 1792ull << 20;

uint64_t DefaultReserve(uint64_t total_bytes, uint64_t contexts) {
  return std::max(std::min(total_bytes / 8, kMaxDefaultReserve),
                  std::min(total_bytes / 2, contexts * kContextBytes));
}

enum KeeperLine : size_t { kDiedLine, kStartedLine, kNotStartedLine, kStuckLine, kKeeperLineCount };
constexpr LogKind kKeeperLines[kKeeperLineCount] = {{"keepers_died", 10, absl::Minutes(1)},
                                                    {"keepers_started", 10, absl::Minutes(1)},
                                                    {"keepers_not_started", 10, absl::Minutes(1)},
                                                    {"memory_stuck", 10, absl::Minutes(1)}};

}  // namespace

DeviceMemory::DeviceMemory(DeviceMemoryOptions options)
    : options_(std::move(options)), keeper_(options_.keeper), log_(kKeeperLines) {}

DeviceMemory::~DeviceMemory() {
  loop_.Post([this] {
    on_loop_.AssertOnLoop();
    loop_.Remove(keeper_watch_);
    loop_.Remove(restart_timer_);
    loop_.Remove(settle_timer_);
    keeper_.Stop();
  });
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> DeviceMemory::Open(DeviceMemoryOptions options) {
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory(std::move(options)));
  absl::Status started;
  memory->loop_.Post([&] {
    memory->on_loop_.AssertOnLoop();
    started = memory->StartOnLoop();
  });
  memory->loop_.Flush();
  if (!started.ok()) return started;
  if (memory->options_.swap != nullptr) {
    KeeperOptions pager = memory->options_.keeper;
    pager.backend = memory->backend_;
    memory->pager_ = std::make_unique<Pager>(std::move(pager), memory->options_.swap);
    memory->pager_->Start();
  }
  return memory;
}

absl::Status DeviceMemory::StartOnLoop() {
  const absl::Status started = keeper_.Start();
  if (!started.ok()) return started;
  info_ = keeper_.device();
  backend_ = keeper_.backend();
  ordinal_ = options_.keeper.ordinal;
  device_count_ = keeper_.device_count();
  note_ = keeper_.note();
  const uint64_t total = info_.total_bytes();
  const bool is_gpu = UsesNvidiaDriver(backend_);
  const uint64_t reserve =
      options_.reserve_bytes.value_or(is_gpu ? DefaultReserve(total, options_.contexts) : 0);
  shared_context_bytes_ = options_.shared_context_bytes.value_or(is_gpu ? kSharedContextBytes : 0);
  capacity_bytes_ = total - std::min(total, reserve);
  capacity_bytes_ -= std::min(capacity_bytes_, shared_contexts_bytes());
  capacity_bytes_ -= capacity_bytes_ % kChunkClasses.back();
  pool_.emplace(ChunkPool::Options{.capacity_bytes = capacity_bytes_,
                                   .max_chunks = options_.max_chunks,
                                   .patience = options_.patience},
                &keeper_);
  LogInfo("keeper started gpu=", ordinal_, " pid=", keeper_.pid(), " backend=", backend_);
  WatchKeeper();
  Restock();
  Publish();
  return absl::OkStatus();
}

void DeviceMemory::WatchKeeper() {
  keeper_pid_.store(keeper_.pid(), std::memory_order_relaxed);
  keeper_watch_ = loop_.Watch(keeper_.exit_fd(), [this] {
    on_loop_.AssertOnLoop();
    OnKeeperExit();
  });
}

void DeviceMemory::OnKeeperExit() {
  loop_.Remove(keeper_watch_);
  keeper_watch_ = 0;
  const pid_t pid = keeper_.pid();
  const std::string why = keeper_.Stop();
  if (const LogPermit permit = log_.Ask(kDiedLine)) {
    permit.Warning("keeper died gpu=", ordinal_, " pid=", pid, " by=", why);
  }
  RestartIfDown();
}

void DeviceMemory::RestartIfDown() {
  if (keeper_.running() || restart_timer_ != 0) return;
  // Stop() inside the client closed the descriptor that was watched.
  loop_.Remove(keeper_watch_);
  keeper_watch_ = 0;
  const absl::Status started = keeper_.Start();
  if (started.ok()) {
    if (const LogPermit permit = log_.Ask(kStartedLine)) {
      permit.Info("keeper started again gpu=", ordinal_, " pid=", keeper_.pid());
    }
    WatchKeeper();
    MutexLock lock(&mu_);
    ++stats_.keeper_restarts;
    return;
  }
  if (const LogPermit permit = log_.Ask(kNotStartedLine)) {
    permit.Error("keeper does not start gpu=", ordinal_, " error=", started.ToString());
  }
  restart_timer_ = loop_.RunAfter(kRestartDelay, [this] {
    on_loop_.AssertOnLoop();
    restart_timer_ = 0;
    RestartIfDown();
  });
}

void DeviceMemory::Take(uint64_t min_bytes, uint64_t want_bytes, Taken taken,
                        uint64_t largest_bytes) {
  Ask([this, min_bytes, want_bytes, largest_bytes, taken = std::move(taken)](bool last) {
    on_loop_.AssertOnLoop();
    auto chunks = pool_->Take(min_bytes, want_bytes, largest_bytes);
    RestartIfDown();
    if (absl::IsResourceExhausted(chunks.status()) && !last) return false;
    Restock();
    Publish();
    taken(std::move(chunks));
    return true;
  });
}

void DeviceMemory::Claim(uint64_t bytes, std::function<void(bool)> claimed) {
  Ask([this, bytes, claimed = std::move(claimed)](bool last) {
    on_loop_.AssertOnLoop();
    const bool has_room = pool_->Claim(bytes);
    if (!has_room && !last) return false;
    Restock();
    Publish();
    claimed(has_room);
    return true;
  });
}

void DeviceMemory::Unclaim(uint64_t bytes) {
  loop_.Post([this, bytes] {
    on_loop_.AssertOnLoop();
    pool_->Unclaim(bytes);
    Settle();
  });
}

void DeviceMemory::ReadOthers(std::function<void(std::optional<uint64_t>)> read) {
  loop_.Post([this, read = std::move(read)] {
    on_loop_.AssertOnLoop();
    const auto known = pool_->KnownBytes();
    RestartIfDown();
    if (!known.ok() || !known->has_value()) return read(std::nullopt);
    const uint64_t ours = **known + pool_->stats().claimed_bytes;
    read(info_.total_bytes() - std::min(info_.total_bytes(), ours));
  });
}

void DeviceMemory::Ask(Request request) {
  Waiting waiting{std::move(request), SteadyNow() + options_.patience};
  loop_.Post([this, waiting = std::move(waiting)] {
    on_loop_.AssertOnLoop();
    if (!Try(waiting)) waiting_.push_back(waiting);
  });
}

bool DeviceMemory::Try(const Waiting& waiting) {
  const bool may_pass = pool_->leaving().pending() && SteadyNow() < waiting.deadline;
  return waiting.request(/*last=*/!may_pass);
}

void DeviceMemory::Return(std::vector<Chunk> chunks, std::vector<Reservation> bill,
                          Quarantine::Settled settled) {
  if (chunks.empty() && bill.empty()) return;
  settling_.fetch_add(1, std::memory_order_acq_rel);
  // std::function copies its target, and chunks cannot be copied.
  struct Returned {
    std::vector<Chunk> chunks;
    std::vector<Reservation> bill;
    Quarantine::Settled settled;
  };
  auto shared =
      std::make_shared<Returned>(Returned{std::move(chunks), std::move(bill), std::move(settled)});
  loop_.Post([this, shared] {
    on_loop_.AssertOnLoop();
    pool_->Return(std::move(shared->chunks), std::move(shared->bill), std::move(shared->settled));
    Settle();
  });
}

void DeviceMemory::ReturnUnused(std::vector<Chunk> chunks) {
  if (chunks.empty()) return;
  auto shared = std::make_shared<std::vector<Chunk>>(std::move(chunks));
  loop_.Post([this, shared] {
    on_loop_.AssertOnLoop();
    pool_->ReturnUnused(std::move(*shared));
    Restock();
    Publish();
  });
}

void DeviceMemory::AfterReturns(std::function<void()> settled) {
  loop_.Post([this, settled = std::move(settled)] {
    on_loop_.AssertOnLoop();
    after_returns_.push_back({pool_->leaving().added(), settled});
    Settle();
  });
}

void DeviceMemory::Settle() {
  const uint64_t settled_before = pool_->leaving().settled();
  pool_->Settle(SteadyNow());
  RestartIfDown();
  const uint64_t settled = pool_->leaving().settled();
  settling_.fetch_sub(settled - settled_before, std::memory_order_acq_rel);
  const uint64_t stuck = pool_->leaving().stuck_bytes();
  if (stuck > stuck_bytes_) {
    if (const LogPermit permit = log_.Ask(kStuckLine)) {
      permit.Warning("memory of an ended worker is not free gpu=", ordinal_, " bytes=", stuck,
                     ": it counts against its tenant until it is");
    }
  }
  stuck_bytes_ = stuck;
  // Each is tried as often as there are at most.
  for (size_t left = waiting_.size(); left > 0; --left) {
    const Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    if (!Try(waiting)) waiting_.push_back(waiting);
  }
  for (; !after_returns_.empty() && after_returns_.front().returns <= settled;
       after_returns_.pop_front()) {
    after_returns_.front().settled();
  }
  Restock();
  Publish();
  SettleLater();
}

void DeviceMemory::SettleLater() {
  const bool pending = pool_->leaving().pending();
  if (settle_timer_ != 0) {
    // What is pending is looked at more often than what is stuck.
    if (!pending) return;
    loop_.Remove(std::exchange(settle_timer_, 0));
  }
  if (!pending && stuck_bytes_ == 0) return;
  settle_timer_ = loop_.RunAfter(pending ? kSettleDelay : kStuckDelay, [this] {
    on_loop_.AssertOnLoop();
    settle_timer_ = 0;
    Settle();
  });
}

void DeviceMemory::Restock() {
  if (std::exchange(restocking_, true)) return;
  loop_.Post([this] {
    on_loop_.AssertOnLoop();
    RestockStep();
  });
}

void DeviceMemory::RestockStep() {
  restocking_ = pool_->Restock();
  RestartIfDown();
  Publish();
  if (!restocking_) return;
  loop_.Post([this] {
    on_loop_.AssertOnLoop();
    RestockStep();
  });
}

void DeviceMemory::Publish() {
  MutexLock lock(&mu_);
  stats_.total_bytes = info_.total_bytes();
  stats_.capacity_bytes = capacity_bytes_;
  stats_.pool = pool_->stats();
  stats_.stocked = !restocking_;
}

DeviceMemory::Stats DeviceMemory::stats() const {
  MutexLock lock(&mu_);
  return stats_;
}

void DeviceMemory::Drain() {
  do {
    loop_.Flush();
  } while (settling() || !stats().stocked);
}

}  // namespace warpline::server
