#include <unistd.h>

#include <cstring>
#include <vector>

#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

constexpr size_t kMiB = 1u << 20;
constexpr size_t kUnit = 2 * kMiB;

class VirtualMemoryCallsTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access_.location = properties_.location;
    access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ASSERT_EQ(cuMemAddressReserve(&address_, kBytes, 0, 0, 0), CUDA_SUCCESS);
  }

  void TearDown() override {
    session().ReportUnmapped();
    EXPECT_EQ(cuMemAddressFree(address_, kBytes), CUDA_SUCCESS);
    CoreTest::TearDown();
  }

  CUmemGenericAllocationHandle Create(size_t bytes = kUnit) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, bytes, &properties_, 0), CUDA_SUCCESS);
    return handle;
  }

  static constexpr size_t kBytes = 64 * kMiB;
  CUmemAllocationProp properties_ = {};
  CUmemAccessDesc access_ = {};
  CUdeviceptr address_ = 0;
};

TEST_F(VirtualMemoryCallsTest, MappingAndAccessAreOneCommandAndNoWait) {
  const auto handle = Create();
  ASSERT_EQ(cuMemMap(address_, kUnit, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kMemoryMap), 0);
  ASSERT_EQ(cuMemSetAccess(address_, kUnit, &access_, 1), CUDA_SUCCESS);
  const auto map = session().Latest<cmd::MemoryMap>();
  EXPECT_EQ(map.mapping, address_);
  EXPECT_EQ(map.bytes, kUnit);
  EXPECT_EQ(map.access, 3u);
  // The access is set already.
  ASSERT_EQ(cuMemSetAccess(address_, kUnit, &access_, 1), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kMemoryAccess), 0);
  access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  ASSERT_EQ(cuMemSetAccess(address_, kUnit, &access_, 1), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::MemoryAccess>().access, 1u);
  ASSERT_EQ(cuMemUnmap(address_, kUnit), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::MemoryUnmap>().mapping, address_);
  EXPECT_EQ(session().sent().size(), 3u);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryCallsTest, ManyHandlesTakeFewRequests) {
  const int before = session().handle_requests();
  std::vector<CUmemGenericAllocationHandle> handles;
  for (int i = 0; i < 30; ++i) handles.push_back(Create());
  EXPECT_LE(session().handle_requests() - before, 6);
  for (const auto handle : handles) EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  // Some handles are kept.
  const int released = session().handle_requests();
  const auto handle = Create();
  EXPECT_EQ(session().handle_requests(), released);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_LE(session().handles(), 48u);
}

