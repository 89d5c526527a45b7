#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"
#include "client_stub/core/testing/core_fixture.h"
#include "common/cuda/sm_path.h"
#include "proto/graph_definition.h"

namespace warpline::stub {
namespace {

class GreenContextsTest : public CoreTest {
 protected:
  static CUdevResource Whole() {
    CUdevResource whole = {};
    EXPECT_EQ(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    return whole;
  }
  static std::vector<CUdevResource> Split(const CUdevResource& from, unsigned int groups,
                                          unsigned int least, CUdevResource* rest = nullptr) {
    std::vector<CUdevResource> parts(groups);
    EXPECT_EQ(cuDevSmResourceSplitByCount(parts.data(), &groups, &from, rest, 0, least),
              CUDA_SUCCESS);
    parts.resize(groups);
    return parts;
  }
  static CUdevResourceDesc Describe(std::vector<CUdevResource> parts) {
    CUdevResourceDesc descriptor = nullptr;
    EXPECT_EQ(cuDevResourceGenerateDesc(&descriptor, parts.data(),
                                        static_cast<unsigned int>(parts.size())),
              CUDA_SUCCESS);
    return descriptor;
  }
  static CUgreenCtx Create(std::vector<CUdevResource> parts) {
    CUgreenCtx green = nullptr;
    EXPECT_EQ(cuGreenCtxCreate(&green, Describe(std::move(parts)), 0, CU_GREEN_CTX_DEFAULT_STREAM),
              CUDA_SUCCESS);
    return green;
  }
  // A green context of 16 multiprocessors.
  static CUgreenCtx Create() { return Create({Split(Whole(), 2, 16)[0]}); }
  static CUcontext ContextOf(CUgreenCtx green) {
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxFromGreenCtx(&context, green), CUDA_SUCCESS);
    return context;
  }
  static CUstream NewStream(CUgreenCtx green) {
    CUstream stream = nullptr;
    EXPECT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    return stream;
  }
  // Where the table keeps what a handle names (handle_table.h).
  static uint32_t SlotOf(const void* handle) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle) >> 4);
  }
  uint64_t NumberOfLatestPartition() { return session().Latest<cmd::PartitionCreate>().partition; }
};

