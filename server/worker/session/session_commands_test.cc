// Tests host functions, boxes, words and attributes: what reaches the device, and what is refused.
#include <malloc.h>

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

using ::testing::ElementsAre;

class SessionCommandsTest : public SessionTest {
 protected:
  // Waits until the client is told that the call's turn has come.
  void AwaitDue(uint64_t token) {
    replies_.WaitFor([token](const Replies::Entry& entry) {
      notice::HostDue due;
      std::string_view body = entry.body;
      return entry.id == ReplyId::kHostDue && TakeStruct(&body, &due) && due.token == token;
    });
  }

  bool AnyDue() {
    const auto all = replies_.All();
    return std::any_of(all.begin(), all.end(),
                       [](const Replies::Entry& e) { return e.id == ReplyId::kHostDue; });
  }

  bool AnyMemset() {
    const auto log = context_.log();
    return std::any_of(log.begin(), log.end(),
                       [](const std::string& line) { return line.starts_with("set"); });
  }

  CudaResult ResultOf(uint64_t seq) {
    CudaResult result;
    replies_.Wait(seq, &result);
    return result;
  }

  // Returns the error with which the one-way command `seq` failed.
  CudaResult FailureOf(uint64_t seq) {
    const auto entry = replies_.WaitFor(
        [seq](const Replies::Entry& e) { return e.id == ReplyId::kFailed && e.seq == seq; });
    std::string_view body = entry.body;
    notice::Failed failed;
    EXPECT_TRUE(TakeStruct(&body, &failed));
    return static_cast<CudaResult>(failed.result);
  }
};

TEST_F(SessionCommandsTest, HostCallComesAfterEarlierWorkAndHoldsLaterWork) {
  AddStream(7);
  Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  context_.Stall(10);
  Add(cmd::Memset{7, 4096, 1, 1, 1});
  Add(cmd::HostCall{7, 5});
  Add(cmd::Memset{7, 4096, 1, 2, 1});
  const uint64_t sync = Add(cmd::StreamSync{7});
  const uint64_t other = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  // Neither the call nor what it waits for holds back other streams.
  replies_.Wait(other);
  EXPECT_FALSE(AnyDue());
  context_.Resume(10);
  AwaitDue(5);
  EXPECT_THAT(context_.log(), ElementsAre("set@10 1"));
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, sync));
  Add(cmd::HostDone{5});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  EXPECT_THAT(context_.log(), ElementsAre("set@10 1", "set@10 2"));
}

TEST_F(SessionCommandsTest, WorkBeforeAHostCallIsReportedBeforeItsTurn) {
  AddStream(7);
  const uint64_t set = Add(cmd::Memset{7, 4096, 1, 1, 1});
  Add(cmd::HostCall{7, 5});
  ASSERT_TRUE(Send().ok());
  AwaitDue(5);
  const auto all = replies_.All();
  const auto due = std::find_if(all.begin(), all.end(),
                                [](const Replies::Entry& e) { return e.id == ReplyId::kHostDue; });
  EXPECT_TRUE(std::any_of(all.begin(), due, [&](const Replies::Entry& e) {
    return e.id == ReplyId::kRetired && e.seq >= set;
  }));
  Add(cmd::HostDone{5});
  ASSERT_TRUE(Send().ok());
}

TEST_F(SessionCommandsTest, EventsAndTheLegacyStreamWaitForAHostCall) {
  AddStream(7, 0);
  AddStream(8);
  Add(cmd::EventCreate{20, 0, 0});
  Add(cmd::HostCall{7, 5});
  Add(cmd::EventRecord{20, 7});
  Add(cmd::StreamWaitEvent{8, 20});
  Add(cmd::Memset{8, 4096, 1, 2, 1});
  const uint64_t waiting = Add(cmd::StreamSync{8});
  const uint64_t legacy = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  AwaitDue(5);
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, waiting));
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, legacy));
  Add(cmd::HostDone{5});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(waiting);
  replies_.Wait(legacy);
}

