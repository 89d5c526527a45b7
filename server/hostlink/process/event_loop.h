// One thread that waits for descriptors, posted functions and timers, and calls back.
//
// Everything slow (starting processes, asking the keeper) happens on other threads that Post()
// their results here, so what runs on the loop needs no locks of its own.
//
//   EventLoop loop("control");
//   loop.Post([&] {  // From any thread; runs on the loop.
//     loop.Watch(socket.get(), [&] { ReadPacket(socket); });
//     loop.RunAfter(absl::Seconds(1), [&] { GiveUp(); });
//   });
#ifndef WARPLINE_SERVER_HOSTLINK_PROCESS_EVENT_LOOP_H_
#define WARPLINE_SERVER_HOSTLINK_PROCESS_EVENT_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/loop/loop_affinity.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "server/hostlink/process/timers.h"

namespace warpline {

class EventLoop : public Timers {
 public:
  // Starts the thread. `name` has at most 15 characters. What belongs to the loop is guarded by
  // `affinity` (borrowed); null where nothing but the loop itself does.
  explicit EventLoop(const char* name, LoopAffinity* affinity = nullptr);
  // Runs what was posted, drops timers and watches, and joins the thread. Must not be called on the
  // loop.
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs `callback` on the loop, in the order of posting. Thread-safe.
  void Post(Callback callback);
  // Returns when everything that was posted before has run. Must not be called on the loop.
  void Flush();

  // The functions below are called on the loop only, and look whether they are.

  // Calls `readable` whenever `fd` (borrowed; open until Remove()) is readable or at its end.
  // Returns 0 when the kernel refuses.
  Token Watch(int fd, Callback readable);
  Token RunAfter(absl::Duration delay, Callback callback) override;
  // Ends a watch or a timer.
  void Remove(Token token) override;

 private:
  struct Watched {
    int fd;
    std::shared_ptr<Callback> callback;
  };

  void Run();
  void RunPosted() RUNS_ON(affinity_);
  void RunTimers() RUNS_ON(affinity_);
  int TimeoutMs() const RUNS_ON(affinity_);

  const UniqueFd epoll_;
  const UniqueFd bell_;
  std::atomic<bool> stopping_{false};

  LoopAffinity own_affinity_;
  LoopAffinity* const affinity_;

  Token next_token_ ABSL_GUARDED_BY(affinity_) = 1;
  std::unordered_map<Token, Watched> watched_ ABSL_GUARDED_BY(affinity_);
  std::map<std::pair<absl::Time, Token>, Callback> timers_ ABSL_GUARDED_BY(affinity_);
  std::unordered_map<Token, absl::Time> timer_times_ ABSL_GUARDED_BY(affinity_);

  Mutex mu_;
  std::vector<Callback> posted_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_PROCESS_EVENT_LOOP_H_
