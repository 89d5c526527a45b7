// Flags, checks and the last line that every example program shares. It uses the plain CUDA runtime
// API; any user's program could contain it. Header only, not thread-safe unless a function says so.
//
// Order of use in main(): declare flags through Options, call Options::Finish(), do the work with
// CUDA_CHECK and Expect, and end with `return Report(...)`.
#ifndef WARPLINE_EXAMPLES_CHECK_H_
#define WARPLINE_EXAMPLES_CHECK_H_

#include <cuda_runtime.h>
#include <signal.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Ends the program with the FAILED line if `call` does not return cudaSuccess. Thread-safe.
#define CUDA_CHECK(call)                                                                          \
  do {                                                                                            \
    const cudaError_t cuda_check_result = (call);                                                 \
    if (cuda_check_result != cudaSuccess) {                                                       \
      ::examples::Fail("%s:%d: %s: %s (%d): %s", ::examples::BaseName(__FILE__), __LINE__, #call, \
                       cudaGetErrorName(cuda_check_result), int(cuda_check_result),               \
                       cudaGetErrorString(cuda_check_result));                                    \
    }                                                                                             \
  } while (false)

// Ends the program with the FAILED line if the launch before it was refused.
#define CUDA_CHECK_LAUNCH() CUDA_CHECK(cudaGetLastError())

namespace examples {

inline char g_program_name[64] = "example";
inline int g_checks = 0;
inline int g_failed_checks = 0;

inline const char* BaseName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// Prints `NAME: FAILED (why)` and ends the process with exit status 1. It does not run destructors:
// a kernel that never ends must not keep a failed program alive. Thread-safe.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void Fail(const char* format, ...) {
  char why[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(why, sizeof(why), format, args);
  va_end(args);
  std::printf("%s: FAILED (%s)\n", g_program_name, why);
  std::fflush(stdout);
  std::_Exit(1);
}

// Counts one check; prints one line if it does not hold. Returns `holds`.
__attribute__((format(printf, 2, 3))) inline bool Expect(bool holds, const char* format, ...) {
  ++g_checks;
  if (holds) return true;
  ++g_failed_checks;
  std::printf("%s: check failed: ", g_program_name);
  va_list args;
  va_start(args, format);
  std::vprintf(format, args);
  va_end(args);
  std::printf("\n");
  return false;
}

// Prints the last line, `NAME: ok (figures, device: X)` or `NAME: FAILED (why)`, and returns the
// exit status of main(): 0 or 1.
__attribute__((format(printf, 1, 2))) inline int Report(const char* format, ...) {
  if (g_failed_checks != 0) {
    Fail("%d of %d checks failed", g_failed_checks, g_checks);
  }
  int device = 0;
  cudaDeviceProp properties;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  char figures[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(figures, sizeof(figures), format, args);
  va_end(args);
  std::printf("%s: ok (%s, device: %s)\n", g_program_name, figures, properties.name);
  return 0;
}

// The command line: `--name=number`, `--name=text` and `--help`. Every program also takes
// --timeout_s, after which it ends with the FAILED line instead of waiting for ever.
class Options {
 public:
  Options(int argc, char** argv, const char* name, const char* summary)
      : argc_(argc), argv_(argv), summary_(summary) {
    std::snprintf(g_program_name, sizeof(g_program_name), "%s", name);
    for (int i = 1; i < argc && i < kMaxArguments; ++i) {
      if (std::strcmp(argv[i], "--help") == 0) help_ = used_[i] = true;
    }
    if (help_) std::printf("%s: %s\nFlags:\n", name, summary_);
  }

  long long Number(const char* flag, long long default_value, const char* meaning) {
    if (help_) std::printf("  --%s=N  %s (default %lld)\n", flag, meaning, default_value);
    const char* text = Find(flag);
    if (text == nullptr) return default_value;
    char* end = nullptr;
    const long long value = std::strtoll(text, &end, 0);
    if (end == text || *end != '\0' || value < 0) BadUsage(text);
    return value;
  }

  // The returned text lives as long as the process's arguments.
  const char* Text(const char* flag, const char* default_value, const char* meaning) {
    if (help_) std::printf("  --%s=TEXT  %s\n", flag, meaning);
    const char* text = Find(flag);
    return text == nullptr ? default_value : text;
  }

  // Call once, after the last flag: serves --help, refuses unknown arguments (exit status 2) and
  // starts the time limit.
  void Finish() {
    const long long timeout_s = Number("timeout_s", 120, "give up after this many seconds");
    if (help_) std::exit(0);
    for (int i = 1; i < argc_; ++i) {
      if (i >= kMaxArguments || !used_[i]) BadUsage(argv_[i]);
    }
    signal(SIGALRM, OnTimeout);
    alarm(static_cast<unsigned>(timeout_s));
  }

 private:
  static constexpr int kMaxArguments = 32;

  const char* Find(const char* flag) {
    const size_t length = std::strlen(flag);
    const char* found = nullptr;
    for (int i = 1; i < argc_ && i < kMaxArguments; ++i) {
      if (std::strncmp(argv_[i], "--", 2) == 0 && std::strncmp(argv_[i] + 2, flag, length) == 0 &&
          argv_[i][2 + length] == '=') {
        used_[i] = true;
        found = argv_[i] + 2 + length + 1;
      }
    }
    return found;
  }

  [[noreturn]] static void BadUsage(const char* argument) {
    std::fprintf(stderr, "%s: bad argument '%s'; see --help\n", g_program_name, argument);
    std::_Exit(2);
  }

  // Only async-signal-safe calls here.
  static void OnTimeout(int) {
    static const char kWhy[] = ": FAILED (time limit reached)\n";
    if (write(1, g_program_name, std::strlen(g_program_name)) < 0) _exit(1);
    if (write(1, kWhy, sizeof(kWhy) - 1) < 0) _exit(1);
    _exit(1);
  }

  int argc_;
  char** argv_;
  const char* summary_;
  bool help_ = false;
  bool used_[kMaxArguments] = {};
};

}  // namespace examples

#endif  // WARPLINE_EXAMPLES_CHECK_H_
