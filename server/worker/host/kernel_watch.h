// Ends the kernels of sessions on a shared device that run for too long: for longer than the
// session may have them run, or while others wait for the multiprocessors that they have.
//
// Within one hardware context a kernel keeps its multiprocessors until it ends. Sessions have parts
// of the device (SharePlanner), but a kernel that was launched when its session had more of it, or
// when there are more sessions than parts, can be in the way of another session's. Neither the
// driver nor hardware says which kernel waits for which, so this goes by age: of those that make no
// progress and want the same multiprocessors, the first is taken for the one that runs.
#ifndef WARPLINE_SERVER_WORKER_HOST_KERNEL_WATCH_H_
#define WARPLINE_SERVER_WORKER_HOST_KERNEL_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "server/device/facets/types.h"
#include "server/worker/host/session_desk.h"

namespace warpline::worker {

// How long a session's kernels have gone slowly at the server's word, since they make no progress.
// That time does not count against them, but for what is above a minute: others may wait.
class SlowTime {
 public:
  static constexpr absl::Duration kMost = absl::Minutes(1);

  // At each look: since when they make no progress, whether they go slowly, and how long ago the
  // look before was. Returns what does not count.
  absl::Duration Note(absl::Time stalled_since, bool slow, absl::Duration passed);

 private:
  absl::Time stalled_since_ = absl::InfiniteFuture();
  absl::Duration slow_;
};

// What is known of a session at one look.
struct WatchedWork {
  // Since when its work on the device makes no progress; InfiniteFuture() while it does.
  absl::Time stalled_since = absl::InfiniteFuture();
  // Where its kernels run or are to run.
  device::ProcessorSet processors;
  // The longest that it may stall in any case.
  absl::Duration limit = absl::InfiniteDuration();
};

// Which session's kernels are to be ended, if any: one that has stalled for as long as its limit,
// or the first of those that have stalled for `patience`, where another that wants some of the same
// multiprocessors has waited for as long.
std::optional<size_t> PickOverdue(absl::Span<const WatchedWork> sessions, absl::Time now,
                                  absl::Duration patience);

struct KernelWatchOptions {
  absl::Duration every = absl::Milliseconds(100);
  absl::Duration patience = absl::Seconds(10);
  // For kernels to end that are told to.
  absl::Duration grace = absl::Seconds(2);
  // A session that takes so long to end has kernels that do not end.
  absl::Duration closing = absl::Seconds(1);
  // Called at each look (SharedDevice::Look). May be null.
  std::function<void()> look;
  // The kernels of a session do not end. Called once for it, and not when it has begun to end; it
  // may not call the watch.
  std::function<void(uint64_t session)> hangs;
};

// Thread-safe. Looks from a thread of its own while there are sessions.
class KernelWatch {
 public:
  // RESOURCE_EXHAUSTED without a thread.
  static absl::StatusOr<std::unique_ptr<KernelWatch>> Start(KernelWatchOptions options);
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;
  ~KernelWatch();

  // `limit` is as in WatchedWork.
  void Add(uint64_t session, std::shared_ptr<SessionDesk> desk, absl::Duration limit);
  // It ends, and is looked after by whoever ends it. While that takes long, it may be in the way of
  // others, who are not blamed for it.
  void OnClosing(uint64_t session);
  // Nothing is left of it.
  void Remove(uint64_t session);

 private:
  struct Watched {
    std::shared_ptr<SessionDesk> desk;
    absl::Duration limit;
    absl::Time closing_since = absl::InfiniteFuture();
  };
  // Kernels that were told to end.
  struct Told {
    uint64_t session = 0;
    absl::Time at;
    bool hangs = false;
  };

  explicit KernelWatch(KernelWatchOptions options) : options_(std::move(options)) {}

  void Run();
  void Look(const std::map<uint64_t, Watched>& sessions, absl::Time now);
  // Whether kernels that were told to end, or those of a session that ends, still run.
  bool AwaitEnd(const std::map<uint64_t, Watched>& sessions, absl::Time now);
  bool AwaitClosing(const std::map<uint64_t, Watched>& sessions, absl::Time now);
  WatchedWork WorkOf(uint64_t number, const Watched& session);

  const KernelWatchOptions options_;
  Mutex mu_;  // No other lock is taken under it, and no call made.
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::map<uint64_t, Watched> sessions_ ABSL_GUARDED_BY(mu_);
  // Of the watch's thread: whoever waited for kernels that were ended waits anew since then.
  absl::Time since_ = absl::InfinitePast();
  std::optional<Told> told_;
  std::map<uint64_t, SlowTime> slow_;
  absl::Time looked_ = absl::InfinitePast();
  absl::Duration passed_;  // Between the last two looks.
  std::thread thread_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_KERNEL_WATCH_H_
