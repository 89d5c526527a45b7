// Shared by all conformance programs: calls of the driver API by name, checks, and the lines that
// tell how they went. Header only; each program is one translation unit.
//
// A program is a list of sections. Each section runs in a process of its own, forked before any
// CUDA call, so that neither a sticky error nor a crash nor a hang reaches the next one. Every
// check prints one line, `CALL<tab>check<tab>ok|FAIL|refused<tab>reason`; a check that fails does
// not end its section. The last line is the program's total, and the exit status is 0 only without
// FAIL.
//
// WARPLINE_CONFORMANCE says what is tested: `native`, `remote`, or `cpu` (remote on the CPU
// device). What is known to be refused there is expected to be refused with the documented error.
#ifndef WARPLINE_TESTS_CONFORMANCE_CONFORMANCE_H_
#define WARPLINE_TESTS_CONFORMANCE_CONFORMANCE_H_

#include <cuda.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

namespace conformance {

enum class Mode { kNative, kRemote, kCpu };

inline Mode mode() {
  static const Mode found = [] {
    const char* text = std::getenv("WARPLINE_CONFORMANCE");
    if (text == nullptr || std::strcmp(text, "native") == 0) return Mode::kNative;
    return std::strcmp(text, "cpu") == 0 ? Mode::kCpu : Mode::kRemote;
  }();
  return found;
}

inline bool native() { return mode() == Mode::kNative; }
inline bool on_cpu() { return mode() == Mode::kCpu; }

// Shared between a section's process and its parent: the latest attempt and the counts.
struct Progress {
  char call[128];
  char check[256];
  int ok, failed, refused;
};

inline Progress* g_progress = nullptr;

inline void Mark(const char* call, const char* check) {
  std::snprintf(g_progress->call, sizeof(g_progress->call), "%s", call);
  std::snprintf(g_progress->check, sizeof(g_progress->check), "%s", check);
}

// Prints the line of the check that was marked.
inline void Line(const char* verdict, const char* reason) {
  (*verdict == 'F' ? g_progress->failed : *verdict == 'r' ? g_progress->refused : g_progress->ok)++;
  std::printf("%s\t%s\t%s\t%s\n", g_progress->call, g_progress->check, verdict, reason);
  std::fflush(stdout);
}

inline void* Driver() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return library;
}

// Finds a function of libcuda.so.1. Calling one that does not exist gives kNoSuchSymbol.
constexpr CUresult kNoSuchSymbol = static_cast<CUresult>(-1);

template <typename T>
struct Entry;
template <typename... A>
struct Entry<CUresult (*)(A...)> {
  CUresult (*function)(A...);
  CUresult operator()(A... arguments) const {
    return function == nullptr ? kNoSuchSymbol : function(arguments...);
  }
};

template <typename T>
Entry<T> Find(const char* symbol) {
  void* library = Driver();
  return {library == nullptr ? nullptr : reinterpret_cast<T>(dlsym(library, symbol))};
}

#define CONFORMANCE_TEXT(x) #x
#define CONFORMANCE_SYMBOL(x) CONFORMANCE_TEXT(x)
// The driver function `fn` in the version that cuda.h means by that name, or another version by its
// symbol.
#define CU(fn) (::conformance::Find<decltype(&fn)>(CONFORMANCE_SYMBOL(fn)))
#define CU_SYMBOL(type, symbol) (::conformance::Find<decltype(&type)>(symbol))

