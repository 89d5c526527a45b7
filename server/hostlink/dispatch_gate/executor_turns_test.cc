#include "server/hostlink/dispatch_gate/executor_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace warpline::dispatch {
namespace {

constexpr int64_t kUs = 1000;
int64_t now_ns = 0;
int64_t Now() { return now_ns; }

class ExecutorTurnsTest : public testing::Test {
 protected:
  ExecutorTurnsTest() {
    now_ns = 1'000'000 * kUs;
    auto page = DispatchPage::Create();
    page_ = page->get();
    gates_ = std::make_unique<SessionGates>(*std::move(page), &Now);
    turns_ = std::make_unique<ExecutorTurns>(gates_.get(), 0);
  }

  EngineSlot& slot(Engine engine = Engine::kCompute) {
    return page_->device(0)[EngineIndex(engine)];
  }
  WorkerLine& line(Engine engine = Engine::kCompute) { return slot(engine).worker; }
  // Issues as much as it may, and says how much that is.
  int Issue(Engine engine = Engine::kCompute, int most = 1000) {
    int issued = 0;
    while (issued < most && turns_->MayIssue(engine)) {
      turns_->OnIssued(engine, ++ticket_, engine == Engine::kCompute ? 0 : 1 << 20);
      ++issued;
    }
    return issued;
  }
  void RetireAllAfter(int64_t ns) {
    now_ns += ns;
    turns_->OnRetired(ticket_);
  }

