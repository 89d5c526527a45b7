// One client's session in a worker process: decodes its commands, holds its objects, runs its
// executors, and keeps what a next worker would need.
//
//   HostedSession::Options options;
//   options.devices = {{context}};
//   options.writer = &replies;
//   auto session = HostedSession::Create(std::move(options));
//   if (!session.ok()) return session.status();
//   absl::Status status = (*session)->Decode(payload);  // For each frame.
//
// A process may host several sessions: nothing here belongs to the process.
#ifndef WARPLINE_SERVER_WORKER_SESSION_HOSTED_SESSION_H_
#define WARPLINE_SERVER_WORKER_SESSION_HOSTED_SESSION_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/log/log_budget.h"
#include "common/progress.h"
#include "lease/rights.h"
#include "server/hostlink/dispatch_gate/executor_turns.h"
#include "server/hostlink/handover/session_usage.h"
#include "server/worker/commands/command_handler.h"
#include "server/worker/commands/current_command.h"
#include "server/worker/commands/object_tables.h"
#include "server/worker/commands/vetted_programs.h"
#include "server/worker/continuity/continuity.h"
#include "server/worker/continuity/recorder.h"
#include "server/worker/executors/cached_images.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/device_set.h"
#include "server/worker/executors/executor_host.h"
#include "server/worker/executors/executor_inbox.h"
#include "server/worker/executors/kernel.h"
#include "server/worker/executors/print_relay.h"
#include "server/worker/executors/session_limits.h"
#include "server/worker/executors/staging_pool.h"
#include "server/worker/memory/arena_book.h"
#include "server/worker/memory/host_memory.h"
#include "server/worker/memory/neighbour_pointers.h"
#include "server/worker/memory/virtual_memory.h"
#include "server/worker/order/completion.h"
#include "server/worker/order/stream_order.h"
#include "server/worker/replies/reply_sink.h"
#include "server/worker/session/decoder.h"

namespace warpline::worker {

// Thread-safe, except for what runs on the decoder's thread, to which the destructor belongs, too.
class HostedSession {
 public:
  struct Options {
    // At least one device; they are numbered in their order (proto/devices.h), and their contexts
    // were opened together.
    std::vector<SessionDevice> devices;
    SessionLimits limits;
    FrameWriter* writer = nullptr;  // Borrowed, like all pointers here.
    // The session's arena. In whose part of it plain memory lies, to that device a texture of the
    // memory belongs; with 0 bytes, to device 0.
    uint64_t arena_base = 0;
    uint64_t arena_bytes = 0;
    Rights rights = kAllRights;
    // Set for a session that may load no other images (docs/operations.md).
    std::optional<VettedPrograms> vetted;
    int sm = 0;  // That of the device, such as 90; it decides which of a module's images runs.
    // These may be null.
    OutputSource* output = nullptr;    // What kernels print.
    MemoryCharger* charger = nullptr;  // Charged for what is outside the arena, and on the host.
    uint64_t host_charged_bytes = 0;   // See HostMemory.
    VirtualMemory* memory = nullptr;   // The memory handles that the server hands over.
    Recorder* recorder = nullptr;      // Notes what a next worker needs.
    // The arenas of the process's sessions, this one's among them: values in the parameters of
    // launches that look like addresses in others' are counted. Null for a session that is not
    // guarded.
    const ArenaBook* arenas = nullptr;
    // Whose turn it is on the devices' engines. Null where nothing is dispatched.
    const dispatch::SessionGates* gates = nullptr;
    // See Completion::Parts.
    std::function<void()> on_fault;
    // See ExecutorHost.
    std::function<void(const std::string& why)> end_work;
    // True if the caller of Decode() also calls LookAfterExecutor(), often.
    bool adopt_executors = false;
    // The devices are shared with other sessions of the process, which does not look into images.
    bool shares_device = false;
  };

