#include "server/gpu_server/children/workers/guarded_workers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/log/log.h"
#include "common/mutex.h"
#include "common/packets/packet_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/gpu_server/children/workers/context_measure.h"
#include "server/gpu_server/children/workers/recovery.h"
#include "server/gpu_server/testing/fake_timers.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/death_watch.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using warpline_internal::FromWorker;
using warpline_internal::ToWorker;

class FakeProcess : public RunningProcess {
 public:
  explicit FakeProcess(int pid) : pid_(pid) {}
  pid_t pid() const override { return pid_; }
  int exit_fd() const override { return exit_.get(); }
  void Kill() override { eventfd_write(exit_.get(), 1); }
  std::optional<ChildExit> TryReap() override { return ChildExit{.by_signal = true, .value = 9}; }
  ChildExit Reap() override { return *TryReap(); }

 private:
  const int pid_;
  const UniqueFd exit_{eventfd(0, EFD_CLOEXEC)};
};

// Starts processes whose ends of the sockets are the test's.
class FakeLauncher : public ProcessLauncher {
 public:
  absl::StatusOr<std::unique_ptr<RunningProcess>> Launch(ProcessRole, const ChildOptions&,
                                                         UniqueFd* socket) override {
    auto pair = PacketSocketPair();
    if (!pair.ok()) return pair.status();
    *socket = std::move(pair->first);
    MutexLock lock(&mu_);
    ends_.push_back(std::move(pair->second));
    return std::make_unique<FakeProcess>(static_cast<int>(ends_.size()));
  }
  size_t started() {
    MutexLock lock(&mu_);
    return ends_.size();
  }
  int end(size_t process) {
    MutexLock lock(&mu_);
    return ends_.at(process).get();
  }

 private:
  Mutex mu_;
  std::vector<UniqueFd> ends_ ABSL_GUARDED_BY(mu_);
};

// A session, as far as its worker is concerned. Belongs to the control loop.
class FakeSession : public WorkerEvents {
 public:
  void OnWorkerPrepared(const warpline_internal::WorkerOpened& prepared) override {
    prepare_error = prepared.error();
  }
  void OnWorkerOpened(const warpline_internal::WorkerOpened&) override { ++opened; }
  void OnMemoryDone(const warpline_internal::MemoryDone& done) override {
    done_ids.push_back(done.id());
  }
  void OnWorkerHangs() override { ++hangs; }
  void OnWorkerLeaving() override {
    ++leaving;
    if (on_leaving) on_leaving();
  }
  void OnWorkerDied(const std::string& reason) override {
    EXPECT_FALSE(gone);
    EXPECT_EQ(why, "") << "told twice";
    why = reason;
    if (joins) recovery = worker->JoinRecovery();
  }
  void OnWorkerGone() override {
    EXPECT_FALSE(gone);
    gone = true;
  }

  std::shared_ptr<Worker> worker;
  bool joins = false;  // Takes part in the recovery when its process dies.
  std::unique_ptr<RecoveryShare> recovery;
  int prepare_error = 0;
  int opened = 0;
  std::vector<uint64_t> done_ids;
  int hangs = 0;
  int leaving = 0;
  std::function<void()> on_leaving;
  std::string why;
  bool gone = false;
};

class GuardedWorkersTest : public testing::Test {
 protected:
  GuardedWorkersTest() {
    SetLogLevel(LogLevel::kError);
    options_.launcher = &launcher_;
    options_.timers = &timers_;
  }
  ~GuardedWorkersTest() override {
    bool stopped = false;
    OnControl([&] { workers().Stop([&] { stopped = true; }); });
    AwaitThat([&] { return stopped; });
  }

