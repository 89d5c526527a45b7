#include <thread>

#include "client_stub/core/testing/core_fixture.h"

namespace warpline::stub {
namespace {

using ContextCallsTest = CoreTest;

TEST_F(ContextCallsTest, WithoutAContextCallsSaySo) {
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  CUdeviceptr pointer;
  CUstream stream;
  CUdevice device;
  EXPECT_EQ(cuMemAlloc_v2(&pointer, 16), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  CUcontext current = context_;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
}

TEST_F(ContextCallsTest, AContextIsCurrentOnItsThreadOnly) {
  std::thread([] {
    CUcontext current;
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
  }).join();
}

TEST_F(ContextCallsTest, PushAndPopNest) {
  CUcontext second, popped;
  ASSERT_EQ(cuCtxCreate_v4(&second, nullptr, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent_v2(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, context_);
  EXPECT_EQ(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, second);
  EXPECT_EQ(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, context_);
  EXPECT_EQ(cuCtxPopCurrent_v2(&popped), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxDestroy_v2(second), CUDA_SUCCESS);
}

TEST_F(ContextCallsTest, DestroyedContextEndsWhatItHolds) {
  CUcontext second;
  ASSERT_EQ(cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
  CUdeviceptr pointer;
  CUstream stream;
  CUevent event;
  ASSERT_EQ(cuMemAlloc_v2(&pointer, 16), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy_v2(second), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kStreamDestroy), 1);
  EXPECT_EQ(session().Count(CommandId::kEventDestroy), 1);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
  // The context below became current again.
  CUcontext current;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context_);
  EXPECT_EQ(cuCtxDestroy_v2(second), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(ContextCallsTest, OtherHandlesAreNoContexts) {
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(stream)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(&stream)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxDestroy_v2(context_), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextCallsTest, PrimaryContextKeepsItsHandleAcrossReset) {
  CUdeviceptr pointer;
  ASSERT_EQ(cuMemAlloc_v2(&pointer, 16), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  unsigned int flags;
  int active;
  ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  CUcontext again;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
  EXPECT_EQ(again, context_);
  EXPECT_EQ(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
}

// NVIDIA's driver gives the same answers. A second copy of the CUDA runtime in the process, such as
// that of cuBLAS, retains the primary context again only if its handle is said to be invalid.
TEST_F(ContextCallsTest, AResetContextThatIsCurrentSaysSo) {
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  CUcontext current = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context_);
  unsigned int value;
  unsigned long long id;
  CUdevice device;
  CUdevResource resource;
  EXPECT_EQ(cuCtxGetApiVersion(context_, &value), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxGetApiVersion(nullptr, &value), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxGetId(context_, &id), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxGetDevResource(context_, &resource, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetDevice_v2(&device, context_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetFlags(&value), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxDetach(context_), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext again = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetApiVersion(again, &value), CUDA_SUCCESS);
  // The reset has kept the first retain.
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetApiVersion(again, &value), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetApiVersion(again, &value), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextCallsTest, AfterAResetTheRetainsOfBeforeAreReleased) {
  CUcontext again = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  unsigned int value;
  EXPECT_EQ(cuCtxGetApiVersion(context_, &value), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextCallsTest, PrimaryContextThatNobodyRetainsIsDestroyed) {
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
  CUdeviceptr pointer;
  CUdevice device;
  EXPECT_EQ(cuMemAlloc_v2(&pointer, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
}

TEST_F(ContextCallsTest, LimitsAreKeptPerContext) {
  ASSERT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
  size_t value;
  EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(value, 4096u);
  EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH), CUDA_ERROR_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuCtxGetLimit(&value, static_cast<CUlimit>(77)), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextCallsTest, AContextHasAllMultiprocessors) {
  CUexecAffinityParam affinity = {};
  int processors = 0;
  ASSERT_EQ(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT), CUDA_SUCCESS);
  EXPECT_EQ(affinity.type, CU_EXEC_AFFINITY_TYPE_SM_COUNT);
  EXPECT_EQ(affinity.param.smCount.val, static_cast<unsigned int>(processors));
  EXPECT_EQ(cuCtxGetExecAffinity(nullptr, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextCallsTest, DeviceIsDescribedConsistently) {
  char bus_id[32];
  ASSERT_EQ(cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0), CUDA_SUCCESS);
  EXPECT_STREQ(bus_id, "0000:1a:00.0");
  CUdevice device = 7;
  EXPECT_EQ(cuDeviceGetByPCIBusId(&device, "0000:1A:00.0"), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cuDeviceGetByPCIBusId(&device, "0000:1b:00.0"), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
  int value;
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 9);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 1);
  // The device has this, but not through this driver.
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1),
            CUDA_ERROR_INVALID_DEVICE);
}

// Attributes that would be untrue of a device on another host, whatever the device says.
TEST_F(ContextCallsTest, WhatHostAndDeviceCannotShareIsNotPromised) {
  // A version of CUDA with more of them: each new one is true of a remote device, or joins these.
  EXPECT_EQ(CU_DEVICE_ATTRIBUTE_MAX, 148);
  session().SetAllAttributes(1);
  const auto shown = [](CUdevice_attribute id) {
    int value = -7;
    EXPECT_EQ(cuDeviceGetAttribute(&value, id, 0), CUDA_SUCCESS) << id;
    return value;
  };
  for (const CUdevice_attribute id :
       {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
        CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
        CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
        CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, CU_DEVICE_ATTRIBUTE_NUMA_CONFIG,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED}) {
    EXPECT_EQ(shown(id), 0) << id;
  }
  EXPECT_EQ(shown(CU_DEVICE_ATTRIBUTE_NUMA_ID), -1);
  EXPECT_EQ(shown(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID), -1);
  // These are this driver's to do.
  session().SetAllAttributes(0);
  for (const CUdevice_attribute id :
       {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
        CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    EXPECT_EQ(shown(id), 1) << id;
  }
}

// A NIC of this host cannot reach the memory.
TEST_F(ContextCallsTest, ThereIsNoDmaBufOfRemoteMemory) {
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc_v2(&memory, 1 << 16), CUDA_SUCCESS);
  int fd = -1;
  EXPECT_EQ(
      cuMemGetHandleForAddressRange(&fd, memory, 1 << 16, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
      CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(fd, -1);
  unsigned capable = 7;
  EXPECT_EQ(
      cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, memory),
      CUDA_SUCCESS);
  EXPECT_EQ(capable, 0u);
}

TEST_F(ContextCallsTest, StickyErrorIsReturnedByEveryCallThatUsesTheDevice) {
  session().SetError(CudaResult::kIllegalAddress);
  CUdeviceptr pointer;
  CUevent event;
  EXPECT_EQ(cuMemAlloc_v2(&pointer, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuEventCreate(&event, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  const char* text;
  EXPECT_EQ(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text), CUDA_SUCCESS);
  CUcontext current;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
}

TEST_F(ContextCallsTest, BanksOfSharedMemoryHaveOneWidth) {
  CUsharedconfig config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
  EXPECT_EQ(cuCtxGetSharedMemConfig(&config), CUDA_SUCCESS);
  EXPECT_EQ(config, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
  EXPECT_EQ(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetSharedMemConfig(&config), CUDA_SUCCESS);
  EXPECT_EQ(config, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
  EXPECT_EQ(cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(77)), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextCallsTest, TheDeviceTellsHowWideALinearTextureMayBe) {
  size_t elements = 0;
  EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(&elements, CU_AD_FORMAT_FLOAT, 4, 0), CUDA_SUCCESS);
  EXPECT_EQ(elements, FakeSession::kTextureElements);
  EXPECT_EQ(session().Latest<cmd::LinearTextureWidth>().channels, 4u);
  EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(nullptr, CU_AD_FORMAT_FLOAT, 4, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetTexture1DLinearMaxWidth(&elements, CU_AD_FORMAT_FLOAT, 4, 9),
            CUDA_ERROR_INVALID_DEVICE);
}

void Notified(CUasyncNotificationInfo*, void*, CUasyncCallbackHandle) {}

TEST_F(ContextCallsTest, CallbacksForNotificationsAreTheirDevices) {
  CUasyncCallbackHandle first = nullptr, second = nullptr;
  ASSERT_EQ(cuDeviceRegisterAsyncNotification(0, Notified, nullptr, &first), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceRegisterAsyncNotification(0, Notified, nullptr, &second), CUDA_SUCCESS);
  EXPECT_NE(first, second);
  EXPECT_EQ(cuDeviceRegisterAsyncNotification(0, nullptr, nullptr, &first),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceUnregisterAsyncNotification(9, first), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceUnregisterAsyncNotification(0, first), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceUnregisterAsyncNotification(0, first), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceUnregisterAsyncNotification(0, second), CUDA_SUCCESS);
}

TEST_F(ContextCallsTest, SettingsOfCoreFilesAreKeptAndNoneIsMade) {
  bool on = true, got = false;
  size_t size = 0;
  EXPECT_EQ(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, nullptr, &size), CUDA_SUCCESS);
  EXPECT_EQ(size, 1024u);
  char name[1024] = "core.here";
  EXPECT_EQ(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, name, &size), CUDA_SUCCESS);
  name[0] = '?';
  EXPECT_EQ(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, &size), CUDA_SUCCESS);
  EXPECT_STREQ(name, "core.here");
  size = 3;
  EXPECT_EQ(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, &size), CUDA_ERROR_INVALID_VALUE);
  size = sizeof(on);
  // A context has its own from the first that is set.
  EXPECT_EQ(cuCoredumpSetAttribute(CU_COREDUMP_LIGHTWEIGHT, &on, &size), CUDA_SUCCESS);
  EXPECT_EQ(cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, &got, &size), CUDA_SUCCESS);
  EXPECT_TRUE(got);
  EXPECT_EQ(cuCoredumpGetAttributeGlobal(CU_COREDUMP_LIGHTWEIGHT, &got, &size), CUDA_SUCCESS);
  EXPECT_FALSE(got);
  EXPECT_EQ(cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &got, &size),
            CUDA_SUCCESS);
  EXPECT_FALSE(got);
  EXPECT_EQ(cuCoredumpGetAttributeGlobal(CU_COREDUMP_MAX, &got, &size), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace warpline::stub
