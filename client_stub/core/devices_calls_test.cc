// The driver API over a session of three devices, of which the first two are peers.
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/testing/core_fixture.h"
#include "client_stub/core/testing/fake_session.h"
#include "gtest/gtest.h"
#include "proto/devices.h"

namespace warpline::stub {
namespace {

class DevicesCallsTest : public DevicesTest {};

TEST_F(DevicesCallsTest, EachDeviceIsDescribed) {
  int count = 0;
  ASSERT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, kDevices);
  for (int i = 0; i < kDevices; ++i) {
    CUdevice device = -1;
    ASSERT_EQ(cuDeviceGet(&device, i), CUDA_SUCCESS);
    EXPECT_EQ(device, i);
    CUuuid uuid;
    ASSERT_EQ(cuDeviceGetUuid_v2(&uuid, device), CUDA_SUCCESS);
    EXPECT_EQ(uuid.bytes[0], i);
    char bus[32];
    ASSERT_EQ(cuDeviceGetPCIBusId(bus, sizeof(bus), device), CUDA_SUCCESS);
    EXPECT_EQ(cuDeviceGetByPCIBusId(&device, bus), CUDA_SUCCESS);
    EXPECT_EQ(device, i);
  }
  CUdevice device;
  EXPECT_EQ(cuDeviceGet(&device, kDevices), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  int value;
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, kDevices),
            CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DevicesCallsTest, PeersAreThoseThatTheServerNamed) {
  int can = -1;
  ASSERT_EQ(cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(can, 1);
  ASSERT_EQ(cuDeviceCanAccessPeer(&can, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(can, 0);
  ASSERT_EQ(cuDeviceCanAccessPeer(&can, 2, 1), CUDA_SUCCESS);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, kDevices), CUDA_ERROR_INVALID_DEVICE);
  ASSERT_EQ(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(can, 1);
  ASSERT_EQ(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 2),
            CUDA_SUCCESS);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 1),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetP2PAttribute(&can, static_cast<CUdevice_P2PAttribute>(99), 0, 1),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DevicesCallsTest, PeerAccessIsEnabledOnceAndDisabledOnce) {
  EXPECT_EQ(cuCtxDisablePeerAccess(context_[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(cuCtxEnablePeerAccess(context_[1], 1), CUDA_ERROR_INVALID_VALUE);
  // NVIDIA's driver returns these errors, not the ones that cuda.h names.
  EXPECT_EQ(cuCtxEnablePeerAccess(context_[0], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  EXPECT_EQ(cuCtxEnablePeerAccess(nullptr, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxEnablePeerAccess(context_[2], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  EXPECT_EQ(cuCtxEnablePeerAccess(context_[1], 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(context_[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  Use(1);  // Access goes in one direction.
  EXPECT_EQ(cuCtxDisablePeerAccess(context_[0]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  Use(0);
  EXPECT_EQ(cuCtxDisablePeerAccess(context_[1]), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(context_[1], 0), CUDA_SUCCESS);
  // Access ends with either context.
  EXPECT_EQ(cuDevicePrimaryCtxReset_v2(1), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_[1], 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDisablePeerAccess(context_[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

TEST_F(DevicesCallsTest, ContextsSayTheirDevice) {
  CUdevice device = -1;
  Use(1);
  ASSERT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  ASSERT_EQ(cuCtxGetDevice_v2(&device, context_[2]), CUDA_SUCCESS);
  EXPECT_EQ(device, 2);
  CUcontext created;
  ASSERT_EQ(cuCtxCreate_v2(&created, 0, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 2);
  EXPECT_EQ(cuCtxDestroy_v2(created), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxCreate_v2(&created, 0, kDevices), CUDA_ERROR_INVALID_DEVICE);
  unsigned int flags;
  int active = 0;
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(2), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxGetState(2, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  ASSERT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
}

TEST_F(DevicesCallsTest, StreamsAreOfTheirContextsDevice) {
  Use(1);
  const CUstream stream = NewStream();
  EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::StreamCreate>().stream), 1u);
  Use(0);
  CUdevice device = -1;
  ASSERT_EQ(cuStreamGetDevice(stream, &device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  // The legacy stream is the current device's.
  Use(2);
  const CUdeviceptr memory = Allocate(64);
  ASSERT_EQ(cuMemsetD8Async(memory, 0, 64, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::Memset>().stream, HandleOnDevice(2, 1));
  ASSERT_EQ(cuMemsetD8Async(memory, 0, 64, CU_STREAM_LEGACY), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::Memset>().stream, HandleOnDevice(2, 1));
  ASSERT_EQ(cuStreamGetDevice(nullptr, &device), CUDA_SUCCESS);
  EXPECT_EQ(device, 2);
  // A thread's own stream is the current device's, too.
  std::thread([&] {
    for (const int i : {1, 2, 1}) {
      Use(i);
      EXPECT_EQ(cuMemsetD8Async(memory, 0, 64, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
      EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::Memset>().stream), static_cast<uint32_t>(i));
    }
    EXPECT_EQ(session().Count(CommandId::kStreamCreate), 3);
  }).join();
  EXPECT_EQ(session().Count(CommandId::kStreamDestroy), 2);
}

TEST_F(DevicesCallsTest, SynchronizingAContextWaitsForItsDeviceOnly) {
  Use(1);
  session().SetComplete(false);
  const CUdeviceptr memory = Allocate(64);
  ASSERT_EQ(cuMemsetD8Async(memory, 0, 64, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::DeviceSync>().device, 1u);
  EXPECT_EQ(session().Count(CommandId::kContextSync), 0);
}

TEST_F(DevicesCallsTest, WhatASynchronousCopyWroteComesBeforeOtherDevicesWork) {
  const CUdeviceptr memory = Allocate(64);
  char bytes[64] = {};
  ASSERT_EQ(cuMemcpyHtoD_v2(memory, bytes, sizeof(bytes)), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::StreamBarrier>().stream, 1u);
}

TEST_F(DevicesCallsTest, EventsAreRecordedOnTheirDeviceAndAwaitedOnAny) {
  const CUstream first = NewStream();
  CUevent event, other;
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  Use(1);
  const CUstream second = NewStream();
  ASSERT_EQ(cuEventCreate(&other, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, second), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventRecord(event, nullptr), CUDA_ERROR_INVALID_HANDLE);
  session().SetComplete(false);
  ASSERT_EQ(cuEventRecord(event, first), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(other, second), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(second, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::StreamWaitEvent>().stream), 1u);
  session().SetComplete(true);
  float milliseconds;
  EXPECT_EQ(cuEventElapsedTime_v2(&milliseconds, event, other), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventElapsedTime_v2(&milliseconds, event, event), CUDA_SUCCESS);
}

TEST_F(DevicesCallsTest, ModulesBelongToTheirContextsDevice) {
  Use(1);
  const CUfunction function = LoadKernel();
  EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::ModuleLoad>().module), 1u);
  const CUstream stream = NewStream();
  EXPECT_EQ(Launch(function, stream), CUDA_SUCCESS);
  Use(0);
  EXPECT_EQ(Launch(function, stream), CUDA_SUCCESS);  // The stream says where.
  EXPECT_EQ(Launch(function, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Launch(function, NewStream()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(session().Count(CommandId::kLaunch), 2);
}

TEST_F(DevicesCallsTest, ALibraryIsSentToEachDeviceThatUsesIt) {
  const CUlibrary library = LoadLibrary();
  CUkernel kernel, again;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kModuleLoad), 1);
  EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::ModuleLoad>().module), 0u);
  Use(1);
  ASSERT_EQ(cuLibraryGetKernel(&again, library, "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(again, kernel);
  EXPECT_EQ(session().Count(CommandId::kModuleLoad), 1);
  const CUstream stream = NewStream();
  ASSERT_EQ(Launch(kernel, stream), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kModuleLoad), 2);
  EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::ModuleLoad>().module), 1u);
  const uint64_t on_second = session().Latest<cmd::Launch>().kernel;
  EXPECT_EQ(on_second, session().Latest<cmd::KernelFind>().kernel);
  // On the first device it is the one that was found first.
  Use(0);
  ASSERT_EQ(Launch(kernel, nullptr), CUDA_SUCCESS);
  EXPECT_NE(session().Latest<cmd::Launch>().kernel, on_second);
  ASSERT_EQ(Launch(kernel, stream), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::Launch>().kernel, on_second);
  EXPECT_EQ(session().Count(CommandId::kKernelFind), 2);
  ASSERT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kModuleUnload), 2);
  EXPECT_EQ(Launch(kernel, nullptr), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DevicesCallsTest, AFunctionOfALibrarysKernelIsOfOneDevice) {
  const CUlibrary library = LoadLibrary();
  CUkernel kernel;
  CUfunction first, second, same;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_SUCCESS);
  ASSERT_EQ(cuKernelGetFunction(&first, kernel), CUDA_SUCCESS);
  ASSERT_EQ(cuKernelGetFunction(&same, kernel), CUDA_SUCCESS);
  EXPECT_EQ(first, same);
  Use(1);
  ASSERT_EQ(cuKernelGetFunction(&second, kernel), CUDA_SUCCESS);
  EXPECT_NE(first, second);
  const CUstream stream = NewStream();
  EXPECT_EQ(Launch(second, stream), CUDA_SUCCESS);
  EXPECT_EQ(Launch(first, stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Launch(first, nullptr), CUDA_ERROR_INVALID_HANDLE);
  CUmodule module, of_first, of_second;
  ASSERT_EQ(cuLibraryGetModule(&module, library), CUDA_SUCCESS);
  ASSERT_EQ(cuFuncGetModule(&of_second, second), CUDA_SUCCESS);
  ASSERT_EQ(cuFuncGetModule(&of_first, first), CUDA_SUCCESS);
  EXPECT_EQ(module, of_second);
  EXPECT_NE(module, of_first);
  CUlibrary owner;
  ASSERT_EQ(cuKernelGetLibrary(&owner, kernel), CUDA_SUCCESS);
  EXPECT_EQ(owner, library);
  // An attribute belongs to one device, and so does a variable.
  EXPECT_EQ(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536, kernel, 1),
            CUDA_SUCCESS);
  int value = 0;
  ASSERT_EQ(
      cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 1),
      CUDA_SUCCESS);
  EXPECT_EQ(value, 65536);
  ASSERT_EQ(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, second),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 65536);
  ASSERT_EQ(
      cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0),
      CUDA_SUCCESS);
  EXPECT_EQ(value, 47 << 10);
  EXPECT_EQ(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, kDevices),
            CUDA_ERROR_INVALID_DEVICE);
  CUdeviceptr variable;
  ASSERT_EQ(cuLibraryGetGlobal(&variable, nullptr, library, "global"), CUDA_SUCCESS);
  EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::VariableFind>().module), 1u);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(Launch(second, stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DevicesCallsTest, ResettingADeviceLeavesTheOthers) {
  const CUlibrary library = LoadLibrary();
  CUkernel kernel;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_SUCCESS);
  Use(1);
  ASSERT_EQ(Launch(kernel, nullptr), CUDA_SUCCESS);
  const CUdeviceptr kept = Allocate(64);
  Use(0);
  const CUdeviceptr lost = Allocate(64);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kModuleUnload), 1);
  EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::ModuleUnload>().module), 0u);
  Use(1);
  EXPECT_EQ(cuMemFree_v2(lost), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(kept), CUDA_SUCCESS);
  session().Clear();
  EXPECT_EQ(Launch(kernel, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(session().Count(CommandId::kModuleLoad), 0);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

TEST_F(DevicesCallsTest, LimitsAndArraysAndTexturesAreOfTheCurrentDevice) {
  Use(2);
  size_t value;
  ASSERT_EQ(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::LimitGet>().device, 2u);
  ASSERT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048), CUDA_SUCCESS);
  EXPECT_EQ(session().Latest<cmd::LimitSet>().device, 2u);
  CUDA_ARRAY_DESCRIPTOR shape = {8, 4, CU_AD_FORMAT_FLOAT, 1};
  CUarray array[2];
  CUtexObject texture[2];
  for (const int device : {1, 2}) {
    Use(device);
    ASSERT_EQ(cuArrayCreate_v2(&array[device - 1], &shape), CUDA_SUCCESS);
    EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::ArrayCreate>().array),
              static_cast<uint32_t>(device));
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array[device - 1];
    CUDA_TEXTURE_DESC options = {};
    ASSERT_EQ(cuTexObjectCreate(&texture[device - 1], &resource, &options, nullptr), CUDA_SUCCESS);
  }
  // The devices' drivers chose the same number.
  ASSERT_EQ(texture[0], texture[1]);
  for (const int device : {1, 2}) {
    Use(device);
    CUDA_RESOURCE_DESC resource;
    ASSERT_EQ(cuTexObjectGetResourceDesc(&resource, texture[0]), CUDA_SUCCESS);
    EXPECT_EQ(resource.res.array.hArray, array[device - 1]);
    ASSERT_EQ(cuTexObjectDestroy(texture[0]), CUDA_SUCCESS);
    EXPECT_EQ(session().Latest<cmd::TextureDestroy>().device, static_cast<uint32_t>(device));
  }
  EXPECT_EQ(cuTexObjectDestroy(texture[0]), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DevicesCallsTest, ACaptureOfOneDeviceDoesNotConcernAnothers) {
  const CUstream stream = NewStream();
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  Use(1);
  const CUdeviceptr memory = Allocate(64);
  // Neither the other device's legacy stream nor a wait for it is in the way.
  EXPECT_EQ(cuMemsetD8Async(memory, 0, 64, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  CUgraph graph;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

// The graph has a kernel on the first device, and after it one on the second.
class DevicesGraphTest : public DevicesCallsTest {
 protected:
  CUgraphExec Capture(std::vector<int> devices) {
    const CUlibrary library = LoadLibrary();
    CUkernel kernel;
    EXPECT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_SUCCESS);
    Use(devices[0]);
    const CUstream first = NewStream(CU_STREAM_NON_BLOCKING);
    CUevent fork, join;
    EXPECT_EQ(cuEventCreate(&fork, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    EXPECT_EQ(Launch(kernel, first), CUDA_SUCCESS);
    for (size_t i = 1; i < devices.size(); ++i) {
      Use(devices[i]);
      const CUstream other = NewStream(CU_STREAM_NON_BLOCKING);
      EXPECT_EQ(cuEventCreate(&join, 0), CUDA_SUCCESS);
      EXPECT_EQ(cuEventRecord(fork, first), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamWaitEvent(other, fork, 0), CUDA_SUCCESS);
      EXPECT_EQ(Launch(kernel, other), CUDA_SUCCESS);
      EXPECT_EQ(cuEventRecord(join, other), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamWaitEvent(first, join, 0), CUDA_SUCCESS);
    }
    CUgraph graph;
    EXPECT_EQ(cuStreamEndCapture(first, &graph), CUDA_SUCCESS);
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    session().Clear();
    return exec;
  }

  static std::vector<cmd::Launch> Launches() {
    std::vector<cmd::Launch> launches;
    for (const FakeSession::Sent& sent : session().sent()) {
      if (sent.id != CommandId::kLaunch) continue;
      std::memcpy(&launches.emplace_back(), sent.body.data(), sizeof(cmd::Launch));
    }
    return launches;
  }
};

TEST_F(DevicesGraphTest, NodesOfSeveralDevicesGoToStreamsOfTheirs) {
  const CUgraphExec exec = Capture({0, 1});
  Use(0);
  const CUstream stream = NewStream();
  for (int i = 0; i < 3; ++i) {
    session().Clear();
    ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    const std::vector<cmd::Launch> launches = Launches();
    ASSERT_EQ(launches.size(), 2u);
    EXPECT_EQ(DeviceOfHandle(launches[0].stream), 0u);
    EXPECT_EQ(DeviceOfHandle(launches[1].stream), 1u);
    EXPECT_NE(launches[0].kernel, launches[1].kernel);
    // The work goes to the second device and back.
    EXPECT_EQ(session().Count(CommandId::kEventRecord), 2);
    EXPECT_EQ(session().Count(CommandId::kStreamWaitEvent), 2);
    EXPECT_EQ(session().Latest<cmd::StreamWaitEvent>().stream, launches[0].stream);
    EXPECT_EQ(session().Count(CommandId::kGraphCreate), 0);
  }
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(DevicesGraphTest, AGraphOfOneDeviceBecomesThatDevicesWhereverItIsLaunched) {
  const CUgraphExec exec = Capture({1});
  Use(0);
  const CUstream stream = NewStream();
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  ASSERT_EQ(Launches().size(), 1u);
  EXPECT_EQ(DeviceOfHandle(Launches()[0].stream), 1u);
  session().Clear();
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  const auto launch = session().Latest<cmd::GraphLaunch>();
  EXPECT_EQ(DeviceOfHandle(launch.graph), 1u);
  EXPECT_EQ(DeviceOfHandle(launch.stream), 1u);
  EXPECT_EQ(DeviceOfHandle(session().Latest<cmd::StreamWaitEvent>().stream), 0u);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

}  // namespace
}  // namespace warpline::stub
