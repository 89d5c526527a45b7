// Tests modules, kernels and launches beyond the plain ones, and what kernels print.
#include <cstring>
#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

using ::testing::ElementsAre;

std::string Attribute(uint32_t id, char value) {
  std::string wire(72, '\0');
  std::memcpy(wire.data(), &id, sizeof(id));
  wire[8] = value;
  return wire;
}

// Prints a line for each flush.
class FakeOutput : public OutputSource {
 public:
  CudaResult Collect(bool, const Emit& emit) override {
    emit(1, "printed");
    return CudaResult::kSuccess;
  }
};

class SessionKernelsTest : public SessionTest {
 protected:
  template <typename Reply>
  Reply Fields(std::string_view* body) {
    Reply reply;
    EXPECT_TRUE(TakeStruct(body, &reply));
    return reply;
  }

  cmd::LaunchEx LaunchExOn(uint64_t stream, uint32_t attributes) {
    cmd::LaunchEx launch;
    launch.stream = stream;
    launch.kernel = 3;
    launch.grid_x = 2;
    launch.attribute_count = attributes;
    return launch;
  }
};

TEST_F(SessionKernelsTest, LaunchAttributesReachTheDevice) {
  LoadKernel();
  cmd::LaunchEx launch = LaunchExOn(1, 2);
  launch.cooperative = 1;
  Add(launch, Attribute(4, 2) + Attribute(8, 5) + params_);
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  EXPECT_THAT(context_.log(),
              ElementsAre("attribute@1 4=2", "attribute@1 8=5", "cooperative@1 ", "launch@1 77x2"));
}

// Tests kernel attributes, with launches that a host function holds back while they are set.
class KernelAttributesTest : public SessionKernelsTest {
 protected:
  static constexpr int kMaxDynamicSharedBytes = 8, kCarveout = 9, kClusterWidth = 11;

  void SetUp() override {
    LoadKernel();
    AddStream(20);
    AddStream(21);
  }
  // Makes everything that comes on stream 20 from now on wait for Release().
  void Hold() { Add(cmd::HostCall{20, 5}); }
  void Release() { Add(cmd::HostDone{5}); }
  CudaResult Set(int attribute, int value) {
    const uint64_t seq = Add(cmd::KernelSetAttribute{3, attribute, value});
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
  // Returns an attribute as it was at each launch.
  std::vector<int> AtLaunches(int attribute) {
    std::vector<int> values;
    for (auto& attributes : context_.attributes_at_launches()) {
      values.push_back(attributes[attribute]);
    }
    return values;
  }
  // The value that FakeContext gives a kernel's attribute at first.
  static int Initially(int attribute) { return attribute * 10; }
};

TEST_F(KernelAttributesTest, LaunchesSeeWhatWasSetWhenTheyWereMade) {
  Hold();
  Add(LaunchOn(20), params_);
  ASSERT_EQ(Set(kClusterWidth, 2), CudaResult::kSuccess);
  Add(LaunchOn(20), params_);
  ASSERT_EQ(Set(kClusterWidth, 4), CudaResult::kSuccess);
  // This launch overtakes both.
  Add(LaunchOn(21), params_);
  Sync(21);
  Release();
  Add(LaunchOn(20), params_);
  Sync(20);
  EXPECT_THAT(AtLaunches(kClusterWidth), ElementsAre(4, Initially(kClusterWidth), 2, 4));
}

TEST_F(KernelAttributesTest, ASetDoesNotWaitForLaunchesAndOthersStayAsTheyWere) {
  Hold();
  Add(LaunchOn(20), params_);
  ASSERT_EQ(Set(kCarveout, 50), CudaResult::kSuccess);
  ASSERT_EQ(Set(kClusterWidth, 2), CudaResult::kSuccess);
  EXPECT_TRUE(context_.attributes_at_launches().empty());
  Release();
  Sync(20);
  Add(LaunchOn(20), params_);
  Sync(20);
  EXPECT_THAT(AtLaunches(kCarveout), ElementsAre(Initially(kCarveout), 50));
  EXPECT_THAT(AtLaunches(kClusterWidth), ElementsAre(Initially(kClusterWidth), 2));
}

TEST_F(KernelAttributesTest, LaunchesSetNothingWhenNothingChanged) {
  ASSERT_EQ(Set(kCarveout, 50), CudaResult::kSuccess);
  const int before = context_.kernel_attributes_set();
  for (int i = 0; i < 10; ++i) {
    Add(LaunchOn(20), params_);
    Add(LaunchOn(21), params_);
  }
  Sync(20);
  Sync(21);
  EXPECT_EQ(context_.kernel_attributes_set(), before);
  EXPECT_THAT(AtLaunches(kCarveout), ::testing::Each(50));
}

// A launch that needs less is not affected by more, and one that was made before may need it.
TEST_F(KernelAttributesTest, DynamicSharedMemoryIsRaisedAndNeverLowered) {
  ASSERT_EQ(Set(kMaxDynamicSharedBytes, 65536), CudaResult::kSuccess);
  Hold();
  Add(LaunchOn(20), params_);
  ASSERT_EQ(Set(kMaxDynamicSharedBytes, 1024), CudaResult::kSuccess);
  Add(LaunchOn(21), params_);
  Sync(21);
  Release();
  Sync(20);
  EXPECT_THAT(AtLaunches(kMaxDynamicSharedBytes), ElementsAre(65536, 65536));
  ASSERT_EQ(Set(kMaxDynamicSharedBytes, 98304), CudaResult::kSuccess);
  EXPECT_EQ(context_.kernel_attributes()[kMaxDynamicSharedBytes], 98304);
}

TEST_F(KernelAttributesTest, WhatTheDeviceRefusesChangesNothing) {
  ASSERT_EQ(Set(kClusterWidth, 2), CudaResult::kSuccess);
  EXPECT_EQ(Set(kClusterWidth, -1), CudaResult::kInvalidValue);
  EXPECT_EQ(Set(kMaxDynamicSharedBytes, -1), CudaResult::kInvalidValue);
  EXPECT_EQ(Set(0, 1), CudaResult::kInvalidValue);
  EXPECT_EQ(Set(16, 1), CudaResult::kInvalidValue);
  Add(LaunchOn(20), params_);
  Sync(20);
  EXPECT_THAT(AtLaunches(kClusterWidth), ElementsAre(2));
}

TEST_F(KernelAttributesTest, AKernelThatWasNotFoundHasNone) {
  Add(cmd::KernelFind{4, 2}, "missing");
  const uint64_t seq = Add(cmd::KernelSetAttribute{4, kCarveout, 50});
  cmd::Launch launch = LaunchOn(20);
  launch.kernel = 4;
  const uint64_t failed = Add(launch, params_);
  Sync(20);
  CudaResult result;
  replies_.Wait(seq, &result);
  EXPECT_EQ(result, CudaResult::kNotFound);
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, failed));
}

