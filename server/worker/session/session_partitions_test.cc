// Tests partitions of multiprocessors: what reaches the device and when, what is refused, and what
// the next worker makes again.
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/cuda/sm_path.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/graph_definition.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/worker/continuity/journal.h"
#include "server/worker/continuity/recorder.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

using ::testing::Contains;
using ::testing::Not;

std::string PathOf(uint32_t group, size_t steps = 1) {
  SmStep step;
  step.least = 8;
  step.groups = 16;
  step.Take(group);
  std::string path;
  for (size_t i = 0; i < steps; ++i) {
    path.append(reinterpret_cast<const char*>(&step), sizeof(step));
  }
  return path;
}

class SessionPartitionsTest : public SessionTest {
 protected:
  CudaResult ResultOf(uint64_t seq) {
    CudaResult result;
    replies_.Wait(seq, &result);
    return result;
  }
  CudaResult Create(uint64_t partition, const std::string& path = PathOf(0)) {
    const uint64_t made = Add(cmd::PartitionCreate{partition}, path);
    EXPECT_TRUE(Send().ok());
    return ResultOf(made);
  }
  // Waits for the streams' work and for the control executor.
  void Finish() {
    const uint64_t all = Add(cmd::ContextSync{});
    const uint64_t control = Add(cmd::SmSplit{});
    ASSERT_TRUE(Send().ok());
    ResultOf(all);
    ResultOf(control);
  }
  // Waits until the device was told so.
  void WaitFor(const std::string& line) {
    while (true) {
      for (const std::string& logged : context_.log()) {
        if (logged == line) return;
      }
      sched_yield();
    }
  }
};

TEST_F(SessionPartitionsTest, ASplitIsDescribedByTheDevice) {
  const uint64_t whole = Add(cmd::SmSplit{0, 0, 0, 0});
  const uint64_t counted = Add(cmd::SmSplit{0, kCountSmGroups, 8, 0});
  const uint64_t split = Add(cmd::SmSplit{0, 3, 8, 0});
  const uint64_t refused = Add(cmd::SmSplit{0, 3, 8, 1});
  ASSERT_TRUE(Send().ok());
  cmd::SmSplitReply reply;
  std::string body = replies_.Wait(whole);
  std::string_view rest = body;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  EXPECT_EQ(reply.count, 132u);
  EXPECT_EQ(reply.smallest, 8u);
  EXPECT_EQ(reply.groups, 0u);
  body = replies_.Wait(counted);
  rest = body;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  EXPECT_EQ(reply.groups, 16u);
  EXPECT_TRUE(rest.empty());
  body = replies_.Wait(split);
  rest = body;
  ASSERT_TRUE(TakeStruct(&rest, &reply));
  EXPECT_EQ(reply.groups, 3u);
  std::vector<SmPart> parts(4);
  for (SmPart& part : parts) ASSERT_TRUE(TakeStruct(&rest, &part));
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(parts[2].count, 8u);
  EXPECT_EQ(parts[3].count, 108u);
  EXPECT_EQ(ResultOf(refused), CudaResult::kInvalidResourceConfiguration);
}

TEST_F(SessionPartitionsTest, HostileSplitsAndPathsAreRefused) {
  const std::vector<uint64_t> bad = {
      Add(cmd::SmSplit{1, 0, 0, 0}),                              // No such device.
      Add(cmd::SmSplit{0, kMaxSmGroups + 1, 8, 0}),               // Too many groups.
      Add(cmd::SmSplit{0, 0, 0, 0}, "path"),                      // No path.
      Add(cmd::SmSplit{0, 0, 0, 0}, PathOf(16)),                  // A group that is not made.
      Add(cmd::SmSplit{0, 0, 0, 0}, PathOf(0, kMaxSmSteps + 1)),  // Too long.
      Add(cmd::PartitionCreate{7}, "path"),
      Add(cmd::PartitionCreate{uint64_t{1} << 56 | 8}, PathOf(0)),  // No such device.
  };
  ASSERT_TRUE(Send().ok());
  for (const uint64_t seq : bad) EXPECT_NE(ResultOf(seq), CudaResult::kSuccess) << seq;
  EXPECT_THAT(context_.log(), Not(Contains(testing::HasSubstr("partition"))));
}

TEST_F(SessionPartitionsTest, StreamsRunInIt) {
  ASSERT_EQ(Create(7), CudaResult::kSuccess);
  Add(cmd::StreamCreateIn{20, 7, 0, 0});
  const uint64_t sync = Add(cmd::StreamSync{20});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
  EXPECT_THAT(context_.log(), Contains("partition 50 steps=1"));
  EXPECT_THAT(context_.log(), Contains("stream-in@10 50"));
}

TEST_F(SessionPartitionsTest, AStreamOfOneThatCouldNotBeMadeFails) {
  EXPECT_EQ(Create(7, PathOf(0, 2)), CudaResult::kInvalidResourceConfiguration);
  const uint64_t stream = Add(cmd::StreamCreateIn{20, 7, 0, 0});
  const uint64_t sync = Add(cmd::StreamSync{20});
  const uint64_t unknown = Add(cmd::StreamCreateIn{21, 8, 0, 0});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kInvalidResourceConfiguration);
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, stream));
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, unknown));
}

