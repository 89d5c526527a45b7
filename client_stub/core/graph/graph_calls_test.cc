#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client_stub/core/testing/core_fixture.h"
#include "proto/graph_definition.h"

namespace warpline::stub {
namespace {

class GraphCallsTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&memory_, 4096), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphCreate(&graph_, 0), CUDA_SUCCESS);
    kernel_ = LoadKernel();
    session().Clear();
  }

  CUgraphNode AddMemset(const CUgraphNode* after, size_t count, unsigned int value) {
    const CUDA_MEMSET_NODE_PARAMS params = {memory_, 0, value, 4, 8, 1};
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddMemsetNode(&node, graph_, after, count, &params, context_), CUDA_SUCCESS);
    return node;
  }
  CUgraphNode AddKernel(const CUgraphNode* after, size_t count, uint64_t a) {
    uint32_t b = 7;
    void* parameters[] = {&a, &b};
    CUDA_KERNEL_NODE_PARAMS_v1 params = {kernel_, 2, 1, 1, 32, 1, 1, 0, parameters, nullptr};
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddKernelNode(&node, graph_, after, count, &params), CUDA_SUCCESS);
    return node;
  }
  CUgraphExec Instantiate() {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, 0), CUDA_SUCCESS);
    return exec;
  }

  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;
  CUgraph graph_ = nullptr;
  CUfunction kernel_ = nullptr;
};

TEST_F(GraphCallsTest, TheFirstLaunchSendsWhatTheNodesDo) {
  const CUgraphNode set = AddMemset(nullptr, 0, 3);
  AddKernel(&set, 1, 0x1122);
  const CUgraphExec exec = Instantiate();
  EXPECT_EQ(session().sent().size(), 0u);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::Memset>().value, 3u);
  std::string params;
  const auto launch = session().Latest<cmd::Launch>(&params);
  EXPECT_EQ(launch.grid_x, 2u);
  EXPECT_EQ(launch.stream, session().Latest<cmd::Memset>().stream);
  uint64_t a;
  std::memcpy(&a, params.data(), sizeof(a));
  EXPECT_EQ(a, 0x1122u);
  EXPECT_EQ(session().Count(CommandId::kGraphLaunch), 0);
}

TEST_F(GraphCallsTest, FromTheSecondLaunchOnItIsOneCommand) {
  const CUgraphNode set = AddMemset(nullptr, 0, 3);
  const CUgraphNode left = AddKernel(&set, 1, 1);
  const CUgraphNode right = AddKernel(&set, 1, 2);
  const CUgraphNode both[] = {left, right};
  AddMemset(both, 2, 4);
  const CUgraphExec exec = Instantiate();
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  session().Clear();
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kLaunch), 0);
  EXPECT_EQ(session().Count(CommandId::kGraphLaunch), 2);
  EXPECT_EQ(session().Count(CommandId::kGraphCreate), 1);
  std::string definition;
  session().Latest<cmd::ImageData>(&definition);
  std::string_view rest = definition;
  const std::vector<std::vector<uint32_t>> after = {{}, {0}, {0}, {1, 2}};
  for (uint32_t i = 0; i < after.size(); ++i) {
    GraphStep step;
    ASSERT_TRUE(TakeGraphStep(&rest, i, &step));
    EXPECT_EQ(step.after, after[i]);
  }
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kGraphDestroy), 1);
}

TEST_F(GraphCallsTest, AGraphThatTheServerRefusesIsLaunchedNodeByNode) {
  AddMemset(nullptr, 0, 3);
  session().SetAnswer(CommandId::kGraphCreate, [](const FakeSession::Sent&, std::string*) {
    return CudaResult::kOutOfMemory;
  });
  const CUgraphExec exec = Instantiate();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kMemset), 3);
  EXPECT_EQ(session().Count(CommandId::kGraphCreate), 1);
  EXPECT_EQ(session().Count(CommandId::kGraphLaunch), 0);
}

