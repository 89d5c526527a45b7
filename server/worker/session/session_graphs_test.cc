#include <atomic>
#include <thread>

#include "proto/graph_definition.h"
#include "server/worker/memory/outside_memory.h"
#include "server/worker/testing/session_fixture.h"

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
  // Defines a memset of `value`, and after it a launch of kernel 3 with `params`.
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

  CudaResult CreateIn(uint64_t graph, uint64_t frame, const std::string& definition) {
    Add(cmd::ImageData{78, definition.size(), 0}, definition);
    const uint64_t seq = Add(cmd::GraphCreateIn{graph, 78, frame});
    EXPECT_TRUE(Send().ok());
    CudaResult result = CudaResult::kUnknown;
    replies_.Wait(seq, &result);
    return result;
  }

  uint64_t MakeConditional(uint64_t frame) {
    const uint64_t seq = Add(cmd::ConditionalCreate{frame, 1, 1});
    EXPECT_TRUE(Send().ok());
    CudaResult result = CudaResult::kUnknown;
    const std::string body = replies_.Wait(seq, &result);
    EXPECT_EQ(result, CudaResult::kSuccess);
    std::string_view rest = body;
    cmd::ConditionalCreateReply reply;
    EXPECT_TRUE(TakeStruct(&rest, &reply));
    return reply.conditional;
  }

  void Sync(uint64_t stream) {
    const uint64_t seq = Add(cmd::StreamSync{stream});
    ASSERT_TRUE(Send().ok());
    replies_.Wait(seq);
  }

  // Returns when the control executor has done what was added so far.
  void AwaitControl() {
    const uint64_t seq = Add(cmd::LimitGet{});
    ASSERT_TRUE(Send().ok());
    replies_.Wait(seq);
  }

  int CountLines(std::string_view start) {
    int lines = 0;
    for (const std::string& line : context_.log()) lines += line.starts_with(start) ? 1 : 0;
    return lines;
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

// Defines a conditional node with one body that contains a memset.
std::string Conditional(uint64_t conditional, uint32_t value) {
  std::string definition;
  const ConditionalStep step = {conditional, 0, 1};
  AppendGraphStep(kConditionalStep, {}, Fields(step), {}, &definition);
  const cmd::Memset memset = {0, 0x1000, 4, value, 4};
  AppendGraphStep(kMemset, {}, Fields(memset), {}, &definition, 1);
  return definition;
}

TEST_F(SessionGraphsTest, AFrameHasHandlesAndThenNodes) {
  AddStream(20);
  const uint64_t handle = MakeConditional(60);
  EXPECT_EQ(handle, 900u);
  ASSERT_EQ(CreateIn(50, 60, Conditional(handle, 6)), CudaResult::kSuccess);
  Add(cmd::GraphLaunch{20, 50});
  Sync(20);
  // The same definition can be launched once more, but no other: the device's graph keeps its
  // nodes.
  Add(cmd::GraphDestroy{50});
  EXPECT_EQ(CreateIn(51, 60, Conditional(handle, 7)), CudaResult::kNotSupported);
  EXPECT_EQ(CreateIn(52, 60, Conditional(handle, 6)), CudaResult::kSuccess);
  Add(cmd::ConditionalDestroy{60});
  Add(cmd::GraphLaunch{20, 52});
  Sync(20);
  int filled = 0, launched = 0, made = 0;
  for (const std::string& line : context_.log()) {
    filled += line == "node 2 in 1" ? 1 : 0;
    launched += line.starts_with("graph-launch@") ? 1 : 0;
    made += line.starts_with("graph@") ? 1 : 0;
  }
  EXPECT_EQ(filled, 1);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(launched, 2);
}

TEST_F(SessionGraphsTest, ConditionalNodesAreOfTheirFrame) {
  const uint64_t handle = MakeConditional(60);
  EXPECT_EQ(CreateIn(50, 60, Conditional(handle + 1, 6)), CudaResult::kInvalidValue);
  EXPECT_EQ(CreateIn(51, 61, Conditional(handle, 6)), CudaResult::kInvalidHandle);
  EXPECT_EQ(Create(52, Conditional(handle, 6)), CudaResult::kInvalidValue);
  // Names bodies that do not exist, no bodies at all, and nodes after those of another body.
  const cmd::Memset memset = {0, 0x1000, 4, 1, 4};
  std::string definition = Conditional(handle, 6);
  AppendGraphStep(kMemset, {}, Fields(memset), {}, &definition, 2);
  EXPECT_EQ(CreateIn(53, 60, definition), CudaResult::kInvalidValue);
  definition = Conditional(handle, 6);
  AppendGraphStep(kMemset, {0}, Fields(memset), {}, &definition, 1);
  EXPECT_EQ(CreateIn(54, 60, definition), CudaResult::kInvalidValue);
  definition.clear();
  AppendGraphStep(kConditionalStep, {}, Fields(ConditionalStep{handle, 0, 0}), {}, &definition);
  EXPECT_EQ(CreateIn(55, 60, definition), CudaResult::kInvalidValue);
  definition.clear();
  AppendGraphStep(kConditionalStep, {}, Fields(ConditionalStep{handle, 2, ~0u}), {}, &definition);
  EXPECT_EQ(CreateIn(56, 60, definition), CudaResult::kOutOfMemory);
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

// The device's graph has the kernels of a module that the client has unloaded.
TEST_F(SessionGraphsTest, AModuleStaysUntilItsLastGraphIsGone) {
  LoadKernel();
  AddStream(20);
  ASSERT_EQ(Create(50, Definition(1, params_)), CudaResult::kSuccess);
  ASSERT_EQ(Create(51, Definition(2, params_)), CudaResult::kSuccess);
  Add(cmd::ModuleUnload{2});
  const uint64_t late = Add(LaunchOn(20), params_);
  const uint64_t launched = Add(cmd::GraphLaunch{20, 50});
  Add(cmd::GraphDestroy{50});
  Sync(20);
  EXPECT_TRUE(Failed(late)) << "the client's kernel is gone";
  EXPECT_FALSE(Failed(launched));
  EXPECT_EQ(CountLines("unload"), 0);
  Add(cmd::GraphDestroy{51});
  AwaitControl();
  EXPECT_EQ(CountLines("unload"), 1);
}

TEST_F(SessionGraphsTest, AModuleStaysUntilItsLastFrameIsGone) {
  LoadKernel();
  const uint64_t handle = MakeConditional(60);
  std::string definition = Conditional(handle, 6);
  AppendGraphStep(kLaunch, {0}, Fields(LaunchOn(0)), params_, &definition);
  ASSERT_EQ(CreateIn(50, 60, definition), CudaResult::kSuccess);
  Add(cmd::ModuleUnload{2});
  Add(cmd::GraphDestroy{50});
  AwaitControl();
  EXPECT_EQ(CountLines("unload"), 0);
  Add(cmd::ConditionalDestroy{60});
  AwaitControl();
  EXPECT_EQ(CountLines("unload"), 1);
}

// Otherwise graphs would keep more of the device than a session may have.
TEST_F(SessionGraphsTest, AModuleThatStaysIsCounted) {
  constexpr uint64_t kImage = 5;  // LoadKernel()'s
  const std::string definition = Definition(1, params_);
  SessionLimits limits;
  limits.max_module_bytes = definition.size() + kImage;
  Restart(limits);
  LoadKernel();
  ASSERT_EQ(Create(50, definition), CudaResult::kSuccess);
  Add(cmd::ModuleUnload{2});
  const uint64_t too_much = Add(cmd::ImageData{80, 1, 0}, "x");
  Add(cmd::GraphDestroy{50});
  const uint64_t fits = Add(cmd::ImageData{81, limits.max_module_bytes, 0}, "x");
  AwaitControl();
  EXPECT_TRUE(Failed(too_much));
  EXPECT_FALSE(Failed(fits));
}

// A stream that waits for its client holds the control executor, where destroyed graphs then wait
// with their nodes.
TEST_F(SessionGraphsTest, WhatIsDestroyedCountsUntilItIsGone) {
  const std::string definition = Definition(1, params_);  // Two nodes.
  SessionLimits limits;
  limits.max_graph_nodes = 10;
  Restart(limits);
  LoadKernel();
  AddStream(20);
  Add(cmd::HostCall{20, 5});
  ASSERT_EQ(Create(50, definition), CudaResult::kSuccess);
  Add(cmd::GraphDestroy{50});  // Waits for the stream, and so does what comes after it.
  uint64_t refused = 0;
  for (uint64_t i = 0; i < 100 && refused == 0; ++i) {
    Add(cmd::ImageData{77, definition.size(), 0}, definition);
    const uint64_t created = Add(cmd::GraphCreate{100 + i, 77});
    Add(cmd::GraphDestroy{100 + i});
    ASSERT_TRUE(Send().ok());
    if (replies_.Has(ReplyId::kReply, created)) refused = i;
  }
  EXPECT_GE(refused, 4u);  // As much may leave as may be there.
  EXPECT_LE(refused, 6u);
  Add(cmd::HostDone{5});
  Sync(20);
  AwaitControl();
  EXPECT_EQ(Create(51, definition), CudaResult::kSuccess);
}

// Gives so many bytes of the device.
class DevicePurse : public MemoryCharger {
 public:
  CudaResult Charge(uint32_t device, uint64_t bytes) override {
    EXPECT_EQ(device, 0u);
    return bytes > left ? CudaResult::kOutOfMemory : (left -= bytes, CudaResult::kSuccess);
  }
  void Uncharge(uint32_t, uint64_t bytes) override { left += bytes; }
  std::atomic<uint64_t> left{OutsideMemory::kUnit};
};

// Of those that are issued node by node the device knows nothing.
TEST_F(SessionGraphsTest, GraphsCountForTheSessionUntilTheyAreDestroyed) {
  DevicePurse purse;
  auto options = OptionsOf();
  options.charger = &purse;
  Restart(std::move(options));
  LoadKernel();
  const std::string definition = Definition(6, params_);
  const uint64_t bytes = OutsideMemory::GraphBytes(2, definition.size());
  const uint64_t most = (OutsideMemory::kAllowance + OutsideMemory::kUnit) / bytes;
  for (uint64_t i = 0; i < 2 * most; ++i) {
    ASSERT_EQ(Create(500'000 + i, definition), CudaResult::kSuccess) << i;
  }
  EXPECT_EQ(purse.left, OutsideMemory::kUnit);
  for (uint64_t i = 0; i < most; ++i) {
    MakeConditional(2000 + i);
    ASSERT_EQ(CreateIn(1000 + i, 2000 + i, definition), CudaResult::kSuccess) << i;
  }
  EXPECT_EQ(purse.left, 0u);
  MakeConditional(50);
  EXPECT_EQ(CreateIn(51, 50, definition), CudaResult::kOutOfMemory);
  EXPECT_EQ(CountLines("graph@"), static_cast<int>(most));
  Add(cmd::GraphDestroy{1000});
  MakeConditional(60);
  EXPECT_EQ(CreateIn(52, 60, definition), CudaResult::kSuccess);
  Add(cmd::GraphDestroy{52});
  for (uint64_t i = 1; i < most; ++i) Add(cmd::GraphDestroy{1000 + i});
  AwaitControl();
  EXPECT_EQ(purse.left, OutsideMemory::kUnit);
  session_.reset();
}

TEST_F(SessionGraphsTest, StreamsCountForTheSessionUntilTheyAreDestroyed) {
  DevicePurse purse;
  auto options = OptionsOf();
  options.charger = &purse;
  Restart(std::move(options));
  constexpr uint64_t kMost =
      (OutsideMemory::kAllowance + OutsideMemory::kUnit) / OutsideMemory::kStreamBytes;
  for (uint64_t i = 0; i < kMost; ++i) {
    AddStream(100 + i);
    Sync(100 + i);
  }
  EXPECT_EQ(purse.left, 0u);
  const uint64_t beyond = AddStream(99);
  const uint64_t sync = Add(cmd::StreamSync{99});
  ASSERT_TRUE(Send().ok());
  CudaResult result = CudaResult::kUnknown;
  replies_.Wait(sync, &result);
  EXPECT_EQ(result, CudaResult::kOutOfMemory);
  EXPECT_TRUE(Failed(beyond));
  for (uint64_t i = 0; i < kMost; ++i) Add(cmd::StreamDestroy{100 + i});
  ASSERT_TRUE(Send().ok());
  while (purse.left != OutsideMemory::kUnit) std::this_thread::yield();
  session_.reset();
}

}  // namespace
}  // namespace warpline::worker
