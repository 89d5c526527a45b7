/* Binds the exported entry points (trampolines.S) to the core on first use.
 *
 * Plain C on libc alone: this file is loaded into every kind of host process, beside whatever C++
 * libraries that host has, and the core is isolated from those (its own directory, RTLD_LOCAL,
 * RTLD_DEEPBIND) only because nothing of it is needed here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_stub/shim/core_abi.h"
#include "client_stub/shim/library_abi.h"
#include "client_stub/shim/log_line.h"

#define HIDDEN __attribute__((visibility("hidden")))

enum { kInvalidValue = 1, kNotSupported = 801, kSystemNotReady = 802 };

static const char kCoreName[] = "libwarpline_core.so";

enum {
#define WARPLINE_SYMBOL(index, name) kIndex_##name = index,
#include "client_stub/shim/symbols.inc"
#undef WARPLINE_SYMBOL
  kCount
};

void warpline_lazy(void) HIDDEN;
void warpline_unsupported(void) HIDDEN;

#define WARPLINE_SYMBOL(index, name) void name(void);
#include "client_stub/shim/symbols.inc"
#undef WARPLINE_SYMBOL

static const char* const g_names[kCount] = {
#define WARPLINE_SYMBOL(index, name) #name,
#include "client_stub/shim/symbols.inc"
#undef WARPLINE_SYMBOL
};

static void* const g_trampolines[kCount] = {
#define WARPLINE_SYMBOL(index, name) (void*)name,
#include "client_stub/shim/symbols.inc"
#undef WARPLINE_SYMBOL
};

/* Read by the trampolines with plain jumps; on x86-64 an aligned 8-byte load is atomic. */
HIDDEN _Atomic(void*) warpline_table[kCount] = {
#define WARPLINE_SYMBOL(index, name) (void*)warpline_lazy,
#include "client_stub/shim/symbols.inc"
#undef WARPLINE_SYMBOL
};

/* The function is here because this library, unlike the core, sees the host's own stdout and
 * stderr. */
static int Print(int descriptor, const char* text, size_t size, int wait) {
  FILE* stream = descriptor == STDERR_FILENO ? stderr : stdout;
  if (wait) {
    flockfile(stream);
  } else if (ftrylockfile(stream) != 0) {
    return 0;
  }
  fwrite(text, 1, size, stream);
  funlockfile(stream);
  return 1;
}

static const struct warpline_shim g_shim = {WARPLINE_SHIM_ABI_VERSION, kCount, g_names,
                                            g_trampolines, Print};

/* The core's functions for calls that are not part of the driver API. */
static int (*g_readback)(void*, unsigned long long, size_t);
static int (*g_stream_wait)(void*, double);
static int (*g_event_wait)(void*, double);
static int (*g_stream_cancel)(void*, unsigned);
static warpline_library_find_t g_library_find;
static warpline_library_call_t g_library_call;
static warpline_library_ask_t g_library_ask;

static pthread_once_t g_bind_once = PTHREAD_ONCE_INIT;
static _Atomic pid_t g_binding_thread; /* 0 while no thread binds. */
static atomic_flag g_reported[kCount];

/* warpline_unsupported jumps here. */
HIDDEN int warpline_report_unsupported(uint32_t index) {
  if (!atomic_flag_test_and_set_explicit(&g_reported[index], memory_order_relaxed)) {
    WarplineLogLine('W', "stub", "%s is not supported", g_names[index]);
  }
  return kNotSupported;
}

static int NotReady(void) { return kSystemNotReady; }

static int NoErrorText(int error, const char** text) {
  (void)error;
  if (text != NULL) *text = NULL;
  return kInvalidValue;
}

static void* NotReadyEntry(uint32_t index) {
  const int names_errors = index == kIndex_cuGetErrorString || index == kIndex_cuGetErrorName;
  return names_errors ? (void*)NoErrorText : (void*)NotReady;
}

/* Writes the core's path, beside this library's real file, into path[PATH_MAX]. */
static int FindCore(char* path) {
  Dl_info self;
  if (dladdr((void*)warpline_lazy, &self) == 0 || self.dli_fname == NULL ||
      realpath(self.dli_fname, path) == NULL) {
    return 0;
  }
  char* slash = strrchr(path, '/');
  if (slash == NULL || (size_t)(slash + 1 - path) + sizeof(kCoreName) > PATH_MAX) return 0;
  memcpy(slash + 1, kCoreName, sizeof(kCoreName));
  return 1;
}

/* A static program has its own libc, and libraries that it loads get a second one, which knows
 * nothing of the first one's threads and memory. */
static int IsStatic(void) {
  void* program = dlopen(NULL, RTLD_LAZY);
  return program == NULL || dlsym(program, "malloc") == NULL;
}