  GuardedWorkers& workers() {
    if (workers_ == nullptr) {
      workers_ = std::make_unique<GuardedWorkers>(&control_, &spawner_, &deaths_, options_);
    }
    return *workers_;
  }
  void OnControl(const std::function<void()>& body) {
    control_.Post(body);
    control_.Flush();
  }
  // Until `condition` holds on the loop.
  void AwaitThat(const std::function<bool()>& condition) {
    for (bool holds = false; !holds;) OnControl([&] { holds = condition(); });
  }
  // Lets so much time of the processes' timers pass.
  void Advance(absl::Duration time) {
    OnControl([&] { timers_.Advance(time); });
    Settle();
  }
  // Until the loop has read what there is.
  void Settle() {
    for (int i = 0; i < 4; ++i) control_.Flush();
  }

  absl::Status Take(FakeSession* session) {
    absl::Status status;
    OnControl([&] {
      auto worker = workers().Take(device_, session);
      status = worker.status();
      if (worker.ok()) session->worker = *std::move(worker);
    });
    spawner_.Flush();
    control_.Flush();
    return status;
  }
  void Open(FakeSession* session, uint64_t number) {
    OnControl([&] {
      warpline_internal::OpenWorker open;
      open.set_session(number);
      session->worker->Open(open, nullptr, {});
    });
  }
  // Answers the first message of a process.
  void Prepare(size_t process, int error = 0) {
    const ToWorker message = Receive(process);
    EXPECT_TRUE(message.prepare().shared());
    EXPECT_EQ(message.prepare().ordinal(), 0);
    Say(process, 0, [error](FromWorker* answer) {
      answer->mutable_prepared()->set_error(error);
      answer->mutable_prepared()->set_message("as asked");
    });
  }
  // Has a process open the session that it is asked for.
  void AnswerOpen(size_t process, uint64_t number) {
    const ToWorker message = Receive(process);
    EXPECT_TRUE(message.has_open());
    EXPECT_EQ(message.session(), number);
    Say(process, number, [](FromWorker* answer) { answer->mutable_opened(); });
  }
  // `count` sessions in the first process, numbered from 1.
  void Start(const std::vector<FakeSession*>& sessions) {
    for (FakeSession* session : sessions) ASSERT_TRUE(Take(session).ok());
    Prepare(0);
    for (size_t i = 0; i < sessions.size(); ++i) {
      Open(sessions[i], i + 1);
      AnswerOpen(0, i + 1);
    }
    Settle();
    for (const FakeSession* session : sessions) EXPECT_EQ(session->opened, 1);
  }
  void Kill(FakeSession* session) {
    OnControl([&] { session->worker->Kill(); });
  }

  // What the process gets and says.
  ToWorker Receive(size_t process, std::vector<UniqueFd>* fds = nullptr) {
    ToWorker message;
    std::vector<UniqueFd> ignored;
    EXPECT_TRUE(
        ReceivePacket(launcher_.end(process), &message, fds == nullptr ? &ignored : fds).ok());
    return message;
  }
  bool HasMessage(size_t process) {
    pollfd entry = {launcher_.end(process), POLLIN, 0};
    return poll(&entry, 1, 0) == 1 && (entry.revents & POLLHUP) == 0;
  }
  void Say(size_t process, uint64_t session, const std::function<void(FromWorker*)>& fill) {
    FromWorker message;
    message.set_session(session);
    fill(&message);
    EXPECT_TRUE(SendPacket(launcher_.end(process), message, {}).ok());
    Settle();
  }
  // An offer of an image, which comes without its descriptor if there is none free.
  void SayOffer(size_t process, uint64_t session) {
    FromWorker message;
    message.set_session(session);
    message.mutable_keep_module();
    const int end = launcher_.end(process);
    EXPECT_TRUE(SendPacket(end, message, {end}).ok());
    Settle();
  }
  void SayDone(size_t process, uint64_t session, uint64_t id) {
    Say(process, session,
        [id](FromWorker* message) { message->mutable_memory_done()->set_id(id); });
  }
  void SayClosed(size_t process, uint64_t session, bool hangs = false) {
    Say(process, session,
        [hangs](FromWorker* message) { message->mutable_closed()->set_hangs(hangs); });
  }
  void ExpectClose(size_t process, uint64_t session) {
    const ToWorker message = Receive(process);
    EXPECT_TRUE(message.has_close());
    EXPECT_EQ(message.session(), session);
  }

