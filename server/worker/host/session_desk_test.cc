#include "server/worker/host/session_desk.h"

#include <string>

#include "common/mutex.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

class Flag {
 public:
  void Raise() {
    MutexLock lock(&mu_);
    raised_ = true;
    changed_.NotifyAll();
  }
  void Await() {
    MutexLock lock(&mu_);
    while (!raised_) changed_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool raised_ ABSL_GUARDED_BY(mu_) = false;
};

TEST(SessionDeskTest, WithoutAThreadItIsDoneAtOnce) {
  const auto desk = SessionDesk::OfCaller();
  int done = 0;
  desk->Do([&](ProcessSession* session) { done += session != nullptr ? 1 : 0; });
  EXPECT_EQ(done, 1);
}

TEST(SessionDeskTest, TheCallerWaitsForNothingAndTheOrderStays) {
  const auto desk = *SessionDesk::WithThread();
  Flag go, done;
  std::string order;  // Of the desk's thread until `done`.
  desk->Do([&](ProcessSession*) {
    go.Await();
    order += "a";
  });
  desk->Do([&](ProcessSession*) { order += "b"; });
  desk->Do([&](ProcessSession*) {
    order += "c";
    done.Raise();
  });
  go.Raise();
  done.Await();
  EXPECT_EQ(order, "abc");
  desk->DoLast([](ProcessSession*) {});
}

TEST(SessionDeskTest, TheLastTaskDropsWhatHasNotBegunAndTellsWhatHas) {
  const auto desk = *SessionDesk::WithThread();
  Flag begun, left, done;
  std::string order;
  desk->Do([&, at = desk.get()](ProcessSession*) {
    begun.Raise();
    left.Await();
    order += at->ending() ? "told " : "not told ";
  });
  begun.Await();
  desk->Do([&](ProcessSession*) { order += "dropped "; });
  desk->DoLast([&](ProcessSession*) {
    order += "last";
    done.Raise();
  });
  left.Raise();
  done.Await();
  EXPECT_EQ(order, "told last");
}

TEST(SessionDeskTest, ThereIsNoRingSessionBeforeItIsShown) {
  const auto desk = SessionDesk::OfCaller();
  int calls = 0;
  desk->WithRing([&](RingSession*) { ++calls; });
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace warpline::worker