  // RESOURCE_EXHAUSTED when the system has no threads for it.
  static absl::StatusOr<std::unique_ptr<HostedSession>> Create(Options options)
      RUNS_ON(decoder_thread);
  ~HostedSession();
  HostedSession(const HostedSession&) = delete;
  HostedSession& operator=(const HostedSession&) = delete;

  // Calls Decoder::Decode().
  absl::Status Decode(std::string payload) RUNS_ON(decoder_thread) {
    return decoder_.Decode(std::move(payload));
  }

  // The session is over: Decode() returns soon, whatever it waits for, with CANCELLED. Any thread
  // may call it.
  void BeginEnd() {
    ending_.store(true, std::memory_order_seq_cst);
    progress_.Notify();
  }

  // Calls Completion::FailUnasked(). Any thread may call it.
  void Fail(CudaResult result, std::string_view why) { completion_.FailUnasked(result, why); }

  // Calls Completion::StalledSince().
  absl::Time StalledSince() { return completion_.StalledSince(); }

  // Makes again what the recorder's journal holds, and goes on after command `seq`. Call it before
  // Decode(). The errors are those of ReplayJournal().
  absl::Status Replay(uint64_t seq) RUNS_ON(decoder_thread);
  // What has to be charged of the first device after that; see OutsideMemory::EndReplay().
  uint64_t replayed_bytes() const { return replayed_bytes_; }
  // Looks images up in `cache`, and leaves new ones there, from now on. Not to be called before
  // Replay().
  void UseImageCache(ImageCache* cache) RUNS_ON(decoder_thread) { images_.Use(cache); }
  // Between two payloads: looks after an executor that the decoder's thread has adopted, and
  // returns whether anything is under way there. GiveBackExecutor() comes before the thread sleeps.
  bool LookAfterExecutor() RUNS_ON(decoder_thread) { return order_.LookAfterAdopted(); }
  void GiveBackExecutor() RUNS_ON(decoder_thread) { order_.GiveBackAdopted(); }
  // What it says to its client.
  ReplySink& replies() { return sink_; }
  // Tells `record` of the images of modules, on the same terms.
  void RecordModules(ModuleRecord* record) RUNS_ON(decoder_thread) { images_.Record(record); }

  // These call Continuity.
  absl::Status SaveVariables(int fd) { return continuity_.Save(fd); }
  absl::Status RestoreVariables(int fd) { return continuity_.Restore(fd); }

  // Lies in the journal when there is one.
  const SharedUsage& usage() const { return *usage_; }

 private:
  explicit HostedSession(Options options);

  const SessionLimits limits_;
  std::atomic<bool> ending_{false};
  LogBudget log_;
  SharedUsage own_usage_;
  SharedUsage* const usage_;

  // The members stand in the order in which they need each other.
  const DeviceSet devices_;
  Progress progress_;
  ReplySink sink_;
  StagingPool staging_;
  LaunchGate gate_;
  const std::optional<NeighbourPointers> pointers_;
  ExecutorNaps naps_;
  CachedImages images_;
  PrintRelay prints_;
  Continuity continuity_;
  OutsideMemory outside_;
  LibraryBudget libraries_;
  std::deque<PaidCode> paid_code_;  // By device.
  HostMemory host_memory_ ABSL_GUARDED_BY(decoder_thread);
  Completion completion_;
  const ExecutorHost executor_host_;
  StreamOrder order_ ABSL_GUARDED_BY(decoder_thread);
  ObjectTables tables_ ABSL_GUARDED_BY(decoder_thread);
  CurrentCommand current_ ABSL_GUARDED_BY(decoder_thread);
  const std::optional<VettedPrograms> vetted_;
  const CommandParts command_parts_;
  Decoder decoder_ ABSL_GUARDED_BY(decoder_thread);
  uint64_t replayed_bytes_ = 0;  // Constant after Replay().
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_SESSION_HOSTED_SESSION_H_
