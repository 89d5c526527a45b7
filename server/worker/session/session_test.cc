#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "server/worker/testing/fake_context.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

using ::testing::ElementsAre;

TEST_F(SessionTest, LaunchThenSyncRunsInOrderAndReplies) {
  LoadKernel();
  Add(LaunchOn(1, 4), params_);
  Add(cmd::CopyToDevice{1, 4096}, "data");
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(sync, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  EXPECT_THAT(context_.log(), ElementsAre("launch@1 77x4", "in@1 4096=data"));
}

TEST_F(SessionTest, BoardShowsRetirementBeforeTheReply) {
  AddStream(7);
  Add(cmd::Memset{7, 4096, 1, 0, 1});
  const uint64_t sync = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  const auto all = replies_.All();
  const auto reply = std::find_if(all.begin(), all.end(), [&](const Replies::Entry& e) {
    return e.id == ReplyId::kReply && e.seq == sync;
  });
  EXPECT_TRUE(std::any_of(all.begin(), reply, [&](const Replies::Entry& e) {
    return e.id == ReplyId::kRetired && e.seq == sync;
  }));
}

TEST_F(SessionTest, KernelFindTellsLayoutAndAttributes) {
  Add(cmd::ImageData{1, 4, 0}, "im");
  Add(cmd::ImageData{1, 4, 2}, "ag");
  Add(cmd::ModuleLoad{2, 1});
  const uint64_t found = Add(cmd::KernelFind{3, 2}, "kernel");
  const uint64_t missing = Add(cmd::KernelFind{4, 2}, "missing");
  ASSERT_TRUE(Send().ok());
  const std::string body = replies_.Wait(found);
  std::string_view rest = body;
  cmd::KernelFindReply reply;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  EXPECT_EQ(reply.attributes[8], 80);
  device::ParamLayout second;
  ASSERT_TRUE(TakeStruct(&rest, &second) && TakeStruct(&rest, &second));
  EXPECT_EQ(second.offset, 8u);
  CudaResult result;
  replies_.Wait(missing, &result);
  EXPECT_EQ(result, CudaResult::kNotFound);
}

TEST_F(SessionTest, ModuleCheckTellsWhatLoadingEndedWith) {
  Add(cmd::ImageData{1, 3, 0}, "bad");
  Add(cmd::ModuleLoad{2, 1});
  const uint64_t check = Add(cmd::ModuleCheck{2});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(check, &result);
  EXPECT_EQ(result, CudaResult::kInvalidImage);
}

TEST_F(SessionTest, StalledStreamHoldsNeitherOtherStreamsNorTheirWaits) {
  LoadKernel();
  AddStream(7);
  AddStream(8);
  ASSERT_TRUE(Send().ok());
  context_.Stall(10);
  context_.Stall(11);
  // The number is more than the device would take before it blocks its caller. The executors decide
  // which of the two streams is 10, so both are stalled first.
  for (int i = 0; i < 2000; ++i) Add(LaunchOn(7), params_);
  const uint64_t stalled = Add(cmd::StreamSync{7});
  Add(cmd::Memset{8, 4096, 1, 9, 1});
  const uint64_t legacy = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(legacy);
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, stalled));
  context_.Resume(10);
  context_.Resume(11);
  replies_.Wait(stalled);
  const auto log = context_.log();
  EXPECT_EQ(std::count_if(log.begin(), log.end(),
                          [](const std::string& s) { return s.substr(0, 6) == "launch"; }),
            2000);
}