TEST_F(GraphCallsTest, AChangeOfTheExecutableGraphIsInItsNextLaunch) {
  const CUgraphNode set = AddMemset(nullptr, 0, 3);
  const CUgraphExec exec = Instantiate();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  const CUDA_MEMSET_NODE_PARAMS changed = {memory_, 0, 9, 4, 8, 1};
  ASSERT_EQ(cuGraphExecMemsetNodeSetParams(exec, set, &changed, context_), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kGraphDestroy), 1);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::Memset>().value, 9u);
  CUDA_MEMSET_NODE_PARAMS original;
  ASSERT_EQ(cuGraphMemsetNodeGetParams(set, &original), CUDA_SUCCESS);
  EXPECT_EQ(original.value, 3u);
  CUgraphExecUpdateResultInfo info;
  ASSERT_EQ(cuGraphExecUpdate_v2(exec, graph_, &info), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::Memset>().value, 3u);
  AddMemset(&set, 1, 1);
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, graph_, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
}

TEST_F(GraphCallsTest, ACycleCannotBeInstantiated) {
  const CUgraphNode a = AddMemset(nullptr, 0, 1);
  const CUgraphNode b = AddMemset(&a, 1, 2);
  ASSERT_EQ(cuGraphAddDependencies(graph_, &b, &a, 1), CUDA_SUCCESS);
  CUgraphExec exec;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphCallsTest, HandlesEndWithTheirGraph) {
  const CUgraphNode node = AddMemset(nullptr, 0, 1);
  ASSERT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  CUgraphNodeType type;
  EXPECT_EQ(cuGraphNodeGetType(node, &type), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphDestroy(graph_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphCallsTest, ALaunchInAnotherStreamComesAfterTheFormer) {
  CUstream other;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  AddMemset(nullptr, 0, 1);
  const CUgraphExec exec = Instantiate();
  session().SetComplete(false);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 0);
  ASSERT_EQ(cuGraphLaunch(exec, other), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 1);
}

TEST_F(GraphCallsTest, MemoryOfAGraphIsFreedByANodeOrTheApplicationOnce) {
  CUDA_MEM_ALLOC_NODE_PARAMS_v1 params = {};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = 4096;
  CUgraphNode alloc;
  ASSERT_EQ(cuGraphAddMemAllocNode(&alloc, graph_, nullptr, 0, &params), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(params.dptr), CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec exec = Instantiate();
  CUgraphExec second;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&second, graph_, 0), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(params.dptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(params.dptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  uint64_t used;
  EXPECT_EQ(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used),
            CUDA_SUCCESS);
  EXPECT_EQ(used, 4096u);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  // The memory stays while the application has it.
  EXPECT_EQ(cuMemsetD8_v2(params.dptr, 0, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(params.dptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8_v2(params.dptr, 0, 16), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphCallsTest, MemoryOfAGraphCountsFromItsFirstLaunchUntilItIsTrimmed) {
  CUDA_MEM_ALLOC_NODE_PARAMS_v1 params = {};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = 4096;
  CUgraphNode alloc, free;
  ASSERT_EQ(cuGraphAddMemAllocNode(&alloc, graph_, nullptr, 0, &params), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddMemFreeNode(&free, graph_, &alloc, 1, params.dptr), CUDA_SUCCESS);
  const CUgraphExec exec = Instantiate();
  const auto attribute = [](CUgraphMem_attribute which) {
    uint64_t value = 99;
    EXPECT_EQ(cuDeviceGetGraphMemAttribute(0, which, &value), CUDA_SUCCESS);
    return value;
  };
  uint64_t zero = 0;
  for (const auto high : {CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH}) {
    ASSERT_EQ(cuDeviceSetGraphMemAttribute(0, high, &zero), CUDA_SUCCESS);
  }
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  // The graph has freed it, and keeps it for the next launch.
  for (const auto which :
       {CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH}) {
    EXPECT_EQ(attribute(which), 4096u) << which;
  }
  ASSERT_EQ(cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 4096u);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 4096u);
  // The device keeps it for other graphs when this one is gone.
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 4096u);
  ASSERT_EQ(cuGraphCreate(&graph_, 0), CUDA_SUCCESS);
  params.bytesize = 8192;
  ASSERT_EQ(cuGraphAddMemAllocNode(&alloc, graph_, nullptr, 0, &params), CUDA_SUCCESS);
  const CUgraphExec other = Instantiate();
  ASSERT_EQ(cuGraphLaunch(other, stream_), CUDA_SUCCESS);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 8192u);
  EXPECT_EQ(cuGraphExecDestroy(other), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(params.dptr), CUDA_SUCCESS);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 8192u);
  ASSERT_EQ(cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0u);
}

// The graph may outlive the context whose memory it has.
TEST_F(GraphCallsTest, MemoryOfAGraphEndsWithItsContext) {
  CUcontext other;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
  CUDA_MEM_ALLOC_NODE_PARAMS_v1 params = {};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = 4096;
  CUgraph graph;
  CUgraphNode alloc;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &params), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy_v2(other), CUDA_SUCCESS);
  // Others get the address then, and keep it.
  CUdeviceptr memory = 0;
  std::vector<CUdeviceptr> before;
  while (memory != params.dptr && before.size() < 64) {
    ASSERT_EQ(cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
    before.push_back(memory);
  }
  ASSERT_EQ(memory, params.dptr);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8_v2(memory, 0, 16), CUDA_SUCCESS);
  for (const CUdeviceptr each : before) EXPECT_EQ(cuMemFree_v2(each), CUDA_SUCCESS);
}

