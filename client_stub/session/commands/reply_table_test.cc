#include "client_stub/session/commands/reply_table.h"

#include <chrono>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

using Outcome = ReplyTable::Outcome;
constexpr std::chrono::nanoseconds kNoSpin(0);

class ReplyTableTest : public testing::Test {
 protected:
  bool Expect(uint64_t seq, ExpectedReply expected) {
    CudaResult error = CudaResult::kSuccess;
    return table_.Expect(seq, expected, &error);
  }
  Outcome Reply(uint64_t seq, CudaResult result, std::string_view fields = {}) {
    return table_.Reply(seq, result, fields, &command_);
  }

  ReplyTable table_;
  CommandId command_{};
};

TEST_F(ReplyTableTest, ReplyEndsTheWaitWithItsFields) {
  std::string fields;
  ReplyWaiter waiter(1, &fields);
  ASSERT_TRUE(Expect(4, {.command = CommandId::kGlobalFind, .waiter = &waiter}));
  std::thread loop([&] { EXPECT_EQ(Reply(4, CudaResult::kSuccess, "abc"), Outcome::kTaken); });
  EXPECT_EQ(waiter.Wait(kNoSpin), CudaResult::kSuccess);
  loop.join();
  EXPECT_EQ(fields, "abc");
  EXPECT_EQ(Reply(4, CudaResult::kSuccess), Outcome::kUnexpected);
}

TEST_F(ReplyTableTest, WaiterOfSeveralRepliesGetsTheFirstError) {
  ReplyWaiter waiter(3);
  for (const uint64_t seq : {1, 2, 3}) ASSERT_TRUE(Expect(seq, {.waiter = &waiter}));
  EXPECT_EQ(Reply(2, CudaResult::kInvalidValue), Outcome::kTaken);
  EXPECT_EQ(Reply(1, CudaResult::kNotFound), Outcome::kTaken);
  EXPECT_EQ(Reply(3, CudaResult::kSuccess), Outcome::kTaken);
  EXPECT_EQ(waiter.Wait(kNoSpin), CudaResult::kInvalidValue);
}

TEST_F(ReplyTableTest, AbandonedRepliesAreNotWaitedFor) {
  ReplyWaiter waiter(3);
  ASSERT_TRUE(Expect(1, {.waiter = &waiter}));
  waiter.Abandon(2, CudaResult::kLaunchFailed);
  EXPECT_EQ(Reply(1, CudaResult::kSuccess), Outcome::kTaken);
  EXPECT_EQ(waiter.Wait(kNoSpin), CudaResult::kLaunchFailed);
}

TEST_F(ReplyTableTest, DataOutsideTheDestinationIsRefused) {
  char buffer[8] = {};
  ASSERT_TRUE(Expect(1, {.destination = buffer + 2, .bytes = 4}));
  EXPECT_EQ(table_.CopyData(1, 5, ""), Outcome::kUnexpected);
  EXPECT_EQ(table_.CopyData(1, 3, "xy"), Outcome::kUnexpected);
  EXPECT_EQ(table_.CopyData(1, ~0ull, "x"), Outcome::kUnexpected);
  EXPECT_EQ(table_.CopyData(1, ~0ull - 1, "xyz"), Outcome::kUnexpected);
  EXPECT_EQ(table_.CopyData(2, 0, "x"), Outcome::kUnexpected);
  EXPECT_EQ(table_.CopyData(1, 2, "cd"), Outcome::kTaken);
  EXPECT_EQ(table_.CopyData(1, 0, "ab"), Outcome::kTaken);
  EXPECT_EQ(table_.CopyData(1, 0, "a"), Outcome::kUnexpected);  // This is more than was asked for.
  EXPECT_EQ(std::string(buffer, 8), std::string("\0\0abcd\0\0", 8));
}

