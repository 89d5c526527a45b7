// Watches the liveness locks of many processes with one thread.
//
// The thread sleeps in futex_waitv(2) (Linux 5.16). It also looks ten times a second where the
// kernel has no such call, or where more processes are watched than one call takes. It does so,
// too, while a process changes its lock's word again and again, which no honest one does. Sockets
// and pidfds tell of a death as well, only later.
#ifndef WARPLINE_SERVER_HOSTLINK_PROCESS_DEATH_WATCH_H_
#define WARPLINE_SERVER_HOSTLINK_PROCESS_DEATH_WATCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "server/hostlink/process/liveness_lock.h"

namespace warpline {

// Thread-safe.
class DeathWatch {
 public:
  // Tokens are never reused; 0 is no token.
  using Token = uint64_t;

  DeathWatch();
  // Joins the thread, and forgets what is still watched.
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  // Calls `ended` once, on the watch's thread, when the holder of `liveness` begins to die. `ended`
  // must not block, and must not call this object.
  Token Watch(std::shared_ptr<const LivenessLock> liveness, std::function<void()> ended);
  // Ends a watch; a call of `ended` may still be under way. 0 and past tokens are ignored.
  void Remove(Token token);

  // How often the thread has looked at its list, for tests.
  uint64_t looks() const { return looks_.load(); }

 private:
  struct Watched {
    std::shared_ptr<const LivenessLock> lock;
    std::function<void()> ended;
    uint32_t value = 0;  // The value of the lock's word at the last look.
    int changes = 0;     // How often the value was seen to change.
  };
  // A lock, and the value of its word whose change ends the sleep.
  struct Awaited {
    std::shared_ptr<const LivenessLock> lock;
    uint32_t value;
  };

  void Run();
  // Makes the thread look at its list again.
  void Nudge();
  // Takes the locks that have ended out of the list, and returns those to sleep by. `*look_soon`
  // says that the list has others.
  std::vector<Awaited> Look(std::vector<std::function<void()>>* ended, bool* look_soon);
  // Sleeps until something may have happened. `known` is the value of changes_ from before `locks`
  // was taken.
  void Sleep(uint32_t known, const std::vector<Awaited>& locks, bool look_soon);

  std::atomic<uint32_t> changes_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> looks_{0};
  Mutex mu_;
  Token next_token_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<Token, Watched> watched_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_PROCESS_DEATH_WATCH_H_