TEST_F(SessionCommandsTest, AWrongAddressInALibraryCallIsKnownToAWaitBehindIt) {
  // cublasSgemmBatched of one product.
  const uint64_t values[] = {0, 0, 2, 2, 2, 1, 0, 4096, 2, 8192, 2, 1, 0, 12288, 2, 1};
  AddStream(7);
  AddStream(8);
  const std::string tail(reinterpret_cast<const char*>(values), sizeof(values));
  Add(cmd::LibraryCall{7, 78, 0}, tail);
  const uint64_t good = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(good), CudaResult::kSuccess);
  context_.FailLibraryCalls(CudaResult::kIllegalAddress);
  // It is also known to a wait on another stream, which may be the first one to be complete.
  Add(cmd::LibraryCall{7, 78, 0}, tail);
  Add(cmd::Memset{8, 4096, 1, 1, 1});
  const uint64_t other = Add(cmd::StreamSync{8});
  const uint64_t sync = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kIllegalAddress);
  EXPECT_EQ(ResultOf(other), CudaResult::kIllegalAddress);
}

// Each command of the legacy stream, and each that comes after all streams, waits for all of these;
// what it takes to wait must not be as much for each.
TEST_F(SessionCommandsTest, WaitingTakesMemoryOfCommandsAndNotOfStreamsForEach) {
  constexpr uint64_t kStreams = 200;
  constexpr uint64_t kCommands = 20'000;
  for (uint64_t i = 0; i < kStreams; ++i) {
    AddStream(100 + i, 0);
    Add(cmd::HostCall{100 + i, 5 + i});
  }
  ASSERT_TRUE(Send().ok());
  const size_t before = mallinfo2().uordblks;
  if (before == 0) GTEST_SKIP() << "this allocator does not tell what it has given";
  const auto memory_of_each = [&] { return (mallinfo2().uordblks - before) / kCommands; };
  for (uint64_t i = 0; i < kCommands; ++i) Add(cmd::Memset{1, 4096, 1, 1, 1});
  ASSERT_TRUE(Send().ok());
  EXPECT_LT(memory_of_each(), 1'500u);
  EXPECT_FALSE(AnyMemset());
  for (uint64_t i = 0; i < kStreams; ++i) Add(cmd::HostDone{5 + i});
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
  EXPECT_TRUE(AnyMemset());
}

// What a command names only once holds the commands after it all the same.
TEST_F(SessionCommandsTest, EachCommandOfTheLegacyStreamWaitsForAllThatCameBefore) {
  AddStream(7, 0);
  AddStream(8, 0);
  Add(cmd::HostCall{7, 5});
  Add(cmd::Memset{1, 4096, 1, 1, 1});
  Add(cmd::HostCall{8, 6});
  Add(cmd::Memset{1, 4096, 2, 1, 1});
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  AwaitDue(5);
  EXPECT_FALSE(AnyMemset());
  Add(cmd::HostDone{5});
  ASSERT_TRUE(Send().ok());
  AwaitDue(6);
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, sync));
  Add(cmd::HostDone{6});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
}

// Over such a stream, a host function gets the memory that it touches.
TEST_F(SessionCommandsTest, AStreamThatIgnoresBarriersIsNotHeldByAHostCallBeforeOne) {
  AddStream(7);
  AddStream(8);
  AddStream(9);
  Add(cmd::StreamIgnoreBarriers{8});
  Add(cmd::HostCall{7, 5});
  Add(cmd::StreamBarrier{7});
  Add(cmd::Memset{8, 4096, 1, 2, 1});
  const uint64_t ignoring = Add(cmd::StreamSync{8});
  // The stream's own barrier does not stand for that one.
  Add(cmd::StreamBarrier{8});
  Add(cmd::Memset{9, 4096, 1, 3, 1});
  const uint64_t held = Add(cmd::StreamSync{9});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(ignoring), CudaResult::kSuccess);
  AwaitDue(5);
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, held));
  Add(cmd::HostDone{5});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(held), CudaResult::kSuccess);
}