  DispatchPage* page_;
  std::unique_ptr<SessionGates> gates_;
  std::unique_ptr<ExecutorTurns> turns_;
  uint64_t ticket_ = 0;
};

TEST_F(ExecutorTurnsTest, OpenEngineHasNoLimit) {
  EXPECT_EQ(Issue(), 1000);
  EXPECT_EQ(line().executors_in_flight, 1u);
  EXPECT_EQ(line().executors_waiting, 0u);
  EXPECT_EQ(turns_->MarkEvery(64), 64u);
  RetireAllAfter(500 * kUs);
  EXPECT_EQ(line().executors_in_flight, 0u);
  EXPECT_EQ(line().busy_ns, 500u * kUs);
  EXPECT_EQ(line().commands, 1000u);
}

TEST_F(ExecutorTurnsTest, ShowsWhatPartOfTheDeviceItsKernelsHave) {
  const auto share = std::make_shared<std::atomic<uint32_t>>(0);
  auto page = DispatchPage::Create();
  WorkerLine& shown = (*page)->device(0)[EngineIndex(Engine::kCompute)].worker;
  const SessionGates gates(*std::move(page), &Now, share);
  ExecutorTurns turns(&gates, 0);
  *share = 121;
  turns.OnIssued(Engine::kCopyIn, 1, 1 << 20);
  EXPECT_EQ(shown.share, 0u);
  turns.OnIssued(Engine::kCompute, 2, 0);
  EXPECT_EQ(shown.share, 121u);
  *share = 60;
  turns.OnIssued(Engine::kCompute, 3, 0);
  EXPECT_EQ(shown.share, 60u);
  turns.OnRetired(3);
}

TEST_F(ExecutorTurnsTest, ClosedEngineIsWaitedForUntilItOpens) {
  slot().SetGrant(Grant::Closed(now_ns + 5000 * kUs));
  EXPECT_EQ(Issue(), 0);
  EXPECT_EQ(Issue(), 0);
  EXPECT_EQ(line().executors_waiting, 1u);
  // It need not look before its turn is near.
  EXPECT_GT(turns_->NapAtMost(absl::Seconds(1)), absl::Milliseconds(4));
  EXPECT_LE(turns_->NapAtMost(absl::Seconds(1)), absl::Milliseconds(5));
  slot().SetGrant(Grant::Open());
  EXPECT_EQ(Issue(), 1000);
  EXPECT_EQ(line().executors_waiting, 0u);
}

TEST_F(ExecutorTurnsTest, TurnHasAMillisecondOfWorkAhead) {
  slot().SetGrant(Grant::Turn(now_ns + 6000 * kUs));
  // Nothing is known of the kernels yet.
  EXPECT_EQ(Issue(), 8);
  RetireAllAfter(kUs * 50 * 8);
  EXPECT_EQ(Issue(), 20);
  EXPECT_EQ(turns_->MarkEvery(64), 10u);
}

TEST_F(ExecutorTurnsTest, LongKernelsHaveOneThatFollows) {
  slot().SetGrant(Grant::Turn(now_ns + 60'000 * kUs));
  Issue(Engine::kCompute, 1);
  RetireAllAfter(5000 * kUs);
  EXPECT_EQ(Issue(), 2);
  EXPECT_EQ(turns_->MarkEvery(64), 1u);
}

TEST_F(ExecutorTurnsTest, NothingIsIssuedThatWouldBeginAfterTheTurn) {
  slot().SetGrant(Grant::Turn(now_ns + 60'000 * kUs));
  Issue(Engine::kCompute, 1);
  RetireAllAfter(5000 * kUs);
  slot().SetGrant(Grant::Turn(now_ns + 4000 * kUs));
  EXPECT_EQ(Issue(), 1);
  slot().SetGrant(Grant::Turn(now_ns - 1));
  RetireAllAfter(5000 * kUs);
  EXPECT_EQ(Issue(), 0);
  EXPECT_EQ(line().executors_waiting, 1u);
}

TEST_F(ExecutorTurnsTest, SharedDeviceHasSomeMillisecondsAhead) {
  slot().SetGrant(Grant::Shared());
  Issue(Engine::kCompute, 1);
  RetireAllAfter(5000 * kUs);
  EXPECT_EQ(Issue(), 4);
  EXPECT_EQ(line().executors_waiting, 0u);
}

TEST_F(ExecutorTurnsTest, LittleIsAheadWhileSomebodyMoreUrgentIsExpected) {
  for (const Grant grant : {Grant::Turn(now_ns + 600'000 * kUs), Grant::Shared()}) {
    turns_ = std::make_unique<ExecutorTurns>(gates_.get(), 0);
    slot().SetGrant(grant);
    Issue(Engine::kCompute, 1);
    RetireAllAfter(50 * kUs);
    slot().SetGrant(grant.Brief());
    EXPECT_EQ(Issue(), 6) << "kernels of 50 us";
    EXPECT_EQ(turns_->MarkEvery(64), 3u);
    EXPECT_LE(turns_->NapAtMost(absl::Seconds(1)), absl::Microseconds(25));
    slot().SetGrant(grant);
    EXPECT_GE(Issue(), 14) << "nobody is expected any more";
    RetireAllAfter(1000 * kUs);
    Issue(Engine::kCompute, 1);
    RetireAllAfter(5000 * kUs);
    slot().SetGrant(grant.Brief());
    EXPECT_EQ(Issue(), 1) << "kernels of 5 ms";
    RetireAllAfter(5000 * kUs);
  }
}

TEST_F(ExecutorTurnsTest, WhoIsExpectedFindsOneKernelInFlightWhereSomeAreLong) {
  slot().SetGrant(Grant::Turn(now_ns + 600'000 * kUs));
  Issue(Engine::kCompute, 1);
  RetireAllAfter(900 * kUs);
  for (int i = 0; i < 100; ++i) {
    Issue(Engine::kCompute, 1);
    RetireAllAfter(20 * kUs);
  }
  const Grant turn = slot().grant();
  EXPECT_GT(Issue(), 10) << "by their mean";
  RetireAllAfter(20 * 20 * kUs);
  slot().SetGrant(turn.Brief());
  EXPECT_EQ(Issue(), 1);
  for (int i = 0; i < 1000; ++i) {
    RetireAllAfter(20 * kUs);
    Issue(Engine::kCompute, 1);
  }
  RetireAllAfter(20 * kUs);
  EXPECT_GT(Issue(), 10) << "a long time after the last long one";
}

TEST_F(ExecutorTurnsTest, BriefGrantsSayTheRestAsOthersDo) {
  const Grant turn = Grant::Turn(now_ns);
  EXPECT_FALSE(turn.brief());
  EXPECT_TRUE(turn.Brief().brief());
  EXPECT_EQ(turn.Brief().state(), Grant::State::kTurn);
  EXPECT_EQ(turn.Brief().time_ns(), now_ns);
  EXPECT_FALSE(Grant::Shared().Brief().open());
}

TEST_F(ExecutorTurnsTest, SmallCopiesNeedNoTurnWhileThereAreFew) {
  constexpr uint64_t kSmall = 63u << 10;
  const auto free = [&] {
    int count = 0;
    while (count < 1000 && turns_->IsFree(Engine::kCopyIn, kSmall)) ++count;
    return count;
  };
  EXPECT_EQ(free(), 1000) << "nobody else is there";
  for (const Grant grant : {Grant::Closed(now_ns), Grant::Shared(), Grant::Turn(now_ns)}) {
    now_ns += 1'000'000 * kUs;
    slot(Engine::kCopyIn).SetGrant(grant);
    EXPECT_EQ(free(), 16) << "a mebibyte";
  }
  EXPECT_TRUE(turns_->IsFree(Engine::kCopyOut, 4)) << "the other direction is by itself";
  EXPECT_FALSE(turns_->IsFree(Engine::kCopyOut, 1 << 20));
  EXPECT_FALSE(turns_->IsFree(Engine::kCompute, 0));
  // All executors of the session have it together.
  ExecutorTurns another(gates_.get(), 0);
  EXPECT_FALSE(another.IsFree(Engine::kCopyIn, kSmall));
}

TEST_F(ExecutorTurnsTest, OneEngineIsNotHeldWhileTheOtherIsWaitedFor) {
  slot(Engine::kCopyIn).SetGrant(Grant::Turn(now_ns + 6000 * kUs));
  EXPECT_EQ(Issue(Engine::kCompute, 1), 1);
  EXPECT_EQ(Issue(Engine::kCopyIn), 0);
  RetireAllAfter(10 * kUs);
  EXPECT_GT(Issue(Engine::kCopyIn), 0);
  EXPECT_EQ(line(Engine::kCopyIn).bytes, uint64_t{8} << 20);
}

// The driver may take milliseconds to issue a command, in which the turn is not to end.
TEST_F(ExecutorTurnsTest, WhatIsBeingIssuedIsInFlight) {
  slot().SetGrant(Grant::Turn(now_ns + 6000 * kUs));
  ASSERT_TRUE(turns_->MayIssue(Engine::kCompute));
  turns_->OnIssuing(Engine::kCompute);
  EXPECT_EQ(line().executors_in_flight, 1u);
  now_ns += 3000 * kUs;
  turns_->OnIssued(Engine::kCompute, ++ticket_, 0);
  EXPECT_EQ(line().executors_in_flight, 1u);
  RetireAllAfter(100 * kUs);
  EXPECT_EQ(line().executors_in_flight, 0u);
  EXPECT_EQ(line().commands, 1u);
  // How long the kernel takes does not include that: ten of them are a millisecond.
  EXPECT_EQ(Issue(), 10);
  turns_->OnIssuing(Engine::kCompute);
  EXPECT_EQ(line().executors_in_flight, 1u);
  turns_->OnNotIssued();
  EXPECT_EQ(line().executors_in_flight, 1u);
}

TEST_F(ExecutorTurnsTest, WhatIsNotIssuedAfterAllIsNotInFlight) {
  turns_->OnIssuing(Engine::kCopyOut);
  EXPECT_EQ(line(Engine::kCopyOut).executors_in_flight, 1u);
  turns_->OnNotIssued();
  EXPECT_EQ(line(Engine::kCopyOut).executors_in_flight, 0u);
  turns_->OnNotIssued();
  EXPECT_EQ(line(Engine::kCopyOut).executors_in_flight, 0u);
  turns_->OnIssuing(Engine::kCompute);
  turns_ = nullptr;
  EXPECT_EQ(line().executors_in_flight, 0u);
}

TEST_F(ExecutorTurnsTest, PartsOfACommandCountOnce) {
  turns_->OnIssued(Engine::kCopyOut, 1, 1 << 20);
  turns_->OnIssued(Engine::kCopyOut, 1, 1 << 20);
  EXPECT_EQ(line(Engine::kCopyOut).bytes, uint64_t{1} << 20);
  turns_->OnRetired(1);
  EXPECT_EQ(line(Engine::kCopyOut).executors_in_flight, 0u);
}

TEST_F(ExecutorTurnsTest, ExecutorThatEndsTakesBackWhatItSaid) {
  Issue(Engine::kCompute, 3);
  slot(Engine::kCopyIn).SetGrant(Grant::Closed(0));
  Issue(Engine::kCopyIn);
  turns_ = nullptr;
  EXPECT_EQ(line().executors_in_flight, 0u);
  EXPECT_EQ(line(Engine::kCopyIn).executors_waiting, 0u);
}

constexpr uint64_t kLong = 5;  // Hashes of kernels' names.
constexpr uint64_t kShort = 6;

class KernelTimesTest : public ExecutorTurnsTest {
 protected:
  KernelTimesTest() { slot().SetGrant(Grant::Turn(now_ns + 600'000'000 * kUs)); }
  // Launches these kernels, which are complete together after some time.
  void Run(const std::vector<uint64_t>& kernels, int64_t ns) {
    for (const uint64_t kernel : kernels) {
      ASSERT_TRUE(turns_->MayIssue(Engine::kCompute));
      turns_->OnIssued(Engine::kCompute, ++ticket_, 0, kernel);
    }
    RetireAllAfter(ns);
  }
  int64_t Learned(uint64_t kernel) { return gates_->kernel_times().ExpectedNs(kernel); }
};

TEST_F(KernelTimesTest, EachKernelHasItsOwnTime) {
  Run({kLong}, 900 * kUs);
  Run({kShort}, 20 * kUs);
  Run({kLong}, 900 * kUs);
  EXPECT_EQ(Learned(kLong), 900 * kUs);
  EXPECT_EQ(Learned(kShort), 20 * kUs);
}

TEST_F(KernelTimesTest, KernelsBetweenTwoMarksDivideTheTimeByWhatIsKnown) {
  Run({kShort, kShort}, 200 * kUs);
  EXPECT_EQ(Learned(kShort), 100 * kUs);
  Run({kShort, kLong}, 1000 * kUs);
  // The mean is taken for the one that is not known, so that they are as 1 to 5.
  EXPECT_EQ(Learned(kLong), 5000 * kUs / 6);
  for (int i = 0; i < 200; ++i) {
    Run({kShort}, 100 * kUs);
    Run({kShort, kLong}, 1000 * kUs);
  }
  EXPECT_NEAR(Learned(kShort), 100 * kUs, 5 * kUs);
  EXPECT_NEAR(Learned(kLong), 900 * kUs, 10 * kUs);
}

TEST_F(KernelTimesTest, OtherWorkIsNotTakenForAKernels) {
  Run({kShort, 0, 0, 0}, 400 * kUs);
  EXPECT_EQ(Learned(kShort), 100 * kUs);
}

TEST_F(KernelTimesTest, NothingIsLearnedOfASessionThatIsAlone) {
  slot().SetGrant(Grant::Open());
  Run({kShort}, 100 * kUs);
  EXPECT_EQ(Learned(kShort), 0);
}

TEST_F(KernelTimesTest, ALaunchThatWaitsIsShownWithItsTime) {
  Run({kLong}, 900 * kUs);
  slot().SetGrant(Grant::Closed(0));
  EXPECT_FALSE(turns_->wants_kernel());
  EXPECT_FALSE(turns_->MayIssue(Engine::kCompute));
  EXPECT_TRUE(turns_->wants_kernel());
  const KernelFacts launch = {.name = kLong,
                              .grid_blocks = 7,
                              .expected_ns = 1,
                              .block_threads = 32,
                              .registers = 40,
                              .shared_bytes = 1024};
  turns_->ShowKernel(launch);
  KernelFacts shown = launch;
  shown.expected_ns = 900 * kUs;
  EXPECT_EQ(page_->kernel(0).Read(), shown);
  EXPECT_FALSE(turns_->MayIssue(Engine::kCompute));
  EXPECT_FALSE(turns_->wants_kernel()) << "once is enough";
  page_->ForgetWorker();
  EXPECT_EQ(page_->kernel(0).Read().name, 0u);
  line().executors_waiting = 1;  // The executor takes this back when it ends.
}

// Two executors of one session. The second one has a stream with a priority.
class ExecutorRanksTest : public ExecutorTurnsTest {
 protected:
  ExecutorRanksTest() {
    turns_->SetPriority(0, /*makes_way=*/true);
    urgent_.SetPriority(-2, /*makes_way=*/true);
  }
  void IssueUrgent() {
    ASSERT_TRUE(urgent_.MayIssue(Engine::kCompute));
    urgent_.OnIssued(Engine::kCompute, ++urgent_ticket_, 0);
  }
  RankLine& ranks() { return page_->ranks(0); }

  ExecutorTurns urgent_{gates_.get(), 0};
  uint64_t urgent_ticket_ = 0;
};

TEST_F(ExecutorRanksTest, LittleIsInFlightBesideAHigherPriority) {
  Issue(Engine::kCompute, 1);
  RetireAllAfter(100 * kUs);
  IssueUrgent();
  EXPECT_EQ(ranks().Highest(), 2u);
  EXPECT_EQ(Issue(), 3) << "300 us of it, though the engine is open";
  EXPECT_EQ(Issue(Engine::kCopyIn, 5), 5) << "priorities are of kernels";
  // It goes on for as long as the other one works.
  RetireAllAfter(300 * kUs);
  EXPECT_GE(Issue(), 1);
  urgent_.OnRetired(urgent_ticket_);
  EXPECT_EQ(ranks().Highest(), 0u);
  EXPECT_EQ(Issue(), 1000) << "nothing of a higher priority is in flight";
}

TEST_F(ExecutorRanksTest, TheHigherPriorityBeginsFirst) {
  slot().SetGrant(Grant::Closed(now_ns));
  EXPECT_FALSE(turns_->MayIssue(Engine::kCompute));
  EXPECT_FALSE(urgent_.MayIssue(Engine::kCompute));
  slot().SetGrant(Grant::Turn(now_ns + 600'000 * kUs));
  EXPECT_FALSE(turns_->MayIssue(Engine::kCompute)) << "it makes way";
  EXPECT_EQ(line().executors_waiting, 2u);
  IssueUrgent();
  EXPECT_TRUE(turns_->MayIssue(Engine::kCompute));
  EXPECT_EQ(line().executors_waiting, 0u);
}

TEST_F(ExecutorRanksTest, NoStreamMakesWayForLong) {
  slot().SetGrant(Grant::Closed(now_ns));
  EXPECT_FALSE(urgent_.MayIssue(Engine::kCompute));
  slot().SetGrant(Grant::Turn(now_ns + 600'000 * kUs));
  EXPECT_FALSE(turns_->MayIssue(Engine::kCompute));
  now_ns += ExecutorTurns::kMostWayNs - kUs;
  EXPECT_FALSE(turns_->MayIssue(Engine::kCompute));
  // The other one does not come.
  now_ns += kUs;
  EXPECT_GE(Issue(), 1);
  RetireAllAfter(10 * kUs);
  EXPECT_GE(Issue(), 1) << "nor is it waited for again";
}

TEST_F(ExecutorRanksTest, DevicesThatOrderKernelsNeedNoOrder) {
  turns_->SetPriority(0, /*makes_way=*/false);
  IssueUrgent();
  EXPECT_EQ(ranks().Highest(), 2u) << "the server is told all the same";
  EXPECT_EQ(Issue(), 1000);
}

TEST_F(ExecutorRanksTest, StreamsOfOnePriorityDoNotMakeWay) {
  turns_->SetPriority(-2, /*makes_way=*/true);
  IssueUrgent();
  EXPECT_EQ(Issue(), 1000);
  EXPECT_EQ(ranks().raised, 2u);
}

TEST_F(ExecutorRanksTest, APriorityMayChangeWhileKernelsAreInFlight) {
  IssueUrgent();
  EXPECT_EQ(ranks().Highest(), 2u);
  urgent_.SetPriority(INT32_MIN, /*makes_way=*/true);
  EXPECT_EQ(ranks().Highest(), kMostRank);
  urgent_.SetPriority(INT32_MAX, /*makes_way=*/true);
  EXPECT_EQ(ranks().Highest(), 0u);
  urgent_.SetPriority(-1, /*makes_way=*/true);
  EXPECT_EQ(ranks().Highest(), 1u);
  urgent_.Leave();
  EXPECT_EQ(ranks().raised, 0u);
}

TEST_F(ExecutorRanksTest, AWorkerThatHasEndedLeavesNoRanks) {
  IssueUrgent();
  page_->ForgetWorker();
  EXPECT_EQ(ranks().Highest(), 0u);
  EXPECT_EQ(Issue(), 1000);
  page_->ranks(0).raised = 1;  // The executor takes this back when it ends.
  page_->ranks(0).ranks[1].at_work = 1;
}

TEST_F(ExecutorTurnsTest, WithoutDispatchEverythingMayBeIssued) {
  ExecutorTurns none(nullptr, 0);
  none.SetPriority(-3, /*makes_way=*/true);
  EXPECT_TRUE(none.MayIssue(Engine::kCompute));
  none.OnIssued(Engine::kCompute, 1, 0);
  none.OnRetired(1);
  EXPECT_EQ(none.MarkEvery(64), 64u);
  EXPECT_EQ(none.NapAtMost(absl::Seconds(1)), absl::Seconds(1));
}

}  // namespace
}  // namespace warpline::dispatch