TEST_F(GreenContextsTest, TheWholeIsSplitIntoEqualGroupsAndARest) {
  const CUdevResource whole = Whole();
  EXPECT_EQ(whole.sm.smCount, 132u);
  EXPECT_EQ(whole.sm.minSmPartitionSize, 8u);
  EXPECT_EQ(whole.sm.smCoscheduledAlignment, 8u);
  CUdevResource rest = {};
  const std::vector<CUdevResource> groups = Split(whole, 100, 16, &rest);
  ASSERT_EQ(groups.size(), 8u);
  EXPECT_EQ(groups[7].sm.smCount, 16u);
  EXPECT_EQ(rest.type, CU_DEV_RESOURCE_TYPE_SM);
  EXPECT_EQ(rest.sm.smCount, 4u);
  unsigned int count = 0;
  EXPECT_EQ(cuDevSmResourceSplitByCount(nullptr, &count, &whole, nullptr, 0, 32), CUDA_SUCCESS);
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(cuDevSmResourceSplitByCount(nullptr, &count, &whole, nullptr, 0, 200),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
}

TEST_F(GreenContextsTest, TheSameSplitIsAskedForOnce) {
  Split(Whole(), 3, 24);
  session().Clear();
  Split(Whole(), 3, 24);
  EXPECT_EQ(session().Count(CommandId::kSmSplit), 0);
}

TEST_F(GreenContextsTest, MadeUpDescriptionsAreRefused) {
  CUdevResource made = {};
  unsigned int groups = 1;
  CUdevResource part;
  CUdevResourceDesc descriptor;
  EXPECT_EQ(cuDevSmResourceSplitByCount(&part, &groups, &made, nullptr, 0, 8),
            CUDA_ERROR_INVALID_RESOURCE_TYPE);
  made.type = CU_DEV_RESOURCE_TYPE_SM;
  made.sm.smCount = 132;
  EXPECT_EQ(cuDevSmResourceSplitByCount(&part, &groups, &made, nullptr, 0, 8),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  // Every byte that says where it comes from.
  const CUdevResource real = Split(Whole(), 2, 16)[0];
  for (size_t i = 0; i < 16; ++i) {
    made = real;
    made._internal_padding[i] ^= 0x80;
    EXPECT_EQ(cuDevResourceGenerateDesc(&descriptor, &made, 1),
              CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)
        << i;
  }
  CUgreenCtx green;
  EXPECT_EQ(cuGreenCtxCreate(&green, reinterpret_cast<CUdevResourceDesc>(uintptr_t{0x10}), 0,
                             CU_GREEN_CTX_DEFAULT_STREAM),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxFromGreenCtx(&context_, reinterpret_cast<CUgreenCtx>(context_)),
            CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(GreenContextsTest, ADescriptorIsOfPartsOfOneSplit) {
  CUdevResource rest = {};
  const std::vector<CUdevResource> groups = Split(Whole(), 2, 40, &rest);
  const std::vector<CUdevResource> others = Split(Whole(), 2, 48);
  CUdevResourceDesc descriptor;
  const auto generate = [&](std::vector<CUdevResource> parts) {
    return cuDevResourceGenerateDesc(&descriptor, parts.data(),
                                     static_cast<unsigned int>(parts.size()));
  };
  EXPECT_EQ(generate({groups[0], groups[1], rest}), CUDA_SUCCESS);
  EXPECT_EQ(generate({Whole()}), CUDA_SUCCESS);
  EXPECT_EQ(generate({groups[0], groups[0]}), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  EXPECT_EQ(generate({rest, rest}), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  EXPECT_EQ(generate({groups[0], others[1]}), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  EXPECT_EQ(generate({groups[0], Whole()}), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  EXPECT_EQ(generate({Whole(), Whole()}), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  EXPECT_EQ(cuDevResourceGenerateDesc(&descriptor, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GreenContextsTest, APartitionIsNamedByTheSplitsThatLeadToIt) {
  CUdevResource rest = {};
  const std::vector<CUdevResource> groups = Split(Whole(), 3, 32, &rest);
  const CUgreenCtx outer = Create({groups[2], rest});
  CUdevResource of_outer = {};
  ASSERT_EQ(cuGreenCtxGetDevResource(outer, &of_outer, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(of_outer.sm.smCount, 68u);
  const CUgreenCtx inner = Create({Split(of_outer, 2, 8)[1]});
  std::string path;
  session().Latest<cmd::PartitionCreate>(&path);
  std::vector<SmStep> steps;
  ASSERT_TRUE(ReadSmPath(path, &steps));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].least, 32u);
  EXPECT_EQ(steps[0].groups, 3u);
  EXPECT_TRUE(steps[0].Takes(2));
  EXPECT_FALSE(steps[0].Takes(0));
  EXPECT_EQ(steps[0].rest, 1u);
  EXPECT_TRUE(steps[1].Takes(1));
  EXPECT_EQ(steps[1].rest, 0u);
  // The outer one need not live.
  EXPECT_EQ(cuGreenCtxDestroy(outer), CUDA_SUCCESS);
  ASSERT_EQ(cuGreenCtxGetDevResource(inner, &of_outer, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(of_outer.sm.smCount, 8u);
  EXPECT_EQ(cuGreenCtxDestroy(inner), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, AGroupIsSplitOnceItIsAGreenContexts) {
  CUdevResource rest = {};
  const std::vector<CUdevResource> groups = Split(Whole(), 1, 64, &rest);
  CUdevResource part;
  unsigned int count = 1;
  EXPECT_EQ(cuDevSmResourceSplitByCount(&part, &count, &groups[0], nullptr, 0, 8),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  EXPECT_EQ(Split(rest, 2, 8).size(), 2u);
}

TEST_F(GreenContextsTest, ItsStreamsAreCreatedInItsPartition) {
  const CUgreenCtx green = Create();
  const uint64_t partition = NumberOfLatestPartition();
  CUstream stream = NewStream(green);
  EXPECT_EQ(session().Latest<cmd::StreamCreateIn>().partition, partition);
  CUcontext context = nullptr;
  CUgreenCtx found = nullptr;
  EXPECT_EQ(cuStreamGetCtx(stream, &context), CUDA_SUCCESS);
  EXPECT_EQ(context, ContextOf(green));
  EXPECT_EQ(cuStreamGetCtx_v2(stream, &context, &found), CUDA_SUCCESS);
  EXPECT_EQ(context, context_);
  EXPECT_EQ(found, green);
  EXPECT_EQ(cuStreamGetGreenCtx(stream, &found), CUDA_SUCCESS);
  EXPECT_EQ(found, green);
  EXPECT_EQ(cuStreamGetGreenCtx(nullptr, &found), CUDA_SUCCESS);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGreenCtxStreamCreate(nullptr, green, CU_STREAM_NON_BLOCKING, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, WhileItIsCurrentNullIsItsDefaultStream) {
  const CUgreenCtx green = Create();
  ASSERT_EQ(cuCtxSetCurrent(ContextOf(green)), CUDA_SUCCESS);
  CUdeviceptr memory;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamCreateIn), 0);
  ASSERT_EQ(cuMemsetD8Async(memory, 1, 64, nullptr), CUDA_SUCCESS);
  const uint64_t own = session().Latest<cmd::StreamCreateIn>().stream;
  EXPECT_EQ(session().Latest<cmd::Memset>().stream, own);
  ASSERT_EQ(cuMemsetD8Async(memory, 1, 64, CU_STREAM_LEGACY), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::Memset>().stream, own);
  EXPECT_EQ(session().Count(CommandId::kStreamCreateIn), 1);
  // The thread's own stream has all multiprocessors.
  EXPECT_EQ(cuMemsetD8Async(memory, 1, 64, CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_HANDLE);
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::StreamCreateIn>().partition, NumberOfLatestPartition());
  CUgreenCtx found = nullptr;
  EXPECT_EQ(cuStreamGetGreenCtx(nullptr, &found), CUDA_SUCCESS);
  EXPECT_EQ(found, green);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(memory, 1, 64, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::Memset>().stream, 1u);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, WhatIsMadeInItOutlivesItButForStreams) {
  const CUgreenCtx green = Create();
  const CUcontext context = ContextOf(green);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  CUdeviceptr memory;
  CUevent event;
  CUstream stream;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUcontext owner = nullptr;
  EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory), CUDA_SUCCESS);
  EXPECT_EQ(owner, context_);
  ASSERT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  ASSERT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamDestroy), 1);
  EXPECT_EQ(session().Latest<cmd::PartitionDestroy>().partition, NumberOfLatestPartition());
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuEventRecord(event, stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext again;
  EXPECT_EQ(cuCtxFromGreenCtx(&again, green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPushCurrent_v2(context), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(GreenContextsTest, ANewOneTakesThePlaceOfOneThatIsDestroyed) {
  const CUgreenCtx first = Create();
  const CUcontext context = ContextOf(first);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  ASSERT_EQ(cuGreenCtxDestroy(first), CUDA_SUCCESS);
  const CUgreenCtx second = Create();
  EXPECT_EQ(SlotOf(second), SlotOf(first));
  EXPECT_EQ(SlotOf(ContextOf(second)), SlotOf(context));
  // The stale handles lead to neither.
  EXPECT_NE(second, first);
  EXPECT_NE(ContextOf(second), context);
  CUcontext found = nullptr;
  unsigned long long id;
  CUdevResource resource;
  EXPECT_EQ(cuCtxFromGreenCtx(&found, first), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuGreenCtxGetId(first, &id), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuGreenCtxGetDevResource(first, &resource, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuGreenCtxDestroy(first), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSynchronize_v2(context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuGreenCtxDestroy(second), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, WhileAThreadHoldsItsContextNoOtherTakesThePlace) {
  const CUgreenCtx first = Create();
  const CUcontext context = ContextOf(first);
  ASSERT_EQ(cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent_v2(context_), CUDA_SUCCESS);  // It lies below.
  ASSERT_EQ(cuGreenCtxDestroy(first), CUDA_SUCCESS);
  const CUgreenCtx second = Create();
  EXPECT_NE(SlotOf(ContextOf(second)), SlotOf(context));
  CUcontext popped = nullptr;
  ASSERT_EQ(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
  CUdeviceptr memory;
  CUdevResource resource;
  EXPECT_EQ(cuMemAlloc_v2(&memory, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxGetDevResource(context, &resource, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_ERROR_CONTEXT_IS_DESTROYED);
  ASSERT_EQ(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, context);
  const CUgreenCtx third = Create();
  EXPECT_EQ(SlotOf(ContextOf(third)), SlotOf(context));
  EXPECT_EQ(cuGreenCtxDestroy(second), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(third), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, AThreadThatHasEndedHoldsNoContext) {
  const CUgreenCtx first = Create();
  const CUcontext context = ContextOf(first);
  std::thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
  }).join();
  ASSERT_EQ(cuGreenCtxDestroy(first), CUDA_SUCCESS);
  const CUgreenCtx second = Create();
  EXPECT_EQ(SlotOf(ContextOf(second)), SlotOf(context));
  EXPECT_EQ(cuGreenCtxDestroy(second), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, TheLatestStreamsThatWereLeftAreRemembered) {
  const auto leave = [] {
    const CUgreenCtx green = Create();
    const CUstream stream = NewStream(green);
    EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
    return stream;
  };
  const CUstream first = leave(), second = leave();
  for (size_t i = 1; i < kRememberedStreams; ++i) leave();
  EXPECT_EQ(cuStreamQuery(first), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(GreenContextsTest, HostMemoryThatIsMadeInItIsThePrimaryContexts) {
  const CUgreenCtx green = Create();
  ASSERT_EQ(cuCtxSetCurrent(ContextOf(green)), CUDA_SUCCESS);
  void* memory = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&memory, 64, 0), CUDA_SUCCESS);
  CUcontext owner = nullptr;
  EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT,
                                  reinterpret_cast<CUdeviceptr>(memory)),
            CUDA_SUCCESS);
  EXPECT_EQ(owner, context_);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, ItKeepsThePrimaryContextAndEndsWithItsReset) {
  const CUgreenCtx green = Create();
  ASSERT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  unsigned int flags;
  int active = 0;
  ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  const CUstream stream = NewStream(green);
  ASSERT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  const CUgreenCtx second = Create();
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(second), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(GreenContextsTest, ItsContextIsDestroyedByItsOwnCallAlone) {
  const CUgreenCtx green = Create();
  EXPECT_EQ(cuCtxDestroy_v2(ContextOf(green)), CUDA_ERROR_INVALID_CONTEXT);
  CUdevResource of_context = {};
  EXPECT_EQ(cuCtxGetDevResource(ContextOf(green), &of_context, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_SUCCESS);
  EXPECT_EQ(of_context.sm.smCount, 16u);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, IdsAreItsOwn) {
  const CUgreenCtx green = Create();
  unsigned long long primary = 0, context = 0, own = 0, current = 0;
  EXPECT_EQ(cuCtxGetId(context_, &primary), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetId(ContextOf(green), &context), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxGetId(green, &own), CUDA_SUCCESS);
  EXPECT_NE(own, primary);
  EXPECT_EQ(own, context);
  EXPECT_EQ(cuGreenCtxGetId(nullptr, &current), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxSetCurrent(ContextOf(green)), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxGetId(nullptr, &current), CUDA_SUCCESS);
  EXPECT_EQ(current, own);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, AnEventRecordsAllOfItsStreamsAndHoldsThem) {
  const CUgreenCtx green = Create();
  const CUstream first = NewStream(green), second = NewStream(green);
  CUevent event;
  CUdeviceptr memory;
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
  session().SetComplete(false);
  ASSERT_EQ(cuMemsetD8Async(memory, 1, 64, first), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(memory, 1, 64, second), CUDA_SUCCESS);
  ASSERT_EQ(cuGreenCtxRecordEvent(green, event), CUDA_SUCCESS);
  // One for each stream that has work, and its own.
  EXPECT_EQ(session().Count(CommandId::kEventRecord), 3);
  EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 2);
  ASSERT_EQ(cuGreenCtxWaitEvent(green, event), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 5);
  // A stream that is created later waits, too.
  NewStream(green);
  EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 6);
  EXPECT_EQ(cuGreenCtxRecordEvent(green, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuGreenCtxWaitEvent(green, nullptr), CUDA_ERROR_INVALID_HANDLE);
  session().SetComplete(true);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, AStreamThatCannotComeAfterTheDefaultStreamIsDestroyed) {
  const CUgreenCtx green = Create();
  ASSERT_EQ(cuCtxSetCurrent(ContextOf(green)), CUDA_SUCCESS);
  CUevent event;
  CUdeviceptr memory;
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
  session().SetComplete(false);
  ASSERT_EQ(cuMemsetD8Async(memory, 1, 64, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuGreenCtxWaitEvent(green, event), CUDA_SUCCESS);
  session().SetComplete(true);
  ASSERT_EQ(cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  const uint32_t streams = runtime().streams.live();
  CUstream stream = nullptr;
  EXPECT_NE(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  EXPECT_EQ(stream, nullptr);
  EXPECT_EQ(runtime().streams.live(), streams);
  EXPECT_EQ(session().Latest<cmd::StreamDestroy>().stream,
            session().Latest<cmd::StreamCreateIn>().stream);
  EXPECT_EQ(session().Latest<cmd::EventDestroy>().event,
            session().Latest<cmd::EventCreate>().event);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(nullptr, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, ThePrimaryContextsEventCoversIt) {
  const CUgreenCtx green = Create();
  const CUstream stream = NewStream(green);
  CUevent event;
  CUdeviceptr memory;
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
  session().SetComplete(false);
  ASSERT_EQ(cuMemsetD8Async(memory, 1, 64, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxRecordEvent(context_, event), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 1);
  session().SetComplete(true);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, CooperativeLaunchesFitItsMultiprocessors) {
  const CUgreenCtx green = Create();
  const CUstream stream = NewStream(green);
  CUfunction kernel = LoadKernel();
  uint64_t first = 0;
  uint32_t second = 0;
  void* params[] = {&first, &second};
  // Two blocks on each of sixteen multiprocessors.
  EXPECT_EQ(cuLaunchCooperativeKernel(kernel, 32, 1, 1, 64, 1, 1, 0, stream, params), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchCooperativeKernel(kernel, 33, 1, 1, 64, 1, 1, 0, stream, params),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EXPECT_EQ(cuLaunchCooperativeKernel(kernel, 264, 1, 1, 64, 1, 1, 0, nullptr, params),
            CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, CapturedKernelsRunInIt) {
  const CUgreenCtx green = Create();
  const uint64_t partition = NumberOfLatestPartition();
  const CUstream stream = NewStream(green);
  CUfunction kernel = LoadKernel();
  uint64_t first = 0;
  uint32_t second = 0;
  void* params[] = {&first, &second};
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxRecordEvent(green, nullptr), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  // A node of the primary context, and one that names the green context's.
  CUDA_KERNEL_NODE_PARAMS node = {};
  node.func = kernel;
  node.gridDimX = node.gridDimY = node.gridDimZ = 1;
  node.blockDimX = node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = params;
  CUgraphNode added;
  ASSERT_EQ(cuGraphAddKernelNode_v2(&added, graph, nullptr, 0, &node), CUDA_SUCCESS);
  node.func = nullptr;
  node.kern = reinterpret_cast<CUkernel>(kernel);
  node.ctx = ContextOf(green);
  ASSERT_EQ(cuGraphAddKernelNode_v2(&added, graph, nullptr, 0, &node), CUDA_SUCCESS);
  // It stays there with other parameters.
  node.func = kernel;
  node.kern = nullptr;
  node.ctx = nullptr;
  ASSERT_EQ(cuGraphKernelNodeSetParams_v2(added, &node), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  std::string definition;
  session().Latest<cmd::ImageData>(&definition);
  std::string_view rest = definition;
  GraphStep step;
  std::multiset<uint64_t> places;
  for (uint32_t i = 0; !rest.empty(); ++i) {
    ASSERT_TRUE(TakeGraphStep(&rest, i, &step));
    cmd::Launch launch;
    ASSERT_EQ(step.fields.size(), sizeof(launch));
    std::memcpy(&launch, step.fields.data(), sizeof(launch));
    places.insert(launch.stream);
  }
  EXPECT_EQ(places, (std::multiset<uint64_t>{0, partition, partition}));
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, ACapturedStreamIsNotRecordedWithItsGreenContext) {
  const CUgreenCtx green = Create();
  const CUstream stream = NewStream(green);
  CUevent event;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxRecordEvent(green, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuGreenCtxRecordEvent(green, event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContextsTest, WhatTheServerRefusesLeavesNothing) {
  session().SetAnswer(CommandId::kPartitionCreate, [](const FakeSession::Sent&, std::string*) {
    return CudaResult::kOutOfMemory;
  });
  CUgreenCtx green = nullptr;
  EXPECT_EQ(cuGreenCtxCreate(&green, Describe({Split(Whole(), 2, 16)[0]}), 0,
                             CU_GREEN_CTX_DEFAULT_STREAM),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(green, nullptr);
  EXPECT_EQ(session().Count(CommandId::kPartitionDestroy), 1);
  ASSERT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  unsigned int flags;
  int active = 1;
  ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
}

TEST_F(GreenContextsTest, ArgumentsAreChecked) {
  const CUdevResourceDesc descriptor = Describe({Split(Whole(), 2, 16)[0]});
  CUgreenCtx green;
  EXPECT_EQ(cuGreenCtxCreate(nullptr, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGreenCtxCreate(&green, descriptor, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGreenCtxCreate(&green, descriptor, 7, CU_GREEN_CTX_DEFAULT_STREAM),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuGreenCtxDestroy(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  CUdevResource resource;
  EXPECT_EQ(cuGreenCtxGetDevResource(nullptr, &resource, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_INVALID),
            CUDA_ERROR_INVALID_RESOURCE_TYPE);
  unsigned int groups = 0;
  const CUdevResource whole = Whole();
  EXPECT_EQ(cuDevSmResourceSplitByCount(&resource, nullptr, &whole, nullptr, 0, 8),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevSmResourceSplitByCount(&resource, &groups, &whole, nullptr, 0, 8),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace warpline::stub
