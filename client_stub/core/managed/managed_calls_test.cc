// Managed memory: advice and prefetching over the fake session.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

constexpr size_t kBytes = 256 << 10;
constexpr CUmemLocation kDevice = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
constexpr CUmemLocation kHost = {CU_MEM_LOCATION_TYPE_HOST, 0};

// Returns true if all threads of the process but this one sleep.
bool OthersSleep() {
  const std::string self = std::to_string(gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == self) continue;
    std::ifstream file(task.path() / "stat");
    std::string stat;
    // A thread that has ended in between has no state.
    if (!std::getline(file, stat) || stat.rfind(')') == std::string::npos) continue;
    if (stat.compare(stat.rfind(')'), 3, ") S") != 0) return false;
  }
  return true;
}

// Waits until another thread that is under way waits as well, or is `done`.
void AwaitSleepOfOthers(const std::function<bool()>& done) {
  int seen = 0;
  while (!done() && seen < 20) {
    seen = OthersSleep() ? seen + 1 : 0;
    std::this_thread::yield();
  }
}

class ManagedCallsTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    ASSERT_EQ(cuMemAllocManaged(&memory_, kBytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    kernel_ = LoadKernel();
    session().Clear();
  }

  char* bytes() const { return reinterpret_cast<char*>(memory_); }

  // A kernel that may write all managed memory.
  CUresult Launch() {
    uint64_t pointer = memory_;
    uint32_t count = 1;
    void* parameters[] = {&pointer, &count};
    return cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr);
  }
  uint64_t BytesSent() const {
    uint64_t sum = 0;
    for (const auto& sent : session().sent()) {
      if (sent.id == CommandId::kCopyToDevice) sum += sent.tail.size();
    }
    return sum;
  }
  int Word(CUmem_range_attribute attribute, CUdeviceptr at, size_t size) const {
    int value = 77;
    EXPECT_EQ(cuMemRangeGetAttribute(&value, sizeof(value), attribute, at, size), CUDA_SUCCESS);
    return value;
  }

  CUdeviceptr memory_ = 0;
  CUstream stream_ = nullptr;
  CUfunction kernel_ = nullptr;
};

TEST_F(ManagedCallsTest, WorkOfAnotherThreadComesAfterTheBytesThatAreOnTheirWay) {
  std::memset(bytes(), 1, kBytes);
  session().Clear();
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  std::atomic<bool> done{false};
  std::thread other;
  // The bytes are sent, and the command that orders the streams after them is about to be.
  session().SetBeforeSend([&](CommandId id) {
    if (id != CommandId::kStreamBarrier || other.joinable()) return;
    other = std::thread([&] {
      EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      EXPECT_EQ(Launch(), CUDA_SUCCESS);
      done = true;
    });
    // It has to wait for this thread.
    AwaitSleepOfOthers([&] { return done.load(); });
  });
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  other.join();
  int barriers = 0;
  for (const auto& sent : session().sent()) {
    if (sent.id == CommandId::kStreamBarrier) ++barriers;
    if (sent.id == CommandId::kLaunch) {
      EXPECT_GT(barriers, 0);
    }
  }
}

TEST_F(ManagedCallsTest, APrefetchToTheDeviceSendsWhatTheHostWroteOfIt) {
  std::memset(bytes(), 1, kBytes);
  session().Clear();
  ASSERT_EQ(cuMemPrefetchAsync_v2(memory_, kBytes / 2, kDevice, 0, stream_), CUDA_SUCCESS);
  EXPECT_EQ(BytesSent(), kBytes / 2);
  EXPECT_EQ(session().Count(CommandId::kStreamBarrier), 1);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  EXPECT_EQ(BytesSent(), kBytes);
}

TEST_F(ManagedCallsTest, APrefetchToTheHostBringsThePagesBeforeATouch) {
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  session().Clear();
  ASSERT_EQ(cuMemPrefetchAsync(memory_, kBytes, CU_DEVICE_CPU, stream_), CUDA_SUCCESS);
  // The fetch happens on a thread of its own; nothing is touched here.
  while (session().Count(CommandId::kCopyFromDevice) == 0) std::this_thread::yield();
  EXPECT_EQ(session().Latest<cmd::CopyFromDevice>().src, memory_);
  EXPECT_EQ(Word(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory_, kBytes), CU_DEVICE_CPU);
}

