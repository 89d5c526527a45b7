// A worker's side of a session: decodes the client's commands and deals them to lanes.
//
// Everything that arrives is hostile until it has been checked here: lengths by the wire reader,
// numbering, handles, limits. What is checked is in this process's own memory, which the client
// cannot write.
#ifndef WARPLINE_SERVER_WORKER_SESSION_SESSION_H_
#define WARPLINE_SERVER_WORKER_SESSION_SESSION_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"
#include "lease/rights.h"
#include "proto/dispatch.h"
#include "server/worker/continuity/recorder.h"
#include "server/worker/continuity/variable_carrier.h"
#include "server/worker/continuity/variable_placer.h"
#include "server/worker/host/output_capture.h"
#include "server/worker/lanes/control_lane.h"
#include "server/worker/lanes/image_cache.h"
#include "server/worker/lanes/stream_lane.h"
#include "server/worker/memory/virtual_memory.h"

namespace warpline::worker {

// Asks for device memory outside the arena. Thread-safe.
class MemoryCharger {
 public:
  virtual ~MemoryCharger() = default;
  // Waits for the server's answer. kOutOfMemory beyond the quota.
  virtual CudaResult Charge(uint32_t device, uint64_t bytes) = 0;
  virtual void Uncharge(uint32_t device, uint64_t bytes) = 0;
};

// One of a session's devices.
struct SessionDevice {
  device::Context* context = nullptr;  // Borrowed.
  // Of CU_LIMIT_STACK_SIZE: the device takes its memory beside what the session is charged for.
  uint64_t max_stack_bytes = 64u << 10;
};

struct SessionLimits {
  uint64_t max_handles = 1 << 20;  // Of all kinds together.
  uint64_t max_streams = 1024;     // Each has a thread.
  uint64_t max_module_bytes = 4ull << 30;
  uint64_t max_graph_nodes = 1u << 20;       // Of all graphs together.
  uint64_t max_queued_bytes = 256ull << 20;  // Payloads not yet executed.
  // Commands not yet complete; a client keeps to its window, which is smaller.
  uint64_t max_queued_commands = 256u << 10;
  size_t max_watches = 4096;  // Waits for all streams at once.
  size_t staging_buffers = 16;
  // Of CU_LIMIT_PRINTF_FIFO_SIZE and _MALLOC_HEAP_SIZE: as SessionDevice::max_stack_bytes.
  uint64_t max_printf_bytes = 64u << 20;
  uint64_t max_heap_bytes = 1ull << 30;
};

// Decode() and the destructor run on one thread, the decoder's; the LaneHost part is thread-safe.
class Session : public LaneHost {
 public:
  // `devices`, at least one, are numbered in their order (proto/devices.h); their contexts were
  // opened together. `writer` is borrowed.
  Session(std::vector<SessionDevice> devices, FrameWriter* writer, const SessionLimits& limits);
  Session(device::Context* context, FrameWriter* writer, const SessionLimits& limits)
      : Session({SessionDevice{context}}, writer, limits) {}
  ~Session() override;

  // False when the system has no threads for it; nothing else may be called then.
  bool ok() const { return legacy_.size() == devices_.size(); }

  // The devices' parts of it say whose textures of plain memory are: device 0's for other
  // addresses. Before the first Decode().
  void set_arena(uint64_t base, uint64_t bytes) {
    arena_base_ = base;
    arena_bytes_ = bytes;
  }

  // What kernels print goes to the client from now on. Borrowed; before the first Decode().
  void set_output(OutputSource* output) { output_ = output; }

  // What arrays take is asked of it from now on. Borrowed; before the first Decode().
  void set_charger(MemoryCharger* charger) { charger_ = charger; }

  // Takes one kCommands payload. INVALID_ARGUMENT when it breaks the protocol; the session cannot
  // go on then. Waits while more is queued than the limits allow.
  absl::Status Decode(std::string payload);

  // What the server hands over of memory handles. Borrowed; before the first Decode(). Without it
  // there are no handles to be mapped.
  void set_virtual_memory(VirtualMemory* memory) { virtual_memory_ = memory; }

