#include "client_stub/core/managed/fault_handler.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
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

// A fault that a thread waits for. It does not lie on the thread's stack: a signal that comes
// during the wait may run a handler that faults itself, or that leaves by siglongjmp() and never
// comes back.
struct FaultSlot {
  // The thread that waits, or that has left its wait; 0 when the slot is free.
  std::atomic<pid_t> owner;
  // The phase, and above it the number of the question. The owner waits on this word.
  std::atomic<uint32_t> state;
  // Set by the owner while no question is open.
  uint64_t address;
  FaultAccess access;
};

enum Phase : uint32_t { kIdle, kAsked, kTaken, kRefused, kResolved };
constexpr uint32_t kPhases = 8;
constexpr uint32_t kSlots = 1024;

Phase PhaseOf(uint32_t state) { return static_cast<Phase>(state % kPhases); }
bool IsOpen(uint32_t state) { return PhaseOf(state) == kAsked || PhaseOf(state) == kTaken; }
uint32_t NextQuestion(uint32_t state) { return (state / kPhases + 1) * kPhases + kAsked; }
uint32_t InPhase(uint32_t state, Phase phase) { return state / kPhases * kPhases + phase; }

constinit FaultSlot g_slots[kSlots] = {};
// No slot from this one on was ever used.
constinit std::atomic<uint32_t> g_slots_used{0};
constinit std::atomic<uint32_t> g_rung{0};
constinit std::atomic<bool> g_running{false};
// The number of threads that answer and have no question.
constinit std::atomic<int> g_listening{0};
constinit std::atomic<uint64_t> g_low{0};
constinit std::atomic<uint64_t> g_high{0};
// Where writes are held at present; [0, 0) for nowhere. `g_holds` counts the times that they were.
constinit std::atomic<uint64_t> g_held_begin{0};
constinit std::atomic<uint64_t> g_held_end{0};
constinit std::atomic<uint64_t> g_holds{0};

pid_t Self() { return static_cast<pid_t>(syscall(SYS_gettid)); }

void Futex(std::atomic<uint32_t>* word, int operation, uint32_t value) {
  syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

// ---- The program's action.

// The kernel's form of a set of signals, and of what a program has set for SIGSEGV.
using SignalMask = uint64_t;
constexpr SignalMask kSegv = uint64_t{1} << (SIGSEGV - 1);

void SetMask(SignalMask mask, SignalMask* former = nullptr) {
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, former, sizeof(mask));
}

SignalMask MaskOf(const sigset_t& set) {
  SignalMask mask;
  memcpy(&mask, &set, sizeof(mask));
  return mask;
}

constinit std::atomic<bool> g_program_held{false};