TEST_F(SessionTest, WaitIsBoundToTheRecordThatWasLatestWhenItWasMade) {
  AddStream(7);
  AddStream(8);
  Add(cmd::EventCreate{5, 0, 0});
  Add(cmd::EventRecord{5, 7});
  Add(cmd::StreamWaitEvent{8, 5});
  Add(cmd::EventRecord{5, 8});  // This must not make stream 8 wait for itself.
  const uint64_t sync = Add(cmd::StreamSync{8});
  const uint64_t event = Add(cmd::EventSync{5});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(sync, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  replies_.Wait(event, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
}

TEST_F(SessionTest, WhatFollowsABarrierWaitsForItsStreamOnEveryOther) {
  AddStream(7);
  AddStream(8);
  const uint64_t opened = Add(cmd::ContextSync{});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(opened);
  context_.Stall(1);
  Add(cmd::CopyToDevice{1, 4096}, "data");
  Add(cmd::StreamBarrier{1});
  Add(cmd::Memset{7, 4096, 1, 3, 1});
  Add(cmd::Memset{7, 4096, 1, 4, 1});
  const uint64_t sync = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  // Stream 7 was told to wait for the legacy stream (1), once and before its first command.
  const std::vector<std::string> log = context_.log();
  ASSERT_EQ(log.size(), 4u);
  EXPECT_EQ(log[0].substr(0, 4), "in@1");
  EXPECT_EQ(log[1].substr(0, 5), "wait@");
  EXPECT_EQ(log[1].substr(log[1].size() - 2), " 1");
  EXPECT_EQ(log[2].substr(0, 4), "set@");
  context_.Resume(1);
}

TEST_F(SessionTest, FreeFenceWaitsForEveryStream) {
  AddStream(7);
  const uint64_t opened = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(opened);
  context_.Stall(10);
  Add(cmd::Memset{7, 4096, 1, 0, 1});
  Add(cmd::FreeFence{99});
  const uint64_t legacy = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(legacy);
  EXPECT_FALSE(replies_.Has(ReplyId::kFreed, 0));
  context_.Resume(10);
  replies_.WaitFor([](const Replies::Entry& e) { return e.id == ReplyId::kFreed; });
}

TEST_F(SessionTest, CopyOutSendsEveryPieceThenReplies) {
  const uint64_t bytes = 2 * kStagingBytes + 100;
  const uint64_t copy = Add(cmd::CopyFromDevice{1, 0x1042, bytes});
  const uint64_t bad = Add(cmd::CopyFromDevice{1, 0, 8});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(copy, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  uint64_t got = 0;
  for (const auto& e : replies_.All()) {
    if (e.id == ReplyId::kCopyData && e.seq == copy) got += e.body.size() - sizeof(uint64_t);
  }
  EXPECT_EQ(got, bytes);
  replies_.Wait(bad, &result);
  EXPECT_EQ(result, CudaResult::kInvalidValue);
}

TEST_F(SessionTest, ManyPiecesShareFewStagingBuffers) {
  const uint64_t copy = Add(cmd::CopyFromDevice{1, 0x1001, 100 * kStagingBytes});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(copy, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
}

TEST_F(SessionTest, StickyErrorAnswersEveryWaitAndStaysForLater) {
  AddStream(7);
  const uint64_t opened = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(opened);
  context_.Break(CudaResult::kIllegalAddress);
  const uint64_t sync = Add(cmd::StreamSync{7});
  const uint64_t all = Add(cmd::ContextSync{});
  const uint64_t copy = Add(cmd::CopyFromDevice{7, 4096, 3 * kStagingBytes});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  for (const uint64_t seq : {sync, all, copy}) {
    replies_.Wait(seq, &result);
    EXPECT_EQ(result, CudaResult::kIllegalAddress) << seq;
  }
  const uint64_t later = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(later, &result);
  EXPECT_EQ(result, CudaResult::kIllegalAddress);
}

TEST_F(SessionTest, AnErrorFromOutsideSticks) {
  AddStream(7);
  const uint64_t opened = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(opened);
  session_->Fail(CudaResult::kLaunchTimeout, "too long");
  const uint64_t sync = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(sync, &result);
  EXPECT_EQ(result, CudaResult::kLaunchTimeout);
}

TEST_F(SessionTest, UnknownHandlesAreRefusedAndTheSessionGoesOn) {
  const uint64_t sync = Add(cmd::StreamSync{42});
  const uint64_t launch = Add(LaunchOn(1), params_);  // Kernel 3 does not exist.
  const uint64_t destroy = Add(cmd::StreamDestroy{1});
  const uint64_t good = Add(cmd::ContextSync{});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(sync, &result);
  EXPECT_EQ(result, CudaResult::kInvalidHandle);
  replies_.Wait(good, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, launch));
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, destroy));
}

TEST_F(SessionTest, ShortParameterBufferIsNotPassedOn) {
  LoadKernel();
  const uint64_t launch = Add(LaunchOn(1), "short");
  const uint64_t sync = Add(cmd::ContextSync{});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, launch));
  EXPECT_TRUE(context_.log().empty());
}

