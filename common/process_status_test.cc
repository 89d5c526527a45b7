#include "common/process_status.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

// Forks a process that calls itself `name` and waits to be killed.
pid_t Child(const char* name) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NAME, name);
    (void)!write(ready[1], "", 1);
    while (true) pause();
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

TEST(ProcessStatusTest, ReadsAProcessWithBracketsInItsName) {
  const pid_t child = Child("a) R 1 (b");
  const auto status = ReadProcessStatus(child);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->name, "a) R 1 (b");
  EXPECT_EQ(status->parent, getpid());
  EXPECT_EQ(status->threads, 1);
  EXPECT_NE(std::string("RSD").find(status->state), std::string::npos);
  EXPECT_GE(status->started, ReadProcessStatus(getpid())->started);
  const std::vector<pid_t> all = AllProcesses();
  EXPECT_NE(std::find(all.begin(), all.end(), child), all.end());
  kill(child, SIGKILL);
  siginfo_t ended = {};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  EXPECT_EQ(ReadProcessStatus(child)->state, 'Z');
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(ReadProcessStatus(child).has_value());
}

// A process that ends between the opening of its file and the reading makes the reading fail.
TEST(ProcessStatusTest, SurvivesProcessesThatEndMeanwhile) {
  std::atomic<pid_t> last = 0;
  std::atomic<bool> over = false;
  std::thread reader([&] {
    while (!over) {
      if (const pid_t pid = last; pid != 0) ReadProcessStatus(pid);
    }
  });
  for (int i = 0; i < 1000; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    last = child;
    waitpid(child, nullptr, 0);
  }
  over = true;
  reader.join();
  EXPECT_FALSE(ReadProcessStatus(last).has_value());
}

}  // namespace
}  // namespace warpline
