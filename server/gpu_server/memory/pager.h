// Moves memory of one device to the host and back, by a process of its own that the server trusts:
// a second keeper (server/keeper). Neither the session's worker nor the keeper waits meanwhile.
//
// The host memory is the server's and chunks are behind descriptors, so a process that dies loses
// nothing: what it was to do is done again by the next one.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_PAGER_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_PAGER_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/log/log_budget.h"
#include "common/loop/loop_affinity.h"
#include "memory/chunk.h"
#include "server/gpu_server/children/keepers/keeper_client.h"
#include "server/gpu_server/memory/away_memory.h"
#include "server/gpu_server/memory/swap_space.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

// Thread-safe. The destructor waits for the move that is under way.
class Pager {
 public:
  using Chunks = std::shared_ptr<std::vector<Chunk>>;
  using Moved = std::function<void(absl::Status)>;

  // A process that dies so often in one move is not started again for it: UNAVAILABLE.
  static constexpr int kMostTries = 8;
  // The time before the second start; it doubles from one to the next.
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(100);

  // `space` is borrowed. The process is started by Start(), and otherwise for the first move.
  // Tests have no pauses.
  Pager(KeeperOptions options, SwapSpace* space, absl::Duration first_pause = kFirstPause);
  ~Pager();
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

  // Has the process started without waiting for it. A process that has started locks the host
  // memory, a block after the other, which takes a second for each ten GiB. Moves go in between,
  // and have their own blocks locked first.
  void Start();
  // Copies what the chunks hold to host memory, and fills `*away`. RESOURCE_EXHAUSTED when there is
  // too little of that; the chunks are as they were after any error. Nobody may write to them
  // meanwhile. `moved` is called on this object's thread.
  void MoveOut(Chunks chunks, std::shared_ptr<AwayMemory> away, Moved moved);
  // Fills zeroed chunks, which have as many bytes together as those that `away` is of.
  void MoveIn(Chunks chunks, std::shared_ptr<const AwayMemory> away, Moved moved);

  const SwapSpace& space() const { return *space_; }
  // 0 while there is none.
  pid_t pid() const { return pid_.load(std::memory_order_relaxed); }

 private:
  absl::Status StartIfDown() RUNS_ON(on_loop_);
  // Has the process lock those blocks that are not locked yet.
  absl::Status LockBlock(size_t block) RUNS_ON(on_loop_);
  absl::Status LockBlocksOf(const AwayMemory& away) RUNS_ON(on_loop_);
  void LockNext() RUNS_ON(on_loop_);
  void LockLater() RUNS_ON(on_loop_);
  // Does `move`, again where the process dies at it.
  absl::Status Try(const std::function<absl::Status()>& move) RUNS_ON(on_loop_);
  absl::Status FindUsed(const std::vector<Chunk>& chunks, std::vector<bool>* used)
      RUNS_ON(on_loop_);
  absl::Status Copy(bool out, const std::vector<Chunk>& chunks, const AwayMemory& away)
      RUNS_ON(on_loop_);

  SwapSpace* const space_;
  const int ordinal_;
  const absl::Duration first_pause_;
  LoopAffinity on_loop_;
  KeeperClient process_ ABSL_GUARDED_BY(on_loop_);
  std::vector<bool> locked_ ABSL_GUARDED_BY(on_loop_);  // By block of the space.
  LogBudget log_;
  std::atomic<pid_t> pid_{0};
  // Last: ends before what its callbacks use.
  EventLoop loop_{"pager", &on_loop_};
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_PAGER_H_
