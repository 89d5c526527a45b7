// Tests what a tenant can write into the server's log: a few lines, however often it fails.
#include "server/worker/executors/session_log.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "common/log/log_capture.h"
#include "server/worker/continuity/journal.h"
#include "server/worker/continuity/recorder.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

class SessionLogTest : public SessionTest {
 protected:
  LogCapture log_;
};

// While an object of this class lives, no thread can be started.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&former_);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 48);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&former_);
    pthread_attr_destroy(&former_);
  }

 private:
  pthread_attr_t former_;
};

TEST_F(SessionLogTest, RefusedCommandsAreSaidAFewTimes) {
  constexpr int kCommands = 20'000;
  for (int i = 0; i < kCommands; ++i) Add(cmd::EventDestroy{77});
  ASSERT_TRUE(Send().ok());
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, kCommands));
  const auto lines = log_.LinesWith("refused command=");
  EXPECT_EQ(lines.size(), static_cast<size_t>(kSessionLines[kRefusedLine].burst));
  EXPECT_EQ(log_.LinesWith("refused command=1 call=EventDestroy error=").size(), 1u);
}

TEST_F(SessionLogTest, AFloodOfRefusalsDoesNotHideThoseThatAnOperatorWantsToHearOf) {
  for (int i = 0; i < 1000; ++i) Add(cmd::EventDestroy{77});
  Add(cmd::ModuleLoad{2, 99});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(log_.LinesWith("refused command=1001 call=ModuleLoad").size(), 1u) << log_.Text();
}

TEST_F(SessionLogTest, WhatWasLeftOutIsSaidAtTheEnd) {
  for (int i = 0; i < 100; ++i) Add(cmd::EventDestroy{77});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(log_.LinesWith("left out").size(), 0u);
  session_.reset();
  EXPECT_EQ(log_.LinesWith("log lines left out refused_commands=92").size(), 1u) << log_.Text();
}

TEST_F(SessionLogTest, AnotherSessionHasABudgetOfItsOwn) {
  for (int i = 0; i < 1000; ++i) Add(cmd::EventDestroy{77});
  ASSERT_TRUE(Send().ok());
  const size_t before = log_.LinesWith("refused command=").size();
  Restart(SessionLimits());
  Add(cmd::EventDestroy{77});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(log_.LinesWith("refused command=").size(), before + 1);
}

TEST_F(SessionLogTest, StreamsForWhichThereAreNoThreadsAreSaidAFewTimes) {
  {
    NoThreads none;
    for (uint64_t stream = 100; stream < 200; ++stream) AddStream(stream);
    ASSERT_TRUE(Send().ok());
  }
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, 100));
  EXPECT_EQ(log_.LinesWith("no thread for a stream").size(),
            static_cast<size_t>(kSessionLines[kNoThreadLine].burst));
}

TEST_F(SessionLogTest, AFullJournalIsSaidAFewTimes) {
  auto file = JournalFile::Create();
  ASSERT_TRUE(file.ok());
  auto journal = Journal::Open(UniqueFd(dup((*file)->fd())));
  ASSERT_TRUE(journal.ok());
  Recorder recorder(journal->get(), 1u << 20, 1u << 20);
  HostedSession::Options options = OptionsOf();
  options.recorder = &recorder;
  Restart(std::move(options));
  void* const mapped =
      mmap(nullptr, kJournalHeadBytes, PROT_READ | PROT_WRITE, MAP_SHARED, (*file)->fd(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  static_cast<JournalHead*>(mapped)->slots_used.store(kJournalSlots);
  munmap(mapped, kJournalHeadBytes);

  constexpr int kCommands = 1000;
  for (uint64_t event = 1; event <= kCommands; ++event) Add(cmd::EventCreate{event, 0, 0});
  ASSERT_TRUE(Send().ok());
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, kCommands));
  EXPECT_EQ(log_.LinesWith("journal is full: EventCreate").size(),
            static_cast<size_t>(kSessionLines[kJournalFullLine].burst));
  session_.reset();
}

}  // namespace
}  // namespace warpline::worker
