#include "client_stub/core/testing/fake_session.h"

#include <cstddef>

#include "client_stub/core/base/cuda_api.h"

namespace warpline::stub {
namespace {

void Describe(uint32_t number, RemoteDevice* device) {
  device->name = "Fake";
  device->total_bytes = uint64_t{1} << 30;
  device->driver_version = 13000;
  device->greatest_stream_priority = -5;
  for (size_t i = 0; i < device->uuid.size(); ++i) device->uuid[i] = static_cast<uint8_t>(i);
  device->uuid[0] = static_cast<uint8_t>(number);
  device->pci_bus_id = "0000:1a:00.0";
  const auto set = [device](CUdevice_attribute which, int value) {
    device->attributes[which] = value;
  };
  set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff);
  set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535);
  set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535);
  set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024);
  set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024);
  set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64);
  set(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024);
  set(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536);
  set(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32);
  set(CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff);
  set(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048);
  set(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132);
  set(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10);
  set(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10);
  set(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024);
  set(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0x1a + static_cast<int>(number));
  set(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9);
  set(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1);
  set(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1);
  set(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1);
  set(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1);
}

}  // namespace

FakeSession::FakeSession(uint32_t devices) : FakeCommands(this), FakeMemory(&terms_) {
  SetParts({.terms = &terms_,
            .commands = this,
            .status = this,
            .memory = this,
            .bulk = &bulk_,
            .relay_bulk = &relay_bulk_,
            .notices = this,
            .counters = &counters_});
  terms_.arena_base = kArenaBase;
  terms_.arena_bytes = kArenaBytes;
  terms_.devices.resize(devices);
  for (uint32_t i = 0; i < devices; ++i) Describe(i, &terms_.devices[i]);
  if (devices < 2) return;
  terms_.devices[0].peers = 1u << 1;
  terms_.devices[1].peers = 1u << 0;
}

void FakeSession::SetFeatures(uint64_t features, bool same_host) {
  terms_.features = features;
  terms_.same_host = same_host;
}

void FakeSession::Clear() {
  ClearCommands();
  SetError(CudaResult::kSuccess);
  SetDeferred(CudaResult::kSuccess);
}

}  // namespace warpline::stub
