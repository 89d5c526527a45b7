// Tests what a session may do when its token does not give every right.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

using ::testing::ElementsAre;

class SessionRightsTest : public SessionTest {
 protected:
  CudaResult ResultOf(uint64_t seq) {
    CudaResult result = CudaResult::kSuccess;
    replies_.Wait(seq, &result);
    return result;
  }

  bool Failed(uint64_t seq) { return replies_.Has(ReplyId::kFailed, seq); }

  void RestartWith(Rights rights) {
    HostedSession::Options options = OptionsOf();
    options.rights = rights;
    Restart(std::move(options));
  }
};

TEST_F(SessionRightsTest, CommandsWithoutTheirRightAreRefusedAndTheSessionGoesOn) {
  RestartWith(RightOf(Capability::kMemory) | RightOf(Capability::kCopyIn));
  const uint64_t in = Add(cmd::CopyToDevice{1, 4096}, "data");
  const uint64_t out = Add(cmd::CopyFromDevice{1, 4096, 4});
  const uint64_t image = Add(cmd::ImageData{1, 5, 0}, "image");
  const uint64_t kernel = Add(cmd::KernelFind{3, 2}, "kernel");
  const uint64_t launch = Add(LaunchOn(1), params_);
  Add(cmd::Memset{1, 4096, 1, 0, 1});
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(out), CudaResult::kNotPermitted);
  EXPECT_EQ(ResultOf(kernel), CudaResult::kNotPermitted);
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
  EXPECT_FALSE(Failed(in));
  EXPECT_TRUE(Failed(image));
  EXPECT_TRUE(Failed(launch));
  ASSERT_EQ(context_.log().size(), 2u);
  EXPECT_EQ(context_.log().front(), "in@1 4096=data");
}

TEST_F(SessionRightsTest, NoRightsLeaveStreamsAndEvents) {
  RestartWith(0);
  AddStream(7);
  Add(cmd::EventCreate{8, 0});
  Add(cmd::EventRecord{8, 7});
  const uint64_t memset = Add(cmd::Memset{7, 4096, 1, 0, 1});
  const uint64_t sync = Add(cmd::EventSync{8});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
  EXPECT_TRUE(Failed(memset));
}

TEST_F(SessionRightsTest, WithoutATokenEverythingIsAllowed) {
  LoadKernel();
  Add(LaunchOn(1, 4), params_);
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
  EXPECT_THAT(context_.log(), ElementsAre("launch@1 77x4"));
}

}  // namespace
}  // namespace warpline::worker
