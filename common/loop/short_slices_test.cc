#include "common/loop/short_slices.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

#include "gtest/gtest.h"

namespace warpline {
namespace {

// The kernel's struct sched_attr, whose header and that of the C library exclude each other.
struct SchedAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};

// Of the calling thread.
SchedAttributes Attributes() {
  SchedAttributes attributes = {};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0), 0);
  return attributes;
}

TEST(ShortSlicesTest, AreInherited) {
  const SchedAttributes before = Attributes();
  if (before.policy != SCHED_OTHER) GTEST_SKIP() << "the test runs with another policy";
  if (before.runtime == 0) GTEST_SKIP() << "this kernel has no custom slices";
  SchedAttributes own, inherited;
  std::thread([&] {
    AskForShortSlices();
    own = Attributes();
    std::thread([&] { inherited = Attributes(); }).join();
  }).join();
  EXPECT_LT(own.runtime, before.runtime);
  EXPECT_EQ(inherited.runtime, own.runtime);
  EXPECT_EQ(Attributes().runtime, before.runtime);
}

TEST(ShortSlicesTest, LeaveNicenessAndPolicyAlone) {
  std::thread([&] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 3), 0);
    const int before = Attributes().nice;
    AskForShortSlices();
    EXPECT_EQ(Attributes().nice, before);
  }).join();
  std::thread([&] {
    SchedAttributes wanted = Attributes();
    wanted.policy = SCHED_BATCH;
    if (syscall(SYS_sched_setattr, 0, &wanted, 0) != 0) return;
    const SchedAttributes batch = Attributes();
    AskForShortSlices();
    EXPECT_EQ(Attributes().runtime, batch.runtime);
    EXPECT_EQ(Attributes().policy, batch.policy);
  }).join();
}

}  // namespace
}  // namespace warpline