// Graphs with conditional nodes.
class ConditionalTest : public GraphCallsTest {
 protected:
  CUresult AddConditional(CUgraphConditionalNodeType type, unsigned int size,
                          CUgraphNodeParams* params, const std::vector<CUgraphNode>& after = {},
                          CUgraphNode* made = nullptr) {
    *params = {};
    params->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params->conditional.handle = handle_;
    params->conditional.type = type;
    params->conditional.size = size;
    CUgraphNode node = nullptr;
    return cuGraphAddNode_v2(made == nullptr ? &node : made, graph_, after.data(), nullptr,
                             after.size(), params);
  }
  // Adds a host function, which only this process can run.
  CUgraphNode AddHost(const std::vector<CUgraphNode>& after) {
    const CUDA_HOST_NODE_PARAMS_v1 call = {[](void*) {}, nullptr};
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddHostNode(&node, graph_, after.data(), after.size(), &call), CUDA_SUCCESS);
    return node;
  }
  CUresult MakeHandle() {
    return cuGraphConditionalHandleCreate(&handle_, graph_, context_, 1,
                                          CU_GRAPH_COND_ASSIGN_DEFAULT);
  }
  CUgraphNode AddMemsetTo(CUgraph graph, unsigned int value) {
    const CUDA_MEMSET_NODE_PARAMS params = {memory_, 0, value, 4, 8, 1};
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context_), CUDA_SUCCESS);
    return node;
  }

  CUgraphConditionalHandle handle_ = 0;
};

TEST_F(ConditionalTest, TheDeviceMakesTheGraphWhenItIsInstantiated) {
  ASSERT_EQ(MakeHandle(), CUDA_SUCCESS);
  EXPECT_EQ(handle_, FakeSession::kConditional);
  CUgraphNodeParams params;
  ASSERT_EQ(AddConditional(CU_GRAPH_COND_TYPE_IF, 2, &params), CUDA_SUCCESS);
  AddMemsetTo(params.conditional.phGraph_out[0], 5);
  AddMemsetTo(params.conditional.phGraph_out[1], 6);
  AddMemset(nullptr, 0, 7);
  const CUgraphExec exec = Instantiate();
  std::string image;
  session().Latest<cmd::ImageData>(&image);
  const auto frame = session().Latest<cmd::ConditionalCreate>().frame;
  EXPECT_EQ(session().Latest<cmd::GraphCreateIn>().frame, frame);
  std::string_view rest = image;
  std::vector<std::pair<uint32_t, uint32_t>> steps;
  GraphStep step;
  while (!rest.empty()) {
    ASSERT_TRUE(TakeGraphStep(&rest, static_cast<uint32_t>(steps.size()), &step));
    steps.emplace_back(step.command, step.body);
  }
  constexpr auto kMemset = static_cast<uint32_t>(CommandId::kMemset);
  const std::vector<std::pair<uint32_t, uint32_t>> expected = {
      {kConditionalStep, 0}, {kMemset, 1}, {kMemset, 2}, {kMemset, 0}};
  EXPECT_EQ(steps, expected);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kGraphLaunch), 1);
  EXPECT_EQ(session().Count(CommandId::kMemset), 0);
  // Only one executable graph may exist at a time, and it cannot be changed.
  CUgraphExec second = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&second, graph_, 0), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphExecUpdateResultInfo info;
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, graph_, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CUgraph clone;
  EXPECT_EQ(cuGraphClone(&clone, graph_), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphDestroy(params.conditional.phGraph_out[0]), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kConditionalDestroy), 1);
}

