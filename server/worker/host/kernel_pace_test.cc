#include "server/worker/host/kernel_pace.h"

#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

TEST(KernelPace, WritesUntilItsSessionEnds) {
  std::vector<uint32_t> written;
  KernelPace pace([&](uint32_t nap_ns) { written.push_back(nap_ns); });
  EXPECT_FALSE(pace.slow());
  pace.Set(200'000);
  EXPECT_TRUE(pace.slow());
  pace.Set(0);
  EXPECT_FALSE(pace.slow());
  pace.Close();
  pace.Set(100);
  EXPECT_FALSE(pace.slow());
  EXPECT_EQ(written, std::vector<uint32_t>({200'000, 0}));
}

// Whoever orders does not wait for the device, and what came meanwhile is one order.
TEST(KernelPacer, TheLastOfSeveralOrdersCounts) {
  absl::Notification writing, go_on, done;
  std::vector<uint32_t> written;
  auto pace = std::make_shared<KernelPace>([&](uint32_t nap_ns) {
    written.push_back(nap_ns);
    if (written.size() == 1) {
      writing.Notify();
      go_on.WaitForNotification();
    } else {
      done.Notify();
    }
  });
  auto pacer = KernelPacer::Start();
  ASSERT_TRUE(pacer.ok());
  (*pacer)->Set(pace, 1);
  writing.WaitForNotification();
  for (const uint32_t nap_ns : {2, 3, 4}) (*pacer)->Set(pace, nap_ns);
  go_on.Notify();
  done.WaitForNotification();
  *pacer = nullptr;
  EXPECT_EQ(written, std::vector<uint32_t>({1, 4}));
}

TEST(KernelPacer, EndsWithOrdersLeft) {
  auto pacer = KernelPacer::Start();
  ASSERT_TRUE(pacer.ok());
  for (int i = 0; i < 100; ++i) (*pacer)->Set(std::make_shared<KernelPace>([](uint32_t) {}), 7);
}

}  // namespace
}  // namespace warpline::worker
