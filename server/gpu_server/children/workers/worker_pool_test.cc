#include "server/gpu_server/children/workers/worker_pool.h"

#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "gtest/gtest.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/death_watch.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {
namespace {

class Events : public WorkerEvents {
 public:
  void OnWorkerPrepared(const warpline_internal::WorkerOpened&) override { prepared.set_value(); }
  void OnWorkerDied(const std::string&) override {}
  void OnWorkerGone() override { gone.set_value(); }
  std::promise<void> prepared;
  std::promise<void> gone;
};

class WorkerPoolTest : public testing::Test {
 protected:
  WorkerPoolTest() {
    SetLogLevel(LogLevel::kError);
    options_.program.path = absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                                         "/server/gpu_server/testing/fake_worker");
    options_.warm = 1;
  }
  ~WorkerPoolTest() override {
    std::promise<void> stopped;
    control_.Post([&] { pool().Stop([&] { stopped.set_value(); }); });
    stopped.get_future().wait();
    control_.Flush();
  }

  WorkerPool& pool() {
    if (pool_ == nullptr) {
      pool_ = std::make_unique<WorkerPool>(&control_, &spawner_, &deaths_, options_);
    }
    return *pool_;
  }
  void OnControl(const std::function<void()>& body) {
    control_.Post(body);
    control_.Flush();
  }
  const WorkerDevice device_{"cpu", 0};
  WorkerPoolOptions options_;
  DeathWatch deaths_;
  EventLoop control_{"control", &control_loop};
  EventLoop spawner_{"spawner"};
  std::unique_ptr<WorkerPool> pool_;
};

TEST_F(WorkerPoolTest, WorkerThatWasGivenBackIsTakenByTheNext) {
  Events first;
  Events second;
  std::shared_ptr<WorkerProcess> worker;
  // All of it runs in one go, so that the process is not even started.
  OnControl([&] {
    worker = pool().Take(device_, &first);
    worker->Open({}, nullptr, {});
    EXPECT_TRUE(worker->untouched());
    worker->CancelOpen();
    pool().GiveBack(device_, worker);
    EXPECT_EQ(pool().Take(device_, &second), worker);
  });
  second.prepared.get_future().wait();
  OnControl([&] { worker->Kill(); });
  second.gone.get_future().wait();
}

TEST_F(WorkerPoolTest, OpenedWorkersAreNotUntouched) {
  Events events;
  std::shared_ptr<WorkerProcess> worker;
  OnControl([&] { worker = pool().Take(device_, &events); });
  events.prepared.get_future().wait();
  OnControl([&] {
    EXPECT_TRUE(worker->prepared());
    warpline_internal::OpenWorker open;
    open.set_reader(true);
    worker->Open(open, nullptr, {});
    EXPECT_FALSE(worker->untouched());
    worker->Kill();
  });
  events.gone.get_future().wait();
}

TEST_F(WorkerPoolTest, WaitingWorkersAreEndedWhereTheirMemoryIsWanted) {
  std::promise<void> gone;
  options_.waiting_gone = [&] { gone.set_value(); };
  OnControl([&] {
    EXPECT_FALSE(pool().EndWaiting(device_.ordinal));
    pool().Refill(device_);
    EXPECT_FALSE(pool().leaving(device_.ordinal));
    EXPECT_TRUE(pool().EndWaiting(device_.ordinal));
    EXPECT_TRUE(pool().leaving(device_.ordinal));
    EXPECT_FALSE(pool().leaving(device_.ordinal + 1));
  });
  gone.get_future().wait();
  OnControl([&] {
    EXPECT_FALSE(pool().leaving(device_.ordinal));
    EXPECT_FALSE(pool().EndWaiting(device_.ordinal));
  });
}

TEST_F(WorkerPoolTest, NoMoreThanWarmWorkersAreTakenBack) {
  options_.warm = 0;
  Events events;
  Events other;
  std::shared_ptr<WorkerProcess> worker;
  std::shared_ptr<WorkerProcess> next;
  OnControl([&] {
    worker = pool().Take(device_, &events);
    pool().GiveBack(device_, worker);
    next = pool().Take(device_, &other);
    EXPECT_NE(next, worker);
    next->Kill();
  });
  other.gone.get_future().wait();
}

TEST_F(WorkerPoolTest, NoWorkerWaitsForSeveralDevices) {
  const WorkerDevice both = {"cpu", 0, {1}};
  Events waiting;
  Events events;
  Events other;
  std::shared_ptr<WorkerProcess> warm;
  std::shared_ptr<WorkerProcess> worker;
  std::shared_ptr<WorkerProcess> next;
  OnControl([&] {
    warm = pool().Take(device_, &waiting);
    pool().GiveBack(device_, warm);
    worker = pool().Take(both, &events);
    EXPECT_NE(worker, warm);
    pool().GiveBack(both, worker);
    pool().Refill(both);
    EXPECT_EQ(pool().Take(device_, &waiting), warm);
    warm->Kill();
    next = pool().Take(both, &other);
    EXPECT_NE(next, worker);
    next->Kill();
  });
  waiting.gone.get_future().wait();
  other.gone.get_future().wait();
}

TEST_F(WorkerPoolTest, WorkersOfAnOlderProgramAreNotTakenBack) {
  Events events;
  Events other;
  std::shared_ptr<WorkerProcess> worker;
  std::shared_ptr<WorkerProcess> next;
  OnControl([&] {
    worker = pool().Take(device_, &events);
    pool().Renew();
    pool().GiveBack(device_, worker);
    next = pool().Take(device_, &other);
    EXPECT_NE(next, worker);
    next->Kill();
  });
  other.gone.get_future().wait();
}

}  // namespace
}  // namespace warpline::server
