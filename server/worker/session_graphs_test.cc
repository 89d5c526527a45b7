#include "proto/graph_definition.h"
#include "server/worker/session_fixture.h"

namespace warpline::worker {
namespace {

constexpr auto kMemset = static_cast<uint32_t>(CommandId::kMemset);
constexpr auto kLaunch = static_cast<uint32_t>(CommandId::kLaunch);

template <typename Command>
std::string_view Fields(const Command& command) {
  return {reinterpret_cast<const char*>(&command), sizeof(command)};
}

class SessionGraphsTest : public SessionTest {
 protected:
  // A memset of `value` and a launch of kernel 3 with `params` behind it.
  std::string Definition(uint32_t value, const std::string& params) {
    std::string definition;
    const cmd::Memset memset = {0, 0x1000, 4, value, 4};
    AppendGraphStep(kMemset, {}, Fields(memset), {}, &definition);
    const cmd::Launch launch = LaunchOn(0, 9);
    AppendGraphStep(kLaunch, {0}, Fields(launch), params, &definition);
    return definition;
  }

  CudaResult Create(uint64_t graph, const std::string& definition) {
    Add(cmd::ImageData{77, definition.size(), 0}, definition);
    const uint64_t seq = Add(cmd::GraphCreate{graph, 77});
    EXPECT_TRUE(Send().ok());
    CudaResult result = CudaResult::kUnknown;
    replies_.Wait(seq, &result);
    return result;
  }

  void Sync(uint64_t stream) {
    const uint64_t seq = Add(cmd::StreamSync{stream});
    ASSERT_TRUE(Send().ok());
    replies_.Wait(seq);
  }

  bool Failed(uint64_t seq) { return replies_.Has(ReplyId::kFailed, seq); }
};

TEST_F(SessionGraphsTest, NodesHaveTheAttributesThatTheirKernelsHadWhenTheGraphWasMade) {
  constexpr int kCarveout = 9;
  LoadKernel();
  AddStream(20);
  Add(cmd::KernelSetAttribute{3, kCarveout, 50});
  ASSERT_EQ(Create(50, Definition(6, params_)), CudaResult::kSuccess);
  Add(cmd::KernelSetAttribute{3, kCarveout, 20});
  Add(cmd::GraphLaunch{20, 50});
  Add(LaunchOn(20), params_);
  Sync(20);
  auto launches = context_.attributes_at_launches();
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0][kCarveout], 50);
  EXPECT_EQ(launches[1][kCarveout], 20);
}

TEST_F(SessionGraphsTest, ALaunchIssuesTheNodesInTheirOrder) {
  LoadKernel();
  AddStream(20);
  ASSERT_EQ(Create(50, Definition(6, params_)), CudaResult::kSuccess);
  Add(cmd::GraphLaunch{20, 50});
  Add(cmd::GraphLaunch{20, 50});
  Sync(20);
  std::vector<std::string> work;
  for (const std::string& line : context_.log()) {
    if (line.starts_with("set@") || line.starts_with("launch@")) {
      work.push_back(line.substr(0, line.find('@')) + line.substr(line.find(' ')));
    }
  }
  ASSERT_EQ(work.size(), 4u);
  EXPECT_EQ(work[0], "set 6");
  EXPECT_TRUE(work[1].starts_with("launch ") && work[1].ends_with("x9")) << work[1];
  EXPECT_EQ(work[2], "set 6");
}

TEST_F(SessionGraphsTest, WhatIsNoGraphIsRefused) {
  LoadKernel();
  EXPECT_EQ(Create(50, "12345678"), CudaResult::kInvalidValue);
  EXPECT_EQ(Create(51, Definition(6, "short")), CudaResult::kInvalidValue);
  std::string definition;
  cmd::Launch launch = LaunchOn(0);
  launch.kernel = 999;
  AppendGraphStep(kLaunch, {}, Fields(launch), params_, &definition);
  EXPECT_EQ(Create(52, definition), CudaResult::kInvalidHandle);
  const uint64_t seq = Add(cmd::GraphCreate{53, 12345});
  ASSERT_TRUE(Send().ok());
  CudaResult result = CudaResult::kSuccess;
  replies_.Wait(seq, &result);
  EXPECT_EQ(result, CudaResult::kInvalidHandle);
}

TEST_F(SessionGraphsTest, NodesAreLimited) {
  SessionLimits limits;
  limits.max_graph_nodes = 3;
  Restart(limits);
  LoadKernel();
  EXPECT_EQ(Create(50, Definition(1, params_)), CudaResult::kSuccess);
  EXPECT_EQ(Create(51, Definition(1, params_)), CudaResult::kOutOfMemory);
  Add(cmd::GraphDestroy{50});
  EXPECT_EQ(Create(51, Definition(1, params_)), CudaResult::kSuccess);
}

TEST_F(SessionGraphsTest, ADestroyedGraphIsUnknown) {
  LoadKernel();
  AddStream(20);
  ASSERT_EQ(Create(50, Definition(1, params_)), CudaResult::kSuccess);
  const uint64_t launched = Add(cmd::GraphLaunch{20, 50});
  Add(cmd::GraphDestroy{50});
  const uint64_t late = Add(cmd::GraphLaunch{20, 50});
  Sync(20);
  EXPECT_FALSE(Failed(launched));
  EXPECT_TRUE(Failed(late));
}

}  // namespace
}  // namespace warpline::worker