TEST_F(SessionCommandsTest, OthersComeAfterTheBarriersOfAStreamThatIgnoresThem) {
  AddStream(7);
  AddStream(8);
  AddStream(9);
  Add(cmd::StreamIgnoreBarriers{8});
  Add(cmd::StreamIgnoreBarriers{9});
  Add(cmd::HostCall{8, 5});
  Add(cmd::StreamBarrier{8});
  const uint64_t other = Add(cmd::StreamSync{7});
  const uint64_t same_kind = Add(cmd::StreamSync{9});
  ASSERT_TRUE(Send().ok());
  AwaitDue(5);
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, other));
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, same_kind));
  Add(cmd::HostDone{5});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(other), CudaResult::kSuccess);
  EXPECT_EQ(ResultOf(same_kind), CudaResult::kSuccess);
}

TEST_F(SessionCommandsTest, OnlyStreamsIgnoreBarriers) {
  const uint64_t none = Add(cmd::StreamIgnoreBarriers{7});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(FailureOf(none), CudaResult::kInvalidHandle);
}

TEST_F(SessionCommandsTest, AnswersToNoHostCallAreRefused) {
  AddStream(7);
  const uint64_t unknown = Add(cmd::HostDone{5});
  Add(cmd::HostCall{7, 6});
  const uint64_t again = Add(cmd::HostCall{7, 6});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(FailureOf(unknown), CudaResult::kInvalidValue);
  EXPECT_EQ(FailureOf(again), CudaResult::kInvalidValue);
  AwaitDue(6);
  Add(cmd::HostDone{6});
  const uint64_t twice = Add(cmd::HostDone{6});
  const uint64_t sync = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(FailureOf(twice), CudaResult::kInvalidValue);
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
}

TEST_F(SessionCommandsTest, AnswerBeforeTheTurnHarmsNobody) {
  AddStream(7);
  Add(cmd::HostCall{7, 6});
  Add(cmd::HostDone{6});
  const uint64_t sync = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
}

TEST_F(SessionCommandsTest, DestroyedStreamStillWaitsForItsHostCall) {
  AddStream(7);
  Add(cmd::HostCall{7, 6});
  Add(cmd::StreamDestroy{7});
  const uint64_t sync = Add(cmd::ContextSync{});
  ASSERT_TRUE(Send().ok());
  AwaitDue(6);
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, sync));
  Add(cmd::HostDone{6});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
}

TEST_F(SessionCommandsTest, SessionEndsWhileAHostCallIsUnanswered) {
  AddStream(7);
  Add(cmd::HostCall{7, 6});
  Add(cmd::Memset{7, 4096, 1, 2, 1});
  ASSERT_TRUE(Send().ok());
  AwaitDue(6);
  session_.reset();
  for (const std::string& line : context_.log()) EXPECT_NE(line.substr(0, 3), "set");
}

TEST_F(SessionCommandsTest, HostCallsThatNobodyAnswersAreBounded) {
  SessionLimits limits;
  limits.max_handles = 8;
  Restart(limits);
  std::vector<uint64_t> calls;
  for (uint64_t token = 1; token <= 10; ++token) calls.push_back(Add(cmd::HostCall{1, token}));
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(FailureOf(calls.back()), CudaResult::kOutOfMemory);
}

TEST_F(SessionCommandsTest, FaultReleasesWhatWaitsForAHostCall) {
  AddStream(7);
  Add(cmd::HostCall{7, 6});
  const uint64_t sync = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  AwaitDue(6);
  context_.Break(CudaResult::kIllegalAddress);
  Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kIllegalAddress);
}

