#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

class MemoryCallsTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    ASSERT_EQ(cuMemAlloc_v2(&memory_, kBytes), CUDA_SUCCESS);
    session().Clear();
  }

  static constexpr size_t kBytes = 2 << 20;
  CUdeviceptr memory_ = 0;
};

TEST_F(MemoryCallsTest, FreeOfNothingSucceedsAndOfAnythingElseDoesNot) {
  EXPECT_EQ(cuMemFree_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(memory_ + 256), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(memory_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(memory_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryCallsTest, AllocationErrors) {
  CUdeviceptr pointer;
  size_t pitch;
  EXPECT_EQ(cuMemAlloc_v2(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc_v2(nullptr, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc_v2(&pointer, size_t{1} << 40), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAllocPitch_v2(&pointer, &pitch, 100, 10, 3), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemAllocPitch_v2(&pointer, &pitch, 513, 10, 4), CUDA_SUCCESS);
  EXPECT_EQ(pitch, 1024u);
}

TEST_F(MemoryCallsTest, CopiesToTheDeviceLeaveInPieces) {
  std::vector<char> data(700 << 10, 'd');
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, data.data(), data.size()), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 2);
  std::string tail;
  const auto last = session().Latest<cmd::CopyToDevice>(&tail);
  EXPECT_EQ(last.stream, 1u);
  EXPECT_EQ(last.dst, memory_ + kMaxTail);
  EXPECT_EQ(tail.size(), data.size() - kMaxTail);
}

TEST_F(MemoryCallsTest, NoStreamOvertakesASynchronousCopy) {
  char host[64] = {};
  // The thread's own stream and another blocking one do not wait for each other.
  ASSERT_EQ(cuMemcpyHtoD_v2_ptds(memory_, host, 64), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::StreamBarrier>().stream,
            session().Latest<cmd::CopyToDevice>().stream);
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoD_v2(memory_, host, 64), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::StreamBarrier>().stream, 1u);
  const int barriers = session().Count(CommandId::kStreamBarrier);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, host, 64, stream), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamBarrier), barriers);
}

TEST_F(MemoryCallsTest, BadDevicePointersAreInvalidAndOnlyAskedAbout) {
  char host[64] = {};
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_ + kBytes - 63, host, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(0, host, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(0xdead0000, host, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH_v2(host, memory_ - 1, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoD_v2(memory_, memory_ + kBytes, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8_v2(memory_, 0, kBytes + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32_v2(memory_ + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32_v2(memory_, 0, ~size_t{0} / 2), CUDA_ERROR_INVALID_VALUE);
  // They may be in a module's memory without a name.
  for (const FakeSession::Sent& sent : session().sent()) {
    EXPECT_EQ(sent.id, CommandId::kVariableBlockFind);
  }
}

TEST_F(MemoryCallsTest, DevicePointersOnTheHostsSideAreCopiedOnTheDevice) {
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, nullptr, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, reinterpret_cast<void*>(memory_ + 64), 8), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH_v2(reinterpret_cast<void*>(memory_ + 64), memory_, 8), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyOnDevice), 2);
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, reinterpret_cast<void*>(memory_ + kBytes), 8),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_, nullptr, 0), CUDA_SUCCESS);
}