  // Notes from now on what the session's next worker needs, in `recorder` (borrowed). Once, before
  // anything else.
  void SetRecorder(Recorder* recorder);
  // Asks for images there, and leaves them there, from now on. Borrowed; not while replaying.
  void set_image_cache(ImageCache* cache) { image_cache_ = cache; }
  // `sm` of the device, such as 90, tells which of a module's images runs.
  void set_sm(int sm) { sm_ = sm; }
  const SharedUsage& usage() const { return *usage_; }
  // Commands that need another right are refused with CUDA_ERROR_NOT_PERMITTED. Before the first
  // Decode().
  void set_rights(Rights rights) { rights_ = rights; }
  // Makes again what the journal has and goes on after command `seq`. On the decoder's thread,
  // before Decode(). ABORTED when it cannot be as it was, FAILED_PRECONDITION with several devices.
  absl::Status Replay(uint64_t seq);
  // For a planned replacement: what module variables hold, from this worker to the next, which
  // restores it after Replay(). From any thread, with nothing in flight. As VariableCarrier, and
  // FAILED_PRECONDITION with several devices; needs a recorder.
  absl::Status SaveVariables(int fd);
  absl::Status RestoreVariables(int fd) { return variables_.Restore(fd); }

  // LaneHost.
  device::Context* context(uint32_t device) override { return devices_[device].context; }
  EventPool* events(uint32_t device) override { return events_[device].get(); }
  ReplySink* sink() override { return &sink_; }
  StagingPool* staging() override { return &staging_; }
  LaunchGate* gate() override { return &gate_; }
  LogBudget* log() override { return &log_; }
  CudaResult fault() const override { return fault_.load(std::memory_order_acquire); }
  void Fail(uint64_t seq, CommandId id, CudaResult result) override;
  void OnRetired(Lane* lane, uint64_t count, std::string* batch) override;
  void AfterRetired() override;
  void NotePrints() override;
  void SendOutput() override;
  uint64_t MostOfLimit(uint32_t device, int limit) override;
  void OnRecorded(const EventRecord& record) override;
  uint32_t OnModuleLoaded(const Task& task) override;
  void OnModuleUnloading(uint64_t module) override;
  void OnAtRisk(uint32_t flags) override;
  void OnVariableFound(const Task& task, uint64_t address, uint64_t bytes) override;
  CudaResult PlaceVariables(const Task& task,
                            const std::function<CudaResult(device::ModuleId*)>& load) override;
  void OnLostWithWorker(bool any) override;
  CudaResult Charge(uint32_t device, uint64_t bytes) override;
  void Uncharge(uint32_t device, uint64_t bytes) override;
  void KeepImage(const Image& image) override;