TEST_F(SessionCommandsTest, BoxComesBackInPiecesWithoutGaps) {
  // The rows have 3/4 of a staging buffer, so that each piece is one row.
  const uint64_t width = kStagingBytes / 4 * 3;
  const uint64_t copy = Add(cmd::CopyBoxFromDevice{1, 4096, width + 5, 0, width, 3, 1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(copy), CudaResult::kSuccess);
  std::string rows;
  for (const Replies::Entry& entry : replies_.All()) {
    if (entry.id != ReplyId::kCopyData) continue;
    std::string_view body = entry.body;
    notice::CopyData data;
    ASSERT_TRUE(TakeStruct(&body, &data));
    EXPECT_EQ(data.offset, rows.size());
    rows.append(body);
  }
  ASSERT_EQ(rows.size(), 3 * width);
  EXPECT_EQ(rows[0], static_cast<char>(4096));
  EXPECT_EQ(rows[2 * width + 1], static_cast<char>(4096 + 2 * (width + 5) + 1));
}

TEST_F(SessionCommandsTest, BoxesReachTheDevice) {
  Add(cmd::CopyBoxToDevice{1, 4096, 16, 0, 2, 3, 1}, "aabbcc");
  Add(cmd::CopyBoxOnDevice{1, 4096, 16, 0, 8192, 32, 0, 2, 3, 1});
  Add(cmd::MemsetRows{1, 4096, 64, 4, 3, 9, 4});
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
  EXPECT_THAT(context_.log(), ElementsAre("box-in@1 4096=aabbcc", "box@1 6", "rows@1 9x3"));
}

TEST_F(SessionCommandsTest, WhatIsNoBoxIsRefused) {
  const uint64_t overlapping = Add(cmd::CopyBoxToDevice{1, 4096, 1, 0, 2, 3, 1}, "aabbcc");
  const uint64_t short_tail = Add(cmd::CopyBoxToDevice{1, 4096, 16, 0, 2, 3, 1}, "aabb");
  const uint64_t huge =
      Add(cmd::CopyBoxFromDevice{1, 4096, 1ull << 40, 0, 1ull << 40, 1ull << 40, 1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(FailureOf(overlapping), CudaResult::kInvalidValue);
  EXPECT_EQ(FailureOf(short_tail), CudaResult::kInvalidValue);
  EXPECT_EQ(ResultOf(huge), CudaResult::kInvalidValue);
  EXPECT_TRUE(context_.log().empty());
}

TEST_F(SessionCommandsTest, WordsAndAttributesReachTheDeviceWhenTheirTailsAreWhole) {
  const std::string two(2 * sizeof(device::MemOp), '\0');
  Add(cmd::StreamMemOps{1}, two);
  Add(cmd::StreamSetAttribute{1, 3, 0}, std::string(64, '\0'));
  const uint64_t half = Add(cmd::StreamMemOps{1}, two.substr(1));
  const uint64_t many =
      Add(cmd::StreamMemOps{1}, std::string((device::kMaxMemOps + 1) * sizeof(device::MemOp), 0));
  const uint64_t value = Add(cmd::StreamSetAttribute{1, 3, 0}, "short");
  // The attribute holds an event's address.
  const uint64_t pointer = Add(cmd::StreamSetAttribute{1, 7, 0}, std::string(64, '\xff'));
  const uint64_t beyond = Add(cmd::StreamSetAttribute{1, 0x80000001, 0}, std::string(64, '\0'));
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
  EXPECT_EQ(FailureOf(half), CudaResult::kInvalidValue);
  EXPECT_EQ(FailureOf(many), CudaResult::kInvalidValue);
  EXPECT_EQ(FailureOf(value), CudaResult::kInvalidValue);
  EXPECT_EQ(FailureOf(pointer), CudaResult::kInvalidValue);
  EXPECT_EQ(FailureOf(beyond), CudaResult::kInvalidValue);
  EXPECT_THAT(context_.log(), ElementsAre("words@1 2", "attribute@1 3"));
}

TEST_F(SessionCommandsTest, MemoryBeyondTheEndOfTheAddressSpaceReachesNoDevice) {
  const uint64_t last = ~uint64_t{0} - 3;
  const uint64_t out = Add(cmd::CopyFromDevice{1, last, 8});
  const uint64_t set = Add(cmd::Memset{1, last, 2, 0, 4});
  const uint64_t many = Add(cmd::Memset{1, 4096, ~uint64_t{0}, 0, 4});
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  CudaResult result = CudaResult::kSuccess;
  replies_.Wait(out, &result);
  EXPECT_EQ(result, CudaResult::kInvalidValue);
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, set));
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, many));
  replies_.Wait(sync, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  EXPECT_TRUE(context_.log().empty());
}

}  // namespace
}  // namespace warpline::worker