TEST_F(ManagedCallsTest, ALaunchEndsAPrefetchThatHasNotBegun) {
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  session().Clear();  // Of what is sent from here on nothing is complete.
  session().SetComplete(false);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPrefetchAsync(memory_, kBytes, CU_DEVICE_CPU, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  session().SetComplete(true);
  // A second prefetch, which the thread does later, shows that the first one is finished.
  CUdeviceptr other;
  ASSERT_EQ(cuMemAllocManaged(&other, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPrefetchAsync(other, 4096, 0, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPrefetchAsync(other, 4096, CU_DEVICE_CPU, stream_), CUDA_SUCCESS);
  while (session().Count(CommandId::kCopyFromDevice) == 0) std::this_thread::yield();
  EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), 1);
  EXPECT_EQ(session().Latest<cmd::CopyFromDevice>().src, other);
}

// Stops the first fetch where it waits for the server.
struct Gate {
  std::atomic<bool> reached{false};
  std::atomic<bool> open{false};
  std::atomic<bool> passed{false};

  void Open() {
    open = true;
    open.notify_all();
  }
};

std::shared_ptr<Gate> StopFetch(FakeSession* session) {
  const auto gate = std::make_shared<Gate>();
  session->SetAnswer(CommandId::kStreamSync, [gate](const FakeSession::Sent&, std::string*) {
    if (gate->reached.exchange(true)) return CudaResult::kSuccess;
    gate->open.wait(false);
    gate->passed = true;
    return CudaResult::kSuccess;
  });
  return gate;
}

TEST_F(ManagedCallsTest, AChildOfAForkDoesNotWaitForAPrefetch) {
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  const auto gate = StopFetch(&session());
  ASSERT_EQ(cuMemPrefetchAsync(memory_, kBytes, CU_DEVICE_CPU, stream_), CUDA_SUCCESS);
  while (!gate->reached) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);
    const int null = open("/dev/null", O_WRONLY);
    _exit(write(null, bytes(), 1) > 1 ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  gate->Open();
}

TEST_F(ManagedCallsTest, WhileARangeIsFetchedOthersAreTouchedAndAddressesLookedUp) {
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  CUdeviceptr other;
  ASSERT_EQ(cuMemAllocManaged(&other, kBytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  const auto gate = StopFetch(&session());
  ASSERT_EQ(cuMemPrefetchAsync(memory_, kBytes, CU_DEVICE_CPU, stream_), CUDA_SUCCESS);
  while (!gate->reached) std::this_thread::yield();
  std::atomic<bool> done{false};
  std::thread thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    unsigned int managed = 0;
    EXPECT_EQ(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory_),
              CUDA_SUCCESS);
    EXPECT_EQ(managed, 1u);
    CUdeviceptr new_one;
    EXPECT_EQ(cuMemAllocManaged(&new_one, kBytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(*reinterpret_cast<volatile char*>(other), 0x5a);
    done = true;
  });
  const absl::Time give_up = absl::Now() + absl::Seconds(60);
  while (!done && absl::Now() < give_up) std::this_thread::yield();
  EXPECT_TRUE(done);
  gate->Open();
  thread.join();
}

TEST_F(ManagedCallsTest, ALaunchTakesBackThePagesThatAFetchBringsMeanwhile) {
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  const auto gate = StopFetch(&session());
  ASSERT_EQ(cuMemPrefetchAsync(memory_, kBytes, CU_DEVICE_CPU, stream_), CUDA_SUCCESS);
  while (!gate->reached) std::this_thread::yield();
  std::atomic<bool> launched{false};
  std::thread thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(Launch(), CUDA_SUCCESS);
    EXPECT_TRUE(gate->passed);
    launched = true;
  });
  // It has to wait for the fetch.
  AwaitSleepOfOthers([&] { return launched.load(); });
  gate->Open();
  thread.join();
  session().Clear();
  EXPECT_EQ(*bytes(), 0x5a);
  EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), 1);
}