  // One for each command, called by DispatchCommand.
  void On(const cmd::StreamCreate& command, std::string_view tail);
  void On(const cmd::StreamDestroy& command, std::string_view tail);
  void On(const cmd::StreamSync& command, std::string_view tail);
  void On(const cmd::StreamWaitEvent& command, std::string_view tail);
  void On(const cmd::StreamBarrier& command, std::string_view tail);
  void On(const cmd::ContextSync& command, std::string_view tail);
  void On(const cmd::DeviceSync& command, std::string_view tail);
  void On(const cmd::EventCreate& command, std::string_view tail);
  void On(const cmd::EventDestroy& command, std::string_view tail);
  void On(const cmd::EventRecord& command, std::string_view tail);
  void On(const cmd::EventSync& command, std::string_view tail);
  void On(const cmd::EventElapsed& command, std::string_view tail);
  void On(const cmd::Memset& command, std::string_view tail);
  void On(const cmd::CopyToDevice& command, std::string_view tail);
  void On(const cmd::CopyFromDevice& command, std::string_view tail);
  void On(const cmd::CopyOnDevice& command, std::string_view tail);
  void On(const cmd::FreeFence& command, std::string_view tail);
  void On(const cmd::ImageData& command, std::string_view tail);
  void On(const cmd::ModuleLoad& command, std::string_view tail);
  void On(const cmd::ModuleCheck& command, std::string_view tail);
  void On(const cmd::ModuleUnload& command, std::string_view tail);
  void On(const cmd::KernelFind& command, std::string_view tail);
  void On(const cmd::GlobalFind& command, std::string_view tail);
  void On(const cmd::VariableFind& command, std::string_view tail);
  void On(const cmd::KernelSetAttribute& command, std::string_view tail);
  void On(const cmd::MaxActiveBlocks& command, std::string_view tail);
  void On(const cmd::Launch& command, std::string_view tail);
  void On(const cmd::LaunchEx& command, std::string_view tail);
  void On(const cmd::ModuleLoadJit& command, std::string_view tail);
  void On(const cmd::ModuleJitLog& command, std::string_view tail);
  void On(const cmd::ModuleKernels& command, std::string_view tail);
  void On(const cmd::ClusterOccupancy& command, std::string_view tail);
  void On(const cmd::LimitGet& command, std::string_view tail);
  void On(const cmd::LimitSet& command, std::string_view tail);
  void On(const cmd::HostCall& command, std::string_view tail);
  void On(const cmd::HostDone& command, std::string_view tail);
  void On(const cmd::MemsetRows& command, std::string_view tail);
  void On(const cmd::CopyBoxToDevice& command, std::string_view tail);
  void On(const cmd::CopyBoxFromDevice& command, std::string_view tail);
  void On(const cmd::CopyBoxOnDevice& command, std::string_view tail);
  void On(const cmd::StreamMemOps& command, std::string_view tail);
  void On(const cmd::StreamSetAttribute& command, std::string_view tail);
  // session_objects.cc
  void On(const cmd::TensorMapEncode& command, std::string_view tail);
  void On(const cmd::LinkCreate& command, std::string_view tail);
  void On(const cmd::LinkAdd& command, std::string_view tail);
  void On(const cmd::LinkComplete& command, std::string_view tail);
  void On(const cmd::LinkRead& command, std::string_view tail);
  void On(const cmd::LinkLog& command, std::string_view tail);
  void On(const cmd::LinkDestroy& command, std::string_view tail);
  void On(const cmd::ArrayCreate& command, std::string_view tail);
  void On(const cmd::ArrayPart& command, std::string_view tail);
  void On(const cmd::ArrayDestroy& command, std::string_view tail);
  void On(const cmd::CopyToArray& command, std::string_view tail);
  void On(const cmd::CopyFromArray& command, std::string_view tail);
  void On(const cmd::CopyDeviceToArray& command, std::string_view tail);
  void On(const cmd::CopyArrayToDevice& command, std::string_view tail);
  void On(const cmd::CopyArrayToArray& command, std::string_view tail);
  void On(const cmd::TextureCreate& command, std::string_view tail);
  void On(const cmd::TextureDestroy& command, std::string_view tail);
  void On(const cmd::GraphCreate& command, std::string_view tail);
  void On(const cmd::GraphDestroy& command, std::string_view tail);
  void On(const cmd::GraphLaunch& command, std::string_view tail);
  void On(const cmd::GraphCreateIn& command, std::string_view tail);
  void On(const cmd::ConditionalCreate& command, std::string_view tail);
  void On(const cmd::ConditionalDestroy& command, std::string_view tail);
  void On(const cmd::ImageFind& command, std::string_view tail);
  void On(const cmd::ImageZstd& command, std::string_view tail);
  void On(const cmd::MemoryMap& command, std::string_view tail);
  void On(const cmd::MemoryAccess& command, std::string_view tail);
  void On(const cmd::MemoryUnmap& command, std::string_view tail);
  void On(const cmd::StreamIgnoreBarriers& command, std::string_view tail);