TEST_F(SessionPartitionsTest, TheDeviceKeepsItUntilItsLastStreamIsGone) {
  ASSERT_EQ(Create(7), CudaResult::kSuccess);
  context_.Stall(10);
  Add(cmd::StreamCreateIn{20, 7, 0, 0});
  Add(cmd::Memset{20, 0x1000, 5, 1, 16});
  Add(cmd::StreamDestroy{20});
  Add(cmd::PartitionDestroy{7});
  const uint64_t again = Add(cmd::PartitionDestroy{7});
  const uint64_t never = Add(cmd::PartitionDestroy{8});
  const uint64_t control = Add(cmd::SmSplit{});
  ASSERT_TRUE(Send().ok());
  ResultOf(control);
  EXPECT_FALSE(replies_.Has(ReplyId::kFailed, again));
  EXPECT_FALSE(replies_.Has(ReplyId::kFailed, never));
  EXPECT_THAT(context_.log(), Not(Contains("end-partition 50")));
  context_.Resume(10);
  WaitFor("end-partition 50");
  EXPECT_THAT(context_.log(), Contains(testing::StartsWith("destroy@10")));
  // Its number is free again.
  EXPECT_EQ(Create(7), CudaResult::kSuccess);
}

TEST_F(SessionPartitionsTest, OneWithoutStreamsEndsAtOnce) {
  ASSERT_EQ(Create(7), CudaResult::kSuccess);
  Add(cmd::PartitionDestroy{7});
  Finish();
  EXPECT_THAT(context_.log(), Contains("end-partition 50"));
}

TEST_F(SessionPartitionsTest, AGraphKeepsThoseOfItsNodes) {
  LoadKernel();
  ASSERT_EQ(Create(7), CudaResult::kSuccess);
  const auto create_graph = [&](uint64_t graph, uint64_t partition) {
    const cmd::Launch launch = LaunchOn(partition);
    std::string definition;
    AppendGraphStep(static_cast<uint32_t>(CommandId::kLaunch), {},
                    {reinterpret_cast<const char*>(&launch), sizeof(launch)}, params_, &definition);
    Add(cmd::ImageData{77, definition.size(), 0}, definition);
    const uint64_t created = Add(cmd::GraphCreate{graph, 77});
    EXPECT_TRUE(Send().ok());
    return ResultOf(created);
  };
  EXPECT_EQ(create_graph(60, 8), CudaResult::kInvalidHandle);
  ASSERT_EQ(create_graph(61, 7), CudaResult::kSuccess);
  EXPECT_THAT(context_.log(), Contains("node-in 50"));
  Add(cmd::PartitionDestroy{7});
  Finish();
  EXPECT_THAT(context_.log(), Not(Contains("end-partition 50")));
  Add(cmd::GraphDestroy{61});
  Finish();
  EXPECT_THAT(context_.log(), Contains("end-partition 50"));
}

TEST_F(SessionPartitionsTest, TheyCountAsHandles) {
  SessionLimits limits;
  limits.max_handles = 3;  // The legacy stream is one.
  Restart(limits);
  EXPECT_EQ(Create(7), CudaResult::kSuccess);
  EXPECT_EQ(Create(8), CudaResult::kSuccess);
  EXPECT_EQ(Create(9), CudaResult::kOutOfMemory);
  Add(cmd::PartitionDestroy{7});
  EXPECT_EQ(Create(9), CudaResult::kSuccess);
  EXPECT_EQ(Create(9), CudaResult::kInvalidHandle);
  // One that could not be made is destroyed like any other.
  Add(cmd::PartitionDestroy{8});
  EXPECT_EQ(Create(10, "path"), CudaResult::kInvalidValue);
  EXPECT_EQ(Create(11), CudaResult::kOutOfMemory);
  Add(cmd::PartitionDestroy{10});
  EXPECT_EQ(Create(11), CudaResult::kSuccess);
}

TEST_F(SessionPartitionsTest, TheNextWorkerMakesThemAgainWithTheirStreams) {
  auto file = JournalFile::Create();
  ASSERT_TRUE(file.ok());
  const auto open = [&file] {
    auto journal = Journal::Open(UniqueFd(dup((*file)->fd())));
    EXPECT_TRUE(journal.ok());
    return *std::move(journal);
  };
  auto journal = open();
  auto recorder = std::make_unique<Recorder>(journal.get(), 1u << 20, 1u << 20);
  HostedSession::Options options = OptionsOf();
  options.recorder = recorder.get();
  Restart(std::move(options));
  ASSERT_EQ(Create(7, PathOf(3)), CudaResult::kSuccess);
  ASSERT_EQ(Create(8), CudaResult::kSuccess);
  Add(cmd::StreamCreateIn{20, 7, 0, 0});
  Add(cmd::StreamCreateIn{21, 8, 0, 0});
  Add(cmd::StreamDestroy{21});
  Add(cmd::PartitionDestroy{8});
  Finish();
  const uint64_t last = next_seq_ - 1;
  session_.reset();
  recorder.reset();

  journal = open();
  recorder = std::make_unique<Recorder>(journal.get(), 1u << 20, 1u << 20);
  options = OptionsOf();
  options.recorder = recorder.get();
  session_ = Open(std::move(options));
  const size_t before = context_.log().size();
  ASSERT_TRUE(session_->Replay(last).ok());
  std::vector<std::string> again = context_.log();
  again.erase(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(before));
  EXPECT_THAT(again, Contains("partition 52 steps=1"));
  EXPECT_THAT(again, Contains(testing::EndsWith(" 52")));
  EXPECT_THAT(again, Not(Contains("partition 53 steps=1")));
  const uint64_t sync = Add(cmd::StreamSync{20});
  const uint64_t gone = Add(cmd::StreamSync{21});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
  EXPECT_EQ(ResultOf(gone), CudaResult::kInvalidHandle);
  session_.reset();
}

}  // namespace
}  // namespace warpline::worker