  // A full socket is looked at again after so long at most.
  static constexpr absl::Duration kRetry = absl::Milliseconds(2);
  const WorkerDevice device_{"cpu", 0};
  // They are told of their ends when the test is over.
  FakeSession first_;
  FakeSession second_;
  FakeSession third_;
  FakeSession fourth_;
  FakeLauncher launcher_;
  GuardedWorkersOptions options_;
  FakeTimers timers_;  // Belongs to the control loop.
  DeathWatch deaths_;
  EventLoop control_{"control", &control_loop};
  EventLoop spawner_{"spawner"};
  std::unique_ptr<GuardedWorkers> workers_;
};

TEST_F(GuardedWorkersTest, SessionsShareAProcessAndEachHearsItsOwn) {
  Start({&first_, &second_});
  EXPECT_EQ(launcher_.started(), 1u);
  OnControl([&] { EXPECT_EQ(first_.worker->pid(), second_.worker->pid()); });
  SayDone(0, 2, 20);
  SayDone(0, 1, 10);
  SayDone(0, 2, 21);
  EXPECT_THAT(first_.done_ids, ElementsAre(10));
  EXPECT_THAT(second_.done_ids, ElementsAre(20, 21));
  OnControl([&] {
    ToWorker message;
    message.mutable_map()->set_id(7);
    EXPECT_TRUE(second_.worker->Send(message, {}).ok());
  });
  const ToWorker message = Receive(0);
  EXPECT_EQ(message.session(), 2u);
  EXPECT_EQ(message.map().id(), 7u);
}

TEST_F(GuardedWorkersTest, OneSessionIsClosedWhileTheOtherGoesOn) {
  Start({&first_, &second_});
  Kill(&first_);
  ExpectClose(0, 1);
  // This was on its way.
  SayDone(0, 1, 10);
  Say(0, 1, [](FromWorker* message) { message->mutable_ended(); });
  EXPECT_FALSE(first_.gone);
  SayClosed(0, 1);
  EXPECT_TRUE(first_.gone);
  EXPECT_EQ(first_.why, "");
  EXPECT_THAT(first_.done_ids, IsEmpty());
  SayDone(0, 2, 20);
  EXPECT_THAT(second_.done_ids, ElementsAre(20));
  EXPECT_EQ(second_.leaving, 0);
  // The process takes others, also one that it has had before.
  ASSERT_TRUE(Take(&third_).ok());
  Open(&third_, 1);
  AnswerOpen(0, 1);
  Settle();
  EXPECT_EQ(third_.opened, 1);
  EXPECT_EQ(launcher_.started(), 1u);
}

TEST_F(GuardedWorkersTest, WorkThatDoesNotEndEndsWithTheProcessOnceTheOthersHadTheirTime) {
  Start({&first_, &second_, &third_});
  // One of the others moves away in time.
  third_.on_leaving = [&] { third_.worker->Kill(); };
  Kill(&first_);
  ExpectClose(0, 1);
  SayClosed(0, 1, /*hangs=*/true);
  EXPECT_EQ(first_.hangs, 1);
  EXPECT_EQ(first_.leaving, 0);
  EXPECT_EQ(second_.leaving, 1);
  EXPECT_FALSE(first_.gone);
  EXPECT_EQ(second_.why, "");
  ExpectClose(0, 3);
  SayClosed(0, 3);
  EXPECT_TRUE(third_.gone);
  EXPECT_EQ(third_.why, "");
  // The next session gets another process.
  ASSERT_TRUE(Take(&fourth_).ok());
  EXPECT_EQ(launcher_.started(), 2u);
  Advance(options_.process.drain);
  AwaitThat([&] { return second_.gone; });
  EXPECT_THAT(second_.why, HasSubstr("another session"));
  EXPECT_TRUE(first_.gone);
  EXPECT_EQ(first_.why, "");
  EXPECT_FALSE(fourth_.gone);
}

