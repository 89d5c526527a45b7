#include "common/process_identity.h"

#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(ProcessIdentityTest, TellsLivingProcessesFromEndedOnes) {
  const uint64_t own = ProcessStartTime(static_cast<uint32_t>(getpid()));
  EXPECT_NE(own, 0u);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_GE(ProcessStartTime(static_cast<uint32_t>(child)), own);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(ProcessStartTime(static_cast<uint32_t>(child)), 0u);
}

TEST(ProcessIdentityTest, NamesTheHost) {
  EXPECT_EQ(BootId().size(), 36u);
  EXPECT_EQ(BootId(), BootId());
  EXPECT_NE(PidNamespace(), 0u);
}

}  // namespace
}  // namespace warpline