TEST_F(SessionTest, DestroyedStreamsFinishTheirWorkAndTheirThreadsEnd) {
  LoadKernel();
  for (uint64_t i = 0; i < 3000; ++i) {
    AddStream(100 + i);
    Add(LaunchOn(100 + i), params_);
    Add(cmd::StreamDestroy{100 + i});
    const uint64_t sync = Add(cmd::ContextSync{});
    ASSERT_TRUE(Send().ok());
    CudaResult result;
    replies_.Wait(sync, &result);
    ASSERT_EQ(result, CudaResult::kSuccess);
    if (i > 40) i += 100;
  }
}

TEST_F(SessionTest, LegacyStreamComesAfterTheWorkOfADestroyedStream) {
  LoadKernel();
  for (uint64_t i = 0; i < 200; ++i) {
    AddStream(100 + i, /*flags=*/0);
    Add(LaunchOn(100 + i, static_cast<uint32_t>(i)), params_);
    Add(cmd::StreamDestroy{100 + i});
    Add(cmd::Memset{1, 4096, 1, static_cast<uint32_t>(i), 1});
    const uint64_t sync = Add(cmd::StreamSync{1});
    ASSERT_TRUE(Send().ok());
    replies_.Wait(sync);
    const auto log = context_.log();
    const auto launch = std::find_if(log.begin(), log.end(), [&](const std::string& s) {
      return s.substr(0, 6) == "launch" && s.substr(s.find(' ')) == absl::StrCat(" 77x", i);
    });
    const auto set = std::find(log.begin(), log.end(), absl::StrCat("set@1 ", i));
    ASSERT_TRUE(launch != log.end() && launch < set) << i;
  }
}

TEST_F(SessionTest, ModuleIsUnloadedAfterTheLaunchesOfADestroyedStream) {
  LoadKernel();
  for (uint64_t i = 0; i < 50; ++i) {
    const uint64_t module = 1000 + 3 * i;
    Add(cmd::ImageData{module, 5, 0}, "image");
    Add(cmd::ModuleLoad{module + 1, module});
    const uint64_t found = Add(cmd::KernelFind{module + 2, module + 1}, "kernel");
    ASSERT_TRUE(Send().ok());
    replies_.Wait(found);
    AddStream(100 + i);
    cmd::Launch launch = LaunchOn(100 + i);
    launch.kernel = module + 2;
    Add(launch, params_);
    Add(cmd::StreamDestroy{100 + i});
    Add(cmd::ModuleUnload{module + 1});
    const uint64_t sync = Add(cmd::ContextSync{});
    ASSERT_TRUE(Send().ok());
    replies_.Wait(sync);
    const auto log = context_.log();
    ASSERT_EQ(std::count(log.begin(), log.end(), "unload@0 "), static_cast<int>(i + 1));
    const auto last = std::find_if(log.rbegin(), log.rend(), [](const std::string& s) {
      return s.substr(0, 6) == "launch" || s.substr(0, 6) == "unload";
    });
    ASSERT_EQ(*last, "unload@0 ") << i;
  }
}

TEST_F(SessionTest, UnloadedModulesNoLongerCountAgainstTheLimit) {
  SessionLimits limits;
  limits.max_module_bytes = 12;
  Restart(limits);
  for (uint64_t i = 0; i < 10; ++i) {
    Add(cmd::ImageData{1, 5, 0}, "image");
    Add(cmd::ModuleLoad{2, 1});
    const uint64_t check = Add(cmd::ModuleCheck{2});
    Add(cmd::ModuleUnload{2});
    // The next part does not follow on this one, so the image is given up.
    Add(cmd::ImageData{3, 6, 0}, "half");
    Add(cmd::ImageData{3, 6, 1}, "");
    ASSERT_TRUE(Send().ok());
    CudaResult result;
    replies_.Wait(check, &result);
    ASSERT_EQ(result, CudaResult::kSuccess) << i;
  }
}

