#include "server/worker/host/overdue_kernels.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

TEST(OverdueKernelsTest, WhoIsAskedIsToldAndNobodyElse) {
  OverdueKernels overdue;
  int told = 0;
  overdue.Say();
  overdue.Ask([&] { ++told; });
  overdue.Say();
  overdue.Say();
  overdue.Ask(nullptr);
  overdue.Say();
  EXPECT_EQ(told, 2);
}

// What is asked may end as soon as nobody is to be asked.
TEST(OverdueKernelsTest, NobodyIsAskedAfterItsEnd) {
  for (int i = 0; i < 50; ++i) {
    OverdueKernels overdue;
    std::atomic<bool> alive{true};
    overdue.Ask([&] {
      EXPECT_TRUE(alive);
      std::this_thread::yield();
      EXPECT_TRUE(alive);
    });
    std::thread says([&] {
      for (int j = 0; j < 100; ++j) overdue.Say();
    });
    std::this_thread::yield();
    overdue.Ask(nullptr);
    alive = false;
    says.join();
  }
}

}  // namespace
}  // namespace warpline::worker