// cudaMemcpyKind becomes one of these calls, and is a hint.
TEST_F(MemoryCallsTest, PageLockedMemoryMayBeCalledTheDevices) {
  void* host = nullptr;
  char local[16] = "fifteen letters";
  char other[16] = {};
  ASSERT_EQ(cuMemAllocHost_v2(&host, 64), CUDA_SUCCESS);
  const auto pinned = reinterpret_cast<CUdeviceptr>(host);
  EXPECT_EQ(cuMemcpyHtoD_v2(pinned, local, 16), CUDA_SUCCESS);
  EXPECT_STREQ(static_cast<char*>(host), "fifteen letters");
  EXPECT_EQ(cuMemcpyDtoH_v2(other, pinned, 16), CUDA_SUCCESS);
  EXPECT_STREQ(other, "fifteen letters");
  EXPECT_EQ(cuMemcpyDtoD_v2(pinned + 32, pinned, 16), CUDA_SUCCESS);
  EXPECT_STREQ(static_cast<char*>(host) + 32, "fifteen letters");
  EXPECT_TRUE(session().sent().empty());
  EXPECT_EQ(cuMemcpyDtoD_v2(memory_, pinned, 16), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 1);
  EXPECT_EQ(cuMemcpyDtoDAsync_v2(pinned, memory_, 16, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(static_cast<char*>(host)[3], 0x5a);
  // It may not be beyond its end, and other memory of the host may not be at all.
  EXPECT_EQ(cuMemcpyHtoD_v2(pinned + 60, local, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoD_v2(memory_, reinterpret_cast<CUdeviceptr>(local), 16),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(reinterpret_cast<CUdeviceptr>(local), other, 16),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(MemoryCallsTest, ABoxIsWhereItsAddressIs) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = reinterpret_cast<void*>(memory_);
  copy.srcPitch = 64;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = reinterpret_cast<void*>(memory_ + 1024);
  copy.dstPitch = 64;
  copy.WidthInBytes = 16;
  copy.Height = 4;
  EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyBoxOnDevice), 1);
  copy.dstHost = reinterpret_cast<void*>(memory_ + kBytes - 64);
  EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  // Memory that is called the device's is page-locked at least.
  char local[256] = {};
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(local);
  EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemHostRegister_v2(local, sizeof(local), 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyBoxFromDevice), 1);
  EXPECT_EQ(cuMemHostUnregister(local), CUDA_SUCCESS);
}

TEST_F(MemoryCallsTest, UnifiedCopyGoesByAddress) {
  char a[16], b[16] = "fifteen letters";
  ASSERT_EQ(cuMemcpy(memory_, reinterpret_cast<CUdeviceptr>(a), 16), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 1);
  ASSERT_EQ(cuMemcpy(reinterpret_cast<CUdeviceptr>(a), memory_, 16), CUDA_SUCCESS);
  EXPECT_EQ(a[15], 0x5a);
  ASSERT_EQ(cuMemcpy(memory_, memory_ + 16, 16), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyOnDevice), 1);
  ASSERT_EQ(cuMemcpy(reinterpret_cast<CUdeviceptr>(a), reinterpret_cast<CUdeviceptr>(b), 16),
            CUDA_SUCCESS);
  EXPECT_STREQ(a, "fifteen letters");
}

TEST_F(MemoryCallsTest, RowsAreMergedWhereNothingLiesBetweenThem) {
  std::vector<char> host(size_t{64} * 4);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.data();
  copy.srcPitch = 64;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory_;
  copy.dstPitch = 64;
  copy.WidthInBytes = 64;
  copy.Height = 4;
  ASSERT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 1);
  copy.dstPitch = 512;
  copy.dstXInBytes = 8;
  copy.dstY = 1;
  ASSERT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), 1);
  const auto box = session().Latest<cmd::CopyBoxToDevice>();
  EXPECT_EQ(box.dst, memory_ + 512 + 8);
  EXPECT_EQ(box.pitch, 512u);
  EXPECT_EQ(box.height, 4u);
  copy.dstXInBytes = 512 - 63;
  EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.dstXInBytes = 0;
  copy.dstY = kBytes / 512 - 3;
  EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryCallsTest, PinnedMemoryHasItsRules) {
  void* host = nullptr;
  EXPECT_EQ(cuMemHostAlloc(&host, 64, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostAlloc(&host, 64, 0x80), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  unsigned int flags;
  EXPECT_EQ(cuMemHostGetFlags(&flags, host), CUDA_SUCCESS);
  EXPECT_EQ(flags, static_cast<unsigned int>(CU_MEMHOSTALLOC_PORTABLE));
  session().SetComplete(false);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(host, memory_, 64, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kContextSync), 0);
  // The copy may still be on its way.
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kContextSync), 1);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryCallsTest, PointersAreDescribed) {
  unsigned int type;
  CUdeviceptr base;
  size_t bytes;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory_ + 5),
            CUDA_SUCCESS);
  EXPECT_EQ(type, static_cast<unsigned int>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &bytes, memory_ + 5), CUDA_SUCCESS);
  EXPECT_EQ(base, memory_);
  EXPECT_EQ(bytes, kBytes);
  int local = 0;
  const CUdeviceptr plain = reinterpret_cast<CUdeviceptr>(&local);
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, plain),
            CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* out = &type;
  EXPECT_EQ(cuPointerGetAttributes(1, &which, &out, plain), CUDA_SUCCESS);
  EXPECT_EQ(cuPointerGetAttributes(0, &which, &out, plain), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(type, 0u);
}

TEST_F(MemoryCallsTest, PinnedSourceIsReadAfterWhatIsWrittenThereFirst) {
  void* host = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&host, 64, 0), CUDA_SUCCESS);
  session().SetComplete(false);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(host, memory_, 32, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, static_cast<char*>(host) + 32, 32, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kContextSync), 0);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(memory_, static_cast<char*>(host) + 31, 32, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kContextSync), 1);
}

