/* Another process does the asking, so that gRPC and TLS stay out of programs that only look at
 * their GPUs, and so that it works after any fork. See docs/decisions/0014-nvml.md. */
#define _GNU_SOURCE
#include "client_stub/nvml/ask.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client_stub/shim/log_line.h"

/* Descriptors of ours are at kDescriptorsFrom and above where the process may have so many. */
enum { kPatienceMs = 10000, kMaxAnswer = 1 << 20, kDescriptorsFrom = 512 };

static const char kProgram[] = "../bin/warpline";

/* Writes a line in the format of common/log/log.h. The same reason twice in a row is written
 * once. */
static void Complain(const char* reason, size_t size) {
  static _Atomic uint64_t last;
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ (unsigned char)reason[i]) * 1099511628211u;
  if (atomic_exchange(&last, hash) == hash) return;
  WarplineLogLine('W', "stub", "libnvidia-ml.so.1: %.*s", (int)(size < 400 ? size : 400), reason);
}

/* Writes the program's path, which is fixed relative to this library's real file, into
 * path[PATH_MAX]. */
static int FindProgram(char* path) {
  Dl_info self;
  if (dladdr((void*)WarplineAskForDevices, &self) == 0 || self.dli_fname == NULL ||
      realpath(self.dli_fname, path) == NULL) {
    return 0;
  }
  char* slash = strrchr(path, '/');
  if (slash == NULL || (size_t)(slash + 1 - path) + sizeof(kProgram) > PATH_MAX) return 0;
  memcpy(slash + 1, kProgram, sizeof(kProgram));
  return 1;
}

/* Returns the process's environment without the variables that would load libraries into the
 * program. The caller frees it with free(). */
static char** Environment(void) {
  size_t count = 0;
  while (environ != NULL && environ[count] != NULL) ++count;
  char** kept = malloc((count + 1) * sizeof(*kept));
  if (kept == NULL) return NULL;
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 && strncmp(environ[i], "LD_AUDIT=", 9) != 0) {
      kept[next++] = environ[i];
    }
  }
  kept[next] = NULL;
  return kept;
}

/* Moves a descriptor of ours out of the way of the process: what it prints goes to 1 and 2 whether
 * these are open or not. Returns the new number, or -1. */
static int Keep(int fd) {
  int kept = fcntl(fd, F_DUPFD_CLOEXEC, kDescriptorsFrom);
  if (kept < 0) kept = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(fd);
  return kept;
}

/* Makes a pipe. Returns 0 when there is none to be had. */
static int MakePipe(int ends[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) return 0;
  for (int i = 0; i < 2; ++i) ends[i] = Keep(ends[i]);
  if (ends[0] >= 0 && ends[1] >= 0) return 1;
  for (int i = 0; i < 2; ++i) {
    if (ends[i] >= 0) close(ends[i]);
  }
  return 0;
}

/* Starts the program with its output going to `output`. Returns its id, or 0. */
static pid_t Start(const char* path, int output) {
  char pid_option[32];
  snprintf(pid_option, sizeof(pid_option), "--pid=%ld", (long)getpid());
  char* const arguments[] = {(char*)"warpline", (char*)"devices", pid_option, NULL};
  char** const environment = Environment();
  if (environment == NULL) return 0;
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_init(&attributes);
  sigset_t none, every;
  sigemptyset(&none);
  sigfillset(&every);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &every);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error = posix_spawn(&child, path, &files, &attributes, arguments, environment);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  free(environment);
  return error == 0 ? child : 0;
}

static int64_t NowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The answer's last line says that it is whole: the pipe's end need not come, since a process that
 * was forked meanwhile may hold it open. */
static int IsWhole(const char* text, size_t size) {
  return size >= 5 && memcmp(text + size - 5, "\nend\n", 5) == 0;
}

/* Reads until the answer is whole, the pipe ends or the time is up. The caller frees the text with
 * free(); NULL for lack of memory. */
static char* ReadAnswer(int input, size_t* size) {
  const int64_t deadline = NowMs() + kPatienceMs;
  size_t room = 16384;
  char* text = malloc(room + 1);
  *size = 0;
  while (text != NULL && !IsWhole(text, *size)) {
    if (*size == room) {
      char* larger = room < kMaxAnswer ? realloc(text, 2 * room + 1) : NULL;
      if (larger == NULL) break;
      text = larger;
      room *= 2;
    }
    const int64_t left = deadline - NowMs();
    struct pollfd wait = {input, POLLIN, 0};
    if (left <= 0) break;
    const int ready = poll(&wait, 1, (int)left);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    const ssize_t n = read(input, text + *size, room - *size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    *size += (size_t)n;
  }
  if (text == NULL) return NULL;
  /* The readers of the text go from line to line until the final 0. */
  for (size_t i = 0; i < *size; ++i) {
    if (text[i] == '\0') text[i] = '?';
  }
  text[*size] = '\0';
  return text;
}

/* Repeats the last line of a program that failed, which says why. */
static void ComplainWithLastLine(const char* text, size_t size) {
  while (size > 0 && text[size - 1] == '\n') --size;
  size_t start = size;
  while (start > 0 && text[start - 1] != '\n') --start;
  if (size > start) {
    Complain(text + start, size - start);
  } else {
    static const char kSilent[] = "no answer from `warpline devices`";
    Complain(kSilent, sizeof(kSilent) - 1);
  }
}

char* WarplineAskForDevices(void) {
  char path[PATH_MAX];
  int ends[2];
  const char* const endpoint = secure_getenv("WARPLINE_ENDPOINT");
  const char* const folder = secure_getenv("WARPLINE_LEASE_FOLDER");
  if ((endpoint == NULL || *endpoint == '\0') && (folder == NULL || *folder == '\0')) {
    static const char kUnset[] = "WARPLINE_ENDPOINT is not set: no device";
    Complain(kUnset, sizeof(kUnset) - 1);
    return NULL;
  }
  if (!FindProgram(path)) {
    static const char kNowhere[] = "cannot tell where it was loaded from, so not where warpline is";
    Complain(kNowhere, sizeof(kNowhere) - 1);
    return NULL;
  }
  if (!MakePipe(ends)) return NULL;
  const pid_t child = Start(path, ends[1]);
  close(ends[1]);
  size_t size = 0;
  char* text = child == 0 ? NULL : ReadAnswer(ends[0], &size);
  close(ends[0]);
  if (child == 0) {
    char reason[PATH_MAX + 32];
    const int length = snprintf(reason, sizeof(reason), "cannot run %s", path);
    Complain(reason, (size_t)length);
    return NULL;
  }
  const int whole = text != NULL && IsWhole(text, size);
  if (!whole) kill(child, SIGKILL);
  /* A program that ignores its children, or waits for all of them, has waited for this one
   * already. */
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
  }
  if (whole) return text;
  ComplainWithLastLine(text == NULL ? "" : text, size);
  free(text);
  return NULL;
}
