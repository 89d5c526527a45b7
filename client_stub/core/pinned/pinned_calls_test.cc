// Page-locked memory of a client that shares no memory with its worker, over the fake session.
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

constexpr size_t kBytes = 300 << 10;

class PinnedCallsTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    kernel_ = LoadKernel();
    ASSERT_EQ(cuMemAlloc_v2(&memory_, kBytes), CUDA_SUCCESS);
    session().Clear();
  }

  static char* Pinned(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cuMemAllocHost_v2(&memory, bytes), CUDA_SUCCESS);
    return static_cast<char*>(memory);
  }
  static uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

  CUresult Launch(uint64_t word, CUstream stream = nullptr) {
    uint32_t four = 0;
    void* params[] = {&word, &four};
    return cuLaunchKernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
  }
  // The first word of the latest launch's parameters.
  static uint64_t LaunchedWith() {
    std::string tail;
    session().Latest<cmd::Launch>(&tail);
    uint64_t word = 0;
    std::memcpy(&word, tail.data(), sizeof(word));
    return word;
  }
  static int Mapped() { return session().Count(CommandId::kMemoryMap); }

  CUfunction kernel_ = nullptr;
  CUdeviceptr memory_ = 0;
};

TEST_F(PinnedCallsTest, MemoryThatNoKernelIsGivenStaysHere) {
  char* const host = Pinned(kBytes);
  const size_t handles = session().handles();
  std::memset(host, 'h', kBytes);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Launch(memory_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, host, kBytes, nullptr), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoHAsync_v2(host, memory_, kBytes, nullptr), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    host[0] = 'h';
  }
  EXPECT_EQ(Mapped(), 0);
  EXPECT_EQ(session().handles(), handles);
  EXPECT_EQ(session().Count(CommandId::kCopyOnDevice), 0);
  EXPECT_EQ(session().Latest<cmd::CopyToDevice>().dst, memory_);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, AKernelIsGivenItAtTheHostsAddress) {
  char* const host = Pinned(kBytes);
  host[9] = 'h';
  ASSERT_EQ(Launch(Address(host) + 8), CUDA_SUCCESS);
  EXPECT_EQ(LaunchedWith(), Address(host) + 8);
  const auto map = session().Latest<cmd::MemoryMap>();
  EXPECT_LE(map.mapping, Address(host));
  EXPECT_GE(map.mapping + map.bytes, Address(host) + kBytes);
  std::string tail;
  const auto copy = session().Latest<cmd::CopyToDevice>(&tail);
  EXPECT_EQ(copy.dst, Address(host));
  EXPECT_EQ(tail[9], 'h');
  // The fake device answers every read with this.
  EXPECT_EQ(static_cast<volatile char*>(host)[9], 0x5a);
  // It goes down again after the host has written, and is mapped once.
  host[100] = 'i';
  ASSERT_EQ(Launch(memory_), CUDA_SUCCESS);
  session().Latest<cmd::CopyToDevice>(&tail);
  EXPECT_EQ(tail[100], 'i');
  EXPECT_EQ(Mapped(), 1);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kMemoryUnmap), 1);
}

