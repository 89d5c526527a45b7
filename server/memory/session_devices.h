// The devices of one session: its memory on each of them, in the order that it asked for.
//
// What is asked and answered goes to the device whose it is by its address, handle or number
// (proto/devices.h); what names none of them is the first one's, which refuses it.
#ifndef WARPLINE_SERVER_MEMORY_SESSION_DEVICES_H_
#define WARPLINE_SERVER_MEMORY_SESSION_DEVICES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/cuda/cuda_result.h"
#include "memory/arena_book.h"
#include "memory/quota.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "server/memory/device_memory.h"
#include "server/memory/memory_links.h"
#include "server/memory/session_memory.h"
#include "server/process/event_loop.h"
#include "server/workers/worker_link.h"

namespace warpline::server {

// What a session's devices need around them. All borrowed.
struct SessionDevicesLinks {
  EventLoop* control = nullptr;
  WorkerLink* worker = nullptr;
  ClientLink* client = nullptr;
  MemoryReclaimer* reclaimer = nullptr;
};

// A device for a session, and what the session may hold of it.
struct SessionDevicePlace {
  DeviceMemory* memory = nullptr;
  std::shared_ptr<Quota> quota;
};

// Runs on the control loop. Lives until nothing is being taken any more.
class SessionDevices {
 public:
  // `taken` is called after each answer of a device to a request for chunks.
  SessionDevices(const SessionDevicesLinks& links, std::function<void()> taken);
  ~SessionDevices();

  // To be called once, with at least one place. Of `options`, the arena and the number of chunks
  // are those of all devices together, and the number and name of the device do not count.
  void Open(const std::vector<SessionDevicePlace>& places, const SessionMemoryOptions& options);

  // The rest is for when it is open.
  bool empty() const { return devices_.empty(); }
  size_t size() const { return devices_.size(); }
  const DeviceMemory& device(size_t number) const;
  const Quota& quota(size_t number) const;
  const SessionMemory& memory(size_t number) const;

  // As SessionMemory, of the device that it is about.
  void Request(const warpline_internal::MemoryRequest& request);
  void Return(const warpline_internal::MemoryReturn& request);
  absl::Status OnMemoryDone(const warpline_internal::MemoryDone& done);
  CudaResult Charge(const warpline_internal::ChargeMemory& charge);
  bool Uncharge(const warpline_internal::UnchargeMemory& uncharge);
  bool Backs(uint64_t va, uint64_t bytes) const;

  // As SessionMemory, of all devices.
  void Suspend();
  void Abandon();
  void MapAgain(bool go_on, std::function<void(CudaResult)> done);
  void End();

  // Requests for chunks that devices have not answered.
  int takes_under_way() const { return takes_under_way_; }
  // What the session keeps of a device, with a quota (null for any).
  uint64_t KeptBytes(const DeviceMemory* device, const Quota* quota) const;

 private:
  class Device;

  Device& OfAddress(uint64_t va) const;
  Device& OfHandle(uint64_t handle) const;
  Device& Of(uint64_t handle, uint64_t va) const;
  void MapAgainFrom(size_t number, bool go_on, std::function<void(CudaResult)> done);

  const SessionDevicesLinks links_;
  const std::function<void()> taken_;
  int takes_under_way_ = 0;
  ArenaRange arena_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_MEMORY_SESSION_DEVICES_H_