TEST_F(GuardedWorkersTest, ASessionThatIsNotClosedInTimeHangs) {
  Start({&first_, &second_});
  Kill(&first_);
  Advance(options_.process.close_timeout + options_.process.drain);
  AwaitThat([&] { return first_.gone && second_.gone; });
  EXPECT_EQ(second_.leaving, 1);
  EXPECT_NE(second_.why, "");
  EXPECT_EQ(first_.why, "");
}

TEST_F(GuardedWorkersTest, AProcessThatNobodyWaitsForIsKilledAtOnce) {
  Start({&first_, &second_});
  second_.on_leaving = [&] { second_.worker->Kill(); };
  Kill(&first_);
  SayClosed(0, 1, /*hangs=*/true);
  EXPECT_FALSE(first_.gone);
  SayClosed(0, 2);
  AwaitThat([&] { return first_.gone; });
}

TEST_F(GuardedWorkersTest, ASessionThatIsClosedLateDoesNotHang) {
  Start({&first_, &second_});
  Kill(&first_);
  Advance(options_.process.close_timeout);
  EXPECT_EQ(second_.leaving, 1);
  SayClosed(0, 1);
  EXPECT_TRUE(first_.gone);
}

TEST_F(GuardedWorkersTest, ADeathIsEverybodys) {
  Start({&first_, &second_, &third_});
  Kill(&third_);
  Say(0, 2, [](FromWorker*) {});  // Of no kind.
  AwaitThat([&] { return first_.gone && second_.gone && third_.gone; });
  EXPECT_EQ(first_.why, "bad message: unknown kind");
  EXPECT_EQ(second_.why, "bad message: unknown kind");
  EXPECT_EQ(third_.why, "");
  ASSERT_TRUE(Take(&fourth_).ok());
  EXPECT_EQ(launcher_.started(), 2u);
}