TEST_F(PinnedCallsTest, AttributesAreAsWithOneAddressSpace) {
  char* const host = Pinned(kBytes);
  CUdeviceptr device = 0;
  void* pointer = nullptr;
  unsigned int type = 0;
  const auto check = [&] {
    ASSERT_EQ(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, Address(host)),
              CUDA_SUCCESS);
    EXPECT_EQ(device, Address(host));
    ASSERT_EQ(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, Address(host)),
              CUDA_SUCCESS);
    EXPECT_EQ(pointer, host);
    ASSERT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Address(host)),
              CUDA_SUCCESS);
    EXPECT_EQ(type, static_cast<unsigned int>(CU_MEMORYTYPE_HOST));
    CUdeviceptr base = 0;
    size_t bytes = 0;
    ASSERT_EQ(cuMemGetAddressRange_v2(&base, &bytes, Address(host) + 5), CUDA_SUCCESS);
    EXPECT_EQ(base, Address(host));
    EXPECT_EQ(bytes, kBytes);
  };
  check();
  EXPECT_EQ(Mapped(), 0);
  ASSERT_EQ(cuMemHostGetDevicePointer_v2(&device, host, 0), CUDA_SUCCESS);
  EXPECT_EQ(device, Address(host));
  EXPECT_EQ(Mapped(), 1);
  check();
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, CopiesKeepGoingThroughItOnceTheDeviceHasIt) {
  char* const host = Pinned(kBytes);
  ASSERT_EQ(Launch(Address(host)), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, host, 64), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::CopyOnDevice>().src, Address(host));
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(host, memory_, 64, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::CopyOnDevice>().dst, Address(host));
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, AnyKindOfCopyTakesThePointer) {
  char* const host = Pinned(64);
  std::memcpy(host, "0123456789", 10);
  char to[64] = {};
  ASSERT_EQ(cuMemcpyDtoD_v2(memory_, Address(host), 10), CUDA_SUCCESS);
  std::string tail;
  EXPECT_EQ(session().Latest<cmd::CopyToDevice>(&tail).dst, memory_);
  EXPECT_EQ(tail, "0123456789");
  ASSERT_EQ(cuMemcpyDtoH_v2(to, Address(host), 10), CUDA_SUCCESS);
  EXPECT_STREQ(to, "0123456789");
  ASSERT_EQ(cuMemcpyHtoD_v2(Address(host), "abcdefghij", 10), CUDA_SUCCESS);
  EXPECT_EQ(std::string(host, 10), "abcdefghij");
  EXPECT_EQ(Mapped(), 0);
  // A fill is the device's work.
  ASSERT_EQ(cuMemsetD8_v2(Address(host), 7, 64), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::Memset>().dst, Address(host));
  EXPECT_EQ(Mapped(), 1);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, AddressesInSmallCopiesAreSeen) {
  char* const table = Pinned(4096);
  char* const named = Pinned(kBytes);
  const uint64_t address = Address(named);
  // In a copy that is too large it is not.
  std::vector<char> large(64 << 10);
  large.resize(large.size() + 8);
  std::memcpy(large.data(), &address, 8);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, large.data(), large.size()), CUDA_SUCCESS);
  EXPECT_EQ(Mapped(), 0);
  std::memcpy(table + 16, &address, 8);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, table, 64, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(Mapped(), 1);
  EXPECT_LE(session().Latest<cmd::MemoryMap>().mapping, address);
  EXPECT_EQ(cuMemFreeHost(named), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(table), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, AChainOfPointersIsFollowed) {
  char* const first = Pinned(kBytes);
  char* const second = Pinned(kBytes);
  char* const third = Pinned(kBytes);
  const uint64_t to_second = Address(second), to_third = Address(third);
  std::memcpy(first + 800, &to_second, 8);
  std::memcpy(second + 40, &to_third, 8);
  ASSERT_EQ(Launch(Address(first)), CUDA_SUCCESS);
  EXPECT_EQ(Mapped(), 3);
  for (char* const host : {first, second, third}) EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, ACopyOfMemoryThatNamesItself) {
  char* const host = Pinned(kBytes);
  const uint64_t address = Address(host);
  std::memcpy(host, &address, 8);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, host, 64), CUDA_SUCCESS);
  EXPECT_EQ(Mapped(), 1);
  EXPECT_EQ(session().Latest<cmd::CopyOnDevice>().src, address);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, SmallAllocationsShareWhatTheDeviceGives) {
  char* const one = Pinned(100);
  char* const two = Pinned(100);
  std::memset(two, '2', 100);
  ASSERT_EQ(Launch(Address(one)), CUDA_SUCCESS);
  EXPECT_EQ(Mapped(), 1);
  // The device has both: otherwise it would have other bytes at the second one's address.
  std::string tail;
  EXPECT_EQ(session().Latest<cmd::CopyToDevice>(&tail).dst, Address(two));
  EXPECT_EQ(tail[99], '2');
  // Memory that is allocated now is the host's again.
  char* const three = Pinned(100);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, three, 64), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyOnDevice), 0);
  for (char* const host : {one, two}) EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kMemoryUnmap), 1);
  EXPECT_EQ(cuMemFreeHost(three), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, BeyondTheQuotaTheLaunchIsRefused) {
  CUdeviceptr most = 0;
  ASSERT_EQ(cuMemAlloc_v2(&most, 1000 << 20), CUDA_SUCCESS);
  char* const host = Pinned(100 << 20);
  EXPECT_EQ(Launch(Address(host)), CUDA_ERROR_OUT_OF_MEMORY);
  host[0] = 'h';
  EXPECT_EQ(Mapped(), 0);
  ASSERT_EQ(cuMemFree_v2(most), CUDA_SUCCESS);
  EXPECT_EQ(Launch(Address(host)), CUDA_SUCCESS);
  EXPECT_EQ(Mapped(), 1);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, RegisteredMemoryIsReplacedAmongParameters) {
  void* memory = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  char* const host = static_cast<char*>(memory);
  host[5] = 'r';
  ASSERT_EQ(cuMemHostRegister_v2(host, 8192, 0), CUDA_SUCCESS);
  ASSERT_EQ(Launch(Address(host) + 4), CUDA_SUCCESS);
  CUdeviceptr device = 0;
  ASSERT_EQ(cuMemHostGetDevicePointer_v2(&device, host, 0), CUDA_SUCCESS);
  EXPECT_NE(device, Address(host));
  EXPECT_EQ(LaunchedWith(), device + 4);
  std::string tail;
  EXPECT_EQ(session().Latest<cmd::CopyToDevice>(&tail).dst, device);
  EXPECT_EQ(tail[5], 'r');
  EXPECT_EQ(static_cast<volatile char*>(host)[5], 0x5a);
  EXPECT_EQ(cuMemHostUnregister(host), CUDA_SUCCESS);
  ASSERT_EQ(Launch(Address(host) + 4), CUDA_SUCCESS);
  EXPECT_EQ(LaunchedWith(), Address(host) + 4);
  munmap(memory, 8192);
}