// A touch that came between would bring bytes of before the command, and the host would keep them.
TEST_F(ManagedCallsTest, ATouchWaitsForACommandThatIsAboutToBeSent) {
  CUdeviceptr other = 0;
  ASSERT_EQ(cuMemAlloc_v2(&other, 64), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  const CUDA_MEMSET_NODE_PARAMS set = {other, 0, 1, 1, 64, 1};
  CUgraphNode node;
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  char source[64] = {};
  struct Case {
    CommandId id;
    std::function<CUresult()> send;
  };
  const Case cases[] = {
      {CommandId::kLaunch, [&] { return Launch(); }},
      {CommandId::kGraphLaunch, [&] { return cuGraphLaunch(executable, stream_); }},
      {CommandId::kCopyToDevice,
       [&] { return cuMemcpyHtoDAsync_v2(memory_, source, 64, stream_); }},
      {CommandId::kCopyOnDevice, [&] { return cuMemcpyDtoDAsync_v2(memory_, other, 64, stream_); }},
      {CommandId::kMemset, [&] { return cuMemsetD8Async(memory_, 1, 64, stream_); }},
      {CommandId::kMemsetRows, [&] { return cuMemsetD2D8Async(memory_, 16, 1, 8, 4, stream_); }},
      {CommandId::kCopyBoxOnDevice,
       [&] {
         CUDA_MEMCPY2D copy = {};
         copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
         copy.srcDevice = other;
         copy.dstDevice = memory_;
         copy.srcPitch = copy.dstPitch = 16;
         copy.WidthInBytes = 8;
         copy.Height = 4;
         return cuMemcpy2DAsync_v2(&copy, stream_);
       }},
      {CommandId::kStreamMemOps,
       [&] { return cuStreamWriteValue32_v2(stream_, memory_, 1, CU_STREAM_WRITE_VALUE_DEFAULT); }},
  };
  for (const Case& c : cases) {
    ASSERT_EQ(Launch(), CUDA_SUCCESS);  // The device has all pages.
    session().Clear();
    std::atomic<bool> touched{false};
    std::thread toucher;
    session().SetBeforeSend([&](CommandId id) {
      if (id != c.id || toucher.joinable()) return;
      toucher = std::thread([&] {
        EXPECT_NE(*static_cast<volatile char*>(bytes()), 0x33);
        touched = true;
      });
      // It has to wait for this thread.
      AwaitSleepOfOthers([&] { return touched.load(); });
    });
    EXPECT_EQ(c.send(), CUDA_SUCCESS);
    ASSERT_TRUE(toucher.joinable()) << static_cast<int>(c.id);
    toucher.join();
    bool sent = false;
    for (const auto& command : session().sent()) {
      sent |= command.id == c.id;
      EXPECT_TRUE(sent || command.id != CommandId::kCopyFromDevice) << static_cast<int>(c.id);
    }
  }
  EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

// A touch waits for a function of a stream, which waits for a thread that is about to launch. A
// touch must not hold up that launch: natively it waits for nothing.
TEST_F(ManagedCallsTest, AThreadLaunchesWhileATouchWaitsForAFunctionThatWaitsForTheThread) {
  session().SetComplete(false);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);  // The device has all pages.
  std::atomic<int> syncs{0};
  std::atomic<bool> sent{false};
  std::atomic<bool> launched{false};
  session().SetAnswer(CommandId::kContextSync, [&](const FakeSession::Sent&, std::string*) {
    // During the first wait a function is sent, so that there is a second one. It ends once the
    // function's thread has launched.
    if (syncs.fetch_add(1) == 0) {
      sent.wait(false);
    } else {
      launched.wait(false);
      session().SetComplete(true);
    }
    return CudaResult::kSuccess;
  });
  std::thread toucher([&] { EXPECT_EQ(*static_cast<volatile char*>(bytes()), 0x5a); });
  while (syncs < 1) std::this_thread::yield();
  EXPECT_EQ(cuLaunchHostFunc(
                stream_, [](void*) {}, nullptr),
            CUDA_SUCCESS);
  sent = true;
  sent.notify_all();
  while (syncs < 2) std::this_thread::yield();
  EXPECT_EQ(Launch(), CUDA_SUCCESS);
  launched = true;
  launched.notify_all();
  toucher.join();
}

// The work that a touch waits for may include a function that touches memory itself.
TEST_F(ManagedCallsTest, AFunctionOfAStreamTouchesWhileATouchWaitsForIt) {
  CUdeviceptr other;
  ASSERT_EQ(cuMemAllocManaged(&other, kBytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  session().SetComplete(false);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  std::atomic<bool> called{false};
  session().SetAnswer(CommandId::kContextSync, [&](const FakeSession::Sent&, std::string*) {
    if (called.exchange(true)) return CudaResult::kSuccess;
    std::thread([&] {
      t_thread.runs_host_calls = true;
      EXPECT_EQ(*reinterpret_cast<volatile char*>(other), 0x5a);
    }).join();
    return CudaResult::kSuccess;
  });
  EXPECT_EQ(*static_cast<volatile char*>(bytes()), 0x5a);
  EXPECT_TRUE(called);
  session().SetComplete(true);
}

TEST_F(ManagedCallsTest, ARangeIsFreedAfterItsFetch) {
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  const auto gate = StopFetch(&session());
  ASSERT_EQ(cuMemPrefetchAsync(memory_, kBytes, CU_DEVICE_CPU, stream_), CUDA_SUCCESS);
  while (!gate->reached) std::this_thread::yield();
  std::atomic<bool> freed{false};
  std::thread thread([&] {
    EXPECT_EQ(cuMemFree_v2(memory_), CUDA_SUCCESS);
    EXPECT_TRUE(gate->passed);
    freed = true;
  });
  // It has to wait for the fetch.
  AwaitSleepOfOthers([&] { return freed.load(); });
  gate->Open();
  thread.join();
}

TEST_F(ManagedCallsTest, DiscardedBytesAreNotSent) {
  std::memset(bytes(), 1, kBytes);
  session().Clear();
  CUdeviceptr address = memory_;
  size_t size = kBytes / 2;
  ASSERT_EQ(cuMemDiscardBatchAsync(&address, &size, 1, 0, stream_), CUDA_SUCCESS);
  CUmemLocation to = kDevice;
  size_t first = 0;
  size = kBytes;
  ASSERT_EQ(cuMemPrefetchBatchAsync(&address, &size, 1, &to, &first, 1, 0, stream_), CUDA_SUCCESS);
  EXPECT_EQ(BytesSent(), kBytes / 2);
  // To the host: discarded pages are not fetched, and the host's later writes are sent.
  to = kHost;
  ASSERT_EQ(cuMemDiscardAndPrefetchBatchAsync(&address, &size, 1, &to, &first, 1, 0, stream_),
            CUDA_SUCCESS);
  std::memset(bytes(), 2, kBytes);
  EXPECT_EQ(session().Count(CommandId::kCopyFromDevice), 0);
  session().Clear();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  EXPECT_EQ(BytesSent(), kBytes);
}

TEST_F(ManagedCallsTest, AdviceIsGivenBack) {
  const size_t half = kBytes / 2;
  ASSERT_EQ(cuMemAdvise(memory_, half, CU_MEM_ADVISE_SET_READ_MOSTLY, 4711), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAdvise_v2(memory_, kBytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kHost),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemAdvise(memory_, kBytes, CU_MEM_ADVISE_SET_ACCESSED_BY, 0), CUDA_SUCCESS);
  EXPECT_EQ(Word(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory_, half), 1);
  EXPECT_EQ(Word(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory_, kBytes), 0);
  int location = 77, devices[2] = {77, 77}, type = 77;
  void* data[] = {&location, devices, &type};
  size_t sizes[] = {4, 8, 4};
  CUmem_range_attribute attributes[] = {CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                        CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                        CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE};
  ASSERT_EQ(cuMemRangeGetAttributes(data, sizes, attributes, 3, memory_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(location, CU_DEVICE_CPU);
  EXPECT_EQ(devices[0], 0);
  EXPECT_EQ(devices[1], CU_DEVICE_INVALID);
  EXPECT_EQ(type, CU_MEM_LOCATION_TYPE_HOST);
  ASSERT_EQ(cuMemAdvise(memory_, kBytes, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAdvise(memory_, kBytes, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0), CUDA_SUCCESS);
  EXPECT_EQ(Word(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory_, kBytes), CU_DEVICE_INVALID);
  EXPECT_EQ(Word(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory_, kBytes), CU_DEVICE_INVALID);
}

TEST_F(ManagedCallsTest, WrongArgumentsAreRefused) {
  EXPECT_EQ(cuMemPrefetchAsync(memory_, kBytes, 1, stream_), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemPrefetchAsync(memory_, 0, 0, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPrefetchAsync(memory_, kBytes + 4096, 0, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPrefetchAsync(memory_ + 1, ~size_t{0}, 0, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPrefetchAsync_v2(memory_, kBytes, kDevice, 1, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPrefetchAsync_v2(memory_, kBytes, {}, 0, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(
      cuMemPrefetchAsync_v2(memory_, kBytes, {CU_MEM_LOCATION_TYPE_HOST_NUMA, -5}, 0, stream_),
      CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr linear;
  ASSERT_EQ(cuMemAlloc_v2(&linear, 4096), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPrefetchAsync(linear, 4096, 0, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAdvise(linear, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAdvise(memory_, kBytes, CU_MEM_ADVISE_SET_ACCESSED_BY, 99),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAdvise(memory_, kBytes, static_cast<CUmem_advise>(99), 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAdvise_v2(memory_, kBytes, CU_MEM_ADVISE_SET_ACCESSED_BY,
                           {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}),
            CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr addresses[] = {memory_, linear};
  size_t sizes[] = {kBytes, 4096};
  CUmemLocation to[] = {kDevice, kHost};
  size_t first[] = {0, 0};
  std::memset(bytes(), 1, kBytes);
  session().Clear();
  EXPECT_EQ(cuMemPrefetchBatchAsync(addresses, sizes, 2, to, first, 1, 0, stream_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPrefetchBatchAsync(addresses, sizes, 1, to, first, 2, 0, stream_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPrefetchBatchAsync(addresses, sizes, 1, to, first, 1, 0, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemDiscardBatchAsync(addresses, sizes, 1, 1, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemDiscardBatchAsync(nullptr, nullptr, 1, 0, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(BytesSent(), 0u);
}

TEST_F(ManagedCallsTest, APrefetchEndsACapture) {
  ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPrefetchAsync(memory_, kBytes, 0, stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

}  // namespace
}  // namespace warpline::stub
