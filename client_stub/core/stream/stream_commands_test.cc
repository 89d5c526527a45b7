// Host functions, callbacks, words of memory and attributes of streams.
#include <atomic>
#include <cstring>
#include <thread>

#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

struct Seen {
  std::atomic<int> calls{0};
  CUresult inside = CUDA_SUCCESS;
  CUresult status = CUDA_SUCCESS;
  CUstream stream = nullptr;
};

void Function(void* data) {
  auto* seen = static_cast<Seen*>(data);
  CUdeviceptr memory;
  seen->inside = cuMemAlloc_v2(&memory, 16);
  seen->calls.fetch_add(1);
}

void Callback(CUstream stream, CUresult status, void* data) {
  auto* seen = static_cast<Seen*>(data);
  seen->stream = stream;
  seen->status = status;
  seen->calls.fetch_add(1);
}

class StreamCommandsTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    ASSERT_EQ(cuMemAlloc_v2(&memory_, 4096), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    session().Clear();
  }

  void AwaitAnswers(int count) {
    while (session().Count(CommandId::kHostDone) < count) std::this_thread::yield();
  }

  CUdeviceptr memory_ = 0;
  CUstream stream_ = nullptr;
};

TEST_F(StreamCommandsTest, HostFunctionRunsInItsTurnAndMayNotCallCuda) {
  Seen seen;
  ASSERT_EQ(cuLaunchHostFunc(stream_, Function, &seen), CUDA_SUCCESS);
  const auto call = session().Latest<cmd::HostCall>();
  EXPECT_EQ(seen.calls.load(), 0);
  session().HostDue(call.token);
  AwaitAnswers(1);
  EXPECT_EQ(seen.calls.load(), 1);
  EXPECT_EQ(seen.inside, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(session().Latest<cmd::HostDone>().token, call.token);
}

TEST_F(StreamCommandsTest, CallbackIsToldItsStreamAndSuccess) {
  Seen seen;
  seen.status = CUDA_ERROR_UNKNOWN;
  ASSERT_EQ(cuStreamAddCallback(stream_, Callback, &seen, 0), CUDA_SUCCESS);
  session().HostDue(session().Latest<cmd::HostCall>().token);
  AwaitAnswers(1);
  EXPECT_EQ(seen.stream, stream_);
  EXPECT_EQ(seen.status, CUDA_SUCCESS);
}

TEST_F(StreamCommandsTest, TurnOfNobodyRunsNothing) {
  Seen seen;
  ASSERT_EQ(cuLaunchHostFunc(stream_, Function, &seen), CUDA_SUCCESS);
  const uint64_t token = session().Latest<cmd::HostCall>().token;
  session().HostDue(token + 1000);
  session().HostDue(token);
  session().HostDue(token);
  AwaitAnswers(1);
  ASSERT_EQ(cuLaunchHostFunc(stream_, Function, &seen), CUDA_SUCCESS);
  session().HostDue(session().Latest<cmd::HostCall>().token);
  AwaitAnswers(2);
  EXPECT_EQ(seen.calls.load(), 2);
  EXPECT_EQ(session().Count(CommandId::kHostDone), 2);
}

TEST_F(StreamCommandsTest, HostFunctionArguments) {
  EXPECT_EQ(cuLaunchHostFunc(stream_, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamAddCallback(stream_, nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamAddCallback(stream_, Callback, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchHostFunc(stream_, Function, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(session().Count(CommandId::kHostCall), 0);
}

TEST_F(StreamCommandsTest, WordsAreSentInOrder) {
  CUstreamBatchMemOpParams operations[2];
  std::memset(operations, 0, sizeof(operations));
  operations[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  operations[0].writeValue.address = memory_ + 8;
  operations[0].writeValue.value64 = 1ull << 40;
  operations[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[1].waitValue.address = memory_;
  operations[1].waitValue.value = 7;
  operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  ASSERT_EQ(cuStreamBatchMemOp_v2(stream_, 2, operations, 0), CUDA_SUCCESS);
  std::string tail;
  session().Latest<cmd::StreamMemOps>(&tail);
  ASSERT_EQ(tail.size(), 48u);
  const uint64_t expected[] = {5, memory_ + 8, 1ull << 40, 4 | 1ull << 32, memory_, 7};
  uint64_t words[6];
  std::memcpy(words, tail.data(), sizeof(words));
  EXPECT_EQ(words[0], expected[0]);
  EXPECT_EQ(words[1], expected[1]);
  EXPECT_EQ(words[2], expected[2]);
  EXPECT_EQ(words[3], 1 | 1ull << 32);
  EXPECT_EQ(words[4], expected[4]);
  EXPECT_EQ(words[5], expected[5]);
}

TEST_F(StreamCommandsTest, WordsHaveTheirErrors) {
  int local = 0;
  EXPECT_EQ(cuStreamWriteValue32_v2(stream_, memory_ + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue64_v2(stream_, memory_ + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue32_v2(stream_, memory_ + 4096, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue32_v2(stream_, reinterpret_cast<CUdeviceptr>(&local), 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue32_v2(stream_, memory_, 1, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue32_v2(stream_, memory_, 1, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue32_v2(stream_, memory_, 1, CU_STREAM_WAIT_VALUE_FLUSH),
            CUDA_ERROR_NOT_SUPPORTED);
  CUstreamBatchMemOpParams operation;
  std::memset(&operation, 0, sizeof(operation));
  EXPECT_EQ(cuStreamBatchMemOp_v2(stream_, 1, &operation, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamBatchMemOp_v2(stream_, 0, &operation, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamBatchMemOp_v2(stream_, 256, &operation, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamBatchMemOp_v2(stream_, 1, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamBatchMemOp_v2(stream_, 1, &operation, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(session().Count(CommandId::kStreamMemOps), 0);
}

TEST_F(StreamCommandsTest, AttributesAreKeptSentAndCopied) {
  CUstreamAttrValue value, read;
  std::memset(&value, 0, sizeof(value));
  value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  ASSERT_EQ(cuStreamSetAttribute(stream_, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value),
            CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamSetAttribute), 1);
  value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
  ASSERT_EQ(cuStreamSetAttribute(stream_, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value),
            CUDA_SUCCESS);
  value.priority = -99;
  ASSERT_EQ(cuStreamSetAttribute(stream_, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value), CUDA_SUCCESS);
  CUstream other;
  ASSERT_EQ(cuStreamCreate(&other, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCopyAttributes(other, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamGetAttribute(other, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &read), CUDA_SUCCESS);
  EXPECT_EQ(read.memSyncDomain, CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
  ASSERT_EQ(cuStreamGetAttribute(other, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &read),
            CUDA_SUCCESS);
  EXPECT_EQ(read.syncPolicy, CU_SYNC_POLICY_BLOCKING_SYNC);
  int priority = 0;
  ASSERT_EQ(cuStreamGetPriority(other, &priority), CUDA_SUCCESS);
  EXPECT_EQ(priority, -5);
}

TEST_F(StreamCommandsTest, AttributesHaveTheirErrors) {
  CUstreamAttrValue value;
  std::memset(&value, 0, sizeof(value));
  EXPECT_EQ(cuStreamSetAttribute(stream_, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamSetAttribute(stream_, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamSetAttribute(stream_, CU_LAUNCH_ATTRIBUTE_PRIORITY, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  value.accessPolicyWindow.hitRatio = 2.0f;
  EXPECT_EQ(cuStreamSetAttribute(stream_, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamGetAttribute(stream_, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamCopyAttributes(stream_, reinterpret_cast<CUstream>(0x120)),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamAttachMemAsync(stream_, memory_, 0, CU_MEM_ATTACH_SINGLE),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamAttachMemAsync(stream_, memory_, 0, 9), CUDA_ERROR_INVALID_VALUE);
}

// Last: a session is lost for good.
TEST_F(StreamCommandsTest, LostSessionTellsCallbacksAndDropsFunctions) {
  Seen function, callback;
  ASSERT_EQ(cuLaunchHostFunc(stream_, Function, &function), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamAddCallback(stream_, Callback, &callback, 0), CUDA_SUCCESS);
  session().SetError(CudaResult::kIllegalAddress);
  session().HostDue(FakeSession::kNoToken);
  while (callback.calls.load() == 0) std::this_thread::yield();
  EXPECT_EQ(callback.status, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(function.calls.load(), 0);
  EXPECT_EQ(cuStreamAddCallback(stream_, Callback, &callback, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace warpline::stub