TEST_F(SessionTest, RepliesOfALongBurstLeaveInFramesOfBoundedSize) {
  LoadKernel();
  uint64_t copy = 0;
  for (int frame = 0; frame < 40; ++frame) {
    for (int i = 0; i < 20; ++i) {
      for (int j = 0; j < 64; ++j) Add(LaunchOn(1), params_);
      copy = Add(cmd::CopyFromDevice{1, 0x1001, 16u << 10});
    }
    ASSERT_TRUE(Send().ok());
  }
  replies_.Wait(copy);
  EXPECT_LE(replies_.largest_frame(), 256u << 10);
}

TEST_F(SessionTest, StalledStreamLeavesStagingBuffersToOthers) {
  SessionLimits limits;
  limits.staging_buffers = 2;
  Restart(limits);
  AddStream(7);
  const uint64_t opened = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(opened);
  context_.Stall(10);
  const std::string data(128 << 10, 'x');
  for (int i = 0; i < 3; ++i) Add(cmd::CopyToDevice{7, 4096}, data);
  const uint64_t stalled = Add(cmd::CopyFromDevice{7, 0x1001, 8 * kStagingBytes});
  ASSERT_TRUE(Send().ok());
  while (context_.staging_made() < 2) std::this_thread::yield();
  const uint64_t copy = Add(cmd::CopyFromDevice{1, 0x1001, 3 * kStagingBytes});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(copy, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, stalled));
  context_.Resume(10);
  replies_.Wait(stalled, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  EXPECT_EQ(context_.staging_made(), 3);
}

TEST_F(SessionTest, FailedCopyIsAnsweredAfterTheDataBeforeTheFailure) {
  context_.set_end_of_memory(0x1001 + 3 * kStagingBytes);
  context_.Stall(1);
  const uint64_t copy = Add(cmd::CopyFromDevice{1, 0x1001, 5 * kStagingBytes});
  ASSERT_TRUE(Send().ok());
  context_.Resume(1);
  CudaResult result;
  replies_.Wait(copy, &result);
  EXPECT_EQ(result, CudaResult::kInvalidValue);
  const auto all = replies_.All();
  const auto reply = std::find_if(all.begin(), all.end(), [&](const Replies::Entry& e) {
    return e.id == ReplyId::kReply && e.seq == copy;
  });
  EXPECT_EQ(std::count_if(all.begin(), reply,
                          [](const Replies::Entry& e) { return e.id == ReplyId::kCopyData; }),
            3);
  const uint64_t sync = Add(cmd::ContextSync{});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  const auto later = replies_.All();
  EXPECT_EQ(std::count_if(later.begin(), later.end(),
                          [](const Replies::Entry& e) { return e.id == ReplyId::kCopyData; }),
            3);
}

TEST_F(SessionTest, WorkBeforeAStalledWaitRetiresWithoutIt) {
  AddStream(7);
  AddStream(8);
  Add(cmd::EventCreate{5, 0, 0});
  const uint64_t opened = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(opened);
  const uint64_t also = Add(cmd::StreamSync{8});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(also);
  // Stream 7 has so much under way that its record is not issued, and stream 8 waits for that.
  context_.Stall(10);
  context_.Stall(11);
  for (int i = 0; i < 600; ++i) Add(cmd::Memset{7, 4096, 1, 1, 1});
  Add(cmd::EventRecord{5, 7});
  const uint64_t before = Add(cmd::Memset{8, 4096, 1, 2, 1});
  Add(cmd::StreamWaitEvent{8, 5});
  ASSERT_TRUE(Send().ok());
  context_.Resume(context_.StreamThatSet(2));
  replies_.WaitFor([&](const Replies::Entry& e) {
    return e.id == ReplyId::kRetired && e.seq >= before && e.body.size() >= 8 && e.body[0] == 8;
  });
  context_.Resume(10);
  context_.Resume(11);
}

