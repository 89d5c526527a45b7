#include "client_stub/session/commands/shared_board.h"

#include <unistd.h>

#include <memory>
#include <thread>

#include "common/loop/loop_affinity.h"
#include "gtest/gtest.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

class SharedBoardTest : public testing::Test {
 protected:
  SharedBoardTest() : fd_(*CreateBoard()) {
    board_.SetSource([this] { return UniqueFd(dup(fd_.get())); });
  }

  // A worker begins to write, and the client hears of it.
  std::unique_ptr<BoardWriter> Begin(uint64_t generation) {
    channel_loop.AssertOnLoop();
    board_.OnBegins(generation);
    return *BoardWriter::Attach(fd_, generation);
  }
  void HandleOrdered() {
    channel_loop.AssertOnLoop();
    board_.OnOrdered();
  }

  const LoopScope scope_{&channel_loop};
  const UniqueFd fd_;
  SharedBoard board_;
};

TEST_F(SharedBoardTest, KnowsWhatTheWorkerReports) {
  ASSERT_TRUE(board_.Open());
  const auto worker = Begin(1);
  EXPECT_FALSE(board_.Retired(5, 1));
  worker->Write(5, 10, 0);
  EXPECT_TRUE(board_.Retired(5, 10));
  EXPECT_FALSE(board_.Retired(5, 11));
  EXPECT_FALSE(board_.Retired(6, 10));
  worker->Write(kWholeSession, 20, 0);
  EXPECT_TRUE(board_.Retired(6, 20));
  EXPECT_TRUE(board_.Retired(kWholeSession, 20));
  EXPECT_FALSE(board_.Retired(kWholeSession, 21));
}

TEST_F(SharedBoardTest, AThreadSleepsUntilWhatTheWorkerSaidBeforeIsHandled) {
  ASSERT_TRUE(board_.Open());
  const auto worker = Begin(1);
  EXPECT_FALSE(board_.IsAhead(5, 10));
  worker->Write(5, 10, 1);
  EXPECT_TRUE(board_.IsAhead(5, 10));
  EXPECT_FALSE(board_.IsAhead(5, 11));
  EXPECT_FALSE(board_.IsAhead(6, 10));
  std::thread sleeper([this] {
    const auto done = [this] { return board_.Retired(5, 10); };
    while (!done()) board_.SleepUntilHandled(absl::Minutes(1), done);
  });
  HandleOrdered();
  sleeper.join();
  EXPECT_FALSE(board_.IsAhead(5, 10));
  // Another worker's reports count when the client has heard of it.
  const auto next = *BoardWriter::Attach(fd_, 2);
  next->Write(5, 20, 1);
  EXPECT_FALSE(board_.IsAhead(5, 20));
}

TEST_F(SharedBoardTest, WhatTheWorkerSaidBeforeComesFirst) {
  ASSERT_TRUE(board_.Open());
  const auto worker = Begin(1);
  worker->Write(5, 10, 2);
  EXPECT_FALSE(board_.Retired(5, 10));
  HandleOrdered();
  EXPECT_FALSE(board_.Retired(5, 10));
  HandleOrdered();
  EXPECT_TRUE(board_.Retired(5, 10));
}

TEST_F(SharedBoardTest, TheNextWorkerCountsAnew) {
  ASSERT_TRUE(board_.Open());
  Begin(1)->Write(5, 10, 0);
  HandleOrdered();
  const auto next = *BoardWriter::Attach(fd_, 2);
  next->Write(5, 12, 1);
  EXPECT_FALSE(board_.Retired(5, 12));  // Nothing was heard of this worker yet.
  Begin(2);
  EXPECT_FALSE(board_.Retired(5, 12));
  HandleOrdered();
  EXPECT_TRUE(board_.Retired(5, 12));
}

TEST_F(SharedBoardTest, AFormerWorkersReportsDoNotCountForTheNext) {
  ASSERT_TRUE(board_.Open());
  Begin(1)->Write(5, 10, 0);
  EXPECT_TRUE(board_.Retired(5, 10));
  Begin(2);
  EXPECT_FALSE(board_.Retired(5, 10));
}

TEST_F(SharedBoardTest, WithoutABoardNothingIsKnown) {
  SharedBoard none;
  EXPECT_FALSE(none.Open());
  EXPECT_FALSE(none.Retired(5, 0));
  SharedBoard refused;
  int asked = 0;
  refused.SetSource([&asked] {
    ++asked;
    return UniqueFd();
  });
  EXPECT_FALSE(refused.Open());
  EXPECT_FALSE(refused.Open());
  EXPECT_EQ(asked, 1);
}

TEST_F(SharedBoardTest, OtherMemoryIsNoBoard) {
  SharedBoard wrong;
  wrong.SetSource([] { return UniqueFd(dup(STDERR_FILENO)); });
  EXPECT_FALSE(wrong.Open());
}

}  // namespace
}  // namespace warpline::stub
