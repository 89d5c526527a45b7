// A worker's process: its devices' contexts, and the sessions that it hosts.
//
// There are two kinds. One hosts one session, or a reader, which maps memory and executes nothing;
// the process is its tenant's, and ends with it. The other one shares its device among the guarded
// sessions of many tenants (PrepareWorker.shared): each has an arena, a gate and objects of its
// own, its kernels are hardened (guard/), and it ends alone. Of what tenants send, such a process
// parses commands and nothing else; their modules are guarded, verified and compiled elsewhere
// (server/compiler). If the hardware context ends, the process ends at once, before any session
// hears of it: those with nothing in flight go on in the next process.
#ifndef WARPLINE_SERVER_WORKER_HOST_HOST_PROCESS_H_
#define WARPLINE_SERVER_WORKER_HOST_HOST_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/device/device.h"
#include "server/worker/host/context_watch.h"
#include "server/worker/host/host_windows.h"
#include "server/worker/host/kernel_pace.h"
#include "server/worker/host/kernel_watch.h"
#include "server/worker/host/launch_limit.h"
#include "server/worker/host/process_session.h"
#include "server/worker/host/session_desk.h"
#include "server/worker/memory/arena_book.h"

namespace warpline::worker {

// Belongs to the thread that receives the server's requests, which waits for nobody's work once the
// device is shared: each session is opened, asked and ended on a thread of its own (SessionDesk).
// It is never destroyed once a session runs: the process ends with _exit, and its memory and device
// contexts end with it.
class HostProcess {
 public:
  // The exit status of a process whose sessions have lost the context that they share.
  static constexpr int kContextLost = 3;

  using OpenBackend =
      std::function<absl::StatusOr<std::unique_ptr<device::Backend>>(const std::string& name)>;

  struct Options {
    int control_fd = -1;             // Borrowed; the socket to the server.
    OutputSource* output = nullptr;  // Borrowed; the process's descriptors 1 and 2, or null.
    size_t max_sessions = 1;         // Of a process that does not share its device.
    // Of a shared device: how long a session's work has to end when it is closed. Others go on
    // meanwhile, and there may be much of it.
    absl::Duration patience = absl::Seconds(20);
    // Of a shared device, but for what it calls.
    KernelWatchOptions kernels;
    OpenBackend open_backend = &device::OpenBackend;  // Tests pass other functions.
    std::function<void(std::string_view backend)> load_libraries = &device::LoadLibraries;
    // Called when a session has been opened, on the thread that did. For tests; null for nothing.
    std::function<void()> on_opened;
    // Called when a session is over, with its number in the server, on the thread of its decoder.
    std::function<void(uint64_t session, const absl::Status& why)> on_ended;
  };

  explicit HostProcess(Options options) : options_(std::move(options)) {}

  // Does what takes long and is the same for every session of the devices: opens their contexts,
  // and closes the process's jail around them, where `prepare` has one. It does so once; later
  // calls must name the same devices, or return FAILED_PRECONDITION.
  absl::Status Prepare(const warpline_internal::PrepareWorker& prepare);

  // Opens a session, with `fds` as OpenWorker says, starts it, and calls `done` with it; on a
  // shared device later, on the session's thread. FAILED_PRECONDITION beyond `max_sessions`, among
  // which sessions that failed to open count too, and for what a shared device cannot have: several
  // devices, a reader, kernels that are not hardened; RESOURCE_EXHAUSTED without a thread; a
  // refusal with a typed reason (proto/refusal.h) where the client can do something about it;
  // CANCELLED when it was closed meanwhile; otherwise the errors of RingSession.
  using Opened = absl::AnyInvocable<void(const absl::Status& status, ProcessSession* session)>;
  void Open(const warpline_internal::OpenWorker& open, std::vector<UniqueFd> fds, Opened done);

  // Calls `ask` with the session, after all that it was asked before; null for one that does not
  // exist or could not be opened. On a shared device later, on the session's thread. It is dropped
  // when the session is closed before its turn.
  void Ask(uint64_t session, SessionDesk::Task ask);
  // Calls `tell` now if the session has a ring session by now. It must not wait.
  void Tell(uint64_t session, absl::FunctionRef<void(RingSession*)> tell);

