// The devices of a session, by their numbers in it.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_DEVICE_SET_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_DEVICE_SET_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "proto/devices.h"
#include "server/device/device.h"
#include "server/worker/executors/event.h"
#include "server/worker/executors/session_limits.h"

namespace warpline::worker {

// One of a session's devices.
struct SessionDevice {
  device::Context* context = nullptr;  // Borrowed.
  // The bound of CU_LIMIT_STACK_SIZE: the device takes stacks from memory beside what the session
  // is charged for.
  uint64_t max_stack_bytes = 64u << 10;
  // Threads that it can hold at once, each of which gets a stack.
  uint64_t max_threads = 1;
  // What loads the session's code; null for the context itself. Borrowed.
  device::Modules* code = nullptr;
};

// Immutable, and so thread-safe.
class DeviceSet {
 public:
  // There is at least one device, and they are numbered in their order (proto/devices.h). Their
  // contexts were opened together.
  DeviceSet(std::vector<SessionDevice> devices, const SessionLimits& limits);

  uint32_t size() const { return static_cast<uint32_t>(devices_.size()); }
  bool several() const { return devices_.size() > 1; }
  bool HasDeviceOf(uint64_t handle) const { return DeviceOfHandle(handle) < devices_.size(); }

  // These take the number of a device that exists.
  device::Context* context(uint32_t device) const { return devices_[device].context; }
  device::Modules* code(uint32_t device) const {
    const SessionDevice& of = devices_[device];
    return of.code != nullptr ? of.code : of.context;
  }
  EventPool* events(uint32_t device) const { return events_[device].get(); }
  // The bound that the session has for a CUlimit of a device; 0 for a limit that it may not set.
  uint64_t MostOfLimit(uint32_t device, int limit) const;
  // The memory that the device takes for such a value of a CUlimit.
  uint64_t BytesOfLimit(uint32_t device, int limit, uint64_t value) const;

 private:
  const std::vector<SessionDevice> devices_;
  const SessionLimits limits_;
  std::vector<std::unique_ptr<EventPool>> events_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_DEVICE_SET_H_
