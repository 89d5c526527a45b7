#include "client_stub/session/commands/completion_board.h"

#include <memory>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(CompletionBoardTest, StreamsRetireOnTheirOwn) {
  const auto owned = std::make_unique<CompletionBoard>();
  CompletionBoard& board = *owned;
  EXPECT_TRUE(board.Retired(5, 0));
  EXPECT_FALSE(board.Retired(5, 1));
  EXPECT_TRUE(board.Update(5, 10, 2));
  EXPECT_TRUE(board.Retired(5, 10));
  EXPECT_FALSE(board.Retired(5, 11));
  EXPECT_FALSE(board.Retired(6, 10));
  EXPECT_TRUE(board.Retired(6, 2));  // The whole session has come that far.
}

TEST(CompletionBoardTest, OldNewsChangesNothing) {
  const auto owned = std::make_unique<CompletionBoard>();
  CompletionBoard& board = *owned;
  EXPECT_TRUE(board.Update(5, 10, 8));
  EXPECT_TRUE(board.Update(5, 3, 2));
  EXPECT_TRUE(board.Retired(5, 10));
  EXPECT_TRUE(board.Retired(9, 8));
}

TEST(CompletionBoardTest, ForgottenStreamKeepsItsEntryUntilItIsComplete) {
  const auto owned = std::make_unique<CompletionBoard>();
  CompletionBoard& board = *owned;
  EXPECT_TRUE(board.Update(5, 10, 0));
  board.Forget(5, 20);
  EXPECT_TRUE(board.Retired(5, 10));
  EXPECT_TRUE(board.Update(6, 20, 20));
  EXPECT_TRUE(board.Retired(5, 20));
  EXPECT_FALSE(board.Retired(5, 21));
}

TEST(CompletionBoardTest, HandleUsedAgainSurvivesForgetting) {
  const auto owned = std::make_unique<CompletionBoard>();
  CompletionBoard& board = *owned;
  EXPECT_TRUE(board.Update(5, 10, 0));
  board.Forget(5, 20);
  EXPECT_TRUE(board.Update(5, 30, 25));
  EXPECT_TRUE(board.Retired(5, 30));
}

TEST(CompletionBoardTest, StreamsBeyondReasonAreRefused) {
  const auto owned = std::make_unique<CompletionBoard>();
  CompletionBoard& board = *owned;
  bool refused = false;
  for (uint64_t stream = 0; stream <= CompletionBoard::kMaxStreams && !refused; ++stream) {
    refused = !board.Update(stream, 1, 0);
  }
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace warpline::stub
