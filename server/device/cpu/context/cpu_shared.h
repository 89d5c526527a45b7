// What the parts of one context of the CPU device share.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_SHARED_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_SHARED_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "common/cuda/cuda_result.h"
#include "server/device/cpu/context/cpu_group.h"
#include "server/device/cpu/memory/kept_bytes.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/modules/module_table.h"
#include "server/device/cpu/streams/stream_set.h"
#include "server/device/facets/types.h"
#include "server/device/gate/address_gate.h"
#include "server/device/staging_pool.h"

namespace warpline::cpu {

// Thread-safe, and so is what it hands out.
class CpuShared {
 public:
  // `cores` is the number of the host's cores that run blocks. `place` is the context's number
  // among those of `group`. `staging` is the pool of a device that sessions share; null for a
  // context of any other. Its sinks have granules of `sink_granule_bytes`.
  CpuShared(int cores, std::shared_ptr<CpuGroup> group, uint32_t place,
            device::StagingPool* staging = nullptr, uint64_t sink_granule_bytes = 0)
      : cores_(cores),
        group_(std::move(group)),
        place_(place),
        staging_(staging),
        sink_granule_bytes_(sink_granule_bytes) {}

  // Drops queued work and stops running kernels, also those of the contexts that were opened with
  // this one, because the streams' threads use the parts.
  void Close() { streams().Stop(); }

  int cores() const { return cores_; }
  uint32_t place() const { return place_; }
  CpuGroup& group() { return *group_; }
  // Whether sessions share the device.
  bool is_shared() const { return staging_ != nullptr; }
  device::StagingPool* staging() { return staging_; }
  uint64_t sink_granule_bytes() const { return sink_granule_bytes_; }
  MemoryMap& memory() { return group_->memory; }
  device::AddressGate& gate() { return group_->gate; }
  StreamSet& streams() { return group_->streams; }
  ModuleTable& modules() { return modules_; }
  // The bytes of copies and parameters that wait for their turn.
  KeptBytes& kept() { return kept_; }

  // The number that a stream has in the group.
  uint64_t NumberOf(device::StreamId stream) const {
    return stream == device::kLegacyStream ? StreamSet::LegacyOf(place_)
                                           : static_cast<uint64_t>(stream);
  }

 private:
  static constexpr uint64_t kMaxKeptBytes = uint64_t{256} << 20;

  const int cores_;
  const std::shared_ptr<CpuGroup> group_;
  const uint32_t place_;
  device::StagingPool* const staging_;
  const uint64_t sink_granule_bytes_;
  ModuleTable modules_;
  KeptBytes kept_{kMaxKeptBytes};
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_SHARED_H_