 private:
  struct Event {
    uint32_t flags = 0;
    std::shared_ptr<EventRecord> latest;
  };
  struct HostCall {
    std::shared_ptr<Lane> lane;
    std::shared_ptr<HostWait> wait;
  };
  struct Barriers {
    std::shared_ptr<EventRecord> latest;
    uint64_t count = 0;
  };
  // Runs `done` once every lane has retired the ticket noted beside it.
  struct Watch {
    std::vector<std::pair<std::shared_ptr<Lane>, uint64_t>> lanes;
    std::function<void()> done;
  };

  bool several_devices() const { return devices_.size() > 1; }
  bool HasDevice(uint64_t handle) const { return DeviceOfHandle(handle) < devices_.size(); }
  // Whether the session's rights allow the command being decoded; refuses it otherwise.
  bool Permitted();
  // Notes the command and hands it to its On().
  void Execute(std::string_view body);
  // Says in the journal that nothing is in flight, if `all`, the last AllSeq(), means that.
  void PublishIfIdle(uint64_t all);
  void ReplayEntry(JournalEntry entry);
  void FlushLanes();
  bool Idle();
  // Flushes them and waits until everything is complete.
  void FinishLanes();
  template <typename Command>
  Task NewTask(const Command& command, std::string_view tail);
  // Sends a task to the lane of a stream with the order that the legacy stream asks for.
  void Enqueue(const std::shared_ptr<Lane>& lane, Task task);
  std::shared_ptr<Lane> FindLane(uint64_t stream);
  // Null when the system has no thread for it.
  std::shared_ptr<Lane> OpenLane(Lane::Kind kind, uint64_t stream);
  bool TooMuchQueued() const;
  // `task`, the next of `lane`, comes after the latest of these unless the lane already does.
  static void ComesAfterBarrier(const std::shared_ptr<Lane>& lane, const Barriers& barriers,
                                uint64_t* seen, Task* task);
  // `task`, the next of `lane`, comes after what `other` had appended up to `ticket`, as far as
  // there is data for the client (Lane::data_ticket).
  static void ComesAfterData(Lane* lane, const std::shared_ptr<Lane>& other, uint64_t ticket,
                             Task* task);
  template <typename Command>
  void ToStream(const Command& command, std::string_view tail);
  template <typename Command>
  void ToKernel(const Command& command, std::string_view tail);
  template <typename Command>
  void ToModule(const Command& command, std::string_view tail);
  void ToControl(Task task);
  // Of what lanes other than `task`'s were given so far, all is issued before it.
  void AfterAllIssued(Task* task);
  template <typename Command>
  void ToLink(const Command& command, std::string_view tail);
  // Sends a copy to its stream, behind the creation of the arrays. Null for a handle that is none.
  template <typename Command>
  void CopyOn(const Command& command, std::string_view tail, std::shared_ptr<Array> array,
              std::shared_ptr<Array> second);
  // `frame` is null for a graph without conditional nodes.
  template <typename Command>
  void CreateGraph(const Command& command, std::string_view tail, std::shared_ptr<Frame> frame);
  std::shared_ptr<Array> FindArray(uint64_t handle);
  // An image that is charged and in the table, or null after a refusal.
  std::shared_ptr<Image> NewImage(uint64_t handle, uint64_t total);
  std::shared_ptr<Image> ImageForPart(uint64_t handle, uint64_t total, uint64_t offset);
  void DropImage(uint64_t handle);
  // Notes a whole image in the journal. False when it has no room.
  bool NoteParts(uint64_t handle, std::string_view bytes);
  // Makes a module of a complete image, and a launch of a kernel.
  template <typename Command>
  void LoadFrom(const Command& command, std::string_view tail);
  template <typename Command>
  void LaunchOn(const Command& command, std::string_view tail);

