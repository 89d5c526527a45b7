// The memory of one device: its keeper and its pool, on a thread of their own.
//
// Requests are answered in order. Between them returned chunks are scrubbed, a batch at a time, so
// that a large return does not hold up the next request. A keeper that dies is started again; what
// was asked of it meanwhile fails, what was granted stays, since descriptors keep memory alive.
#ifndef WARPLINE_SERVER_MEMORY_DEVICE_MEMORY_H_
#define WARPLINE_SERVER_MEMORY_DEVICE_MEMORY_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/log/log_budget.h"
#include "common/loop/loop_affinity.h"
#include "common/mutex.h"
#include "memory/chunk_pool.h"
#include "proto/session.pb.h"
#include "server/memory/keeper_client.h"
#include "server/process/event_loop.h"

namespace warpline::server {

struct DeviceMemoryOptions {
  KeeperOptions keeper;
  // Left to the contexts of workers and to others who use the device. By default an eighth of a
  // GPU, at most 4 GiB, and nothing of the CPU device.
  std::optional<uint64_t> reserve_bytes;
  size_t max_chunks = 16384;
  // Pooled chunks go back to the device when nobody has asked for or returned memory for so long.
  absl::Duration pool_idle = absl::Seconds(10);
};

// Thread-safe, apart from construction.
class DeviceMemory {
 public:
  struct Stats {
    uint64_t total_bytes = 0;     // Of the device.
    uint64_t capacity_bytes = 0;  // Less the reserve.
    ChunkPool::Stats pool;
    uint64_t keeper_restarts = 0;
  };

  // Starts the keeper and waits until it has opened the device; its error otherwise.
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> Open(DeviceMemoryOptions options);
  // Ends the keeper. No callback comes afterwards.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Constant after Open().
  const warpline_internal::DeviceInfo& info() const { return info_; }
  const std::string& backend() const { return backend_; }
  int ordinal() const { return ordinal_; }
  int device_count() const { return device_count_; }
  uint64_t capacity_bytes() const { return capacity_bytes_; }
  const std::string& note() const { return note_; }

  using Taken = std::function<void(absl::StatusOr<std::vector<Chunk>>)>;
  // ChunkPool::Take(); `taken` is called on this object's thread.
  void Take(uint64_t min_bytes, uint64_t want_bytes, Taken taken,
            uint64_t largest_bytes = kChunkClasses.front());
  // ChunkPool::Return().
  void Return(std::vector<Chunk> chunks);

  Stats stats() const;
  // 0 while there is none.
  pid_t keeper_pid() const { return keeper_pid_.load(std::memory_order_relaxed); }
  // Returns when all that was asked for so far is done and all that was returned is scrubbed. For
  // shutting down and tests.
  void Drain();

 private:
  explicit DeviceMemory(DeviceMemoryOptions options);
  absl::Status StartOnLoop() RUNS_ON(on_loop_);
  void WatchKeeper() RUNS_ON(on_loop_);
  void OnKeeperExit() RUNS_ON(on_loop_);
  void RestartIfDown() RUNS_ON(on_loop_);
  void ScrubStep() RUNS_ON(on_loop_);
  void TrimWhenIdle() RUNS_ON(on_loop_);
  void Publish() RUNS_ON(on_loop_);

  const DeviceMemoryOptions options_;
  warpline_internal::DeviceInfo info_;
  std::string backend_;
  int ordinal_ = 0;
  int device_count_ = 0;
  uint64_t capacity_bytes_ = 0;
  std::string note_;

  LoopAffinity on_loop_;
  KeeperClient keeper_ ABSL_GUARDED_BY(on_loop_);
  std::optional<ChunkPool> pool_ ABSL_GUARDED_BY(on_loop_);
  EventLoop::Token keeper_watch_ ABSL_GUARDED_BY(on_loop_) = 0;
  EventLoop::Token restart_timer_ ABSL_GUARDED_BY(on_loop_) = 0;
  EventLoop::Token trim_timer_ ABSL_GUARDED_BY(on_loop_) = 0;
  bool scrubbing_ ABSL_GUARDED_BY(on_loop_) = false;
  LogBudget log_;

  std::atomic<pid_t> keeper_pid_{0};
  mutable Mutex mu_;
  Stats stats_ ABSL_GUARDED_BY(mu_);

  // Last: ends before what its callbacks use.
  EventLoop loop_{"memory", &on_loop_};
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_MEMORY_DEVICE_MEMORY_H_