inline std::string Name(CUresult code) {
  if (code == kNoSuchSymbol) return "no such symbol";
  const char* name = nullptr;
  if (CU(cuGetErrorName)(code, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown";
  return std::string(name) + " (" + std::to_string(int(code)) + ")";
}

// Judges the marked call. Returns whether it gave `expected`.
inline bool Judge(CUresult expected, CUresult got) {
  if (got == expected) {
    Line("ok", "");
    return true;
  }
  Line("FAIL", ("gives " + Name(got) + ", expected " + Name(expected)).c_str());
  return false;
}

// Judges a call that is not supported yet when remote. Returns true only where it really succeeded.
inline bool JudgeRefused(CUresult expected, CUresult refusal, CUresult got) {
  if (native()) return Judge(expected, got) && got == CUDA_SUCCESS;
  if (got == refusal) {
    Line("refused", Name(got).c_str());
  } else {
    Line("FAIL", ("gives " + Name(got) + ", expected the refusal " + Name(refusal)).c_str());
  }
  return false;
}

inline bool Setup(CUresult got) {
  if (got == CUDA_SUCCESS) return true;
  Line("FAIL", ("gives " + Name(got) + "; the rest of the section is left out").c_str());
  return false;
}

__attribute__((format(printf, 4, 5))) inline bool Holds(const char* call, const char* check,
                                                        bool holds, const char* format, ...) {
  Mark(call, check);
  char why[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(why, sizeof(why), format, args);
  va_end(args);
  Line(holds ? "ok" : "FAIL", holds ? "" : why);
  return holds;
}

template <typename A, typename B>
bool Equal(const char* call, const char* check, A got, B expected) {
  return Holds(call, check, got == static_cast<A>(expected), "is %lld, expected %lld",
               (long long)got, (long long)expected);  // NOLINT: any integer, enum or address
}

// Checks that `fn(...)` gives `expected`. Evaluates to whether it did.
#define CALL(check, expected, fn, ...) \
  (::conformance::Mark(#fn, check), ::conformance::Judge(expected, CU(fn)(__VA_ARGS__)))
// Makes the same check under a given name, for macros that get the function by its symbol.
#define CALL_NAMED(name, check, expected, fn, ...) \
  (::conformance::Mark(name, check), ::conformance::Judge(expected, CU(fn)(__VA_ARGS__)))
// Makes the same check of a named ABI version: `symbol` has the type of `type`.
#define CALL_SYMBOL(check, expected, type, symbol, ...) \
  (::conformance::Mark(symbol, check),                  \
   ::conformance::Judge(expected, CU_SYMBOL(type, symbol)(__VA_ARGS__)))
// Checks that `fn(...)` gives `expected` natively and CUDA_ERROR_NOT_SUPPORTED remotely. Evaluates
// to true only where it really succeeded.
#define REFUSED(check, expected, fn, ...) \
  (::conformance::Mark(#fn, check),       \
   ::conformance::JudgeRefused(expected, CUDA_ERROR_NOT_SUPPORTED, CU(fn)(__VA_ARGS__)))
#define REFUSED_AS(check, expected, refusal, fn, ...) \
  (::conformance::Mark(#fn, check),                   \
   ::conformance::JudgeRefused(expected, refusal, CU(fn)(__VA_ARGS__)))
// Makes a call that the section needs: leaves the section where `fn(...)` fails, and prints nothing
// otherwise.
#define SETUP(fn, ...)                                      \
  do {                                                      \
    ::conformance::Mark(#fn, "setup");                      \
    if (!::conformance::Setup(CU(fn)(__VA_ARGS__))) return; \
  } while (false)
#define HOLDS(fn, check, holds, ...) ::conformance::Holds(#fn, check, holds, __VA_ARGS__)
#define EQUAL(fn, check, got, expected) ::conformance::Equal(#fn, check, got, expected)

struct Section {
  const char* name;
  void (*run)();
};

constexpr unsigned kSectionTimeoutSeconds = 60;

inline void RunSection(const Section& section) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSectionTimeoutSeconds);
    Mark(section.name, "start");
    section.run();
    Mark(section.name, "end of the process");
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  char why[96];
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    std::snprintf(why, sizeof(why), "no end after %u s in section %s", kSectionTimeoutSeconds,
                  section.name);
  } else {
    std::snprintf(why, sizeof(why), "the process ended with %s %d in section %s",
                  WIFSIGNALED(status) ? "signal" : "status",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), section.name);
  }
  Line("FAIL", why);
}

// Runs all sections, or the one that the first argument names, in this process. Returns the exit
// status for main().
inline int Run(int argc, char** argv, const char* program,
               std::initializer_list<Section> sections) {
  void* memory =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  g_progress = new (memory) Progress{};
  for (const Section& section : sections) {
    if (argc < 2) {
      RunSection(section);
    } else if (std::strcmp(argv[1], section.name) == 0) {
      section.run();
    }
  }
  std::printf("total\t%s\t%s\t%d ok, %d FAIL, %d refused\n", program,
              g_progress->failed == 0 ? "ok" : "FAIL", g_progress->ok, g_progress->failed,
              g_progress->refused);
  return g_progress->failed == 0 ? 0 : 1;
}

}  // namespace conformance

#endif  // WARPLINE_TESTS_CONFORMANCE_CONFORMANCE_H_