  // Counts that the limit was met and says it in the log, once for each.
  void Meet(Limit limit, uint64_t most);
  // The same, and refuses with kOutOfMemory.
  void RefuseBeyond(Limit limit, uint64_t most);
  // Answers a round trip with an error, or reports a failed one-way command.
  void Refuse(CudaResult result);
  // The command being decoded is complete without a lane.
  void RetireHere() { ++retired_here_; }
  uint64_t handle_count() const;
  bool HandlesLeft();
  void PublishUsage();
  void WhenAllRetired(std::function<void()> done);
  // Of the streams of one device.
  void WhenDeviceRetired(uint32_t device, std::function<void()> done);
  template <typename Wanted>
  void WhenRetired(const Wanted& wanted, std::function<void()> done);
  void RunWatches();
  // Everything up to this is complete, and its replies sent, or about to be in the batch of
  // `reporter`.
  uint64_t AllSeq(const Lane* reporter);
  // False when as much was reported already.
  bool RaiseReported(uint64_t all);
  void ReapLanes();

  const std::vector<SessionDevice> devices_;
  const SessionLimits limits_;
  LogBudget log_;
  uint64_t arena_base_ = 0;
  uint64_t arena_bytes_ = 0;
  Recorder* recorder_ = nullptr;
  std::unique_ptr<VariablePlacer> placer_;  // While code is made again.
  SharedUsage own_usage_;
  SharedUsage* usage_ = &own_usage_;  // In the journal, where there is one.
  ImageCache* image_cache_ = nullptr;
  int sm_ = 0;
  Rights rights_ = kAllRights;
  uint32_t said_missing_ = 0;  // By Capability: the log has it.
  ReplySink sink_;
  std::vector<std::unique_ptr<EventPool>> events_;  // By device.
  StagingPool staging_;
  LaunchGate gate_;
  VariableCarrier variables_;  // Of a session with one device.

  // Decoder only.
  uint64_t next_seq_ = 1;
  uint64_t seq_ = 0;  // Of the command being decoded.
  CommandId id_{};
  bool refused_ = false;
  std::shared_ptr<const std::string> payload_;
  uint64_t retired_here_ = 0;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Lane>> lanes_;
  // Of destroyed streams, whose work still has its place in the order.
  std::vector<std::shared_ptr<Lane>> leaving_;
  absl::flat_hash_map<uint64_t, Event> event_table_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Image>> images_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Module>> modules_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Kernel>> kernels_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Link>> links_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Array>> arrays_;
  absl::flat_hash_map<uint64_t, HostCall> host_calls_;  // Those that the client has yet to answer.
  absl::flat_hash_map<uint64_t, std::shared_ptr<Graph>> graphs_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Frame>> frames_;
  uint64_t module_bytes_ = 0;  // Images of modules and graphs.
  uint64_t graph_nodes_ = 0;
  std::array<bool, kLimitCount> said_limit_{};
  // StreamBarriers of lanes that come after all of them, and of those that ignore the former.
  std::array<Barriers, 2> barriers_;
  std::vector<std::shared_ptr<Lane>> legacy_;  // By device.
  std::shared_ptr<Lane> control_;
  std::shared_ptr<Lane> linker_;  // From the first LinkCreate on.

  std::atomic<CudaResult> fault_{CudaResult::kSuccess};
  std::atomic<uint64_t> decoded_seq_{0};
  std::atomic<uint64_t> retired_count_{0};
  std::atomic<uint64_t> reported_seq_{0};  // The largest all_seq that was or is being reported.
  std::atomic<uint64_t> queued_bytes_{0};
  std::atomic<int> watch_count_{0};

  MemoryCharger* charger_ = nullptr;
  VirtualMemory* virtual_memory_ = nullptr;
  OutputSource* output_ = nullptr;
  std::atomic<bool> prints_{false};
  Mutex output_mu_;  // Held while output is sent, so that none is overtaken. Before the sink's.

  // Lock order: mu_ before the locks of lanes and of the sink.
  Mutex mu_;
  std::vector<std::shared_ptr<Lane>> all_lanes_ ABSL_GUARDED_BY(mu_);
  std::vector<Watch> watches_ ABSL_GUARDED_BY(mu_);
};

template <typename Command>
Task Session::NewTask(const Command& command, std::string_view tail) {
  Task task;
  task.seq = seq_;
  task.id = id_;
  task.command = command;
  if (!tail.empty()) task.payload = payload_;
  task.tail = tail;
  return task;
}

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_SESSION_SESSION_H_
