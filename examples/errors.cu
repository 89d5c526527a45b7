// Makes mistakes and checks that CUDA's own error code comes back. Errors that end the context (an
// illegal access, a trap) stay for the life of the process, so each of those cases runs in a
// process of its own: the program starts itself with --case=NAME.
#include <spawn.h>
#include <sys/wait.h>

#include "check.h"
#include "error_cases.h"

extern char** environ;

namespace {

using error_cases::Case;
using error_cases::Kind;

// Runs `name` in a new process and returns true if it found what it expects.
bool RunInOwnProcess(const char* name) {
  char program[] = "/proc/self/exe";
  char argument[64];
  std::snprintf(argument, sizeof(argument), "--case=%s", name);
  char* arguments[] = {program, argument, nullptr};
  pid_t child = 0;
  std::fflush(stdout);
  if (posix_spawn(&child, program, nullptr, nullptr, arguments, environ) != 0) {
    examples::Fail("cannot start %s for case %s", program, name);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  if (WIFSIGNALED(status)) std::printf("case %s: ended by signal %d\n", name, WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Runs a case in this process. A case that is to leave the context usable must really do so.
void RunHere(const Case& c) {
  c.run();
  if (c.kind != Kind::kPlain) return;
  cudaGetLastError();
  error_cases::ExpectUsable(c.name);
}

int RunOne(const char* name) {
  for (const Case& c : error_cases::kCases) {
    if (std::strcmp(c.name, name) != 0) continue;
    RunHere(c);
    if (examples::g_failed_checks != 0) return 1;
    std::printf("case %s: ok\n", name);
    return 0;
  }
  std::fprintf(stderr, "no case is called %s\n", name);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "errors", "wrong calls and the codes that they give");
  const char* only = options.Text("case", "", "run this case only, in this process");
  const bool undefined =
      options.Number("undefined", 0, "1: also run the cases that CUDA leaves undefined") != 0;
  const long long list = options.Number("list", 0, "1: print the names of the cases");
  options.Finish();
  if (list != 0) {
    for (const Case& c : error_cases::kCases) std::printf("%s\n", c.name);
    return 0;
  }
  if (only[0] != '\0') return RunOne(only);

  // A process of its own cannot inherit a driver in use, so these come first.
  int own = 0, shared = 0;
  if (!RunInOwnProcess("good_work")) examples::Fail("good work fails, so no error can be judged");
  for (const Case& c : error_cases::kCases) {
    if (c.kind == Kind::kPlain || (c.kind == Kind::kUndefined && !undefined)) continue;
    examples::Expect(RunInOwnProcess(c.name), "case %s in its own process", c.name);
    ++own;
  }
  for (const Case& c : error_cases::kCases) {
    if (c.kind != Kind::kPlain) continue;
    RunHere(c);
    ++shared;
  }
  return examples::Report("%d cases in one process, %d in one each", shared, own);
}