// Reads the steps of the latest definition: their commands and what they come after.
std::vector<std::pair<uint32_t, std::vector<uint32_t>>> LatestSteps(FakeSession& session) {
  std::string image;
  session.Latest<cmd::ImageData>(&image);
  std::string_view rest = image;
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> steps;
  GraphStep step;
  while (!rest.empty()) {
    if (!TakeGraphStep(&rest, static_cast<uint32_t>(steps.size()), &step)) return {};
    steps.emplace_back(step.command, step.after);
  }
  return steps;
}

TEST_F(ConditionalTest, NodesOfThisProcessRunBeforeAndAfterTheDevicesGraph) {
  ASSERT_EQ(MakeHandle(), CUDA_SUCCESS);
  const CUgraphNode first = AddMemset(nullptr, 0, 1);  // Before a function, so it leaves the graph.
  const CUgraphNode called = AddHost({first});
  const CUgraphNode beside = AddMemset(nullptr, 0, 2);
  CUgraphNodeParams params;
  CUgraphNode conditional = nullptr;
  ASSERT_EQ(AddConditional(CU_GRAPH_COND_TYPE_IF, 1, &params, {called, beside}, &conditional),
            CUDA_SUCCESS);
  AddMemsetTo(params.conditional.phGraph_out[0], 3);
  const CUgraphNode inside = AddMemset(&conditional, 1, 4);
  const CUgraphNode last = AddHost({inside});
  AddMemset(&last, 1, 5);
  const CUgraphExec exec = Instantiate();
  constexpr auto kMemset = static_cast<uint32_t>(CommandId::kMemset);
  const std::vector<std::pair<uint32_t, std::vector<uint32_t>>> expected = {
      {kMemset, {}}, {kConditionalStep, {0}}, {kMemset, {}}, {kMemset, {1}}};
  EXPECT_EQ(LatestSteps(session()), expected);
  session().Clear();
  for (int i = 0; i < 2; ++i) {
    session().Clear();
    ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
    std::vector<CommandId> sent;
    for (const FakeSession::Sent& command : session().sent()) {
      if (command.id == CommandId::kMemset || command.id == CommandId::kHostCall ||
          command.id == CommandId::kGraphLaunch) {
        sent.push_back(command.id);
      }
    }
    const std::vector<CommandId> wanted = {CommandId::kMemset, CommandId::kHostCall,
                                           CommandId::kGraphLaunch, CommandId::kHostCall,
                                           CommandId::kMemset};
    EXPECT_EQ(sent, wanted);
  }
}

TEST_F(ConditionalTest, NodesOfThisProcessBetweenTwoConditionsAreRefused) {
  ASSERT_EQ(MakeHandle(), CUDA_SUCCESS);
  CUgraphNodeParams params;
  CUgraphNode first = nullptr;
  ASSERT_EQ(AddConditional(CU_GRAPH_COND_TYPE_IF, 1, &params, {}, &first), CUDA_SUCCESS);
  const CUgraphNode called = AddHost({first});
  const uint64_t former = handle_;
  session().SetAnswer(CommandId::kConditionalCreate,
                      [former](const FakeSession::Sent&, std::string* fields) {
                        const cmd::ConditionalCreateReply reply = {former + 1};
                        fields->assign(reinterpret_cast<const char*>(&reply), sizeof(reply));
                        return CudaResult::kSuccess;
                      });
  ASSERT_EQ(MakeHandle(), CUDA_SUCCESS);
  ASSERT_EQ(AddConditional(CU_GRAPH_COND_TYPE_IF, 1, &params, {called}), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, 0), CUDA_ERROR_NOT_SUPPORTED);
}

