/* libwarpline_ucx.so: UCX as a guest of other people's processes.
 *
 * UCX is loaded through this library (ucx_library.cc), with RTLD_DEEPBIND, so that what it asks of
 * the environment is answered here. Left to itself it would take the host's UCX_* variables and its
 * configuration files for its own, replace mmap() and its like in the whole process, take signals,
 * and write its log to the host's standard output. */
#define _GNU_SOURCE
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
    {"UCX_MODULES", "cma"},     /* Loads none of those for GPUs, which would find our libcuda. */
    {"UCX_WARN_UNUSED_ENV_VARS", "n"},
};

static char* Value(const char* name) {
  for (size_t i = 0; i < sizeof(kSettings) / sizeof(kSettings[0]); ++i) {
    if (strcmp(name, kSettings[i].name) == 0) return kSettings[i].value;
  }
  return NULL;
}

__attribute__((visibility("default"))) char* getenv(const char* name) {
  if (strncmp(name, "UCX_", 4) == 0) return Value(name);
  /* Where it would look for a configuration file. */
  if (strcmp(name, "HOME") == 0) return NULL;
  return secure_getenv(name);
}