// Holds the lock of `g_program`. No signal is taken meanwhile, so that the lock may be taken in a
// signal handler.
class ProgramLock {
 public:
  ProgramLock() {
    SetMask(~SignalMask{0}, &former_);
    while (g_program_held.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  ~ProgramLock() {
    g_program_held.store(false, std::memory_order_release);
    SetMask(former_);
  }
  ProgramLock(const ProgramLock&) = delete;
  ProgramLock& operator=(const ProgramLock&) = delete;

 private:
  SignalMask former_;
};

// The action that the program has set for SIGSEGV, and that its faults get; under ProgramLock.
struct sigaction g_program;
// Ours is installed, so `g_program` counts.
constinit std::atomic<bool> g_installed{false};
// Marks the context of a fault that the program's handler has now. The kernel clears the field with
// each delivery, so that a handler that was left by siglongjmp() leaves no mark behind.
constinit ucontext_t g_passed = {};

bool IsHandler(const struct sigaction& action) {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

// ---- Faults that may be ours.

bool IsGone(pid_t thread) {
  return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

// Returns the slot that this thread has left without an answer, or else a free one.
FaultSlot* TakeSlot(pid_t self) {
  while (true) {
    const uint32_t used = g_slots_used.load();
    for (uint32_t i = 0; i < used; ++i) {
      if (g_slots[i].owner.load() == self) return &g_slots[i];
    }
    for (uint32_t i = 0; i < kSlots; ++i) {
      pid_t none = 0;
      if (!g_slots[i].owner.compare_exchange_strong(none, self)) continue;
      uint32_t most = g_slots_used.load();
      while (most <= i && !g_slots_used.compare_exchange_weak(most, i + 1)) {
      }
      return &g_slots[i];
    }
    for (FaultSlot& slot : g_slots) {
      pid_t owner = slot.owner.load();
      if (owner != 0 && IsGone(owner) && slot.owner.compare_exchange_strong(owner, self)) {
        return &slot;
      }
    }
    sched_yield();
  }
}

// Returns once nothing of what `slot` was asked before is open.
void AwaitFormer(FaultSlot* slot) {
  while (true) {
    const uint32_t state = slot->state.load(std::memory_order_acquire);
    if (!IsOpen(state)) return;
    Futex(&slot->state, FUTEX_WAIT, state);
  }
}

// Returns true when the access may be tried again.
bool Resolve(uint64_t address, bool write) {
  const pid_t self = Self();
  if (!g_running.load(std::memory_order_acquire) || address < g_low.load() ||
      address >= g_high.load() || t_thread.answers_faults) {
    return false;
  }
  FaultSlot* slot;
  SignalMask mask;
  while (true) {
    slot = TakeSlot(self);
    AwaitFormer(slot);
    // A signal handler of this thread that faults now would use the slot, and free it.
    SetMask(~SignalMask{0}, &mask);
    if (slot->owner.load() == self && !IsOpen(slot->state.load())) break;
    SetMask(mask);
  }
  slot->address = address;
  slot->access = {write, t_thread.runs_host_calls, t_thread.works != 0};
  const uint32_t question = NextQuestion(slot->state.load());
  slot->state.store(question);
  // A listener hears of it before a signal handler of the program can run, which may leave this one
  // by siglongjmp(): the next fault of this thread waits for the answer.
  g_rung.fetch_add(1);
  Futex(&g_rung, FUTEX_WAKE, 1);
  SetMask(mask);
  uint32_t state = question;
  while (state == question || state == InPhase(question, kTaken)) {
    Futex(&slot->state, FUTEX_WAIT, state);
    state = slot->state.load(std::memory_order_acquire);
  }
  // When a signal handler of this thread has faulted meanwhile, its question has taken the place of
  // this one, and the access is simply tried again.
  if (state / kPhases != question / kPhases) return true;
  pid_t owner = self;
  slot->owner.compare_exchange_strong(owner, 0);
  return PhaseOf(state) == kResolved;
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
  if (!write || g_holds.load() == 0) return false;
  while (true) {
    const uint64_t holds = g_holds.load();
    const bool held = g_held_begin.load() <= address && address < g_held_end.load();
    if (Writable(address)) return true;
    // A hold that has begun since may be why.
    if (!held && holds == g_holds.load()) return false;
    sched_yield();
  }
}

// Ends the process as the default action does: by the access, which happens again, or by the signal
// that was `sent`, which would not.
void LetItDie(int signal, bool sent) {
  struct sigaction fatal = {};
  fatal.sa_handler = SIG_DFL;
  sigaction(signal, &fatal, nullptr);
  if (sent) syscall(SYS_tgkill, getpid(), Self(), signal);
}

// Does what the kernel would do for the program's action.
void Pass(int signal, siginfo_t* info, ucontext_t* context) {
  const bool sent = info->si_code <= 0;
  struct sigaction next;
  {
    const ProgramLock lock;
    next = g_program;
    if ((next.sa_flags & SA_RESETHAND) != 0) g_program.sa_handler = SIG_DFL;
  }
  if (next.sa_handler == SIG_IGN && sent) return;
  // A handler that passes faults on to the one before it may have come back here.
  if (!IsHandler(next) || context->uc_link == &g_passed) return LetItDie(signal, sent);
  // The kernel writes only the first word of the set.
  SignalMask mask = MaskOf(context->uc_sigmask) | MaskOf(next.sa_mask);
  if ((next.sa_flags & SA_NODEFER) == 0) mask |= kSegv;
  context->uc_link = &g_passed;
  SetMask(mask);
  // The kernel gives all three arguments to either kind of handler.
  next.sa_sigaction(signal, info, context);
  context->uc_link = nullptr;
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
  Pass(signal, info, static_cast<ucontext_t*>(context));
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnFault;
}

// Installs our handler. It blocks no signal, so that the handlers of others run while it waits, and
// may fault. It runs on the stack that the program's handler would have; without one, on the
// alternative stack, which a thread of little stack may have.
void Install(const struct sigaction& program, struct sigaction* before) {
  struct sigaction ours = {};
  ours.sa_sigaction = OnFault;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;
  if (!IsHandler(program) || (program.sa_flags & SA_ONSTACK) != 0) ours.sa_flags |= SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, before);
}

// Installs ours where the program has installed its own past SetProgramAction().
void InstallAgain() {
  const ProgramLock lock;
  struct sigaction now;
  if (sigaction(SIGSEGV, nullptr, &now) != 0 || IsOurs(now)) return;
  g_program = now;
  g_installed.store(true);
  struct sigaction before;
  Install(now, &before);
  if (!IsOurs(before)) g_program = before;
}

void StartListening(FaultResolver resolver);

void Answer(FaultSlot* slot, FaultResolver resolver) {
  uint32_t state = slot->state.load(std::memory_order_acquire);
  if (PhaseOf(state) != kAsked ||
      !slot->state.compare_exchange_strong(state, InPhase(state, kTaken))) {
    return;
  }
  // An answer may wait for work, and the work for a function of the program that faults itself. So
  // another thread listens meanwhile.
  if (g_listening.fetch_sub(1) == 1) StartListening(resolver);
  const bool resolved = resolver(slot->address, slot->access);
  g_listening.fetch_add(1);
  slot->state.store(InPhase(state, resolved ? kResolved : kRefused), std::memory_order_release);
  Futex(&slot->state, FUTEX_WAKE, INT_MAX);
}

void Run(FaultResolver resolver) {
  t_thread.answers_faults = true;
  g_running.store(true, std::memory_order_release);
  while (true) {
    const uint32_t rung = g_rung.load();
    const uint32_t used = g_slots_used.load();
    for (uint32_t i = 0; i < used; ++i) Answer(&g_slots[i], resolver);
    Futex(&g_rung, FUTEX_WAIT, rung);
  }
}

// Starts one more thread that answers faults. If that fails, faults wait for the other threads.
void StartListening(FaultResolver resolver) {
  g_listening.fetch_add(1);
  try {
    StartLoopThread("wl-faults", [resolver] { Run(resolver); }).detach();
  } catch (const std::system_error& error) {
    g_listening.fetch_sub(1);
    if (const LogPermit permit = CallLog().Ask(kNoThreadLine)) {
      permit.Error("no thread for memory that host and device share: ", error.what());
    }
  }
}

}  // namespace

bool StartFaultHandler(FaultResolver resolver) {
  StartListening(resolver);
  if (g_listening.load() == 0) return false;
  while (!g_running.load(std::memory_order_acquire)) std::this_thread::yield();
  RenewFaultHandler();
  return true;
}

void SetFaultSpan(uint64_t low, uint64_t high) {
  g_low.store(low);
  g_high.store(high);
}

void RenewFaultHandler() {
  // Where a thread blocks the signal, the kernel ends the process.
  UnblockSignals({SIGSEGV});
  struct sigaction now;
  if (sigaction(SIGSEGV, nullptr, &now) == 0 && !IsOurs(now)) InstallAgain();
}

int SetProgramAction(const struct sigaction* action, struct sigaction* former) {
  if (!g_installed.load()) return sigaction(SIGSEGV, action, former);
  // The caller's memory may be a page of ours, which faults; so it is not touched under the lock.
  struct sigaction wanted = {};
  if (action != nullptr) wanted = *action;
  struct sigaction was;
  {
    const ProgramLock lock;
    struct sigaction now;
    sigaction(SIGSEGV, nullptr, &now);
    // A handler that was installed past this function.
    if (!IsOurs(now)) g_program = now;
    was = g_program;
    if (action != nullptr) {
      g_program = wanted;
      Install(wanted, nullptr);
    }
  }
  if (former != nullptr) *former = was;
  return 0;
}

WritesHeld::WritesHeld(uint64_t begin, uint64_t end) {
  RenewFaultHandler();
  g_held_begin.store(begin);
  g_held_end.store(end);
  g_holds.fetch_add(1);
}

WritesHeld::~WritesHeld() { g_held_end.store(0); }

void StopFaultHandler() {
  g_running.store(false);
  // A thread that the child does not have may have held it.
  g_program_held.store(false);
}

}  // namespace warpline::stub
