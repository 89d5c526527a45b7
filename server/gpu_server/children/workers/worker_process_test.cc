// A worker that sends what it should not.
#include "server/gpu_server/children/workers/worker_process.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/packets/packet_socket.h"
#include "gtest/gtest.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/death_watch.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {
namespace {

using warpline_internal::FromWorker;

class FakeProcess : public RunningProcess {
 public:
  pid_t pid() const override { return 1; }
  int exit_fd() const override { return exit_.get(); }
  void Kill() override { eventfd_write(exit_.get(), 1); }
  std::optional<ChildExit> TryReap() override { return ChildExit{.by_signal = true, .value = 9}; }
  ChildExit Reap() override { return *TryReap(); }

 private:
  const UniqueFd exit_{eventfd(0, EFD_CLOEXEC)};
};

// Starts processes whose end of the socket is the test's.
class FakeLauncher : public ProcessLauncher {
 public:
  absl::StatusOr<std::unique_ptr<RunningProcess>> Launch(ProcessRole, const ChildOptions&,
                                                         UniqueFd* socket) override {
    auto pair = PacketSocketPair();
    if (!pair.ok()) return pair.status();
    *socket = std::move(pair->first);
    worker_end = std::move(pair->second);
    return std::make_unique<FakeProcess>();
  }

  UniqueFd worker_end;
};

class Events : public WorkerEvents {
 public:
  void OnWorkerOpened(const warpline_internal::WorkerOpened&) override { ++opened; }
  void OnUncharge(const warpline_internal::UnchargeMemory&) override { ++uncharged; }
  void OnCharge(const warpline_internal::ChargeMemory&) override { ++charged; }
  void OnWorkerDied(const std::string& reason) override { why = reason; }
  void OnWorkerGone() override { gone = true; }

  int opened = 0;
  int uncharged = 0;
  int charged = 0;
  bool gone = false;
  std::string why;
};

class WorkerProcessTest : public testing::Test {
 protected:
  WorkerProcessTest() {
    worker_ = std::make_shared<WorkerProcess>(&control_, &spawner_, &deaths_, &events_);
    OnControl([this] { worker_->Start({.launcher = &launcher_}); });
    spawner_.Flush();
    control_.Flush();
    Send([](FromWorker* message) { message->mutable_prepared(); });
    Settle();
  }
  ~WorkerProcessTest() override {
    OnControl([this] { worker_->Kill(); });
    while (!Of(&Events::gone)) control_.Flush();
  }

  void OnControl(const std::function<void()>& body) {
    control_.Post(body);
    control_.Flush();
  }
  template <typename Field>
  Field Of(Field Events::*field) {
    Field value;
    OnControl([&] { value = events_.*field; });
    return value;
  }
  void Send(const std::function<void(FromWorker*)>& fill) {
    FromWorker message;
    fill(&message);
    ASSERT_TRUE(SendPacket(launcher_.worker_end.get(), message, {}).ok());
  }
  // Until the loop has read what there is: two turns suffice for a few packets.
  void Settle() {
    for (int i = 0; i < 4; ++i) control_.Flush();
  }
  void Open() {
    OnControl([this] { worker_->Open({}, nullptr, {}); });
  }
  // Has the worker send `count` packets while the loop does something else, and gives the most of
  // them that a single turn took.
  int MostATurn(int count, int Events::*field, const std::function<void(FromWorker*)>& fill) {
    int before = 0;
    int most = 0;
    std::function<void()> look = [&] {
      most = std::max(most, events_.*field - before);
      before = events_.*field;
      if (before < count) control_.Post(look);
    };
    OnControl([&] {
      for (int i = 0; i < count; ++i) Send(fill);
      control_.Post(look);
    });
    while (Of(field) < count) control_.Flush();
    control_.Flush();
    return most;
  }

  Events events_;
  FakeLauncher launcher_;
  DeathWatch deaths_;
  EventLoop control_{"control", &control_loop};
  EventLoop spawner_{"spawner"};
  std::shared_ptr<WorkerProcess> worker_;
};

TEST_F(WorkerProcessTest, AFloodTakesAFewPacketsOfEachTurn) {
  EXPECT_LE(
      MostATurn(100, &Events::uncharged, [](FromWorker* message) { message->mutable_uncharge(); }),
      16);
}

TEST_F(WorkerProcessTest, AChargeEndsTheTurn) {
  EXPECT_EQ(MostATurn(20, &Events::charged, [](FromWorker* message) { message->mutable_charge(); }),
            1);
}

TEST_F(WorkerProcessTest, PreparedTwiceIsTheEnd) {
  Send([](FromWorker* message) { message->mutable_prepared(); });
  Settle();
  EXPECT_EQ(Of(&Events::why), "bad message: prepared twice");
}

TEST_F(WorkerProcessTest, OpenedTwiceIsTheEnd) {
  Open();
  Send([](FromWorker* message) { message->mutable_opened(); });
  Settle();
  EXPECT_EQ(Of(&Events::opened), 1);
  EXPECT_EQ(Of(&Events::why), "");
  Send([](FromWorker* message) { message->mutable_opened(); });
  Settle();
  EXPECT_EQ(Of(&Events::opened), 1);
  EXPECT_EQ(Of(&Events::why), "bad message: opened out of turn");
}

TEST_F(WorkerProcessTest, OpenedBeforeItWasAskedIsTheEnd) {
  Send([](FromWorker* message) { message->mutable_opened(); });
  Settle();
  EXPECT_EQ(Of(&Events::why), "bad message: opened out of turn");
}

}  // namespace
}  // namespace warpline::server