TEST_F(ReplyTableTest, StagedBytesAreCopiedBeforeTheCommandIsTakenForComplete) {
  const char first[] = "first", second[] = "other";
  char buffer[8] = {}, elsewhere[8] = {};
  ASSERT_TRUE(Expect(5, {.destination = buffer, .staged = second, .staged_bytes = 5, .stream = 7}));
  ASSERT_TRUE(Expect(3, {.destination = buffer, .staged = first, .staged_bytes = 5, .stream = 7}));
  ASSERT_TRUE(
      Expect(4, {.destination = elsewhere, .staged = first, .staged_bytes = 5, .stream = 8}));
  table_.BeforeRetired(7, 2, 2);
  table_.BeforeRetired(8, 3, 2);
  EXPECT_EQ(std::string(buffer, 8), std::string(8, '\0'));
  table_.BeforeRetired(7, 3, 2);
  EXPECT_EQ(std::string(buffer, 8), std::string("first\0\0\0", 8));
  EXPECT_EQ(std::string(elsewhere, 8), std::string(8, '\0'));
  // By then the program may have written there again.
  buffer[0] = 'F';
  EXPECT_EQ(Reply(3, CudaResult::kSuccess), Outcome::kTaken);
  EXPECT_EQ(std::string(buffer, 8), std::string("First\0\0\0", 8));
  table_.BeforeRetired(9, 0, 5);
  EXPECT_EQ(std::string(buffer, 8), std::string("other\0\0\0", 8));
  EXPECT_EQ(std::string(elsewhere, 8), std::string("first\0\0\0", 8));
}

TEST_F(ReplyTableTest, StagedBytesAreCopiedInTheOrderOfTheirCommands) {
  const char a = 'a', b = 'b', c = 'c';
  char buffer = 0;
  for (const auto& [seq, from] : {std::pair(9, &b), std::pair(8, &a), std::pair(10, &c)}) {
    ASSERT_TRUE(Expect(seq, {.destination = &buffer, .staged = from, .staged_bytes = 1}));
  }
  table_.BeforeRetired(0, 0, 10);
  EXPECT_EQ(buffer, 'c');
}

TEST_F(ReplyTableTest, AReplyThatComesFirstBringsTheStagedBytes) {
  const char staged[] = "staged";
  char buffer[8] = {};
  ASSERT_TRUE(Expect(1, {.destination = buffer + 1, .staged = staged, .staged_bytes = 6}));
  EXPECT_EQ(Reply(1, CudaResult::kSuccess), Outcome::kTaken);
  EXPECT_EQ(std::string(buffer, 8), std::string("\0staged\0", 8));
}

TEST_F(ReplyTableTest, SuccessWithoutAllDataIsRefused) {
  char buffer[4];
  ASSERT_TRUE(Expect(1, {.destination = buffer, .bytes = 4}));
  EXPECT_EQ(table_.CopyData(1, 0, "ab"), Outcome::kTaken);
  EXPECT_EQ(Reply(1, CudaResult::kSuccess), Outcome::kUnexpected);
  EXPECT_EQ(Reply(1, CudaResult::kInvalidValue), Outcome::kUnclaimed);
}

TEST_F(ReplyTableTest, FailureEndsAllWaitsAndNothingIsWrittenLater) {
  char buffer[4] = {'-', '-', '-', '-'};
  ReplyWaiter waiter(1);
  ASSERT_TRUE(Expect(1, {.waiter = &waiter, .destination = buffer, .bytes = 4}));
  std::thread loop([&] { table_.Fail(CudaResult::kLaunchFailed); });
  EXPECT_EQ(waiter.Wait(kNoSpin), CudaResult::kLaunchFailed);
  loop.join();
  EXPECT_EQ(table_.CopyData(1, 0, "abcd"), Outcome::kUnexpected);
  EXPECT_EQ(buffer[0], '-');
  CudaResult error = CudaResult::kSuccess;
  EXPECT_FALSE(table_.Expect(2, {}, &error));
  EXPECT_EQ(error, CudaResult::kLaunchFailed);
}

}  // namespace
}  // namespace warpline::stub
