#include "server/hostlink/process/priority.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace warpline {
namespace {

// In a process of its own: the exit status of `body`.
template <typename Body>
int InChild(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int Niceness() { return getpriority(PRIO_PROCESS, 0); }

TEST(PriorityTest, WhoMayGoesFirstAndItsChildrenAsUsual) {
  if (Niceness() != 0) GTEST_SKIP() << "the test runs at another priority";
  EXPECT_EQ(InChild([] {
              if (!GoFirst()) return Niceness() == 0 ? 0 : 1;
              if (Niceness() >= 0) return 2;
              GoAsUsual();
              return Niceness() == 0 ? 0 : 3;
            }),
            0);
}

TEST(PriorityTest, APriorityThatSomebodyChoseStays) {
  if (Niceness() != 0) GTEST_SKIP() << "the test runs at another priority";
  EXPECT_EQ(InChild([] {
              setpriority(PRIO_PROCESS, 0, 5);
              if (GoFirst() || Niceness() != 5) return 1;
              GoAsUsual();
              return Niceness() == 5 ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace warpline
