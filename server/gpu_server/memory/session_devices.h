// The devices of one session: its memory on each of them, in the order that it asked for.
//
// What is asked and answered goes to the device whose it is by its address, handle or number
// (proto/devices.h); what names none of them is the first one's, which refuses it.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_DEVICES_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_DEVICES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/cuda_result.h"
#include "memory/arena_book.h"
#include "memory/quota.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/worker_link.h"
#include "server/gpu_server/memory/device_memory.h"
#include "server/gpu_server/memory/memory_links.h"
#include "server/gpu_server/memory/session_memory.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"

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

// Lives until nothing is being taken any more.
class SessionDevices {
 public:
  // `taken` is called after each answer of a device to a request for chunks.
  SessionDevices(const SessionDevicesLinks& links, std::function<void()> taken);
  ~SessionDevices();

  // To be called once, with at least one place. Of `options`, the arena and the number of chunks
  // are those of all devices together, and the number and name of the device do not count.
  void Open(const std::vector<SessionDevicePlace>& places, const SessionMemoryOptions& options)
      RUNS_ON(control_loop);

  // The rest is for when it is open.
  bool empty() const RUNS_ON(control_loop) { return devices_.empty(); }
  size_t size() const RUNS_ON(control_loop) { return devices_.size(); }
  const DeviceMemory& device(size_t number) const RUNS_ON(control_loop);
  const Quota& quota(size_t number) const RUNS_ON(control_loop);
  // See ChunkSource.
  uint64_t LeftOfLimit(size_t number) const RUNS_ON(control_loop);
  const SessionMemory& memory(size_t number) const RUNS_ON(control_loop);

  // As SessionMemory, of the first device.
  void TakeOwn(uint64_t bytes, const std::function<void(absl::Status)>& taken)
      RUNS_ON(control_loop);
  // As SessionMemory, of the device that it is about.
  void Request(const warpline_internal::MemoryRequest& request) RUNS_ON(control_loop);
  void Return(const warpline_internal::MemoryReturn& request) RUNS_ON(control_loop);
  absl::Status OnMemoryDone(const warpline_internal::MemoryDone& done) RUNS_ON(control_loop);
  CudaResult Charge(const warpline_internal::ChargeMemory& charge) RUNS_ON(control_loop);
  // Of the first device; a session with several has no worker that takes over.
  bool Recharge(uint64_t bytes) RUNS_ON(control_loop);
  bool Uncharge(const warpline_internal::UnchargeMemory& uncharge) RUNS_ON(control_loop);
  bool Backs(uint64_t va, uint64_t bytes) const RUNS_ON(control_loop);

  // As SessionMemory, of all devices.
  void Suspend() RUNS_ON(control_loop);
  void Abandon() RUNS_ON(control_loop);
  void MapAgain(bool go_on, std::function<void(CudaResult)> done) RUNS_ON(control_loop);
  void Seal() RUNS_ON(control_loop);
  // Page the memory of one device after the other; see SessionMemory. After an error of PageOut()
  // the memory of some devices may be away.
  void PageOut(std::function<void(absl::Status)> done) RUNS_ON(control_loop);
  void PageIn(std::function<void(absl::Status)> done) RUNS_ON(control_loop);
  void BringBack(std::function<void(absl::Status)> done) RUNS_ON(control_loop);
  // Both are for the first device; see SessionMemory.
  void ShowAway(std::function<void(absl::StatusOr<SessionMemory::AwayShown>)> shown)
      RUNS_ON(control_loop);
  absl::Status AdoptAway(const SessionMemory::AwayShown& from) RUNS_ON(control_loop);
  // Calls SessionMemory::Store() for all devices. `stored` is called for each that stores anything.
  void Store(const std::function<void(absl::Status)>& stored) RUNS_ON(control_loop);
  bool waits_for_worker() const RUNS_ON(control_loop);
  // Returns true if a request for memory of any device is not answered.
  bool has_requests() const RUNS_ON(control_loop);
  // Returns true if one waits until there is room for it.
  bool waits_for_room() const RUNS_ON(control_loop);
  // Returns true if memory of any device is away.
  bool away() const RUNS_ON(control_loop);
  void End() RUNS_ON(control_loop);

  // Requests for chunks and claims that devices have not answered.
  int takes_under_way() const RUNS_ON(control_loop) { return takes_under_way_; }
  // Whether the session has a device (null for any), of a quota or a part of it (null for any).
  bool Has(const DeviceMemory* device, const Quota* quota) const RUNS_ON(control_loop);
  // Adds up what the session has of a device. Several of its devices may be the same.
  uint64_t Sum(const DeviceMemory& device, uint64_t (SessionMemory::*bytes)() const) const
      RUNS_ON(control_loop);
  // What the session keeps of a device, of a quota or a part of it (null for any).
  uint64_t KeptBytes(const DeviceMemory* device, const Quota* quota) const RUNS_ON(control_loop);

 private:
  class Device;

  Device& OfAddress(uint64_t va) const RUNS_ON(control_loop);
  Device& OfHandle(uint64_t handle) const RUNS_ON(control_loop);
  Device& Of(uint64_t handle, uint64_t va) const RUNS_ON(control_loop);
  using Page = void (SessionMemory::*)(std::function<void(absl::Status)>);
  void PageFrom(size_t number, Page page, std::function<void(absl::Status)> done)
      RUNS_ON(control_loop);
  bool Any(bool (SessionMemory::*is)() const) const RUNS_ON(control_loop);
  void MapAgainFrom(size_t number, bool go_on, std::function<void(CudaResult)> done)
      RUNS_ON(control_loop);

  const SessionDevicesLinks links_;
  const std::function<void()> taken_;
  int takes_under_way_ ABSL_GUARDED_BY(control_loop) = 0;
  ArenaRange arena_ ABSL_GUARDED_BY(control_loop);
  std::vector<std::unique_ptr<Device>> devices_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_SESSION_DEVICES_H_