TEST_F(SessionTest, EventsOfDestroyedStreamsDoNotUseUpTheStreams) {
  SessionLimits limits;
  limits.max_streams = 20;
  Restart(limits);
  for (uint64_t i = 0; i < 60; ++i) {
    AddStream(100 + i);
    Add(cmd::EventCreate{1000 + i, 0, 0});
    Add(cmd::EventRecord{1000 + i, 100 + i});
    Add(cmd::StreamDestroy{100 + i});
    const uint64_t sync = Add(cmd::EventSync{1000 + i});
    ASSERT_TRUE(Send().ok());
    CudaResult result;
    replies_.Wait(sync, &result);
    ASSERT_EQ(result, CudaResult::kSuccess);
    ASSERT_FALSE(replies_.Has(ReplyId::kFailed, sync - 4)) << i;
  }
  const uint64_t elapsed = Add(cmd::EventElapsed{1000, 1059});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(elapsed, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
}

TEST_F(SessionTest, AStreamIsMadeInThePlaceOfOneThatWasJustDestroyed) {
  SessionLimits limits;
  limits.max_streams = 4;  // The legacy stream is one of them.
  Restart(limits);
  for (uint64_t i = 0; i < 3; ++i) AddStream(100 + i);
  for (uint64_t i = 0; i < 100; ++i) {
    Add(cmd::StreamDestroy{100 + i});
    AddStream(103 + i);
  }
  const uint64_t sync = Add(cmd::ContextSync{});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(sync, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
}

// A wait would not end: what ends the old stream comes behind the new one.
TEST_F(SessionTest, ANewStreamDoesNotWaitForOneThatHasWorkLeft) {
  SessionLimits limits;
  limits.max_streams = 2;  // The legacy stream is one of them.
  limits.stream_end_wait = absl::InfiniteDuration();
  Restart(limits);
  AddStream(100);
  Add(cmd::HostCall{100, 5});
  Add(cmd::StreamDestroy{100});
  const uint64_t refused = AddStream(101);
  Add(cmd::HostDone{5});
  const uint64_t sync = Add(cmd::ContextSync{});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, refused));
}

TEST_F(SessionTest, TheWaitForTheEndOfAStreamEndsWithTheSession) {
  SessionLimits limits;
  limits.max_streams = 2;
  limits.stream_end_wait = absl::InfiniteDuration();
  Restart(limits);
  context_.HoldDestroys(true);
  AddStream(100);
  Add(cmd::StreamDestroy{100});
  AddStream(101);
  Add(cmd::Memset{1, 4096, 1, 1, 1});
  absl::Status status;
  std::thread decoder([&] { status = Send(); });
  context_.AwaitHeldDestroy();  // The new stream is waiting: it had the end handed over.
  session_->BeginEnd();
  decoder.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  context_.HoldDestroys(false);
}

TEST_F(SessionTest, AfterAWaitInVainThereIsRoomOnceTheOldStreamEnds) {
  SessionLimits limits;
  limits.max_streams = 2;
  limits.stream_end_wait = absl::ZeroDuration();
  Restart(limits);
  context_.HoldDestroys(true);
  AddStream(100);
  Add(cmd::StreamDestroy{100});
  const uint64_t refused = AddStream(101);
  const uint64_t again = AddStream(102);
  ASSERT_TRUE(Send().ok());
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, refused));
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, again));
  context_.HoldDestroys(false);
  CudaResult result = CudaResult::kInvalidHandle;
  for (uint64_t handle = 103; result == CudaResult::kInvalidHandle; ++handle) {
    AddStream(handle);
    const uint64_t sync = Add(cmd::StreamSync{handle});
    ASSERT_TRUE(Send().ok());
    replies_.Wait(sync, &result);
  }
  EXPECT_EQ(result, CudaResult::kSuccess);
}

