// A hosted session that the server feeds: its commands come through a ring in shared memory, its
// replies leave through another, and its journal lies in memory of the server.
#ifndef WARPLINE_SERVER_WORKER_HOST_RING_SESSION_H_
#define WARPLINE_SERVER_WORKER_HOST_RING_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/compiler/client/compiler_client.h"
#include "server/device/facets/types.h"
#include "server/hostlink/dispatch_gate/executor_turns.h"
#include "server/worker/code/guarded_code.h"
#include "server/worker/continuity/journal.h"
#include "server/worker/continuity/recorder.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/host/arena_memory.h"
#include "server/worker/host/kernel_pace.h"
#include "server/worker/host/ring_writer.h"
#include "server/worker/host/server_image_cache.h"
#include "server/worker/host/server_module_record.h"
#include "server/worker/host/socket_charger.h"
#include "server/worker/memory/arena_book.h"
#include "server/worker/memory/virtual_memory.h"
#include "server/worker/session/hosted_session.h"
#include "transport/shm_ring.h"

namespace warpline::worker {

class RingSession {
 public:
  struct Options {
    std::vector<SessionDevice> devices;
    // They are shared with other sessions of the process. The session is guarded, and its arena is
    // sealed before its first command, and before the first one after memory was moved.
    bool shared = false;
    int control_fd = -1;             // Borrowed; the socket to the server.
    OutputSource* output = nullptr;  // Borrowed; what the session's kernels print, or null.
    // Borrowed; the arenas of the process's sessions, this one's among them.
    const ArenaBook* arenas = nullptr;
    // The session's part of the device's multiprocessors (dispatch::SessionGates); may be null.
    std::shared_ptr<const std::atomic<uint32_t>> share;
    // See HostedSession::Options. Without `end_work`, EndKernels() is called.
    std::function<void()> on_fault;
    std::function<void(const std::string& why)> end_work;
  };

  // `open` and `fds` are what OpenWorker says; `memory` is borrowed. INVALID_ARGUMENT for wrong
  // descriptors, RESOURCE_EXHAUSTED without threads.
  static absl::StatusOr<std::unique_ptr<RingSession>> Create(
      const warpline_internal::OpenWorker& open, std::vector<UniqueFd> fds, ArenaMemory* memory,
      Options options);
  ~RingSession() { Stop(); }
  RingSession(const RingSession&) = delete;
  RingSession& operator=(const RingSession&) = delete;

  // Makes again what the journal holds, once, before Start(). It waits for the device. The errors
  // are those of ReplayJournal() and Continuity::Restore().
  absl::Status Restore(const warpline_internal::OpenWorker& open);

  // Starts the decoder's thread. It calls `on_ended` when the session is over, with
  // INVALID_ARGUMENT for a client that broke the protocol, and then ends; other sessions of the
  // process go on. What the session was given before is completed.
  absl::Status Start(std::function<void(const absl::Status& why)> on_ended);

  // The session is to end: whatever it waits for besides the device, it waits for no longer, and it
  // begins nothing new. Does not wait. Any thread may call it, also during Restore().
  void BeginEnd();

  // The session is over: ends its threads, and has its kernels end that ask whether to stop. What
  // was not issued to the device is dropped, what was issued is not waited for. Nobody calls
  // anything else of it meanwhile or afterwards. It may take as long as a module takes to load.
  void Stop();

  // The server's requests and answers; any thread may call these until Stop().
  CudaResult Hold(const warpline_internal::HoldMemory& hold, std::vector<UniqueFd> fds);
  CudaResult Drop(uint64_t handle) { return memory_->Drop(handle); }
  CudaResult Release(const warpline_internal::ReleaseHandles& release);
  // What of the session's work does not become complete.
  struct StalledWork {
    absl::Time since = absl::InfiniteFuture();  // Completion::StalledSince()
    // Of its kernels under way (Streams::BusyProcessors).
    device::ProcessorSet processors;
    bool slow = false;  // They do not go as fast as they can, since the server wants it so.
  };
  StalledWork LookAtWork();
  // The session's kernels take too long, as `why` says to the client: soon it fails with
  // kLaunchTimeout, and its kernels are told to stop. It waits for nobody.
  void EndKernels(std::string_view why);
  // How fast the session's kernels go; null where they are not guarded.
  const std::shared_ptr<KernelPace>& pace() const { return pace_; }
  absl::Status SaveVariables(int fd) { return session_->SaveVariables(fd); }
  void OnCharged(const warpline_internal::MemoryCharged& charged) { charger_.OnCharged(charged); }
  void OnModuleImage(UniqueFd image);
  // What the session took over that the server has to charge for, in one piece.
  uint64_t replayed_bytes() const { return session_->replayed_bytes(); }

 private:
  RingSession(uint64_t number, ArenaMemory* arena, const Options& options)
      : arena_(arena), shared_(options.shared), charger_(options.control_fd, number) {}
  absl::Status Attach(std::vector<UniqueFd>* fds);
  // The page whose descriptor `fd` is, if it is valid.
  absl::Status AttachDispatch(UniqueFd fd, std::shared_ptr<const std::atomic<uint32_t>> share);
  // Puts the guard before the devices and the output of `options`.
  void Guard(const warpline_internal::OpenWorker& open, Options* options);
  void Run(const std::function<void(const absl::Status&)>& on_ended) RUNS_ON(decoder_thread);
  // Takes one frame if there is one, and returns whether there was.
  absl::StatusOr<bool> DecodeNext() RUNS_ON(decoder_thread);

  ArenaMemory* const arena_;
  const bool shared_;
  std::atomic<bool> stopping_{false};
  std::thread decoder_;
  std::atomic<bool> ends_kernels_{false};
  std::thread ending_;         // Of EndKernels()
  std::vector<UniqueFd> fds_;  // What is left of OpenWorker's for Restore().
  // The members stand in the order in which they need each other.
  SocketCharger charger_;
  std::unique_ptr<RingReader> commands_;
  std::unique_ptr<RingFrameWriter> replies_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<VirtualMemory> memory_;
  std::unique_ptr<compiler::CompilerClient> compiler_;  // Null where there is none.
  std::unique_ptr<dispatch::SessionGates> gates_;       // Null where nothing is dispatched.
  std::unique_ptr<GuardedCode> code_;                   // Null for a session that is not guarded.
  std::shared_ptr<KernelPace> pace_;                    // Likewise.
  std::unique_ptr<ServerImageCache> images_;            // Null when the server keeps no images.
  std::unique_ptr<ServerModuleRecord> loaded_;          // Null when the server records none.
  std::unique_ptr<HostedSession> session_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_RING_SESSION_H_