TEST_F(GuardedWorkersTest, AnOfferForWhichThereIsNoDescriptorIsLeftOut) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan needs descriptors to look at an object's type";
#endif
  Start({&first_, &second_});
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {static_cast<rlim_t>(UniqueFd(dup(launcher_.end(0))).get()), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  SayOffer(0, 1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  SayDone(0, 1, 10);
  EXPECT_THAT(first_.done_ids, ElementsAre(10));
  EXPECT_EQ(first_.why, "");
  EXPECT_EQ(second_.why, "");
}

TEST_F(GuardedWorkersTest, AMessageOfNobodysSessionIsTheEnd) {
  Start({&first_});
  SayDone(0, 2, 20);
  EXPECT_THAT(first_.why, HasSubstr("a session that it does not have"));
}

TEST_F(GuardedWorkersTest, AMessageAfterTheLastIsTheEnd) {
  Start({&first_, &second_});
  Kill(&first_);
  SayClosed(0, 1);
  SayDone(0, 1, 10);
  EXPECT_THAT(second_.why, HasSubstr("a session that it does not have"));
}

TEST_F(GuardedWorkersTest, WindowsComeBeforeSessionsAndAreReplacedAfterThem) {
  options_.process.windows = {.count = 1, .bytes = 4096};
  FakeSession one;
  ASSERT_TRUE(Take(&one).ok());
  Open(&one, 1);
  Prepare(0);
  std::vector<UniqueFd> fds;
  const ToWorker first = Receive(0, &fds);
  ASSERT_TRUE(first.has_window());
  EXPECT_EQ(fds.size(), 1u);
  Say(0, 0,
      [&](FromWorker* done) { done->mutable_window_done()->set_number(first.window().number()); });
  AnswerOpen(0, 1);
  Settle();
  OnControl([&] {
    EXPECT_TRUE(one.worker->TakeWindow());
    EXPECT_FALSE(one.worker->TakeWindow());
  });
  Kill(&one);
  EXPECT_TRUE(Receive(0).has_close());
  Say(0, 1, [](FromWorker* closed) { closed->mutable_closed(); });
  AwaitThat([&] { return one.gone; });
  fds.clear();
  const ToWorker again = Receive(0, &fds);
  EXPECT_EQ(again.window().number(), first.window().number());
  EXPECT_EQ(fds.size(), 1u);
}

TEST_F(GuardedWorkersTest, AWindowThatWasNotDueIsTheEnd) {
  FakeSession one;
  Start({&one});
  Say(0, 0, [](FromWorker* done) { done->mutable_window_done()->set_number(1); });
  AwaitThat([&] { return one.gone; });
}

TEST_F(GuardedWorkersTest, AnAnswerThatNobodyAskedForIsTheEnd) {
  Start({&first_});
  Say(0, 1, [](FromWorker* message) { message->mutable_opened(); });
  EXPECT_EQ(first_.why, "bad message: opened out of turn");
}

TEST_F(GuardedWorkersTest, ClosedOutOfTurnIsTheEnd) {
  Start({&first_});
  SayClosed(0, 1);
  EXPECT_EQ(first_.why, "bad message: closed out of turn");
}

TEST_F(GuardedWorkersTest, ASessionWhoseKernelsDidNotEndIsToldSo) {
  Start({&first_, &second_});
  Say(0, 1, [](FromWorker* message) { message->mutable_ended()->set_overdue(true); });
  ExpectClose(0, 1);
  SayClosed(0, 1);
  EXPECT_EQ(first_.why, "its kernels did not end");
  EXPECT_EQ(second_.why, "");
}

TEST_F(GuardedWorkersTest, ASessionThatBrokeTheProtocolIsToldWhenItIsOut) {
  Start({&first_, &second_});
  Say(0, 1, [](FromWorker* message) { message->mutable_ended(); });
  ExpectClose(0, 1);
  EXPECT_EQ(first_.why, "");
  SayClosed(0, 1);
  EXPECT_EQ(first_.why, "the protocol was broken");
  EXPECT_TRUE(first_.gone);
  EXPECT_EQ(second_.why, "");
  Kill(&first_);  // Too late, and harmless.
  control_.Flush();
  EXPECT_FALSE(HasMessage(0));
}

TEST_F(GuardedWorkersTest, AFullSocketHoldsUpNobodyAndLosesNothing) {
  Start({&first_, &second_});
  // In packets of 56 KiB, which fill the socket within a few.
  const auto send = [&](FakeSession* session, uint64_t id) {
    ToWorker message;
    message.mutable_map()->set_id(id);
    for (int i = 0; i < 7000; ++i) message.mutable_map()->add_chunk_bytes(uint64_t{1} << 50);
    const UniqueFd fd(eventfd(static_cast<unsigned>(id), EFD_CLOEXEC | EFD_NONBLOCK));
    const int fds[] = {fd.get()};
    absl::Status sent;
    OnControl([&] { sent = session->worker->Send(message, fds); });
    return sent;
  };
  uint64_t sent = 0;
  while (send(sent % 2 == 0 ? &first_ : &second_, sent + 1).ok()) ++sent;
  // More than the socket takes, and bounded.
  EXPECT_GT(sent, 2 * PacketBacklog::kMostOfSession - 2);
  EXPECT_LT(sent, 200u);
  EXPECT_TRUE(absl::IsResourceExhausted(send(sent % 2 == 0 ? &first_ : &second_, 0)));
  // The loop goes on meanwhile.
  SayDone(0, 1, 10);
  EXPECT_THAT(first_.done_ids, ElementsAre(10));
  for (uint64_t id = 1; id <= sent; ++id) {
    Advance(kRetry);
    std::vector<UniqueFd> fds;
    const ToWorker message = Receive(0, &fds);
    EXPECT_EQ(message.map().id(), id);
    EXPECT_EQ(message.session(), id % 2 == 1 ? 1u : 2u);
    ASSERT_EQ(fds.size(), 1u);
    eventfd_t value = 0;
    EXPECT_EQ(eventfd_read(fds[0].get(), &value), 0);
    EXPECT_EQ(value, id);
  }
  EXPECT_TRUE(send(&first_, sent + 1).ok());
}

TEST_F(GuardedWorkersTest, WhatWaitsOfAClosedSessionIsNotSent) {
  Start({&first_, &second_});
  ToWorker message;
  for (int i = 0; i < 7000; ++i) message.mutable_map()->add_chunk_bytes(uint64_t{1} << 50);
  size_t sent = 0;
  OnControl([&] {
    while (first_.worker->Send(message, {}).ok()) ++sent;
    EXPECT_TRUE(second_.worker->Send(message, {}).ok());
    first_.worker->Kill();
  });
  const size_t taken = sent - PacketBacklog::kMostOfSession;
  for (size_t i = 0; i < taken; ++i) EXPECT_EQ(Receive(0).session(), 1u);
  Advance(kRetry);
  EXPECT_EQ(Receive(0).session(), 2u);
  ExpectClose(0, 1);
}

TEST_F(GuardedWorkersTest, AProcessThatTakesNothingIsHung) {
  Start({&first_});
  ToWorker message;
  for (int i = 0; i < 7000; ++i) message.mutable_map()->add_chunk_bytes(uint64_t{1} << 50);
  OnControl([&] {
    while (first_.worker->Send(message, {}).ok()) {
    }
  });
  Advance(options_.process.stuck_timeout);
  AwaitThat([&] { return first_.gone; });
  EXPECT_EQ(first_.why, "it takes no messages");
}

TEST_F(GuardedWorkersTest, AProcessIsNotToldOfASessionThatLeftBefore) {
  ASSERT_TRUE(Take(&first_).ok());
  ASSERT_TRUE(Take(&second_).ok());
  Open(&first_, 1);
  Open(&second_, 2);
  Kill(&first_);
  control_.Flush();
  EXPECT_TRUE(first_.gone);
  Prepare(0);
  AnswerOpen(0, 2);
  Settle();
  EXPECT_EQ(second_.opened, 1);
  EXPECT_FALSE(HasMessage(0));
}

TEST_F(GuardedWorkersTest, ADeviceThatDoesNotOpenIsToldToAllThatWait) {
  ASSERT_TRUE(Take(&first_).ok());
  ASSERT_TRUE(Take(&second_).ok());
  Open(&first_, 1);
  Prepare(0, /*error=*/100);
  AwaitThat([&] { return first_.gone && second_.gone; });
  EXPECT_EQ(first_.prepare_error, 100);
  EXPECT_EQ(second_.prepare_error, 100);
  EXPECT_EQ(first_.why, "as asked");
}

TEST_F(GuardedWorkersTest, AProcessThatDoesNotOpenItsDeviceInTimeIsReplaced) {
  ASSERT_TRUE(Take(&first_).ok());
  Advance(options_.process.prepare_timeout);
  AwaitThat([&] { return first_.gone; });
  EXPECT_EQ(first_.why, "it did not open its device in time");
  ASSERT_TRUE(Take(&second_).ok());
  EXPECT_EQ(launcher_.started(), 2u);
}

TEST_F(GuardedWorkersTest, AProcessTakesSoManySessionsAndNoMore) {
  options_.process.max_sessions = 1;
  Start({&first_});
  EXPECT_EQ(Take(&second_).code(), absl::StatusCode::kResourceExhausted);
  Kill(&first_);
  // It still has its place.
  EXPECT_EQ(Take(&second_).code(), absl::StatusCode::kResourceExhausted);
  SayClosed(0, 1);
  EXPECT_TRUE(Take(&second_).ok());
  EXPECT_EQ(launcher_.started(), 1u);
}

TEST_F(GuardedWorkersTest, SeveralDevicesAreRefused) {
  OnControl([&] {
    EXPECT_EQ(workers().Take({"cpu", 0, {1}}, &first_).status().code(),
              absl::StatusCode::kInvalidArgument);
  });
}

TEST_F(GuardedWorkersTest, AProcessOfAnOlderProgramEndsWithItsLastSession) {
  Start({&first_});
  OnControl([&] { workers().Renew(); });
  ASSERT_TRUE(Take(&second_).ok());
  EXPECT_EQ(launcher_.started(), 2u);
  SayDone(0, 1, 10);
  EXPECT_THAT(first_.done_ids, ElementsAre(10));
  Kill(&first_);
  SayClosed(0, 1);
  EXPECT_TRUE(first_.gone);
  EXPECT_EQ(first_.leaving, 0);
  // Its socket ends with it.
  ExpectClose(0, 1);
  ToWorker message;
  std::vector<UniqueFd> fds;
  EXPECT_FALSE(ReceivePacket(launcher_.end(0), &message, &fds).ok());
}

TEST_F(GuardedWorkersTest, SessionsOfALostProcessHaveAPartInItsRecovery) {
  Start({&first_, &second_});
  OnControl([&] { EXPECT_EQ(first_.worker->JoinRecovery(), nullptr); });
  Kill(&second_);
  first_.joins = second_.joins = true;
  Say(0, 1, [](FromWorker*) {});  // Of no kind.
  AwaitThat([&] { return first_.gone && second_.gone; });
  OnControl([&] {
    ASSERT_NE(first_.recovery, nullptr);
    first_.recovery->WentOn();
    EXPECT_EQ(second_.recovery, nullptr);
    EXPECT_EQ(first_.worker->JoinRecovery(), nullptr);
  });
}

// With a standby that is started at once.
class GuardedStandbyTest : public GuardedWorkersTest {
 protected:
  GuardedStandbyTest() {
    options_.standby.kept = true;
    options_.standby.pause = absl::ZeroDuration();
  }
  void AwaitStarted(size_t processes) {
    AwaitThat([&] {
      timers_.Advance(absl::ZeroDuration());
      return launcher_.started() == processes;
    });
  }
  // The process dies of what it says.
  void Die(size_t process) { SayDone(process, 77, 1); }
  // The first process has one session, and the second one is prepared.
  void StartBoth() {
    Start({&first_});
    AwaitStarted(2);
    Prepare(1);
  }
};

TEST_F(GuardedStandbyTest, TakesOverAtOnceAndIsFollowedByAnother) {
  StartBoth();
  Die(0);
  AwaitThat([&] { return first_.gone; });
  ASSERT_TRUE(Take(&second_).ok());
  Open(&second_, 2);
  AnswerOpen(1, 2);  // It has its device open already.
  Settle();
  EXPECT_EQ(second_.opened, 1);
  AwaitStarted(3);
  Prepare(2);
  Die(1);
  AwaitThat([&] { return second_.gone; });
  ASSERT_TRUE(Take(&third_).ok());
  Open(&third_, 3);
  AnswerOpen(2, 3);
}

TEST_F(GuardedStandbyTest, IsNotStartedBeforeTheCurrentOneIsPrepared) {
  ASSERT_TRUE(Take(&first_).ok());
  Advance(options_.standby.pause);
  EXPECT_EQ(launcher_.started(), 1u);
  Prepare(0);
  AwaitStarted(2);
}

TEST_F(GuardedStandbyTest, IsNotStartedForAProcessWithoutSessions) {
  options_.standby.pause = absl::Seconds(20);
  Start({&first_});
  Kill(&first_);
  SayClosed(0, 1);
  EXPECT_TRUE(first_.gone);
  Advance(options_.standby.pause);
  EXPECT_EQ(launcher_.started(), 1u);
  ASSERT_TRUE(Take(&second_).ok());
  Advance(options_.standby.pause);
  AwaitStarted(2);
}

TEST_F(GuardedStandbyTest, TakesOverBeforeItIsPrepared) {
  Start({&first_});
  AwaitStarted(2);
  Die(0);
  AwaitThat([&] { return first_.gone; });
  ASSERT_TRUE(Take(&second_).ok());
  Open(&second_, 2);
  EXPECT_EQ(launcher_.started(), 2u);
  Prepare(1);
  AnswerOpen(1, 2);
  AwaitStarted(3);
}

TEST_F(GuardedStandbyTest, TakesTheSessionsOfAProcessThatLeaves) {
  options_.process.drain = absl::InfiniteDuration();
  ASSERT_TRUE(Take(&second_).ok());
  Open(&second_, 2);
  Take(&first_).IgnoreError();
  Open(&first_, 1);
  Prepare(0);
  AnswerOpen(0, 2);
  AnswerOpen(0, 1);
  AwaitStarted(2);
  Prepare(1);
  Kill(&first_);
  SayClosed(0, 1, /*hangs=*/true);
  EXPECT_EQ(second_.leaving, 1);
  ASSERT_TRUE(Take(&third_).ok());
  OnControl([&] { EXPECT_EQ(third_.worker->pid(), 2); });
}

TEST_F(GuardedStandbyTest, ALostOneIsNotStartedAgainBeforeItsPauseIsOver) {
  Start({&first_});
  AwaitStarted(2);
  Prepare(1, /*error=*/2);
  Settle();
  ASSERT_TRUE(Take(&second_).ok());
  Settle();
  EXPECT_EQ(launcher_.started(), 2u);
  Advance(options_.standby.first_backoff);
  // Nor without anybody who needs one.
  Settle();
  EXPECT_EQ(launcher_.started(), 2u);
  ASSERT_TRUE(Take(&third_).ok());
  AwaitStarted(3);
  EXPECT_EQ(first_.why, "");
}

TEST_F(GuardedStandbyTest, ADeadOneIsNotTaken) {
  StartBoth();
  Die(1);
  Settle();
  Die(0);
  AwaitThat([&] { return first_.gone; });
  ASSERT_TRUE(Take(&second_).ok());
  EXPECT_EQ(launcher_.started(), 3u);
}

TEST_F(GuardedStandbyTest, EachContextIsMeasured) {
  std::vector<int> asked;
  uint64_t others = 100;
  options_.read_others = [&](int ordinal, const ContextMeasure::Answer& answer) {
    asked.push_back(ordinal);
    control_.Post([&others, answer] { answer(others += 1000); });
  };
  std::vector<int> compared;
  options_.kept_bytes = [&](int ordinal) {
    compared.push_back(ordinal);
    return 2000;
  };
  StartBoth();
  AwaitThat([&] { return compared.size() == 2; });
  EXPECT_THAT(asked, ElementsAre(0, 0, 0, 0));
}

TEST_F(GuardedStandbyTest, EndsWithItsProgram) {
  StartBoth();
  OnControl([&] { workers().Renew(); });
  ASSERT_TRUE(Take(&second_).ok());
  EXPECT_EQ(launcher_.started(), 3u);
  OnControl([&] { EXPECT_EQ(second_.worker->pid(), 3); });
  // Nobody is at the other end any more.
  ToWorker message;
  std::vector<UniqueFd> fds;
  AwaitThat([&] { return !ReceivePacket(launcher_.end(1), &message, &fds).ok(); });
  EXPECT_EQ(first_.why, "");
}

}  // namespace
}  // namespace warpline::server
