// Tells the device what this process has allocated, in a session whose kernels check their accesses
// (GuardMode::kReport).
//
//   WARPLINE_TRY(checked_ranges->BeforeWork(device));   // Before each launch
//
// What was allocated or freed since the last launch is written to the device's table
// (proto/guard.h) while nothing runs, because kernels read it: so such a launch waits for all work.
#ifndef WARPLINE_CLIENT_STUB_CORE_CHECKS_CHECKED_RANGES_H_
#define WARPLINE_CLIENT_STUB_CORE_CHECKS_CHECKED_RANGES_H_

#include <array>
#include <cstdint>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/runtime/device.h"
#include "client_stub/session/session_terms.h"
#include "common/mutex.h"
#include "proto/devices.h"

namespace warpline::stub {

// Thread-safe.
class CheckedRanges {
 public:
  // `memory` is borrowed. The session has `devices` devices.
  CheckedRanges(const SessionTerms& terms, uint32_t devices, DeviceMemory* memory);

  // Writes the device's table where it is out of date. A module must have been loaded on the
  // device. The errors of copies.
  CUresult BeforeWork(Device* device);

 private:
  uint64_t TableOf(uint32_t device) const;

  const uint64_t arena_base_;
  const uint64_t arena_bytes_;
  const uint32_t devices_;
  DeviceMemory* const memory_;
  Mutex mu_;
  // What DeviceMemory::changes() was when each device's table was written.
  std::array<uint64_t, kMaxSessionDevices> written_ ABSL_GUARDED_BY(mu_) = {};
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CHECKS_CHECKED_RANGES_H_