// A condition can be set only within the device's graph.
TEST_F(ConditionalTest, AKernelThatSetsAConditionDoesNotLeaveTheDevicesGraph) {
  ASSERT_EQ(MakeHandle(), CUDA_SUCCESS);
  const CUgraphNode kernel = AddKernel(nullptr, 0, handle_);
  CUgraphNodeParams params;
  ASSERT_EQ(AddConditional(CU_GRAPH_COND_TYPE_IF, 1, &params, {kernel}), CUDA_SUCCESS);
  CUgraphExec exec = Instantiate();
  ASSERT_NE(exec, nullptr);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  const CUgraphNode called = AddHost({kernel});
  CUgraphNode waits = nullptr;
  ASSERT_EQ(cuGraphAddEmptyNode(&waits, graph_, &called, 1), CUDA_SUCCESS);
  size_t count = 0;
  ASSERT_EQ(cuGraphGetNodes(graph_, nullptr, &count), CUDA_SUCCESS);
  std::vector<CUgraphNode> nodes(count);
  ASSERT_EQ(cuGraphGetNodes(graph_, nodes.data(), &count), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddDependencies(graph_, &waits, &nodes[1], 1), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, 0), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(ConditionalTest, ABodyIsCapturedInto) {
  ASSERT_EQ(MakeHandle(), CUDA_SUCCESS);
  CUgraphNodeParams params;
  ASSERT_EQ(AddConditional(CU_GRAPH_COND_TYPE_WHILE, 1, &params), CUDA_SUCCESS);
  const CUgraph body = params.conditional.phGraph_out[0];
  ASSERT_EQ(cuStreamBeginCaptureToGraph(stream_, body, nullptr, nullptr, 0,
                                        CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(memory_, 1, 4, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph_), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuStreamEndCapture(stream_, nullptr), CUDA_SUCCESS);
  size_t count = 0;
  EXPECT_EQ(cuGraphGetNodes(body, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1u);
}

TEST_F(ConditionalTest, WrongOnesAreRefused) {
  CUgraphNodeParams params;
  EXPECT_EQ(AddConditional(CU_GRAPH_COND_TYPE_IF, 1, &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphConditionalHandleCreate(nullptr, graph_, context_, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphConditionalHandleCreate(&handle_, nullptr, context_, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphConditionalHandleCreate(&handle_, graph_, context_, 0, 2),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(MakeHandle(), CUDA_SUCCESS);
  EXPECT_EQ(AddConditional(CU_GRAPH_COND_TYPE_WHILE, 2, &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(AddConditional(CU_GRAPH_COND_TYPE_IF, 3, &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(AddConditional(CU_GRAPH_COND_TYPE_SWITCH, 0, &params), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(AddConditional(CU_GRAPH_COND_TYPE_SWITCH, 3, &params), CUDA_SUCCESS);
  const CUgraph body = params.conditional.phGraph_out[1];
  EXPECT_EQ(AddConditional(CU_GRAPH_COND_TYPE_SWITCH, 3, &params), CUDA_ERROR_INVALID_VALUE);
  // Nodes that involve this process cannot run inside the device's graph.
  const CUDA_HOST_NODE_PARAMS_v1 call = {[](void*) {}, nullptr};
  CUgraphNode node;
  ASSERT_EQ(cuGraphAddHostNode(&node, body, nullptr, 0, &call), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(exec, nullptr);
}

TEST_F(ConditionalTest, WhatTheDeviceRefusesIsNotInstantiated) {
  ASSERT_EQ(MakeHandle(), CUDA_SUCCESS);
  CUgraphNodeParams params;
  ASSERT_EQ(AddConditional(CU_GRAPH_COND_TYPE_IF, 1, &params), CUDA_SUCCESS);
  session().SetAnswer(CommandId::kGraphCreateIn, [](const FakeSession::Sent&, std::string*) {
    return CudaResult::kInvalidValue;
  });
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(exec, nullptr);
  EXPECT_EQ(session().Count(CommandId::kGraphDestroy), 1);
}

}  // namespace
}  // namespace warpline::stub
