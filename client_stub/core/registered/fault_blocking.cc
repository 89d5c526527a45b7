#include "client_stub/core/registered/fault_blocking.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "common/mutex.h"

namespace warpline::stub {
namespace {

// The C library blocks all signals for a moment where a thread or a process begins or ends, and may
// sleep for a lock meanwhile. So a thread is taken to block them for good only when it has slept
// through kSleeps, or blocked them at every look for kBlocks.
using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPause(1), kSleeps(100), kBlocks(500);

struct BlockingThread {
  bool sleeps = false;
  uint64_t sleeps_begun = 0;
  Clock::time_point slept_since, blocked_since;
};
using BlockingThreads = std::map<pid_t, BlockingThread>;

// Reads a thread's status. Returns false when it does not block SIGSEGV or has ended.
bool ReadBlocking(const std::filesystem::path& folder, BlockingThread* thread) {
  std::ifstream status(folder / "status");
  std::string line;
  char state = 'X';
  uint64_t blocked = 0;
  while (std::getline(status, line)) {
    std::sscanf(line.c_str(), "State: %c", &state);
    std::sscanf(line.c_str(), "SigBlk: %" SCNx64, &blocked);
    std::sscanf(line.c_str(), "voluntary_ctxt_switches: %" SCNu64, &thread->sleeps_begun);
  }
  thread->sleeps = state == 'S';
  return state != 'X' && state != 'Z' && (blocked >> (SIGSEGV - 1) & 1) != 0;
}

// Brings `threads` up to date: all but the calling one, which writes nothing meanwhile. Returns
// false when they cannot be told.
bool LookForBlocking(BlockingThreads* threads) {
  const BlockingThreads before = std::exchange(*threads, {});
  const Clock::time_point now = Clock::now();
  std::error_code error;
  std::filesystem::directory_iterator folder("/proc/self/task", error);
  for (; !error && folder != std::filesystem::directory_iterator(); folder.increment(error)) {
    const pid_t id = std::atoi(folder->path().filename().c_str());
    BlockingThread thread;
    if (id == gettid() || !ReadBlocking(folder->path(), &thread)) continue;
    const auto was = before.find(id);
    const bool known = was != before.end();
    const bool slept = known && was->second.sleeps && thread.sleeps &&
                       was->second.sleeps_begun == thread.sleeps_begun;
    thread.blocked_since = known ? was->second.blocked_since : now;
    thread.slept_since = slept ? was->second.slept_since : now;
    (*threads)[id] = thread;
  }
  return !error;
}

// The threads that were seen to block SIGSEGV for good. Thread-safe.
class LongBlocking {
 public:
  // Returns whether one of `threads` does so. Forgets the others, which no longer do.
  bool Has(const BlockingThreads& threads) {
    MutexLock lock(&mu_);
    std::erase_if(ids_, [&](pid_t id) { return threads.count(id) == 0; });
    return !ids_.empty();
  }
  void Add(pid_t id) {
    MutexLock lock(&mu_);
    ids_.insert(id);
  }

 private:
  Mutex mu_;
  std::set<pid_t> ids_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

bool AwaitFaultsUnblocked() {
  static LongBlocking* const for_good = new LongBlocking;
  BlockingThreads threads;
  while (true) {
    if (!LookForBlocking(&threads) || for_good->Has(threads)) return false;
    if (threads.empty()) return true;
    const Clock::time_point now = Clock::now();
    for (const auto& [id, thread] : threads) {
      if ((thread.sleeps && now - thread.slept_since >= kSleeps) ||
          now - thread.blocked_since >= kBlocks) {
        for_good->Add(id);
        return false;
      }
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace warpline::stub