TEST_F(VirtualMemoryCallsTest, AddressesAndHandlesAreUsedAgainOnlyOnceNothingRunsThere) {
  const auto handle = Create(20 * kMiB);
  ASSERT_EQ(cuMemMap(address_, 20 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemSetAccess(address_, 20 * kMiB, &access_, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(address_, 20 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  const auto other = Create(20 * kMiB);
  EXPECT_NE(other, handle);
  session().SetAnswer(CommandId::kContextSync, [](const FakeSession::Sent&, std::string*) {
    session().ReportUnmapped();
    return CudaResult::kSuccess;
  });
  // Mapping elsewhere succeeds at once, mapping there after a wait.
  ASSERT_EQ(cuMemMap(address_ + 20 * kMiB, 20 * kMiB, 0, other, 0), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kContextSync), 0);
  ASSERT_EQ(cuMemMap(address_, 20 * kMiB, 0, other, 0), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kContextSync), 1);
  ASSERT_EQ(cuMemUnmap(address_, 40 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(other), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryCallsTest, FreedAddressesGoOnceNothingRunsThere) {
  CUdeviceptr second = 0, third = 0;
  ASSERT_EQ(cuMemAddressReserve(&second, kUnit, 0, 0, 0), CUDA_SUCCESS);
  const auto handle = Create();
  ASSERT_EQ(cuMemMap(second, kUnit, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(second, kUnit), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemSetAccess(second, kUnit, &access_, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(second, kUnit), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressFree(second, kUnit), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&third, kUnit, 0, second, 0), CUDA_SUCCESS);
  EXPECT_NE(third, second);
  ASSERT_EQ(cuMemAddressFree(third, kUnit), CUDA_SUCCESS);
  session().ReportUnmapped();
  ASSERT_EQ(cuMemAddressReserve(&third, kUnit, 0, second, 0), CUDA_SUCCESS);
  EXPECT_EQ(third, second);
  EXPECT_EQ(cuMemAddressFree(third, kUnit), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryCallsTest, CopiesReachAcrossMappingsAndNotBeyondThem) {
  const auto first = Create(), second = Create();
  char host[8] = {};
  ASSERT_EQ(cuMemMap(address_, kUnit, 0, first, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(address_ + kUnit, kUnit, 0, second, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD_v2(address_, host, 8), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemSetAccess(address_, 2 * kUnit, &access_, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD_v2(address_ + kUnit - 4, host, 8), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD_v2(address_ + 2 * kUnit - 4, host, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(address_), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr base = 0;
  size_t size = 0;
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &size, address_ + kUnit + 5), CUDA_SUCCESS);
  EXPECT_EQ(base, address_ + kUnit);
  ASSERT_EQ(cuMemUnmap(address_, 2 * kUnit), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD_v2(address_, host, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(first), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(second), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryCallsTest, ErrorsAreCudas) {
  const auto handle = Create(4 * kMiB);
  CUmemGenericAllocationHandle other = 0;
  CUdeviceptr pointer = 0;
  EXPECT_EQ(cuMemMap(address_, kUnit, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(address_, 4 * kMiB, kUnit, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(address_, 4 * kMiB, 0, handle + 1000, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(address_ + kBytes, 4 * kMiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(address_, 4 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address_ + kUnit, 4 * kMiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address_, kUnit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetAccess(address_, kUnit, &access_, 1), CUDA_ERROR_INVALID_VALUE);
  access_.flags = static_cast<CUmemAccess_flags>(2);
  EXPECT_EQ(cuMemSetAccess(address_, 4 * kMiB, &access_, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemUnmap(address_, 4 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kMemoryUnmap), 0);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&other, size_t{1} << 40, &properties_, 0), CUDA_ERROR_OUT_OF_MEMORY);
  properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  EXPECT_EQ(cuMemCreate(&other, kUnit, &properties_, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemAddressReserve(&pointer, size_t{1} << 45, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(VirtualMemoryCallsTest, ReservedAddressesWithNothingMappedCanBeUnmapped) {
  const auto handle = Create();
  ASSERT_EQ(cuMemMap(address_, kUnit, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(address_ + kUnit, kUnit), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(address_ + kUnit, kUnit - 4096), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address_ + kUnit, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address_, 2 * kUnit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(address_ + kBytes, kUnit), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(session().Count(CommandId::kMemoryUnmap), 0);
  EXPECT_EQ(cuMemUnmap(address_, kUnit), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryCallsTest, ADescriptorAloneKeepsTheMemory) {
  properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const auto handle = Create(6 * kMiB);
  int descriptor = -1;
  ASSERT_EQ(cuMemExportToShareableHandle(&descriptor, handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  const size_t held = session().handles();
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported = 0;
  const auto os_handle = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
  ASSERT_EQ(cuMemImportFromShareableHandle(&imported, os_handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  EXPECT_EQ(session().handles(), held + 1);
  ASSERT_EQ(cuMemRelease(imported), CUDA_SUCCESS);
  EXPECT_EQ(session().handles(), held);
  close(descriptor);
  EXPECT_EQ(cuMemImportFromShareableHandle(&imported, os_handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_ERROR_UNKNOWN);
  const auto other = Create(8 * kMiB);
  EXPECT_EQ(session().handles(), held);  // The one handle is gone, the other is there.
  EXPECT_EQ(cuMemRelease(other), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryCallsTest, AllocationsHaveOneHandleForOtherProcesses) {
  CUdeviceptr memory = 0, opened = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
  CUipcMemHandle handle, again;
  ASSERT_EQ(cuIpcGetMemHandle(&handle, memory), CUDA_SUCCESS);
  ASSERT_EQ(cuIpcGetMemHandle(&again, memory + 100), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(&handle, &again, sizeof(handle)), 0);
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&opened, handle, 0), CUDA_ERROR_INVALID_VALUE);
  std::memset(&handle, 'x', sizeof(handle));
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryCallsTest, ARecordOfASharedEventWaits) {
  CUevent event, opened, ordinary;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&ordinary, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  CUipcEventHandle handle;
  EXPECT_EQ(cuIpcGetEventHandle(&handle, ordinary), CUDA_ERROR_INVALID_HANDLE);
  session().SetComplete(false);
  ASSERT_EQ(cuEventRecord(event, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kEventSync), 0);
  ASSERT_EQ(cuIpcGetEventHandle(&handle, event), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kEventSync), 1);
  ASSERT_EQ(cuEventRecord(event, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kEventSync), 2);
  session().SetComplete(true);
  std::memset(&handle, 0, sizeof(handle));
  EXPECT_EQ(cuIpcOpenEventHandle(&opened, handle), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace warpline::stub
