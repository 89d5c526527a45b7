// A program with a handler for SIGSEGV of its own, which also has memory that host and device
// share. The argument says which use. Prints "faults: ok" at the end.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/hosts/programs/workload.h"

enum { kElements = 1024, kTimes = 20, kThreads = 8 };

static struct Workload g_cuda;
static void* g_context;
static void* g_function;
static volatile unsigned* g_shared;  // Managed memory.
static char* g_forbidden;            // A page that nobody may touch.

static __thread sigjmp_buf t_back;
static __thread volatile int t_faults;
static __thread volatile uint64_t t_mask;
static __thread volatile uintptr_t t_stack;
static __thread void* volatile t_address;

static int Fail(const char* what, long value) {
  fprintf(stderr, "faults: %s: %ld\n", what, value);
  return 1;
}

static int Start(void) {
  int (*allocate)(unsigned long long*, size_t, unsigned);
  void* module;
  unsigned long long memory;
  if (OpenWorkload(&g_cuda)) return 1;
  void* const found = dlsym(g_cuda.library, "cuMemAllocManaged");
  memcpy(&allocate, &found, sizeof(found));
  if (found == NULL || g_cuda.init(0) != 0 || g_cuda.context_create(&g_context, 0) != 0 ||
      g_cuda.context_set(g_context) != 0 || g_cuda.module_load(&module, kWorkloadPtx) != 0 ||
      g_cuda.function_get(&g_function, module, "fill") != 0) {
    return Fail("start", 0);
  }
  const int result = allocate(&memory, kElements * sizeof(unsigned), 1);
  if (result != 0) return Fail("cuMemAllocManaged", result);
  g_shared = (volatile unsigned*)(uintptr_t)memory;
  g_forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return g_forbidden == MAP_FAILED ? Fail("mmap", errno) : 0;
}

// Has the device write the memory that is shared, so that the host's next touch is a fault.
static int Fill(unsigned value) {
  void* parameters[] = {(void*)&g_shared, &value};
  const int result =
      g_cuda.launch(g_function, kElements / 128, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL);
  if (result != 0) return Fail("launch", result);
  return 0;
}

static int FillAndWait(unsigned value) {
  return Fill(value) || (g_cuda.synchronize() != 0 && Fail("synchronize", 0));
}

static int HasFilled(unsigned value) {
  for (unsigned i = 0; i < kElements; ++i) {
    if (g_shared[i] != value + i) return Fail("wrong value", (long)g_shared[i]);
  }
  return 0;
}

static void Note(void) {
  char here;
  uint64_t mask = 0;
  t_stack = (uintptr_t)&here;
  ++t_faults;
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  memcpy(&mask, &now, sizeof(mask));
  t_mask = mask;
}

static void Leave(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)context;
  t_address = info->si_addr;
  Note();
  siglongjmp(t_back, 1);
}

static void LeaveAsOfOld(int number) {
  (void)number;
  Note();
  siglongjmp(t_back, 1);
}

// Makes the page accessible and returns, as a garbage collector does.
static void Permit(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)context;
  t_address = info->si_addr;
  Note();
  mprotect(g_forbidden, 4096, PROT_READ | PROT_WRITE);
}

static void Set(void (*handler)(int, siginfo_t*, void*), int flags, int also_blocked) {
  struct sigaction action = {0};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigemptyset(&action.sa_mask);
  if (also_blocked != 0) sigaddset(&action.sa_mask, also_blocked);
  sigaction(SIGSEGV, &action, NULL);
}

// Touches the page that is forbidden. Returns 1 when the handler has left the access.
static int Touch(void) {
  if (sigsetjmp(t_back, 1) != 0) return 1;
  *(volatile char*)g_forbidden = 1;
  return 0;
}

static int TouchAgainAndAgain(void) {
  for (int i = 0; i < kTimes; ++i) {
    const int before = t_faults;
    if (FillAndWait((unsigned)i) || HasFilled((unsigned)i)) return 1;
    if (t_faults != before) return Fail("the program heard of a fault that was not its own", i);
    if (!Touch() || t_faults != before + 1) return Fail("no handler", i);
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    if (sigismember(&now, SIGSEGV)) return Fail("the signal has stayed blocked", i);
  }
  return 0;
}

