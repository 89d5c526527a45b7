#include "transport/grpc/listen/accept_pace.h"

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace warpline::grpc_internal {
namespace {

absl::Duration TimeOf(AcceptPace* pace) {
  const absl::Time begin = absl::Now();
  pace->Pause();
  return absl::Now() - begin;
}

TEST(AcceptPaceTest, WithoutArrivalsItIsSlow) {
  AcceptPace pace;
  EXPECT_GE(TimeOf(&pace), AcceptPace::kSlow - absl::Milliseconds(1));
}

// Without that no pause would be shorter than a slow one.
TEST(AcceptPaceTest, AnArrivalEndsASlowPause) {
  AcceptPace pace;
  std::atomic<bool> stop{false};
  std::thread arrivals([&] {
    while (!stop) {
      pace.Quicken();
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  while (TimeOf(&pace) >= AcceptPace::kSlow - absl::Milliseconds(1)) {
  }
  stop = true;
  arrivals.join();
}

}  // namespace
}  // namespace warpline::grpc_internal