TEST_F(SessionKernelsTest, AttributesThatNameObjectsOrAreCutShortAreRefused) {
  LoadKernel();
  // A programmatic event holds a pointer of the client's.
  const uint64_t event = Add(LaunchExOn(1, 1), Attribute(7, 1) + params_);
  const uint64_t cut = Add(LaunchExOn(1, 9), Attribute(4, 1) + params_);
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, event));
  EXPECT_TRUE(replies_.Has(ReplyId::kFailed, cut));
  EXPECT_THAT(context_.log(), ElementsAre());
}

TEST_F(SessionKernelsTest, JitOptionsReachTheCompilerAndItsLogComesBackWhetherItLoadedOrNot) {
  const uint32_t option[2] = {0, 32};
  const std::string options(reinterpret_cast<const char*>(option), sizeof(option));
  Add(cmd::ImageData{1, 3, 0}, "bad");
  Add(cmd::ModuleLoadJit{2, 1}, options);
  const uint64_t check = Add(cmd::ModuleCheck{2});
  const uint64_t log = Add(cmd::ModuleJitLog{2});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(check, &result);
  EXPECT_EQ(result, CudaResult::kInvalidImage);
  const std::string body = replies_.Wait(log, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  std::string_view rest = body;
  const auto reply = Fields<cmd::ModuleJitLogReply>(&rest);
  EXPECT_EQ(rest.substr(0, reply.info_bytes), "1 options");
  EXPECT_EQ(rest.substr(reply.info_bytes), "no such instruction");
}

TEST_F(SessionKernelsTest, JitOptionsThatHoldAddressesAreRefused) {
  const uint32_t option[2] = {17, 1};  // CU_JIT_GLOBAL_SYMBOL_NAMES
  Add(cmd::ImageData{1, 5, 0}, "image");
  Add(cmd::ModuleLoadJit{2, 1}, {reinterpret_cast<const char*>(option), sizeof(option)});
  const uint64_t check = Add(cmd::ModuleCheck{2});
  const uint64_t log = Add(cmd::ModuleJitLog{2});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(check, &result);
  EXPECT_EQ(result, CudaResult::kInvalidValue);
  EXPECT_NE(replies_.Wait(log).find("CUDA_ERROR_INVALID_VALUE"), std::string::npos);
}

TEST_F(SessionKernelsTest, KernelsAreEnumeratedFromWhereTheClientIs) {
  LoadKernel();
  const uint64_t all = Add(cmd::ModuleKernels{2, 0, 0});
  const uint64_t second = Add(cmd::ModuleKernels{2, 1, 0});
  const uint64_t beyond = Add(cmd::ModuleKernels{2, 7, 0});
  ASSERT_TRUE(Send().ok());
  for (const auto& [seq, count, names] :
       {std::tuple(all, 2u, std::string("one\0two\0", 8)),
        std::tuple(second, 1u, std::string("two\0", 4)), std::tuple(beyond, 0u, std::string())}) {
    const std::string body = replies_.Wait(seq);
    std::string_view rest = body;
    const auto reply = Fields<cmd::ModuleKernelsReply>(&rest);
    EXPECT_EQ(reply.total, 2u);
    EXPECT_EQ(reply.count, count);
    EXPECT_EQ(rest, names);
  }
}

TEST_F(SessionKernelsTest, ClusterQuestionsCarryAttributes) {
  LoadKernel();
  cmd::ClusterOccupancy ask;
  ask.kernel = 3;
  const uint64_t active = Add(ask, Attribute(4, 2));
  const uint64_t half = Add(ask, "half an attribute");
  ask.what = 1;
  const uint64_t unsupported = Add(ask);
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  const std::string body = replies_.Wait(active, &result);
  std::string_view rest = body;
  EXPECT_EQ(Fields<cmd::ClusterOccupancyReply>(&rest).value, 1);
  replies_.Wait(half, &result);
  EXPECT_EQ(result, CudaResult::kInvalidValue);
  replies_.Wait(unsupported, &result);
  EXPECT_EQ(result, CudaResult::kNotSupported);
}

TEST_F(SessionKernelsTest, LimitsAreSetWithinTheSessionsBounds) {
  constexpr int kStack = 0, kHeap = 2, kUnknown = 3;
  const SessionLimits limits;
  const uint64_t set = Add(cmd::LimitSet{4096, kStack, 0});
  const uint64_t stack = Add(cmd::LimitSet{SessionDevice{}.max_stack_bytes + 1, kStack, 0});
  const uint64_t heap = Add(cmd::LimitSet{limits.max_heap_bytes + 1, kHeap, 0});
  const uint64_t unknown = Add(cmd::LimitSet{1, kUnknown, 0});
  const uint64_t get = Add(cmd::LimitGet{kStack, 0});
  ASSERT_TRUE(Send().ok());
  CudaResult result;
  replies_.Wait(set, &result);
  EXPECT_EQ(result, CudaResult::kSuccess);
  replies_.Wait(stack, &result);
  EXPECT_EQ(result, CudaResult::kInvalidValue);
  replies_.Wait(heap, &result);
  EXPECT_EQ(result, CudaResult::kOutOfMemory);
  replies_.Wait(unknown, &result);
  EXPECT_EQ(result, CudaResult::kUnsupportedLimit);
  const std::string body = replies_.Wait(get, &result);
  std::string_view rest = body;
  EXPECT_EQ(Fields<cmd::LimitGetReply>(&rest).value, 4096u);
}

TEST_F(SessionKernelsTest, WhatKernelsPrintedComesBeforeTheNewsThatTheyAreComplete) {
  FakeOutput output;
  HostedSession::Options options = OptionsOf();
  options.output = &output;
  Restart(std::move(options));
  const std::string image = ".version 9.0 .extern .func vprintf";
  Add(cmd::ImageData{1, image.size(), 0}, image);
  Add(cmd::ModuleLoad{2, 1});
  const uint64_t found = Add(cmd::KernelFind{3, 2}, "kernel");
  ASSERT_TRUE(Send().ok());
  replies_.Wait(found);
  const uint64_t launch = Add(LaunchOn(1), params_);
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  int announced = 0, printed = 0;
  for (const Replies::Entry& entry : replies_.All()) {
    if (entry.id == ReplyId::kRetired && entry.seq >= launch) {
      EXPECT_EQ(printed, 1);
    }
    if (entry.id != ReplyId::kOutput) continue;
    std::string_view rest = entry.body;
    const auto fields = Fields<notice::Output>(&rest);
    EXPECT_EQ(fields.descriptor, 1u);
    (rest.empty() ? announced : printed) += 1;
  }
  EXPECT_EQ(announced, 1);
  EXPECT_EQ(printed, 1);
  session_.reset();
}

TEST_F(SessionKernelsTest, NothingIsFlushedForKernelsThatCannotPrint) {
  FakeOutput output;
  HostedSession::Options options = OptionsOf();
  options.output = &output;
  Restart(std::move(options));
  LoadKernel();
  Add(LaunchOn(1), params_);
  const uint64_t sync = Add(cmd::StreamSync{1});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(sync);
  EXPECT_THAT(context_.log(), ElementsAre("launch@1 77x1"));
  session_.reset();
}

}  // namespace
}  // namespace warpline::worker
