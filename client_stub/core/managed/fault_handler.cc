#include "client_stub/core/managed/fault_handler.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
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
// Where writes are held at present; [0, 0) for nowhere. `g_held_once` says that they ever were.
constinit std::atomic<uint64_t> g_held_begin{0};
constinit std::atomic<uint64_t> g_held_end{0};
constinit std::atomic<bool> g_held_once{false};
// The handler that comes after ours. It is replaced while handlers may run: a handler can be read
// halfway only if a program installs handlers and faults at the same time.
struct sigaction g_next;
// The thread that is in that handler, should it come back to ours.
constinit std::atomic<pid_t> g_passing{0};

void Futex(std::atomic<uint32_t>* word, int operation, uint32_t value) {
  syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

pid_t Self() { return static_cast<pid_t>(syscall(SYS_gettid)); }

bool Resolve(uint64_t address, bool write) {
  if (!g_running.load(std::memory_order_acquire) || address < g_low.load() ||
      address >= g_high.load() || Self() == g_thread.load()) {
    return false;
  }
  Fault fault = {address, write, t_thread.runs_host_calls, false, {}, g_faults.load()};
  while (!g_faults.compare_exchange_weak(fault.next, &fault)) {
  }
  g_rung.fetch_add(1);
  Futex(&g_rung, FUTEX_WAKE, 1);
  while (fault.answered.load(std::memory_order_acquire) == 0) Futex(&fault.answered, FUTEX_WAIT, 0);
  return fault.resolved;
}

// Whether the page at `address` may be written. Adds 0 to a word of it.
bool Writable(uint64_t address) {
  uint32_t none = 0;
  return syscall(SYS_futex, &none, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, nullptr,
                 address / sizeof(none) * sizeof(none),
                 FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
}

// Returns true when the write may be tried again. The page may be writable by now although writes
// to it were held when it faulted, so what counts is the page.
bool AwaitHeldWrite(uint64_t address, bool write) {
  if (!write || !g_held_once.load()) return false;
  while (true) {
    const bool held = g_held_begin.load() <= address && address < g_held_end.load();
    if (Writable(address)) return true;
    if (!held) return false;
    sched_yield();
  }
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
  const auto* const at = static_cast<ucontext_t*>(context);
  const bool write = (at->uc_mcontext.gregs[REG_ERR] & kWriteFault) != 0;
  const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
  if (info->si_code == SEGV_ACCERR && (AwaitHeldWrite(address, write) || Resolve(address, write))) {
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

WritesHeld::WritesHeld(uint64_t begin, uint64_t end) {
  g_held_once.store(true);
  RenewFaultHandler();
  g_held_begin.store(begin);
  g_held_end.store(end);
}

WritesHeld::~WritesHeld() { g_held_end.store(0); }

void StopFaultHandler() { g_running.store(false); }

}  // namespace warpline::stub