TEST_F(PinnedCallsTest, WhatCannotBeMirroredIsLeftAmongParameters) {
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(cuMemHostRegister_v2(memory, 4096, 0), CUDA_SUCCESS);
  ASSERT_EQ(Launch(Address(memory)), CUDA_SUCCESS);
  EXPECT_EQ(LaunchedWith(), Address(memory));
  EXPECT_EQ(cuMemHostUnregister(memory), CUDA_SUCCESS);
  munmap(memory, 4096);
}

TEST_F(PinnedCallsTest, AStreamCannotWaitForTheHost) {
  char* const host = Pinned(4096);
  EXPECT_EQ(cuStreamWriteValue32_v2(nullptr, Address(host), 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(Mapped(), 1);
  EXPECT_EQ(cuStreamWaitValue32_v2(nullptr, Address(host), 1, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, AGraphFindsMemoryThatWasAllocatedAfterItsFirstLaunch) {
  char* host = Pinned(kBytes);
  const uint64_t address = Address(host);
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(Launch(address, stream), CUDA_SUCCESS);
  EXPECT_EQ(Mapped(), 0);
  CUgraph graph;
  CUgraphExec exec;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kGraphLaunch), 2);
  EXPECT_EQ(Mapped(), 1);
  ASSERT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  session().ReportUnmapped();
  // The addresses are free again, though not the first ones to be taken.
  std::vector<char*> taken;
  do {
    taken.push_back(Pinned(kBytes));
  } while (Address(taken.back()) != address && taken.size() < 1000);
  ASSERT_EQ(Address(taken.back()), address);
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(Mapped(), 2);
  for (char* const each : taken) EXPECT_EQ(cuMemFreeHost(each), CUDA_SUCCESS);
}

TEST_F(PinnedCallsTest, AResetEndsWhatItsContextHad) {
  char* const host = Pinned(kBytes);
  char* const given = Pinned(kBytes);
  void* memory = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(cuMemHostRegister_v2(memory, 8192, 0), CUDA_SUCCESS);
  ASSERT_EQ(Launch(Address(given)), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  unsigned int flags;
  for (void* const gone : {static_cast<void*>(host), static_cast<void*>(given), memory}) {
    EXPECT_EQ(cuMemHostGetFlags(&flags, gone), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
  static_cast<volatile char*>(memory)[0] = 1;
  munmap(memory, 8192);
}

TEST_F(PinnedCallsTest, ThreadsThatCopyBesideTheFirstLaunch) {
  char* const host = Pinned(kBytes);
  CUdeviceptr other = 0;
  ASSERT_EQ(cuMemAlloc_v2(&other, kBytes), CUDA_SUCCESS);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      for (int round = 0; round < 200; ++round) {
        if (i == 0 && round == 100) {
          ASSERT_EQ(Launch(Address(host)), CUDA_SUCCESS);
        }
        ASSERT_EQ(cuMemcpyHtoD_v2(other, host, 8192), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyDtoH_v2(host, other, 8192), CUDA_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Mapped(), 1);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

}  // namespace
}  // namespace warpline::stub
