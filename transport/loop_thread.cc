#include "transport/loop_thread.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <utility>

namespace warpline {

ScopedSignalBlock::ScopedSignalBlock() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &saved_);
}

ScopedSignalBlock::~ScopedSignalBlock() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }

std::thread StartLoopThread(const char* name, std::function<void()> body) {
  ScopedSignalBlock block;
  return std::thread([name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    body();
  });
}

}  // namespace warpline
