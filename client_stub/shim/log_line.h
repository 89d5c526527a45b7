/* Lines in the format of common/log/log.h, for C on libc alone: for libraries that are loaded into
 * programs of every kind.
 *
 * Thread-safe. For sources with _GNU_SOURCE. */
#ifndef WARPLINE_CLIENT_STUB_SHIM_LOG_LINE_H_
#define WARPLINE_CLIENT_STUB_SHIM_LOG_LINE_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Writes a line to stderr with one write(2), cut to 1023 bytes. `level` is 'I', 'W' or 'E', and
 * `module` is short. */
static inline void WarplineLogLine(char level, const char* module, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
static inline void WarplineLogLine(char level, const char* module, const char* format, ...) {
  struct timespec now;
  struct tm utc;
  char line[1024];
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  size_t size = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &utc);
  size += (size_t)snprintf(line + size, sizeof(line) - size, ".%03ldZ %c %s ",
                           now.tv_nsec / 1000000, level, module);
  va_list args;
  va_start(args, format);
  const int text = vsnprintf(line + size, sizeof(line) - size - 1, format, args);
  va_end(args);
  if (text > 0) size += strnlen(line + size, sizeof(line) - size - 2);
  line[size++] = '\n';
  if (write(STDERR_FILENO, line, size) < 0) return; /* There is nowhere else to say it. */
}

#endif /* WARPLINE_CLIENT_STUB_SHIM_LOG_LINE_H_ */
