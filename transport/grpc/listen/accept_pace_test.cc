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

TEST(AcceptPaceTest, AnArrivalEndsASlowPause) {
  AcceptPace pace;
  constexpr int kPauses = 20;
  std::atomic<bool> stop{false};
  std::thread arrivals([&] {
    while (!stop) {
      pace.Quicken();
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  const absl::Time begin = absl::Now();
  for (int i = 0; i < kPauses; ++i) pace.Pause();
  EXPECT_LT(absl::Now() - begin, kPauses * AcceptPace::kSlow);
  stop = true;
  arrivals.join();
}

}  // namespace
}  // namespace warpline::grpc_internal
