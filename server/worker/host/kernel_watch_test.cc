#include "server/worker/host/kernel_watch.h"

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

WatchedWork Stalled(double since, device::ProcessorSet processors) {
  WatchedWork work;
  work.stalled_since = At(since);
  work.processors = processors;
  return work;
}

// The pieces from `begin` to before `end`.
device::ProcessorSet Pieces(int begin, int end) {
  return {(uint64_t{1} << end) - (uint64_t{1} << begin)};
}

std::optional<size_t> Pick(double now, const std::vector<WatchedWork>& sessions) {
  return PickOverdue(sessions, At(now), absl::Seconds(10));
}

TEST(KernelWatchTest, ALongKernelThatNobodyWaitsForRunsOn) {
  EXPECT_EQ(Pick(1000, {}), std::nullopt);
  EXPECT_EQ(Pick(1000, {Stalled(1, Pieces(0, 10))}), std::nullopt);
  EXPECT_EQ(Pick(1000, {Stalled(1, Pieces(0, 10)), WatchedWork()}), std::nullopt);
}

TEST(KernelWatchTest, TheFirstOfThoseThatWantTheSameIsTheOneThatRuns) {
  const std::vector<WatchedWork> sessions = {Stalled(5, Pieces(2, 3)), Stalled(1, Pieces(0, 10)),
                                             Stalled(4, Pieces(9, 10))};
  EXPECT_EQ(Pick(15.1, sessions), 1);
}

TEST(KernelWatchTest, WhoeverWaitsHasToHaveWaitedForAsLong) {
  const std::vector<WatchedWork> sessions = {Stalled(1, Pieces(0, 10)), Stalled(90, Pieces(0, 10))};
  EXPECT_EQ(Pick(99, sessions), std::nullopt);
  EXPECT_EQ(Pick(100, sessions), 0);
}

TEST(KernelWatchTest, LongKernelsSideBySideDoNotWaitForEachOther) {
  EXPECT_EQ(Pick(1000, {Stalled(1, Pieces(0, 5)), Stalled(2, Pieces(5, 10))}), std::nullopt);
}

TEST(KernelWatchTest, WhoHasNoKernelUnderWayNeitherRunsNorWaitsForOne) {
  EXPECT_EQ(Pick(1000, {Stalled(1, {}), Stalled(2, Pieces(0, 10))}), std::nullopt);
}

TEST(KernelWatchTest, NobodyHasToWaitWhereALaunchHasALimit) {
  std::vector<WatchedWork> sessions = {Stalled(1, Pieces(0, 10)), WatchedWork()};
  sessions[0].limit = absl::Seconds(30);
  EXPECT_EQ(Pick(30.9, sessions), std::nullopt);
  EXPECT_EQ(Pick(31, sessions), 0);
  sessions[0].processors = {};
  EXPECT_EQ(Pick(31, sessions), std::nullopt) << "what stalls is no kernel";
}

TEST(SlowTime, CountsSinceKernelsMakeNoProgress) {
  const absl::Time stalled = absl::UnixEpoch();
  const absl::Duration step = absl::Milliseconds(100);
  SlowTime time;
  EXPECT_EQ(time.Note(stalled, true, step), absl::ZeroDuration()) << "it begins at this look";
  EXPECT_EQ(time.Note(stalled, true, step), step);
  EXPECT_EQ(time.Note(stalled, false, step), step);
  EXPECT_EQ(time.Note(stalled, true, step), 2 * step);
  EXPECT_EQ(time.Note(stalled + step, true, step), absl::ZeroDuration());
  EXPECT_EQ(time.Note(stalled + step, true, absl::Hours(1)), SlowTime::kMost);
}

}  // namespace
}  // namespace warpline::worker
