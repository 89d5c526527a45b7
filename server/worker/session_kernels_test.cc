// What a session does for modules, kernels and launches beyond the plain ones, and what kernels
// print.
#include <cstring>
#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "server/worker/session_fixture.h"

namespace warpline::worker {
namespace {

using ::testing::ElementsAre;

std::string Attribute(uint32_t id, char value) {
  std::string wire(72, '\0');
  std::memcpy(wire.data(), &id, sizeof(id));
  wire[8] = value;
  return wire;
}

// Prints a line for each time that it was flushed.
class FakeOutput : public OutputSource {
 public:
  void Collect(const std::function<void(int, std::string_view)>& emit) override {
    emit(1, "printed");
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

// Launches that were made before may still wait to be issued.
TEST_F(SessionKernelsTest, DynamicSharedMemoryOfAKernelIsRaisedAndNeverLowered) {
  constexpr int kMaxDynamicSharedBytes = 8;
  LoadKernel();
  Add(cmd::KernelSetAttribute{3, kMaxDynamicSharedBytes, 65536});
  const uint64_t lower = Add(cmd::KernelSetAttribute{3, kMaxDynamicSharedBytes, 1024});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(lower);
  EXPECT_EQ(context_.kernel_attribute, 65536);
  const uint64_t higher = Add(cmd::KernelSetAttribute{3, kMaxDynamicSharedBytes, 98304});
  ASSERT_TRUE(Send().ok());
  replies_.Wait(higher);
  EXPECT_EQ(context_.kernel_attribute, 98304);
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
  session_->set_output(&output);
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
  session_->set_output(&output);
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