TEST_F(MemoryCallsTest, BoxesAreOneCommandEachWay) {
  std::vector<char> host(size_t{64} * 4, 'h');
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory_;
  copy.srcPitch = 128;
  copy.srcHeight = 4;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = host.data();
  copy.dstPitch = 64;
  copy.dstHeight = 2;
  copy.dstXInBytes = 4;
  copy.WidthInBytes = 32;
  copy.Height = 2;
  copy.Depth = 2;
  ASSERT_EQ(cuMemcpy3D_v2(&copy), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyBoxFromDevice), 1);
  EXPECT_EQ(session().Latest<cmd::CopyBoxFromDevice>().slice, 4u * 128);
  EXPECT_EQ(host[3], 'h');
  EXPECT_EQ(host[4], 0x5a);
  EXPECT_EQ(host[3 * 64 + 35], 0x5a);
  EXPECT_EQ(host[3 * 64 + 36], 'h');
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory_ + 4096;
  ASSERT_EQ(cuMemcpy3D_v2(&copy), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyBoxOnDevice), 1);
  copy.srcHeight = 1;
  EXPECT_EQ(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.srcHeight = 4;
  // No array has that handle.
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT_EQ(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(MemoryCallsTest, LongBoxesAreSplit) {
  std::vector<char> host(kBytes);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.data();
  copy.srcPitch = 1000;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory_;
  copy.dstPitch = 1024;
  copy.WidthInBytes = 1000;
  copy.Height = 2048;
  ASSERT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyBoxToDevice), 4);
  const auto last = session().Latest<cmd::CopyBoxToDevice>();
  EXPECT_EQ(last.dst + last.height * 1024, memory_ + 2048ull * 1024);
}

