#include "server/worker/executors/stream_cancel.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

using Step = StreamCancel::Step;

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);
constexpr absl::Duration kMoment = absl::Milliseconds(1);

TEST(StreamCancel, DropsWhatCameBeforeAndHoldsWhatComesAfter) {
  StreamCancel cancel;
  EXPECT_FALSE(cancel.Drops(1));
  EXPECT_FALSE(cancel.Holds(1));
  cancel.Begin({.ticket = 5});
  EXPECT_TRUE(cancel.Drops(5));
  EXPECT_FALSE(cancel.Drops(6));
  EXPECT_FALSE(cancel.Holds(5));
  EXPECT_TRUE(cancel.Holds(6));
  EXPECT_EQ(cancel.Next({.issued = 5, .retired = 5}, kStart), Step::kDone);
  EXPECT_FALSE(cancel.under_way());
  EXPECT_FALSE(cancel.Holds(6));
  // A task that is handed over late is still one of those that were meant.
  EXPECT_TRUE(cancel.Drops(5));
}

TEST(StreamCancel, WhatWaitsIsDroppedWithoutTouchingWhatRuns) {
  StreamCancel cancel;
  cancel.Begin({.ticket = 5, .waiting_only = true});
  EXPECT_TRUE(cancel.Drops(5));
  EXPECT_FALSE(cancel.under_way());
  EXPECT_FALSE(cancel.Holds(6));
  EXPECT_EQ(cancel.Next({.issued = 2, .retired = 1}, kStart + absl::Hours(1)), Step::kWait);
}

TEST(StreamCancel, KernelsThatCanBeStoppedAreStoppedAtOnce) {
  StreamCancel cancel;
  cancel.Begin({.ticket = 5});
  EXPECT_EQ(cancel.Next({.issued = 2, .retired = 1, .can_stop = true}, kStart), Step::kStop);
  EXPECT_EQ(cancel.Next({.issued = 2, .retired = 1, .can_stop = true}, kStart), Step::kWait);
  EXPECT_EQ(cancel.Next({.issued = 5, .retired = 5, .can_stop = true}, kStart), Step::kDone);
}

TEST(StreamCancel, TheSessionEndsWhenWhatRunsCannotBeStopped) {
  StreamCancel cancel;
  cancel.Begin({.ticket = 5});
  const StreamCancel::Work work = {.issued = 2, .retired = 1};
  EXPECT_EQ(cancel.Next(work, kStart), Step::kWait);
  EXPECT_EQ(cancel.Next(work, kStart + StreamCancel::kByItself - kMoment), Step::kWait);
  EXPECT_EQ(cancel.Next(work, kStart + StreamCancel::kByItself), Step::kEndSession);
  EXPECT_EQ(cancel.Next(work, kStart + absl::Hours(1)), Step::kWait);
}

TEST(StreamCancel, TheSessionEndsWhenKernelsDoNotStop) {
  StreamCancel cancel;
  cancel.Begin({.ticket = 5});
  const StreamCancel::Work work = {.issued = 2, .retired = 1, .can_stop = true};
  EXPECT_EQ(cancel.Next(work, kStart), Step::kStop);
  EXPECT_EQ(cancel.Next(work, kStart + StreamCancel::kOnceStopped - kMoment), Step::kWait);
  EXPECT_EQ(cancel.Next(work, kStart + StreamCancel::kOnceStopped), Step::kEndSession);
}

TEST(StreamCancel, ProgressIsTimeAnew) {
  StreamCancel cancel;
  cancel.Begin({.ticket = 5});
  absl::Time now = kStart;
  for (uint64_t retired = 0; retired < 5; ++retired) {
    EXPECT_EQ(cancel.Next({.issued = 5, .retired = retired}, now), Step::kWait);
    now += StreamCancel::kByItself;
  }
  EXPECT_EQ(cancel.Next({.issued = 5, .retired = 4}, now), Step::kEndSession);
}

TEST(StreamCancel, AHostFunctionIsWaitedFor) {
  StreamCancel cancel;
  cancel.Begin({.ticket = 5});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(cancel.Next({.issued = 3, .retired = 3}, kStart + i * absl::Hours(1)), Step::kWait);
  }
}

TEST(StreamCancel, TheSessionDoesNotEndForAStreamThatWaitsForAnotherOne) {
  StreamCancel cancel;
  cancel.Begin({.ticket = 5});
  StreamCancel::Work work = {.issued = 3, .retired = 2, .can_stop = true, .is_held = true};
  EXPECT_EQ(cancel.Next(work, kStart), Step::kStop);
  EXPECT_EQ(cancel.Next(work, kStart + absl::Hours(1)), Step::kWait);
  work.is_held = false;
  EXPECT_EQ(cancel.Next(work, kStart + absl::Hours(2)), Step::kWait);
  EXPECT_EQ(cancel.Next(work, kStart + absl::Hours(3)), Step::kEndSession);
}

TEST(StreamCancel, SeveralAreOne) {
  StreamCancel cancel;
  cancel.Begin({.ticket = 5});
  cancel.Begin({.ticket = 9});
  cancel.Begin({.ticket = 2, .waiting_only = true});
  EXPECT_EQ(cancel.Next({.issued = 5, .retired = 5}, kStart), Step::kWait);
  EXPECT_EQ(cancel.Next({.issued = 9, .retired = 9}, kStart), Step::kDone);
  EXPECT_FALSE(cancel.under_way());
}

}  // namespace
}  // namespace warpline::worker
