#include "server/hostlink/dispatch_gate/kernel_times.h"

#include <gtest/gtest.h>

namespace warpline::dispatch {
namespace {

TEST(KernelTimes, ATimeIsTheMeanOfTheLatestLaunches) {
  KernelTimes times;
  EXPECT_EQ(times.ExpectedNs(7), 0);
  times.Learn(7, 1000, 1);
  EXPECT_EQ(times.ExpectedNs(7), 1000);
  times.Learn(7, 1800, 1);
  EXPECT_EQ(times.ExpectedNs(7), 1100);
  times.Learn(7, 5000, 100);
  EXPECT_EQ(times.ExpectedNs(7), 5000) << "many launches at once count more than earlier ones";
}

TEST(KernelTimes, AKernelIsNotTakenForAnotherOneOfItsPlace) {
  KernelTimes times;
  times.Learn(7, 1000, 1);
  EXPECT_EQ(times.ExpectedNs(7 + KernelTimes::kPlaces), 0);
  times.Learn(7 + KernelTimes::kPlaces, 50, 1);
  EXPECT_EQ(times.ExpectedNs(7 + KernelTimes::kPlaces), 50);
  EXPECT_EQ(times.ExpectedNs(7), 0);
}

TEST(KernelTimes, AKnownTimeIsNeverZero) {
  KernelTimes times;
  times.Learn(7, 0, 1);
  EXPECT_EQ(times.ExpectedNs(7), 1);
}

}  // namespace
}  // namespace warpline::dispatch
