// Tests what a session may do when its token does not give every right.
#include <set>
#include <string>
#include <utility>

#include "common/crypto/content_hash.h"
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

TEST_F(SessionRightsTest, ASessionThatMayLaunchAloneRunsVettedImagesAndNoOthers) {
  HostedSession::Options options = OptionsOf();
  options.rights = RightOf(Capability::kLaunch) | RightOf(Capability::kMemory);
  ContentHash hash;
  ASSERT_TRUE(HashContent("image", &hash));
  options.vetted.emplace(std::set<ContentHash>{hash});
  Restart(std::move(options));
  // The image comes in two parts.
  Add(cmd::ImageData{1, 5, 0}, "im");
  Add(cmd::ImageData{1, 5, 2}, "age");
  const uint64_t good = Add(cmd::ModuleLoad{2, 1});
  const uint64_t found = Add(cmd::KernelFind{3, 2}, "kernel");
  Add(LaunchOn(1, 4), params_);
  Add(cmd::ImageData{11, 5, 0}, "imagE");
  const uint64_t bad = Add(cmd::ModuleLoad{12, 11});
  const uint64_t check = Add(cmd::ModuleCheck{12});
  const uint64_t other = Add(cmd::KernelFind{13, 12}, "kernel");
  Add(cmd::ImageData{21, 5, 0}, "imagE");
  const uint64_t jit = Add(cmd::ModuleLoadJit{22, 21}, std::string(8, '\0'));
  const uint64_t link = Add(cmd::LinkCreate{30});
  const uint64_t library = Add(cmd::LibraryCall{1, 0, 0});
  const uint64_t copy = Add(cmd::CopyToDevice{1, 4096}, "data");
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(found), CudaResult::kSuccess);
  EXPECT_EQ(ResultOf(check), CudaResult::kNotPermitted);
  EXPECT_EQ(ResultOf(other), CudaResult::kNotPermitted);
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
  EXPECT_FALSE(Failed(good));
  EXPECT_EQ(ResultOf(link), CudaResult::kNotPermitted);
  for (const uint64_t refused : {bad, jit, library, copy}) EXPECT_TRUE(Failed(refused)) << refused;
  EXPECT_THAT(context_.log(), ElementsAre("launch@1 77x4"));
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