  // Has the kernels of a session of a shared device go so fast (PaceKernels), soon.
  void SetPace(uint64_t session, uint32_t nap_ns);

  // Ends a session of a shared device: nobody finds it any more. `done` is called when nothing is
  // left of it, or when its work does not end (see ProcessSession), on the session's thread; at
  // once where there is no such session. One that is still being opened is ended as soon as that
  // can be left.
  void Close(uint64_t number, std::function<void(bool hangs)> done);

  // Carries out ReplaceWindow: makes a window now, or has its memory replaced later. `done` is
  // called now or on another thread. FAILED_PRECONDITION where the process does not share its
  // device.
  void ReplaceWindow(const warpline_internal::ReplaceWindow& request, UniqueFd fd,
                     HostWindows::Done done);

  // What became of the jail; empty before Prepare().
  const warpline_internal::JailReport& jail_report() const { return jail_report_; }

  // What WorkerOpened.peers says, by device.
  std::vector<uint32_t> Peers() const;

 private:
  bool shares() const { return shared_ != nullptr; }
  // Those of a session that is being opened.
  std::vector<device::Context*> Contexts(const ProcessSession& session) const;
  std::vector<SessionDevice> Devices(const ProcessSession& session) const;
  // How many of the multiprocessors of the device at `place` a session may have; 0 for all. Fails
  // where it may have a share of them and the device does not tell how many there are: without a
  // number it would have them all.
  absl::StatusOr<int> ProcessorsOf(const warpline_internal::OpenWorker& open, int place) const;
  // Bounds what the session's own partitions of the contexts' devices get. The errors are those of
  // ProcessorsOf().
  absl::Status LimitPartitions(const warpline_internal::OpenWorker& open);
  absl::Status CheckRoom(const warpline_internal::OpenWorker& open) const;
  absl::Status OpenDevices(const warpline_internal::PrepareWorker& prepare);
  absl::Status WatchKernels();
  // Has a session of a process of its own end when a launch takes too long.
  absl::Status LimitLaunches(uint64_t session, absl::Duration most,
                             std::shared_ptr<SessionDesk> desk)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ending_mu_);
  // Such a session is to end, since its work does not. On any thread.
  void EndWork(uint64_t session, std::shared_ptr<SessionDesk> desk, const std::string& why);
  // A session has failed. On any thread.
  void OnFault();
  // These run where the session's tasks do.
  absl::Status OpenAt(SessionDesk* desk, const warpline_internal::OpenWorker& open,
                      std::vector<UniqueFd> fds, ProcessSession* session);
  absl::Status OpenRing(SessionDesk* desk, const warpline_internal::OpenWorker& open,
                        std::vector<UniqueFd> fds, ProcessSession* session);
  bool End(uint64_t number, SessionDesk* desk, ProcessSession* session);

  const Options options_;
  warpline_internal::JailReport jail_report_;
  std::unique_ptr<device::Backend> backend_;
  std::vector<int> ordinals_;  // Those of the contexts, as the server numbers them,
  std::vector<int> places_;    // and as this process's driver does.
  std::vector<std::unique_ptr<device::Context>> contexts_;  // By the session's device numbers.
  std::unique_ptr<device::SharedDevice> shared_;            // Then there are none of these.
  std::unique_ptr<HostWindows> windows_;                    // Likewise
  std::unique_ptr<ContextWatch> watch_;                     // Of the shared device
  std::unique_ptr<KernelWatch> kernel_watch_;               // Likewise
  std::unique_ptr<KernelPacer> pacer_;                      // Likewise
  // The times that Prepare() took, for the log.
  absl::Duration driver_time_;
  absl::Duration context_time_;
  size_t opened_ = 0;
  ArenaBook arenas_;
  Mutex ending_mu_;  // Taken before no other lock but those of the limit.
  // Null where the device is shared, and where nothing is limited and no work had to be ended.
  std::unique_ptr<LaunchLimit> launch_limit_ ABSL_GUARDED_BY(ending_mu_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<SessionDesk>> sessions_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_HOST_PROCESS_H_
