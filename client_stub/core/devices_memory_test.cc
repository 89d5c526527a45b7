// Memory of a session of three devices, of which the first two are peers.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/testing/core_fixture.h"
#include "client_stub/core/testing/fake_session.h"
#include "gtest/gtest.h"
#include "proto/devices.h"

namespace warpline::stub {
namespace {

constexpr size_t kChunk = 2u << 20;

class DevicesMemoryTest : public DevicesTest {
 protected:
  static uint32_t DeviceOf(CUdeviceptr address) {
    return static_cast<uint32_t>(
        DeviceOfAddress(address, FakeSession::kArenaBase, FakeSession::kArenaBytes, kDevices));
  }
  template <typename T>
  static T Attribute(CUpointer_attribute attribute, CUdeviceptr address) {
    T value = {};
    EXPECT_EQ(cuPointerGetAttribute(&value, attribute, address), CUDA_SUCCESS);
    return value;
  }
  static unsigned int Access(CUdeviceptr address) {
    return Attribute<unsigned int>(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, address);
  }
  static CUmemLocation Location(int device) {
    CUmemLocation location = {};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device;
    return location;
  }
  static CUmemAllocationProp Properties(int device) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = Location(device);
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return properties;
  }
  static CUmemGenericAllocationHandle Create(int device) {
    const CUmemAllocationProp properties = Properties(device);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, kChunk, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
};

TEST_F(DevicesMemoryTest, AllocationsLieInTheirDevicesPartAndCountAgainstItsQuota) {
  for (int device = 0; device < kDevices; ++device) {
    Use(device);
    const CUdeviceptr address = Allocate(1 << 20);
    EXPECT_EQ(DeviceOf(address), static_cast<uint32_t>(device));
    EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), device);
    EXPECT_EQ(Attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address), context_[device]);
  }
  Use(1);
  size_t free_before, free_after, total;
  ASSERT_EQ(cuMemGetInfo_v2(&free_before, &total), CUDA_SUCCESS);
  Use(2);
  Allocate(256 << 20);
  Use(1);
  ASSERT_EQ(cuMemGetInfo_v2(&free_after, &total), CUDA_SUCCESS);
  EXPECT_EQ(free_before, free_after);
  // Whatever is current, an address says whose memory it is.
  const CUdeviceptr address = Allocate(64);
  Use(0);
  EXPECT_EQ(cuMemsetD8Async(address, 0, 64, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DevicesMemoryTest, AccessIsWhatPeersEnabled) {
  Use(1);
  const CUdeviceptr address = Allocate(64);
  EXPECT_EQ(Access(address), 3u);
  Use(0);
  EXPECT_EQ(Access(address), 0u);
  ASSERT_EQ(cuCtxEnablePeerAccess(context_[1], 0), CUDA_SUCCESS);
  EXPECT_EQ(Access(address), 3u);
  ASSERT_EQ(cuCtxDisablePeerAccess(context_[1]), CUDA_SUCCESS);
  EXPECT_EQ(Access(address), 0u);
}

TEST_F(DevicesMemoryTest, AsynchronousCopiesBetweenDevicesAreOneCommand) {
  const CUdeviceptr here = Allocate(64);
  Use(1);
  const CUdeviceptr there = Allocate(64);
  const CUstream stream = NewStream();
  session().Clear();
  ASSERT_EQ(cuMemcpyPeerAsync(here, context_[0], there, context_[1], 64, stream), CUDA_SUCCESS);
  const auto copy = session().Latest<cmd::CopyOnDevice>();
  EXPECT_EQ(copy.dst, here);
  EXPECT_EQ(copy.src, there);
  EXPECT_EQ(DeviceOfHandle(copy.stream), 1u);
  ASSERT_EQ(cuMemcpyDtoDAsync_v2(there, here, 64, stream), CUDA_SUCCESS);
  EXPECT_EQ(session().sent().size(), 2u);
  CUcontext none = nullptr;
  EXPECT_EQ(cuMemcpyPeerAsync(here, none, there, none, 64, stream), CUDA_SUCCESS);
  none = reinterpret_cast<CUcontext>(uint64_t{0x5100000000000ff0});
  EXPECT_EQ(cuMemcpyPeerAsync(here, none, there, context_[1], 64, stream),
            CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(DevicesMemoryTest, SynchronousCopiesBetweenDevicesAreOrderedWithBoth) {
  const CUdeviceptr here = Allocate(64);
  Use(1);
  const CUdeviceptr there = Allocate(64);
  const CUstream stream = NewStream(CU_STREAM_NON_BLOCKING);
  session().SetComplete(false);
  ASSERT_EQ(cuMemsetD8Async(there, 0, 64, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(there, 0, 64, nullptr), CUDA_SUCCESS);
  Use(0);
  ASSERT_EQ(cuMemcpyPeer(here, context_[0], there, context_[1], 64), CUDA_SUCCESS);
  // The copy comes after the other device's legacy stream and its non-blocking one.
  EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 2);
  EXPECT_EQ(session().Count(CommandId::kCopyOnDevice), 1);
  EXPECT_EQ(session().Latest<cmd::CopyOnDevice>().stream, 1u);
  ASSERT_FALSE(session().sent().empty());
  EXPECT_EQ(session().sent().back().id, CommandId::kStreamBarrier);
  session().Clear();
  // A copy on one device needs no such order.
  ASSERT_EQ(cuMemcpyDtoD_v2(here, here + 32, 32), CUDA_SUCCESS);
  EXPECT_EQ(session().sent().size(), 1u);
  session().Clear();
  ASSERT_EQ(cuMemcpy(here, there, 64), CUDA_SUCCESS);
  EXPECT_EQ(session().sent().back().id, CommandId::kStreamBarrier);
}

TEST_F(DevicesMemoryTest, BoxesAreCopiedBetweenDevices) {
  const CUdeviceptr here = Allocate(256);
  Use(1);
  const CUdeviceptr there = Allocate(256);
  CUDA_MEMCPY3D_PEER copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = there;
  copy.dstDevice = here;
  copy.srcContext = context_[1];
  copy.dstContext = context_[0];
  copy.srcPitch = copy.dstPitch = 32;
  copy.srcHeight = copy.dstHeight = 4;
  copy.WidthInBytes = 16;
  copy.Height = 4;
  copy.Depth = 2;
  session().Clear();
  ASSERT_EQ(cuMemcpy3DPeerAsync(&copy, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::CopyBoxOnDevice>().stream, HandleOnDevice(1, 1));
  EXPECT_EQ(session().sent().size(), 1u);
  ASSERT_EQ(cuMemcpy3DPeer(&copy), CUDA_SUCCESS);
  EXPECT_EQ(session().sent().back().id, CommandId::kStreamBarrier);
  copy.dstContext = nullptr;
  EXPECT_EQ(cuMemcpy3DPeer(&copy), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(DevicesMemoryTest, EachDeviceHasItsPools) {
  CUmemoryPool pools[kDevices], pool;
  for (int device = 0; device < kDevices; ++device) {
    ASSERT_EQ(cuDeviceGetDefaultMemPool(&pools[device], device), CUDA_SUCCESS);
    ASSERT_EQ(cuDeviceGetMemPool(&pool, device), CUDA_SUCCESS);
    EXPECT_EQ(pool, pools[device]);
  }
  EXPECT_NE(pools[0], pools[1]);
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = Location(1);
  ASSERT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceSetMemPool(1, pool), CUDA_SUCCESS);
  // The stream says which device's pool is used.
  Use(1);
  const CUstream stream = NewStream();
  Use(0);
  CUdeviceptr address;
  ASSERT_EQ(cuMemAllocAsync(&address, 64, stream), CUDA_SUCCESS);
  EXPECT_EQ(DeviceOf(address), 1u);
  EXPECT_EQ(Attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address), pool);
  EXPECT_EQ(Attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address), context_[1]);
  // Memory that was freed on a stream is taken again there, from whichever pool of the device.
  EXPECT_EQ(cuMemFreeAsync(address, nullptr), CUDA_SUCCESS);
  CUdeviceptr again;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&again, 64, pools[1], nullptr), CUDA_SUCCESS);
  EXPECT_EQ(again, address);
  ASSERT_EQ(cuMemAllocFromPoolAsync(&address, 64, pools[2], nullptr), CUDA_SUCCESS);
  EXPECT_EQ(DeviceOf(address), 2u);
  ASSERT_EQ(cuMemAllocAsync(&address, 64, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(DeviceOf(address), 0u);
  ASSERT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceGetMemPool(&pool, 1), CUDA_SUCCESS);
  EXPECT_EQ(pool, pools[1]);
}

TEST_F(DevicesMemoryTest, PoolsAreSharedWithPeers) {
  CUmemoryPool pool;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 1), CUDA_SUCCESS);
  const auto set = [&](int device, CUmemAccess_flags flags) {
    const CUmemAccessDesc access = {Location(device), flags};
    return cuMemPoolSetAccess(pool, &access, 1);
  };
  const auto get = [&](int device) {
    CUmemLocation location = Location(device);
    CUmemAccess_flags flags = {};
    EXPECT_EQ(cuMemPoolGetAccess(&flags, pool, &location), CUDA_SUCCESS);
    return flags;
  };
  CUdeviceptr address;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&address, 64, pool, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(get(1), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(get(0), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_EQ(Access(address), 0u);
  EXPECT_EQ(set(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
  EXPECT_EQ(get(0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(Access(address), 3u);
  EXPECT_EQ(set(0, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(set(0, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_SUCCESS);
  EXPECT_EQ(get(0), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_EQ(set(1, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(set(2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(set(kDevices, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DevicesMemoryTest, HandlesOfOneDeviceAreMappedForSeveral) {
  const CUmemGenericAllocationHandle handle = Create(1);
  EXPECT_EQ(DeviceOfHandle(handle), 1u);
  CUmemAllocationProp properties;
  ASSERT_EQ(cuMemGetAllocationPropertiesFromHandle(&properties, handle), CUDA_SUCCESS);
  EXPECT_EQ(properties.location.id, 1);
  const CUmemAllocationProp wrong = Properties(kDevices);
  CUmemGenericAllocationHandle none;
  EXPECT_EQ(cuMemCreate(&none, kChunk, &wrong, 0), CUDA_ERROR_INVALID_DEVICE);
  CUdeviceptr address;
  ASSERT_EQ(cuMemAddressReserve(&address, kChunk, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(DeviceOf(address), 0u);
  ASSERT_EQ(cuMemMap(address, kChunk, 0, handle, 0), CUDA_SUCCESS);
  CUmemAccessDesc access[2] = {{Location(1), CU_MEM_ACCESS_FLAGS_PROT_READ},
                               {Location(0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  ASSERT_EQ(cuMemSetAccess(address, kChunk, access, 1), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::MemoryMap>().handle, handle);
  EXPECT_EQ(session().Latest<cmd::MemoryMap>().access, 1u);
  ASSERT_EQ(cuMemSetAccess(address, kChunk, access, 2), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::MemoryAccess>().access, 3u);  // The most that any device has.
  const auto get = [&](int device) {
    const CUmemLocation location = Location(device);
    unsigned long long flags = 99;
    EXPECT_EQ(cuMemGetAccess(&flags, &location, address), CUDA_SUCCESS);
    return flags;
  };
  EXPECT_EQ(get(0), 3u);
  EXPECT_EQ(get(1), 1u);
  EXPECT_EQ(get(2), 0u);
  EXPECT_EQ(Access(address), 3u);
  Use(1);
  EXPECT_EQ(Access(address), 1u);
  EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), 1);
  access[0] = {Location(2), CU_MEM_ACCESS_FLAGS_PROT_READ};
  EXPECT_EQ(cuMemSetAccess(address, kChunk, access, 1), CUDA_ERROR_INVALID_DEVICE);
  // Access that is taken from one device stays the other's.
  access[0] = {Location(0), CU_MEM_ACCESS_FLAGS_PROT_NONE};
  ASSERT_EQ(cuMemSetAccess(address, kChunk, access, 1), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::MemoryAccess>().access, 1u);
  EXPECT_EQ(get(1), 1u);
  ASSERT_EQ(cuMemUnmap(address, kChunk), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  session().ReportUnmapped();
  ASSERT_EQ(cuMemAddressFree(address, kChunk), CUDA_SUCCESS);
  // A handle that is kept serves its own device only.
  const CUmemGenericAllocationHandle other = Create(0);
  EXPECT_EQ(DeviceOfHandle(other), 0u);
  const CUmemGenericAllocationHandle same = Create(1);
  EXPECT_EQ(same, handle);
  EXPECT_EQ(cuMemRelease(other), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(same), CUDA_SUCCESS);
}

TEST_F(DevicesMemoryTest, AddressesComeFromOtherDevicesWhereOneHasTooFew) {
  // A part of the arena is 1 GiB.
  CUdeviceptr first, second, wanted;
  ASSERT_EQ(cuMemAddressReserve(&first, 700 << 20, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&second, 700 << 20, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(DeviceOf(first), 0u);
  EXPECT_EQ(DeviceOf(second), 1u);
  const CUdeviceptr in_third = FakeSession::kArenaBase + (2ull << 30) + (512ull << 20);
  ASSERT_EQ(cuMemAddressReserve(&wanted, kChunk, 0, in_third, 0), CUDA_SUCCESS);
  EXPECT_EQ(wanted, in_third);
  EXPECT_EQ(cuMemAddressFree(first, 700 << 20), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(second, 700 << 20), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(wanted, kChunk), CUDA_SUCCESS);
}

TEST_F(DevicesMemoryTest, WhatIsSharedSaysOfWhichDeviceItIs) {
  const CUmemGenericAllocationHandle handle = Create(1);
  int descriptor = -1;
  ASSERT_EQ(cuMemExportToShareableHandle(&descriptor, handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported;
  ASSERT_EQ(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(intptr_t{descriptor}),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  EXPECT_EQ(DeviceOfHandle(imported), 1u);
  EXPECT_EQ(close(descriptor), 0);
  EXPECT_EQ(cuMemRelease(imported), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);

  Use(1);
  const CUdeviceptr memory = Allocate(64);
  CUipcMemHandle ipc;
  ASSERT_EQ(cuIpcGetMemHandle(&ipc, memory), CUDA_SUCCESS);
  // The handle looks like another process's: its token was not offered here.
  CUdeviceptr opened;
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&opened, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_CONTEXT);
  // The device is named by its UUID, and this session has no device with this one.
  ipc.reserved[sizeof(ipc.reserved) - 16] = 77;
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&opened, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DevicesMemoryTest, PoolsOfOtherProcessesAreOfTheSameDevice) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = Location(1);
  CUmemoryPool pool, imported;
  ASSERT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
  int descriptor = -1;
  ASSERT_EQ(cuMemPoolExportToShareableHandle(&descriptor, pool,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(
      cuMemPoolImportFromShareableHandle(&imported, reinterpret_cast<void*>(intptr_t{descriptor}),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      CUDA_SUCCESS);
  EXPECT_EQ(close(descriptor), 0);
  const auto get = [&](int device) {
    CUmemLocation location = Location(device);
    CUmemAccess_flags flags = {};
    EXPECT_EQ(cuMemPoolGetAccess(&flags, imported, &location), CUDA_SUCCESS);
    return flags;
  };
  EXPECT_EQ(get(1), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(get(0), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_EQ(cuMemPoolDestroy(imported), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

TEST_F(DevicesMemoryTest, ManagedMemoryIsTheCurrentDevicesAndReachedByAll) {
  Use(1);
  CUdeviceptr managed;
  ASSERT_EQ(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(DeviceOf(managed), 1u);
  EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, managed), 1);
  // The bytes that the host wrote go to their device before the other device's kernel runs.
  *reinterpret_cast<volatile int*>(managed) = 7;
  Use(0);
  const CUfunction function = LoadKernel();
  session().Clear();
  ASSERT_EQ(Launch(function, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::CopyToDevice>().dst, managed);
  EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::CopyToDevice>().stream), 1u);
  EXPECT_EQ(session().Latest<cmd::StreamBarrier>().stream,
            session().Latest<cmd::CopyToDevice>().stream);
  EXPECT_EQ(Access(managed), 3u);
  EXPECT_EQ(cuMemFree_v2(managed), CUDA_SUCCESS);
}

TEST_F(DevicesMemoryTest, GraphsAllocateOnTheDeviceThatTheyName) {
  CUgraph graph;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = Location(1);
  params.bytesize = 4096;
  CUmemAccessDesc access = {Location(0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  params.accessDescs = &access;
  params.accessDescCount = 1;
  CUgraphNode node;
  ASSERT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params), CUDA_SUCCESS);
  const CUdeviceptr dptr = params.dptr;
  EXPECT_EQ(DeviceOf(dptr), 1u);
  CUgraphExec executable;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, nullptr), CUDA_SUCCESS);
  uint64_t bytes = 0;
  ASSERT_EQ(cuDeviceGetGraphMemAttribute(1, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes),
            CUDA_SUCCESS);
  EXPECT_EQ(bytes, 4096u);
  ASSERT_EQ(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes),
            CUDA_SUCCESS);
  EXPECT_EQ(bytes, 0u);
  access.location.id = 2;  // No peer.
  EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(dptr), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(DevicesMemoryTest, HostMemorySaysWhichDeviceWasCurrent) {
  Use(1);
  void* memory;
  ASSERT_EQ(cuMemHostAlloc(&memory, 4096, 0), CUDA_SUCCESS);
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), 1);
  EXPECT_EQ(Attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address), context_[1]);
  EXPECT_EQ(cuMemFreeHost(memory), CUDA_SUCCESS);
}

}  // namespace
}  // namespace warpline::stub