/* Returns 1 and fills `table` when the core took the entry points. */
static int LoadCore(void** table) {
  char path[PATH_MAX];
  if (IsStatic()) {
    WarplineLogLine('E', "stub",
                    "this program has libc linked statically: link it dynamically to use CUDA");
    return 0;
  }
  if (!FindCore(path)) {
    WarplineLogLine('E', "stub",
                    "cannot tell where libcuda.so.1 was loaded from, so not where %s is",
                    kCoreName);
    return 0;
  }
  int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  /* Sanitizer runtimes end a process that uses RTLD_DEEPBIND. */
  if (dlsym(RTLD_DEFAULT, "__asan_init") == NULL && dlsym(RTLD_DEFAULT, "__tsan_init") == NULL) {
    flags |= RTLD_DEEPBIND;
  }
  void* core = dlopen(path, flags);
  if (core == NULL) {
    WarplineLogLine('E', "stub", "cannot load the core: %s", dlerror());
    return 0;
  }
  int (*attach)(const struct warpline_shim*, void**) =
      (int (*)(const struct warpline_shim*, void**))dlsym(core, "warpline_core_attach");
  if (attach == NULL) {
    WarplineLogLine('E', "stub", "%s is not a core: %s", path, dlerror());
    return 0;
  }
  g_readback = (int (*)(void*, unsigned long long, size_t))dlsym(core, "warpline_memory_readback");
  g_stream_wait = (int (*)(void*, double))dlsym(core, "warpline_stream_wait");
  g_event_wait = (int (*)(void*, double))dlsym(core, "warpline_event_wait");
  g_stream_cancel = (int (*)(void*, unsigned))dlsym(core, "warpline_stream_cancel");
  g_library_find = (warpline_library_find_t)dlsym(core, "warpline_library_find");
  g_library_call = (warpline_library_call_t)dlsym(core, "warpline_library_call");
  g_library_ask = (warpline_library_ask_t)dlsym(core, "warpline_library_ask");
  const int result = attach(&g_shim, table);
  if (result != 0) WarplineLogLine('E', "stub", "the core did not attach: error %d", result);
  return result == 0;
}

static void Bind(void) {
  static void* table[kCount];
  atomic_store(&g_binding_thread, gettid());
  const int loaded = LoadCore(table);
  for (uint32_t i = 0; i < kCount; ++i) {
    void* entry = loaded ? table[i] : NotReadyEntry(i);
    if (entry == NULL) entry = (void*)warpline_unsupported;
    atomic_store_explicit(&warpline_table[i], entry, memory_order_release);
  }
  atomic_store(&g_binding_thread, 0);
}

/* Returns 1 once the core is bound, and 0 on the thread that binds it. */
static int Bound(void) {
  if (atomic_load(&g_binding_thread) == gettid()) return 0;
  pthread_once(&g_bind_once, Bind);
  return 1;
}

/* See client_stub/warpline.h. */
int warplineMemoryReadback(void* dst, unsigned long long src, size_t bytes);
int warplineMemoryReadback(void* dst, unsigned long long src, size_t bytes) {
  return Bound() && g_readback != NULL ? g_readback(dst, src, bytes) : kSystemNotReady;
}

int warplineStreamWait(void* stream, double seconds);
int warplineStreamWait(void* stream, double seconds) {
  return Bound() && g_stream_wait != NULL ? g_stream_wait(stream, seconds) : kSystemNotReady;
}

int warplineEventWait(void* event, double seconds);
int warplineEventWait(void* event, double seconds) {
  return Bound() && g_event_wait != NULL ? g_event_wait(event, seconds) : kSystemNotReady;
}

int warplineStreamCancel(void* stream, unsigned flags);
int warplineStreamCancel(void* stream, unsigned flags) {
  return Bound() && g_stream_cancel != NULL ? g_stream_cancel(stream, flags) : kSystemNotReady;
}

/* See client_stub/shim/library_abi.h. */
int warplineLibraryFind(unsigned* version);
int warplineLibraryFind(unsigned* version) {
  return Bound() && g_library_find != NULL ? g_library_find(version) : kSystemNotReady;
}
int warplineLibraryCall(void* stream, unsigned function, unsigned modes, const uint64_t* values,
                        unsigned count);
int warplineLibraryCall(void* stream, unsigned function, unsigned modes, const uint64_t* values,
                        unsigned count) {
  return Bound() && g_library_call != NULL ? g_library_call(stream, function, modes, values, count)
                                           : kSystemNotReady;
}

int warplineLibraryAsk(struct warpline_library_question* question);
int warplineLibraryAsk(struct warpline_library_question* question) {
  return Bound() && g_library_ask != NULL ? g_library_ask(question) : kSystemNotReady;
}

/* Called by warpline_lazy. Returns the address that the call goes to. */
HIDDEN void* warpline_bind(uint32_t index) {
  /* This call comes from a constructor of the core or of one of its libraries. If it waited for the
   * binding to end, it would wait for itself. */
  if (atomic_load(&g_binding_thread) == gettid()) return NotReadyEntry(index);
  pthread_once(&g_bind_once, Bind);
  return atomic_load_explicit(&warpline_table[index], memory_order_acquire);
}