TEST_F(SessionTest, FloodOfCommandsOfAStalledStreamWaitsOutside) {
  SessionLimits limits;
  limits.max_queued_commands = 1000;
  Restart(limits);
  context_.Stall(1);
  for (int i = 0; i < 2000; ++i) Add(cmd::Memset{1, 4096, 1, 1, 1});
  ASSERT_TRUE(Send().ok());
  const uint64_t sync = Add(cmd::ContextSync{});
  std::thread sender([&] { EXPECT_TRUE(Send().ok()); });
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, sync));
  context_.Resume(1);
  replies_.Wait(sync);
  sender.join();
}

TEST_F(SessionTest, LastReportSaysThatAllIsComplete) {
  LoadKernel();
  for (int i = 0; i < 200; ++i) {
    const uint64_t last = Add(LaunchOn(1), params_);
    ASSERT_TRUE(Send().ok());
    replies_.WaitFor([&](const Replies::Entry& e) {
      notice::Retired retired;
      std::string_view rest = e.body;
      return e.id == ReplyId::kRetired && TakeStruct(&rest, &retired) && retired.all_seq == last;
    });
  }
}

// What an application may read once it has waited for a stream includes what other streams copied
// out before that stream went on.
TEST_F(SessionTest, DataOfOtherStreamsLeavesBeforeTheAnswerOfTheStreamThatWaitedForThem) {
  AddStream(7, /*flags=*/0);
  const uint64_t opened = Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(opened);
  AddStream(8);
  AddStream(9);
  Add(cmd::EventCreate{5, 0, 0});
  Add(cmd::EventCreate{6, 0, 0});
  context_.Stall(10);
  const uint64_t copy = Add(cmd::CopyFromDevice{7, 0x1001, 64});
  Add(cmd::EventRecord{5, 7});
  Add(cmd::StreamWaitEvent{8, 5});
  Add(cmd::EventRecord{6, 8});
  Add(cmd::StreamWaitEvent{9, 6});
  // The ways are two events, the legacy stream's rule, and an event of another stream.
  const uint64_t joined = Add(cmd::StreamSync{9});
  const uint64_t legacy = Add(cmd::StreamSync{1});
  const uint64_t event = Add(cmd::EventSync{6});
  const uint64_t all = Add(cmd::ContextSync{});
  ASSERT_TRUE(Send().ok());
  AddStream(11);
  for (int i = 0; i < 50; ++i) {
    const uint64_t other = Add(cmd::StreamSync{11});
    ASSERT_TRUE(Send().ok());
    replies_.Wait(other);
  }
  context_.Resume(10);
  for (const uint64_t seq : {joined, legacy, event, all}) replies_.Wait(seq);
  const auto entries = replies_.All();
  const auto data = std::find_if(entries.begin(), entries.end(), [&](const Replies::Entry& e) {
    return e.id == ReplyId::kCopyData && e.seq == copy;
  });
  EXPECT_TRUE(std::none_of(entries.begin(), data, [&](const Replies::Entry& e) {
    return e.seq == joined || e.seq == legacy || e.seq == event || e.seq == all;
  }));
}

TEST_F(SessionTest, ProtocolErrorsEndTheSession) {
  EXPECT_FALSE(session_->Decode("short").ok());
  Add(cmd::ContextSync{});
  next_seq_ += 5;  // A gap in the numbers.
  EXPECT_FALSE(Send().ok());
}

TEST_F(SessionTest, MutatedBatchesNeverCrash) {
  LoadKernel();
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    AddStream(random() % 8, random() % 4);
    Add(cmd::EventCreate{random() % 4, 0, 0});
    Add(cmd::EventRecord{random() % 4, random() % 8});
    Add(cmd::StreamWaitEvent{random() % 8, random() % 4});
    Add(LaunchOn(random() % 8), params_);
    Add(cmd::ImageData{random() % 3, random() % 9, random() % 9}, "xyz");
    Add(cmd::StreamDestroy{random() % 8});
    Add(cmd::EventDestroy{random() % 4});
    for (int i = 0; i < 4; ++i) {
      commands_[random() % commands_.size()] = static_cast<char>(random());
    }
    const uint64_t first = next_seq_ - count_;
    if (!Send().ok()) {
      Restart(SessionLimits());
      if (first == 0) break;
    }
  }
}

}  // namespace
}  // namespace warpline::worker
