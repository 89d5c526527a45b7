#include "server/worker/host/sandbox.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

// Returns, as bits of an exit code, which calls in a sandbox did not do what they should.
int InSandbox() {
  if (!EnterSandbox().ok()) return 64;
  int wrong = 0;
  char* const argv[] = {const_cast<char*>("true"), nullptr};
  if (execv("/bin/true", argv) == 0 || errno != EPERM) wrong |= 1;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  if (child > 0 || errno != EPERM) wrong |= 2;
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 || errno != EPERM) wrong |= 4;
  bool ran = false;
  std::thread([&] { ran = true; }).join();
  if (!ran) wrong |= 8;
  return wrong;
}

TEST(SandboxTest, StartsThreadsAndNothingElse) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(InSandbox());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace warpline::worker
