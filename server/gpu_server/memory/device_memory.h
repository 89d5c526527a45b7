// The memory of one device: its keeper and its pool, on a thread of their own.
//
// Requests are answered in order, but for those that wait until returned memory is free. Between
// them chunks are made ahead, a few at a time, so that the next request does not wait for it. A
// keeper that dies is started again; what was asked of it meanwhile fails, what was granted stays,
// since descriptors keep memory alive.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_DEVICE_MEMORY_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_DEVICE_MEMORY_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "server/gpu_server/children/keepers/keeper_client.h"
#include "server/gpu_server/memory/pager.h"
#include "server/gpu_server/memory/swap_files.h"
#include "server/gpu_server/memory/swap_space.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

struct DeviceMemoryOptions {
  KeeperOptions keeper;
  // Left to the contexts of workers and to others who use the device. By default an eighth of a
  // GPU, at most 4 GiB but enough for `contexts` of them, and nothing of the CPU device.
  std::optional<uint64_t> reserve_bytes;
  // Contexts that are open in any case: of workers that wait, of one that has a session, and the
  // keeper's.
  uint64_t contexts = 2;
  // Processes of the guarded tier that may have their context open at a time, the standby
  // included, and what each takes of the device. By default what was seen on an H100, and nothing
  // of the CPU device.
  uint64_t shared_contexts = 0;
  std::optional<uint64_t> shared_context_bytes;
  size_t max_chunks = 16384;
  // How long memory that was returned may take to be free, and a request may wait for it.
  absl::Duration patience = kReturnPatience;
  // Host memory that sessions' memory can be moved to. Borrowed; null for none.
  SwapSpace* swap = nullptr;
  // Files for memory of suspended sessions, of the same host memory; null for none. Borrowed.
  SwapFiles* swap_files = nullptr;
};

// Thread-safe, apart from construction.
class DeviceMemory {
 public:
  struct Stats {
    uint64_t total_bytes = 0;     // Of the device.
    uint64_t capacity_bytes = 0;  // Less the reserve and the guarded tier's contexts.
    ChunkPool::Stats pool;
    uint64_t keeper_restarts = 0;
    bool stocked = true;  // Nothing is being made ahead.
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
  // What is left to each of the guarded tier's contexts, and to all of them.
  uint64_t shared_context_bytes() const { return shared_context_bytes_; }
  uint64_t shared_contexts_bytes() const {
    return options_.shared_contexts * shared_context_bytes_;
  }
  size_t max_chunks() const { return options_.max_chunks; }
  const std::string& note() const { return note_; }

  using Taken = std::function<void(absl::StatusOr<std::vector<Chunk>>)>;
  // ChunkPool::Take(), tried again for a while if it fails when returned memory is about to be
  // free. `taken` is called on this object's thread.
  void Take(uint64_t min_bytes, uint64_t want_bytes, Taken taken,
            uint64_t largest_bytes = kChunkClasses.front());
  // ChunkPool::Claim(), tried again likewise. `claimed` is called on this object's thread.
  void Claim(uint64_t bytes, std::function<void(bool)> claimed);
  void Unclaim(uint64_t bytes);
  // ChunkPool::Return() and ChunkPool::ReturnUnused(). `settled`, which may be null, is called on
  // this object's thread.
  void Return(std::vector<Chunk> chunks, std::vector<Reservation> bill,
              Quarantine::Settled settled = nullptr);
  void ReturnUnused(std::vector<Chunk> chunks);
  // Calls `settled` on this object's thread once all that was returned so far is free and off its
  // bill, or has not come to be so in time.
  void AfterReturns(std::function<void()> settled);
  // Whether AfterReturns() would have to wait for something.
  bool settling() const { return settling_.load(std::memory_order_acquire) > 0; }

  // Asks what others than sessions have of the device: contexts of workers, and other programs.
  // Nothing where the device does not say what is free, or cannot be asked. `read` is called on
  // this object's thread.
  void ReadOthers(std::function<void(std::optional<uint64_t>)> read);

  // Moves memory to the host and back; null where there is no host memory for that. Constant after
  // Open().
  Pager* pager() const { return pager_.get(); }
  // Null where no memory goes on to files.
  SwapFiles* swap_files() const { return options_.swap_files; }

  Stats stats() const;
  // 0 while there is none.
  pid_t keeper_pid() const { return keeper_pid_.load(std::memory_order_relaxed); }
  // Returns when all that was asked for and returned so far is done, and the stock is full. For
  // tests.
  void Drain();

 private:
  explicit DeviceMemory(DeviceMemoryOptions options);
  absl::Status StartOnLoop() RUNS_ON(on_loop_);
  void WatchKeeper() RUNS_ON(on_loop_);
  void OnKeeperExit() RUNS_ON(on_loop_);
  void RestartIfDown() RUNS_ON(on_loop_);
  // Tries to serve who asks. False when there is too little and it shall be tried again, which it
  // is not for ever: `last` says so.
  using Request = std::function<bool(bool last)>;
  struct Waiting {
    Request request;
    absl::Time deadline;
  };
  struct SettledWaiter {
    uint64_t returns = 0;  // So many of them must be settled.
    std::function<void()> settled;
  };

  // Posts a request, which may wait for what is leaving.
  void Ask(Request request);
  // False when it waits.
  bool Try(const Waiting& waiting) RUNS_ON(on_loop_);
  // Goes on with returns and with whoever waits for them.
  void Settle() RUNS_ON(on_loop_);
  void SettleLater() RUNS_ON(on_loop_);
  void Restock() RUNS_ON(on_loop_);
  void RestockStep() RUNS_ON(on_loop_);
  void Publish() RUNS_ON(on_loop_);

  const DeviceMemoryOptions options_;
  warpline_internal::DeviceInfo info_;
  std::string backend_;
  int ordinal_ = 0;
  int device_count_ = 0;
  uint64_t capacity_bytes_ = 0;
  uint64_t shared_context_bytes_ = 0;
  std::string note_;

  LoopAffinity on_loop_;
  KeeperClient keeper_ ABSL_GUARDED_BY(on_loop_);
  std::optional<ChunkPool> pool_ ABSL_GUARDED_BY(on_loop_);
  EventLoop::Token keeper_watch_ ABSL_GUARDED_BY(on_loop_) = 0;
  EventLoop::Token restart_timer_ ABSL_GUARDED_BY(on_loop_) = 0;
  EventLoop::Token settle_timer_ ABSL_GUARDED_BY(on_loop_) = 0;
  bool restocking_ ABSL_GUARDED_BY(on_loop_) = false;
  uint64_t stuck_bytes_ ABSL_GUARDED_BY(on_loop_) = 0;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(on_loop_);
  std::deque<SettledWaiter> after_returns_ ABSL_GUARDED_BY(on_loop_);
  LogBudget log_;

  std::unique_ptr<Pager> pager_;
  std::atomic<pid_t> keeper_pid_{0};
  std::atomic<uint64_t> settling_{0};  // Returns that are not settled.
  mutable Mutex mu_;
  Stats stats_ ABSL_GUARDED_BY(mu_);

  // Last: ends before what its callbacks use.
  EventLoop loop_{"memory", &on_loop_};
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_DEVICE_MEMORY_H_