static int InstalledBefore(void) {
  Set(Leave, 0, 0);
  return Start() || TouchAgainAndAgain() ||
         (t_address != g_forbidden && Fail("another address", 0));
}

static int InstalledAfter(void) {
  if (Start()) return 1;
  for (int i = 0; i < 3; ++i) {
    // No call of CUDA comes between the installation and the touch.
    if (FillAndWait(7)) return 1;
    Set(Leave, 0, 0);
    if (HasFilled(7) || t_faults != i * (kTimes + 1)) return Fail("heard of it", t_faults);
    if (!Touch() || TouchAgainAndAgain()) return Fail("round", i);
    if (FillAndWait(8)) return 1;
    signal(SIGSEGV, LeaveAsOfOld);
    if (HasFilled(8)) return 1;
    const int before = t_faults;
    if (!Touch() || t_faults != before + 1) return Fail("no handler of the old kind", i);
    t_faults = (i + 1) * (kTimes + 1);
  }
  return 0;
}

// The mask, the stack and the arguments are those that the system would give.
static int Delivered(void) {
  static char stack[1 << 16];
  const uint64_t segv = UINT64_C(1) << (SIGSEGV - 1);
  const uint64_t also = UINT64_C(1) << (SIGUSR1 - 1);
  const stack_t alternative = {.ss_sp = stack, .ss_size = sizeof(stack)};
  if (Start() || sigaltstack(&alternative, NULL) != 0) return 1;
  for (int flags = 0; flags < 4; ++flags) {
    const int on_stack = (flags & 1) != 0 ? SA_ONSTACK : 0;
    const int no_defer = (flags & 2) != 0 ? SA_NODEFER : 0;
    Set(Leave, on_stack | no_defer, SIGUSR1);
    if (TouchAgainAndAgain()) return 1;
    if (t_mask != (also | (no_defer != 0 ? 0 : segv))) return Fail("another mask", (long)t_mask);
    const int there = t_stack - (uintptr_t)stack < sizeof(stack);
    if (there != (on_stack != 0)) return Fail("another stack", flags);
    if (t_address != g_forbidden) return Fail("another address", flags);
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    if (now.sa_sigaction != Leave || (now.sa_flags & SA_NODEFER) != no_defer ||
        !sigismember(&now.sa_mask, SIGUSR1)) {
      return Fail("another action is told", now.sa_flags);
    }
  }
  return 0;
}

// With setjmp(), which keeps no mask, and SA_NODEFER, which wants none.
static int LeftWithoutMask(void) {
  Set(Leave, SA_NODEFER, 0);
  if (Start()) return 1;
  for (volatile int i = 0; i < kTimes; ++i) {
    if (FillAndWait((unsigned)i)) return 1;
    if (sigsetjmp(t_back, 0) == 0) {
      *(volatile char*)g_forbidden = 1;
      return Fail("no fault", i);
    }
    if (HasFilled((unsigned)i) || t_faults != i + 1) return Fail("faults", t_faults);
  }
  return 0;
}

static int Returned(void) {
  Set(Permit, 0, 0);
  if (Start()) return 1;
  for (int i = 0; i < kTimes; ++i) {
    if (FillAndWait((unsigned)i) || HasFilled((unsigned)i)) return 1;
    mprotect(g_forbidden, 4096, PROT_NONE);
    *(volatile char*)g_forbidden = 1;
    if (t_faults != i + 1) return Fail("faults", t_faults);
  }
  return 0;
}

// A signal that is sent while it is ignored does nothing.
static int Ignored(void) {
  signal(SIGSEGV, SIG_IGN);
  if (Start()) return 1;
  for (int i = 0; i < 3; ++i) {
    if (FillAndWait((unsigned)i) || HasFilled((unsigned)i)) return 1;
    raise(SIGSEGV);
  }
  return 0;
}

