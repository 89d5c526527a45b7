/* libwarpline_ucx.so: UCX as a guest of other people's processes.
 *
 * UCX is loaded through this library (ucx_library.cc), with RTLD_DEEPBIND, so that what it asks of
 * the environment is answered here. Left to itself it would take the host's UCX_* variables and its
 * configuration files for its own, replace mmap() and its like in the whole process, take signals,
 * and write its log to the host's standard output.
 *
 * UCX also ends its process when it meets a state that it holds to be impossible, and a peer that
 * is lost while it connects leads to several of these. So its calls of abort() come here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct setting {
  const char* name;
  char* value;
};

static const struct setting kSettings[] = {
    {"UCX_MEM_EVENTS", "no"},      /* Replaces no function. */
    {"UCX_ERROR_SIGNALS", ""},     /* Takes no signal, */
    {"UCX_HANDLE_ERRORS", "none"}, /* and prints no backtrace. */
    {"UCX_DEBUG_SIGNO", "0"},
    {"UCX_LOG_FILE", "stderr"},
    {"UCX_LOG_LEVEL", "fatal"}, /* What goes wrong comes back as a status. */
    {"UCX_VFS_ENABLE", "n"},    /* Starts no thread that waits for a debugging tool. */
    /* Loads no modules. Those for GPUs would find our libcuda, and all of the system's bring a UCX
     * of the system beside the bundle's. ucx_worker.cc asks for the one for RDMA where it is
     * wanted. */
    {"UCX_MODULES", "none"},
    {"UCX_WARN_UNUSED_ENV_VARS", "n"},
};

static char* Value(const char* name) {
  for (size_t i = 0; i < sizeof(kSettings) / sizeof(kSettings[0]); ++i) {
    if (strcmp(name, kSettings[i].name) == 0) return kSettings[i].value;
  }
  return NULL;
}

/* Where abort() continues: the innermost warpline_ucx_guard() of this thread, if there is one. */
static _Thread_local jmp_buf* innermost;

/* Runs `call`, and returns 1. Returns 0 when UCX ended the process instead of returning. What it
 * was working at must not be touched again then, since it was left in the middle: it stays in
 * memory. `call` must have nothing to clean up. */
__attribute__((visibility("default"))) int warpline_ucx_guard(void (*call)(void*), void* argument) {
  jmp_buf here;
  jmp_buf* const outer = innermost;
  if (_setjmp(here) != 0) {
    innermost = outer;
    return 0;
  }
  innermost = &here;
  call(argument);
  innermost = outer;
  return 1;
}

__attribute__((visibility("default"), noreturn)) void abort(void) {
  if (innermost != NULL) _longjmp(*innermost, 1);
  /* A thread of UCX's own, or a call that is not guarded. */
  void (*const end_process)(void) = (void (*)(void))dlsym(RTLD_NEXT, "abort");
  if (end_process != NULL) end_process();
  raise(SIGABRT);
  _Exit(127);
}

__attribute__((visibility("default"))) char* getenv(const char* name) {
  if (strncmp(name, "UCX_", 4) == 0) return Value(name);
  /* Where it would look for a configuration file. */
  if (strcmp(name, "HOME") == 0) return NULL;
  return secure_getenv(name);
}