TEST_F(MemoryCallsTest, RowsAreFilledByOneCommand) {
  EXPECT_EQ(cuMemsetD2D16_v2(memory_, 100, 7, 20, 5), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::MemsetRows>().rows, 5u);
  EXPECT_EQ(cuMemsetD2D16_v2(memory_, 40, 7, 20, 5), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::Memset>().count, 100u);
  EXPECT_EQ(cuMemsetD2D16_v2(memory_, 33, 7, 20, 5), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD2D16_v2(memory_, 41, 7, 20, 5), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD2D32_v2(memory_ + 2, 128, 7, 20, 5), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryCallsTest, BatchesTellWhichCopyFailed) {
  CUdeviceptr to[] = {memory_, memory_ + kBytes};
  CUdeviceptr from[] = {memory_ + 64, memory_ + 64};
  size_t bytes[] = {16, 16};
  CUmemcpyAttributes attributes = {};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t first = 0, failed = 0;
  EXPECT_EQ(
      cuMemcpyBatchAsync(to, from, bytes, 2, &attributes, &first, 1, &failed, CU_STREAM_PER_THREAD),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, 1u);
  EXPECT_EQ(cuMemcpyBatchAsync_v2_ptsz(to, from, bytes, 1, &attributes, &first, 1, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyOnDevice), 2);
  EXPECT_EQ(cuMemcpyBatchAsync_v2(to, from, bytes, 1, &attributes, &first, 1, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryCallsTest, MappedHostMemoryHasOneAddressAndGoesDownBeforeALaunch) {
  void* host = nullptr;
  CUdeviceptr pointer;
  ASSERT_EQ(cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_DEVICEMAP), CUDA_SUCCESS);
  ASSERT_EQ(cuMemHostGetDevicePointer_v2(&pointer, host, 0), CUDA_SUCCESS);
  EXPECT_EQ(pointer, reinterpret_cast<CUdeviceptr>(host));
  auto* bytes = static_cast<volatile char*>(host);
  EXPECT_EQ(bytes[3], 0);
  bytes[3] = 'h';
  uint64_t eight = 0;
  uint32_t four = 0;
  void* params[] = {&eight, &four};
  ASSERT_EQ(cuLaunchKernel(LoadKernel(), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr),
            CUDA_SUCCESS);
  std::string tail;
  const auto copy = session().Latest<cmd::CopyToDevice>(&tail);
  EXPECT_EQ(copy.dst, pointer);
  ASSERT_EQ(tail.size() % 4096, 0u);
  EXPECT_EQ(tail[3], 'h');
  EXPECT_EQ(session().Latest<cmd::StreamBarrier>().stream, copy.stream);
  // Nothing was touched since: the next launch sends nothing.
  const int copies = session().Count(CommandId::kCopyToDevice);
  ASSERT_EQ(cuLaunchKernel(LoadKernel(), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kCopyToDevice), copies);
  // The fake device answers every read with this.
  EXPECT_EQ(bytes[3], 0x5a);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&pointer, host, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&pointer, &pointer, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(MemoryCallsTest, RegisteredMemoryIsMirroredOnceItsDeviceAddressIsAskedFor) {
  void* memory = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  char* const host = static_cast<char*>(memory) + 100;
  ASSERT_EQ(cuMemHostRegister_v2(host, 5000, CU_MEMHOSTREGISTER_DEVICEMAP), CUDA_SUCCESS);
  CUdeviceptr pointer, inside;
  ASSERT_EQ(cuMemHostGetDevicePointer_v2(&pointer, host, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemHostGetDevicePointer_v2(&inside, host + 7, 0), CUDA_SUCCESS);
  EXPECT_EQ(inside, pointer + 7);
  // A copy to it stays on the device, which has the newer bytes then.
  ASSERT_EQ(cuMemcpyDtoH_v2(host, memory_, 64), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::CopyOnDevice>().dst, pointer);
  EXPECT_EQ(*static_cast<volatile char*>(host), 0x5a);
  EXPECT_EQ(cuMemHostUnregister(host), CUDA_SUCCESS);
  munmap(memory, 8192);
}

TEST_F(MemoryCallsTest, WhatTheProcessHasNotMappedIsNotRegistered) {
  void* memory = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  char* const host = static_cast<char*>(memory);
  ASSERT_EQ(munmap(host + 4096, 4096), 0);
  EXPECT_EQ(cuMemHostRegister_v2(host + 100, 3996, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(host + 100), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister_v2(host + 100, 3997, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister_v2(host + 100, ~size_t{0}, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister_v2(reinterpret_cast<void*>(uint64_t{1} << 60), 4096, 0),
            CUDA_ERROR_INVALID_VALUE);
  munmap(memory, 4096);
}

TEST_F(MemoryCallsTest, SharedMappingsAreNotMirrored) {
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  CUdeviceptr pointer;
  ASSERT_EQ(cuMemHostRegister_v2(memory, 4096, CU_MEMHOSTREGISTER_DEVICEMAP), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&pointer, memory, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemHostUnregister(memory), CUDA_SUCCESS);
  munmap(memory, 4096);
}

TEST_F(MemoryCallsTest, SyncMemopsIsKeptForAnAllocation) {
  unsigned int flag = 1;
  EXPECT_EQ(cuPointerSetAttribute(&flag, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory_ + 8),
            CUDA_SUCCESS);
  flag = 0;
  EXPECT_EQ(cuPointerGetAttribute(&flag, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory_), CUDA_SUCCESS);
  EXPECT_EQ(flag, 1u);
  EXPECT_EQ(cuPointerSetAttribute(&flag, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerSetAttribute(&flag, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                  reinterpret_cast<CUdeviceptr>(&flag)),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryCallsTest, ArgumentsThatCudaLetsBeLeftOut) {
  size_t free_bytes = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo_v2(&free_bytes, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetInfo_v2(nullptr, &total), CUDA_SUCCESS);
  EXPECT_GT(total, 0u);
  CUdeviceptr a, b;
  ASSERT_EQ(cuMemAlloc_v2(&a, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc_v2(&b, 64), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyPeer(a, nullptr, b, context_, 64), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyPeer(a, reinterpret_cast<CUcontext>(0x10), b, context_, 64),
            CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(MemoryCallsTest, PoolsCountWhatTheyGave) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.maxSize = 4096;
  CUmemoryPool pool;
  ASSERT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
  CUmemPoolProps wrong = properties;
  wrong.location.id = 4711;
  CUmemoryPool none;
  EXPECT_EQ(cuMemPoolCreate(&none, &wrong), CUDA_ERROR_INVALID_VALUE);
  const auto read = [&](CUmemPool_attribute attribute) {
    uint64_t value = 77;
    EXPECT_EQ(cuMemPoolGetAttribute(pool, attribute, &value), CUDA_SUCCESS);
    return value;
  };
  CUdeviceptr first, second;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&first, 1024, pool, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocFromPoolAsync(&second, 2048, pool, nullptr), CUDA_SUCCESS);
  CUdeviceptr third;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&third, 2048, pool, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(read(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 3072u);
  EXPECT_EQ(cuMemFreeAsync(second, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(read(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024u);
  EXPECT_EQ(read(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 3072u);
  EXPECT_EQ(read(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32u << 20);
  uint64_t zero = 0, one = 1;
  EXPECT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero), CUDA_SUCCESS);
  EXPECT_EQ(read(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024u);
  // Its allocations outlive the pool.
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocFromPoolAsync(&third, 16, pool, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8_v2(first, 0, 1024), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(first, nullptr), CUDA_SUCCESS);
}

TEST_F(MemoryCallsTest, StreamOrderedMemoryComesFromThePool) {
  CUdeviceptr pointer;
  CUmemoryPool pool, owner;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocFromPoolAsync(&pointer, 64, pool, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer),
            CUDA_SUCCESS);
  EXPECT_EQ(owner, pool);
  EXPECT_EQ(cuMemFreeAsync(pointer, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(pointer, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocAsync(&pointer, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(pointer, 0u);
  EXPECT_EQ(cuMemFreeAsync(pointer, nullptr), CUDA_SUCCESS);
  uint64_t threshold = 12345, read = 0;
  EXPECT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
            CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &read), CUDA_SUCCESS);
  EXPECT_EQ(read, threshold);
}

}  // namespace
}  // namespace warpline::stub
