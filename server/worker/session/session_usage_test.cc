// Tests what a session says of what it holds, and of its limits.
#include <string>
#include <thread>

#include "proto/graph_definition.h"
#include "server/worker/memory/arena_book.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

class SessionUsageTest : public SessionTest {
 protected:
  uint64_t Now(Usage usage) const { return ReadUsage(session_->usage())[usage]; }
};

uint64_t Met(const HostedSession& session, Limit limit) {
  return ReadUsage(session.usage())[LimitUsage(limit)];
}

TEST_F(SessionUsageTest, HandlesAndModuleBytesAreThoseThatAreThere) {
  const uint64_t before = 1;  // The legacy stream.
  Add(cmd::ImageData{1, 5, 0}, "image");
  Add(cmd::ModuleLoad{2, 1});
  const uint64_t found = Add(cmd::KernelFind{3, 2}, "kernel");
  Add(cmd::EventCreate{4, 0, 0});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(found);
  EXPECT_EQ(Now(Usage::kHandles), before + 3);
  EXPECT_EQ(Now(Usage::kModuleBytes), 5u);
  Add(cmd::ModuleUnload{2});
  Add(cmd::EventDestroy{4});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(Now(Usage::kHandles), before);
  EXPECT_EQ(Now(Usage::kModuleBytes), 0u);
}

TEST_F(SessionUsageTest, CommandsAreInFlightUntilTheyAreComplete) {
  context_.Stall(1);
  for (int i = 0; i < 5; ++i) Add(cmd::Memset{1, 4096, 1, 1, 1});
  Add(cmd::EventCreate{4, 0, 0});
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(Now(Usage::kCommandsInFlight), 6u);
  context_.Resume(1);
  replies_.Wait(sync);
  while (Now(Usage::kCommandsInFlight) != 0) std::this_thread::yield();
}

