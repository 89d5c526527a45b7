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

TEST_F(MemoryCallsTest, BadDevicePointersAreInvalidAndNothingIsSent) {
  char host[64] = {};
  EXPECT_EQ(cuMemcpyHtoD_v2(memory_ + kBytes - 63, host, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(0, host, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(0xdead0000, host, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH_v2(host, memory_ - 1, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoD_v2(memory_, memory_ + kBytes, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8_v2(memory_, 0, kBytes + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32_v2(memory_ + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32_v2(memory_, 0, ~size_t{0} / 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(session().sent().empty());
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
  std::vector<char> host(64 * 4);
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
  EXPECT_EQ(cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_DEVICEMAP), CUDA_ERROR_NOT_SUPPORTED);
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
  EXPECT_EQ(type, 0u);
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
