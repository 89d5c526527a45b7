#include "transport/loop_thread.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/loop/short_slices.h"

namespace warpline {

ScopedSignalBlock::ScopedSignalBlock() {
  sigset_t all;
  sigfillset(&all);
  // A fault is the thread's own, and where it is blocked the kernel ends the process. The client
  // library has a handler that makes some of them good (client_stub/core/managed/fault_handler.h).
  sigdelset(&all, SIGSEGV);
  pthread_sigmask(SIG_SETMASK, &all, &saved_);
}

ScopedSignalBlock::~ScopedSignalBlock() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }

void UnblockSignals(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : signals) sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

std::thread StartLoopThread(const char* name, std::function<void()> body) {
  ScopedSignalBlock block;
  return std::thread([name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    AskForShortSlices();
    body();
  });
}

absl::StatusOr<std::thread> TryStartLoopThread(const char* name,
                                               const std::function<void()>& body) {
  try {
    return StartLoopThread(name, body);
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no thread is to be had: ", error.what()));
  }
}

}  // namespace warpline