// Nothing but CUDA's memory is used, with all signals blocked and ignored by whoever started this.
static int Blocked(void) {
  if (Start()) return 1;
  for (unsigned i = 0; i < 3; ++i) {
    if (FillAndWait(i) || HasFilled(i)) return 1;
  }
  return 0;
}

static void* TouchOnThread(void* failed) {
  g_cuda.context_set(g_context);
  for (int i = 0; i < kTimes; ++i) {
    if (!Touch()) atomic_fetch_add((atomic_int*)failed, 1);
    // Others have the device write it meanwhile; what counts is that the touch ends.
    (void)g_shared[i];
  }
  if (t_faults != kTimes) atomic_fetch_add((atomic_int*)failed, 1);
  return NULL;
}

static int OnThreads(void) {
  Set(Leave, 0, 0);
  if (Start()) return 1;
  atomic_int failed = 0;
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, TouchOnThread, &failed);
  for (int i = 0; i < kTimes; ++i) {
    if (FillAndWait((unsigned)i) || HasFilled((unsigned)i)) return 1;
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  return failed != 0 ? Fail("on threads", failed) : 0;
}

static void LeaveWait(int number) {
  (void)number;
  siglongjmp(t_back, 1);
}

// A handler of another signal leaves a touch that waits for the device.
static int LeftByAnother(void) {
  if (Start()) return 1;
  signal(SIGALRM, LeaveWait);
  volatile int left = 0;
  for (volatile unsigned i = 0; i < 200; ++i) {
    for (unsigned more = 0; more < 50; ++more) {
      if (Fill(i)) return 1;
    }
    const struct itimerval soon = {{0, 0}, {0, 1 + 50 * (i % 40)}};
    if (sigsetjmp(t_back, 1) == 0) {
      setitimer(ITIMER_REAL, &soon, NULL);
      (void)g_shared[0];
      const struct itimerval never = {{0, 0}, {0, 0}};
      setitimer(ITIMER_REAL, &never, NULL);
    } else {
      ++left;
    }
    if (HasFilled(i)) return 1;
  }
  fprintf(stdout, "left %d\n", left);
  return 0;
}

// ---- Ends by SIGSEGV, as the caller expects.

static int Ends(const char* what) {
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (strcmp(what, "reset") == 0) Set(Leave, SA_RESETHAND, 0);
  if (Start() || FillAndWait(1) || HasFilled(1)) return 1;
  if (strcmp(what, "reset") == 0 && !Touch()) return Fail("no handler", 0);
  if (strcmp(what, "sent") == 0) raise(SIGSEGV);
  if (strcmp(what, "restored") == 0) {
    struct sigaction before;
    struct sigaction mine = {0};
    mine.sa_handler = LeaveAsOfOld;
    sigaction(SIGSEGV, &mine, &before);
    if (FillAndWait(2) || HasFilled(2) || !Touch()) return Fail("no handler", 0);
    sigaction(SIGSEGV, &before, NULL);
  }
  if (strcmp(what, "deferred") == 0) {
    // The handler was left with the signal blocked.
    Set(Leave, 0, 0);
    if (sigsetjmp(t_back, 0) == 0) *(volatile char*)g_forbidden = 1;
  }
  puts("faults: ends");
  fflush(stdout);
  *(volatile char*)g_forbidden = 1;
  return Fail("still here", 0);
}

int main(int count, char** arguments) {
  const struct {
    const char* name;
    int (*run)(void);
  } uses[] = {{"before", InstalledBefore},   {"after", InstalledAfter}, {"delivered", Delivered},
              {"maskless", LeftWithoutMask}, {"returned", Returned},    {"ignored", Ignored},
              {"blocked", Blocked},          {"threads", OnThreads},    {"left", LeftByAnother}};
  if (count < 2) return 2;
  for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); ++i) {
    if (strcmp(uses[i].name, arguments[1]) != 0) continue;
    if (uses[i].run() != 0) return 1;
    puts("faults: ok");
    return 0;
  }
  return Ends(arguments[1]);
}
