#include "server/worker/session.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "server/worker/fake_context.h"

namespace warpline::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

// Collects replies and lets a test wait for one.
class Replies : public FrameWriter {
 public:
  struct Entry {
    ReplyId id;
    uint64_t seq;
    std::string body;
  };

  void Write(std::string_view head, std::string_view tail) override {
    const std::string frame = std::string(head) + std::string(tail);
    ReplyReader reader(frame);
    MutexLock lock(&mu_);
    while (!reader.Done()) {
      const auto view = reader.Next();
      ASSERT_TRUE(view.ok()) << view.status();
      entries_.push_back({view->id, view->seq, std::string(view->body)});
    }
    arrived_.NotifyAll();
  }

  // Waits for the reply to `seq` and returns its body; fails the test after ten seconds.
  std::string Wait(uint64_t seq, CudaResult* result = nullptr) {
    const Entry entry =
        WaitFor([&](const Entry& e) { return e.id == ReplyId::kReply && e.seq == seq; });
    std::string_view body = entry.body;
    ReplyBody head{};
    EXPECT_TRUE(TakeStruct(&body, &head));
    if (result != nullptr) *result = static_cast<CudaResult>(head.result);
    return std::string(body);
  }

  template <typename Predicate>
  Entry WaitFor(const Predicate& wanted) {
    MutexLock lock(&mu_);
    for (int i = 0; i < 1000; ++i) {
      const auto it = std::find_if(entries_.begin(), entries_.end(), wanted);
      if (it != entries_.end()) return *it;
      arrived_.WaitWithTimeout(&mu_, absl::Milliseconds(10));
    }
    ADD_FAILURE() << "no such reply";
    return {};
  }

  bool Has(ReplyId id, uint64_t seq) {
    MutexLock lock(&mu_);
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& e) { return e.id == id && e.seq == seq; });
  }

  std::vector<Entry> All() {
    MutexLock lock(&mu_);
    return entries_;
  }

 private:
  Mutex mu_;
  CondVar arrived_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);
};

class SessionTest : public ::testing::Test {
 protected:
  template <typename Command>
  uint64_t Add(const Command& command, const std::string& tail = "") {
    std::memcpy(AppendCommand(command, tail.size(), &commands_), tail.data(), tail.size());
    ++count_;
    return next_seq_++;
  }

  absl::Status Send() {
    const CommandsHeader header = {next_seq_ - count_, count_, 0};
    std::string payload(reinterpret_cast<const char*>(&header), sizeof(header));
    payload += commands_;
    commands_.clear();
    count_ = 0;
    return session_->Decode(std::move(payload));
  }

  uint64_t AddStream(uint64_t handle, uint32_t flags = 1) {
    return Add(cmd::StreamCreate{handle, flags, 0});
  }

  void LoadKernel() {
    Add(cmd::ImageData{1, 5, 0}, "image");
    Add(cmd::ModuleLoad{2, 1});
    const uint64_t found = Add(cmd::KernelFind{3, 2}, "kernel");
    ASSERT_TRUE(Send().ok());
    replies_.Wait(found);
  }

  cmd::Launch LaunchOn(uint64_t stream, uint32_t grid = 1) {
    cmd::Launch launch;
    launch.stream = stream;
    launch.kernel = 3;
    launch.grid_x = grid;
    return launch;
  }

  const std::string params_ = std::string(12, 'p');
  FakeContext context_;
  Replies replies_;
  std::unique_ptr<Session> session_ =
      std::make_unique<Session>(&context_, &replies_, SessionLimits());
  std::string commands_;
  uint32_t count_ = 0;
  uint64_t next_seq_ = 1;
};

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
  // More than the device would take before it blocks its caller. Which of the two streams is 10 is
  // the lanes' affair, so both are stalled first.
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
  Add(cmd::EventRecord{5, 8});  // Must not make stream 8 wait for itself.
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
    for (int i = 0; i < 4; ++i)
      commands_[random() % commands_.size()] = static_cast<char>(random());
    const uint64_t first = next_seq_ - count_;
    if (!Send().ok()) {
      session_ = std::make_unique<Session>(&context_, &replies_, SessionLimits());
      next_seq_ = 1;
      if (first == 0) break;
    }
  }
}

}  // namespace
}  // namespace warpline::worker
