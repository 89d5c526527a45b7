#include "server/memory/device_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "server/backends/backend_names.h"

namespace warpline::server {
namespace {

// Between attempts to start a keeper that does not start.
constexpr absl::Duration kRestartDelay = absl::Seconds(1);
constexpr uint64_t kMaxDefaultReserve = 4ull << 30;

enum KeeperLine : size_t { kDiedLine, kStartedLine, kNotStartedLine, kKeeperLineCount };
constexpr LogKind kKeeperLines[kKeeperLineCount] = {{"keepers_died", 10, absl::Minutes(1)},
                                                    {"keepers_started", 10, absl::Minutes(1)},
                                                    {"keepers_not_started", 10, absl::Minutes(1)}};

}  // namespace

DeviceMemory::DeviceMemory(DeviceMemoryOptions options)
    : options_(std::move(options)), keeper_(options_.keeper), log_(kKeeperLines) {}

DeviceMemory::~DeviceMemory() {
  loop_.Post([this] {
    on_loop_.AssertOnLoop();
    loop_.Remove(keeper_watch_);
    loop_.Remove(restart_timer_);
    loop_.Remove(trim_timer_);
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
  const uint64_t reserve = options_.reserve_bytes.value_or(
      UsesNvidiaDriver(backend_) ? std::min(total / 8, kMaxDefaultReserve) : 0);
  capacity_bytes_ = total - std::min(total, reserve);
  capacity_bytes_ -= capacity_bytes_ % kChunkClasses.back();
  pool_.emplace(
      ChunkPool::Options{.capacity_bytes = capacity_bytes_, .max_chunks = options_.max_chunks},
      &keeper_);
  LogInfo("keeper started gpu=", ordinal_, " pid=", keeper_.pid(), " backend=", backend_);
  WatchKeeper();
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
  loop_.Post([this, min_bytes, want_bytes, largest_bytes, taken = std::move(taken)] {
    on_loop_.AssertOnLoop();
    auto chunks = pool_->Take(min_bytes, want_bytes, largest_bytes);
    RestartIfDown();
    TrimWhenIdle();
    Publish();
    taken(std::move(chunks));
  });
}

void DeviceMemory::Return(std::vector<Chunk> chunks) {
  if (chunks.empty()) return;
  // std::function copies its target, and chunks cannot be copied.
  auto shared = std::make_shared<std::vector<Chunk>>(std::move(chunks));
  loop_.Post([this, shared] {
    on_loop_.AssertOnLoop();
    pool_->Return(std::move(*shared));
    TrimWhenIdle();
    Publish();
    if (!scrubbing_) {
      scrubbing_ = true;
      loop_.Post([this] {
        on_loop_.AssertOnLoop();
        ScrubStep();
      });
    }
  });
}

void DeviceMemory::ScrubStep() {
  scrubbing_ = pool_->ScrubSome();
  RestartIfDown();
  Publish();
  if (!scrubbing_) return;
  loop_.Post([this] {
    on_loop_.AssertOnLoop();
    ScrubStep();
  });
}

void DeviceMemory::TrimWhenIdle() {
  loop_.Remove(trim_timer_);
  trim_timer_ = loop_.RunAfter(options_.pool_idle, [this] {
    on_loop_.AssertOnLoop();
    pool_->Trim();
    Publish();
  });
}

void DeviceMemory::Publish() {
  MutexLock lock(&mu_);
  stats_.total_bytes = info_.total_bytes();
  stats_.capacity_bytes = capacity_bytes_;
  stats_.pool = pool_->stats();
}

DeviceMemory::Stats DeviceMemory::stats() const {
  MutexLock lock(&mu_);
  return stats_;
}

void DeviceMemory::Drain() {
  do {
    loop_.Flush();
  } while (stats().pool.dirty_bytes > 0);
}

}  // namespace warpline::server
