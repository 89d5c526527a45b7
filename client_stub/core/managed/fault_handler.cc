#include "client_stub/core/managed/fault_handler.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <system_error>
#include <thread>

#include "client_stub/core/base/call_log.h"
#include "client_stub/core/runtime/thread_state.h"
#include "transport/loop_thread.h"

namespace warpline::stub {
namespace {

// The bit of the processor's error code that marks a write.
constexpr greg_t kWriteFault = 2;

// Lies on the stack of the thread that faulted, which waits until the fault is answered.
struct Fault {
  uint64_t address;
  bool write;
  bool host_call;
  bool resolved;
  std::atomic<uint32_t> answered;
  Fault* next;
};

constinit std::atomic<Fault*> g_faults{nullptr};
constinit std::atomic<uint32_t> g_rung{0};
constinit std::atomic<bool> g_running{false};
constinit std::atomic<pid_t> g_thread{0};
constinit std::atomic<uint64_t> g_low{0};
constinit std::atomic<uint64_t> g_high{0};
// The handler that comes after ours. It is replaced while handlers may run: a handler can be read
// halfway only if a program installs handlers and faults at the same time.
struct sigaction g_next;
// The thread that is in that handler, should it come back to ours.
constinit std::atomic<pid_t> g_passing{0};

void Futex(std::atomic<uint32_t>* word, int operation, uint32_t value) {
  syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

pid_t Self() { return static_cast<pid_t>(syscall(SYS_gettid)); }

bool Resolve(const siginfo_t* info, const ucontext_t* context) {
  const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
  if (!g_running.load(std::memory_order_acquire) || address < g_low.load() ||
      address >= g_high.load() || Self() == g_thread.load()) {
    return false;
  }
  Fault fault = {address,
                 (context->uc_mcontext.gregs[REG_ERR] & kWriteFault) != 0,
                 t_thread.runs_host_calls,
                 false,
                 {},
                 g_faults.load()};
  while (!g_faults.compare_exchange_weak(fault.next, &fault)) {
  }
  g_rung.fetch_add(1);
  Futex(&g_rung, FUTEX_WAKE, 1);
  while (fault.answered.load(std::memory_order_acquire) == 0) Futex(&fault.answered, FUTEX_WAIT, 0);
  return fault.resolved;
}

// Restores the default action, and the fault happens again on return.
void LetItDie(int signal) {
  struct sigaction fatal = {};
  fatal.sa_handler = SIG_DFL;
  sigaction(signal, &fatal, nullptr);
}

void Pass(int signal, siginfo_t* info, void* context) {
  const struct sigaction next = g_next;
  const bool has_info = (next.sa_flags & SA_SIGINFO) != 0;
  const pid_t self = Self();
  const bool handled = has_info ? next.sa_sigaction != nullptr
                                : next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN;
  // If that handler passes faults on to the one before it, and that is ours, we arrive here again.
  if (!handled || g_passing.load() == self) return LetItDie(signal);
  g_passing.store(self);
  if (has_info) {
    next.sa_sigaction(signal, info, context);
  } else {
    next.sa_handler(signal);
  }
  g_passing.store(0);
}

void OnFault(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  if (info->si_code == SEGV_ACCERR && Resolve(info, static_cast<ucontext_t*>(context))) {
    errno = saved;
    return;
  }
  errno = saved;
  Pass(signal, info, context);
}

void Install() {
  struct sigaction ours = {};
  ours.sa_sigaction = OnFault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  struct sigaction before;
  if (sigaction(SIGSEGV, &ours, &before) != 0) return;
  const bool is_ours = (before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction == OnFault;
  if (!is_ours) g_next = before;
}

void Answer(Fault* fault, FaultResolver resolver) {
  fault->resolved = resolver(fault->address, fault->write, fault->host_call);
  // The fault is gone with its thread's stack once it is answered; a wake-up that finds no waiter
  // does no harm.
  std::atomic<uint32_t>* const word = &fault->answered;
  word->store(1, std::memory_order_release);
  Futex(word, FUTEX_WAKE, 1);
}

void Run(FaultResolver resolver) {
  g_thread.store(Self());
  g_running.store(true, std::memory_order_release);
  while (true) {
    const uint32_t rung = g_rung.load();
    Fault* fault = g_faults.exchange(nullptr);
    if (fault == nullptr) Futex(&g_rung, FUTEX_WAIT, rung);
    while (fault != nullptr) {
      Fault* const next = fault->next;
      Answer(fault, resolver);
      fault = next;
    }
  }
}

}  // namespace

bool StartFaultHandler(FaultResolver resolver) {
  try {
    StartLoopThread("wl-faults", [resolver] { Run(resolver); }).detach();
  } catch (const std::system_error& error) {
    if (const LogPermit permit = CallLog().Ask(kNoThreadLine)) {
      permit.Error("no thread for memory that host and device share: ", error.what());
    }
    return false;
  }
  while (!g_running.load(std::memory_order_acquire)) std::this_thread::yield();
  Install();
  return true;
}

void SetFaultSpan(uint64_t low, uint64_t high) {
  g_low.store(low);
  g_high.store(high);
}

void RenewFaultHandler() {
  struct sigaction now;
  if (sigaction(SIGSEGV, nullptr, &now) != 0) return;
  if ((now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != OnFault) Install();
}

void StopFaultHandler() { g_running.store(false); }

}  // namespace warpline::stub
