// Tests commands that map memory handles.
#include <fcntl.h>

#include "gtest/gtest.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kBase = 1ull << 40;

class SessionMemoryTest : public SessionTest {
 protected:
  void SetUp() override {
    HostedSession::Options options = OptionsOf();
    options.memory = &memory_;
    Restart(std::move(options));
    ASSERT_EQ(memory_.Hold(5, 2 * kMiB, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC))),
              CudaResult::kSuccess);
  }

  bool Unmapped(uint64_t token) {
    const auto all = replies_.All();
    return std::any_of(all.begin(), all.end(), [token](const Replies::Entry& entry) {
      notice::Unmapped unmapped;
      std::string_view body = entry.body;
      return entry.id == ReplyId::kUnmapped && TakeStruct(&body, &unmapped) &&
             unmapped.token == token;
    });
  }

  VirtualMemory memory_{&context_};
};

TEST_F(SessionMemoryTest, AMappingIsThereForWhateverComesLater) {
  Add(cmd::MemoryMap{kBase, 2 * kMiB, 5, 3, 0});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(context_.chunks(), (FakeContext::Chunks{{kBase, {2 * kMiB, 3}}}));
  Add(cmd::MemoryAccess{kBase, 1, 0});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(context_.chunks(), (FakeContext::Chunks{{kBase, {2 * kMiB, 1}}}));
}

TEST_F(SessionMemoryTest, UnmappingWaitsForWorkThatWasSubmittedBefore) {
  AddStream(7);
  Add(cmd::StreamSync{7});
  ASSERT_TRUE(Send().ok());
  Add(cmd::MemoryMap{kBase, 2 * kMiB, 5, 3, 0});
  context_.Stall(10);
  Add(cmd::Memset{7, kBase, 1, 1, 1});
  Add(cmd::MemoryUnmap{kBase, 42});
  // For the client the mapping is already gone, as in CUDA.
  const uint64_t again = Add(cmd::MemoryUnmap{kBase, 43});
  const uint64_t other = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(other);
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, again));
  EXPECT_FALSE(Unmapped(42));
  EXPECT_EQ(context_.chunks().size(), 1u);
  EXPECT_EQ(memory_.Drop(5), CudaResult::kIllegalState);
  context_.Resume(10);
  const uint64_t sync = Add(cmd::ContextSync{});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  EXPECT_TRUE(Unmapped(42));
  EXPECT_TRUE(context_.chunks().empty());
  EXPECT_EQ(memory_.Drop(5), CudaResult::kSuccess);
}

TEST_F(SessionMemoryTest, WhatIsNotHeldIsNotMapped) {
  const uint64_t unknown = Add(cmd::MemoryMap{kBase, 2 * kMiB, 6, 3, 0});
  const uint64_t larger = Add(cmd::MemoryMap{kBase, 4 * kMiB, 5, 3, 0});
  const uint64_t nothing = Add(cmd::MemoryAccess{kBase, 3, 0});
  ASSERT_TRUE(Send().ok());
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, unknown));
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, larger));
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, nothing));
  EXPECT_TRUE(context_.chunks().empty());
}

}  // namespace
}  // namespace warpline::worker