TEST_F(SessionUsageTest, ParametersThatLookLikeANeighboursAddressAreCountedAndNotRefused) {
  constexpr uint64_t kOwn = 0x300000000000, kNeighbour = 0x310000000000, kArena = 1ull << 32;
  ArenaBook arenas;
  arenas.Add(kOwn, kArena);
  arenas.Add(kNeighbour, kArena);
  HostedSession::Options options = OptionsOf();
  options.arena_base = kOwn;
  options.arena_bytes = kArena;
  options.arenas = &arenas;
  Restart(std::move(options));
  LoadKernel();
  const auto params = [](uint64_t address) {
    return std::string(reinterpret_cast<const char*>(&address), sizeof(address)) + "1234";
  };
  Add(LaunchOn(1), params(kOwn + 64));
  Add(LaunchOn(1), params(kNeighbour + 64));
  Add(cmd::LaunchEx{1, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}, params(kNeighbour));
  // As many bytes as the kernel does not have: not looked at, and not launched.
  Add(LaunchOn(1), params(kNeighbour) + "more");
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  EXPECT_EQ(Now(Usage::kNeighbourPointers), 2u);
  const cmd::Launch launch = LaunchOn(0);
  std::string definition;
  AppendGraphStep(static_cast<uint32_t>(CommandId::kLaunch), {},
                  {reinterpret_cast<const char*>(&launch), sizeof(launch)}, params(kNeighbour),
                  &definition);
  Add(cmd::ImageData{77, definition.size(), 0}, definition);
  const uint64_t made = Add(cmd::GraphCreate{9, 77});
  ASSERT_TRUE(Send().ok());
  CudaResult result = CudaResult::kUnknown;
  replies_.Wait(made, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  EXPECT_EQ(Now(Usage::kNeighbourPointers), 3u) << "once for all its launches";
}

TEST_F(SessionUsageTest, LimitsThatWereMetAreCounted) {
  SessionLimits limits;
  limits.max_handles = 3;
  limits.max_module_bytes = 4;
  Restart(limits);
  for (uint64_t event = 1; event <= 4; ++event) Add(cmd::EventCreate{event, 0, 0});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(Met(*session_, Limit::kHandles), 2u);
  Add(cmd::EventDestroy{1});
  Add(cmd::EventDestroy{2});
  Add(cmd::ImageData{1, 5, 0}, "image");
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(Met(*session_, Limit::kModuleBytes), 1u);
  EXPECT_EQ(Met(*session_, Limit::kCommands), 0u);
}

// Nothing but an executor's progress wakes the decoder when it waits, so a lost wake-up is a test
// that hangs.
class DecoderWaitTest : public SessionUsageTest {
 protected:
  // Sends what was added, with a wait for all of it. The decoder waits until stream 1 goes on.
  void SendAndWaitForRoom() {
    const uint64_t sync = Add(cmd::ContextSync{});
    std::thread decoder([this] { EXPECT_TRUE(Send().ok()); });
    while (Met(*session_, Limit::kCommands) == 0) std::this_thread::yield();
    EXPECT_FALSE(replies_.Has(ReplyId::kReply, sync));
    context_.Resume(1);
    decoder.join();
    CudaResult result;
    replies_.Wait(sync, &result);
    EXPECT_EQ(result, CudaResult::kSuccess);
  }
};

TEST_F(DecoderWaitTest, TheDecoderGoesOnWhenCommandsRetire) {
  SessionLimits limits;
  limits.max_queued_commands = 10;
  Restart(limits);
  context_.Stall(1);
  for (int i = 0; i < 20; ++i) Add(cmd::Memset{1, 4096, 1, 1, 1});
  ASSERT_TRUE(Send().ok());
  SendAndWaitForRoom();
}

TEST_F(DecoderWaitTest, TheDecoderGoesOnWhenPayloadsAreExecuted) {
  SessionLimits limits;
  limits.max_queued_bytes = 64 << 10;
  Restart(limits);
  context_.Stall(1);
  // More than an executor has outstanding on a device, so that the copy is not issued yet.
  for (int i = 0; i < 600; ++i) Add(cmd::Memset{1, 4096, 1, 1, 1});
  Add(cmd::CopyToDevice{1, 4096}, std::string(limits.max_queued_bytes, 'x'));
  ASSERT_TRUE(Send().ok());
  SendAndWaitForRoom();
}

TEST_F(DecoderWaitTest, TheDecoderGoesOnWhenWaitsForAllStreamsEnd) {
  SessionLimits limits;
  limits.max_watches = 2;
  Restart(limits);
  context_.Stall(1);
  Add(cmd::Memset{1, 4096, 1, 1, 1});
  for (uint64_t token = 1; token <= 3; ++token) Add(cmd::FreeFence{token});
  ASSERT_TRUE(Send().ok());
  SendAndWaitForRoom();
}

TEST_F(SessionUsageTest, AcceptedCommandsAreCountedByTheirEngine) {
  for (int i = 0; i < 3; ++i) Add(cmd::Memset{1, 4096, 1, 1, 1});
  Add(cmd::CopyToDevice{1, 0x1000}, "four");
  const uint64_t copy = Add(cmd::CopyFromDevice{1, 0x1001, 4});
  Add(cmd::EventCreate{4, 0, 0});       // Keeps no engine busy.
  Add(cmd::Memset{77, 4096, 1, 1, 1});  // There is no such stream.
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(Now(Usage::kComputeCommands), 3u);
  EXPECT_EQ(Now(Usage::kCopyInCommands), 1u);
  EXPECT_EQ(Now(Usage::kCopyOutCommands), 1u);
  replies_.Wait(copy);
  Add(cmd::Memset{1, 4096, 1, 1, 1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(Now(Usage::kComputeCommands), 4u);
  // Copies count where their bytes go, and not at all without bytes, as executors ask for turns.
  Add(cmd::CopyOnDevice{1, kHostArenaBase, 0x1000, 4});
  constexpr uint32_t kFloat = 0x20;
  Add(cmd::ArrayCreate{3, 64, 16, 0, kFloat, 1, 0, 0});
  Add(cmd::CopyArrayToDevice{1, kHostArenaBase, 256, 256, 3, 0, 0, 0, 4, 1, 1});
  Add(cmd::CopyOnDevice{1, kHostArenaBase, 0x1000, 0});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(Now(Usage::kComputeCommands), 4u);
  EXPECT_EQ(Now(Usage::kCopyOutCommands), 3u);
}

TEST_F(SessionUsageTest, StagingIsInUseWhileACopyIsUnderWay) {
  SessionLimits limits;
  limits.staging_buffers = 1;
  Restart(limits);
  context_.Stall(1);
  const uint64_t copy = Add(cmd::CopyFromDevice{1, 0x1001, 4 * kStagingBytes});
  ASSERT_TRUE(Send().ok());
  while (Met(*session_, Limit::kStaging) == 0) std::this_thread::yield();
  EXPECT_EQ(Now(Usage::kStagingBytes), kStagingBytes);
  context_.Resume(1);
  replies_.Wait(copy);
  while (Now(Usage::kStagingBytes) != 0) std::this_thread::yield();
}

}  // namespace
}  // namespace warpline::worker
