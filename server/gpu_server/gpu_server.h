// The whole server: its devices, the sessions on them, what it answers besides, and its scheduler.
//
//   auto server = GpuServer::Create(options);
//   if (!server.ok()) ...
//   if (absl::Status started = (*server)->Start(); !started.ok()) ...
//   <wait for a signal>
//   (*server)->Drain();
#ifndef WARPLINE_SERVER_GPU_SERVER_GPU_SERVER_H_
#define WARPLINE_SERVER_GPU_SERVER_GPU_SERVER_H_

#include <prometheus/exposer.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "audit/audit_log.h"
#include "common/unique_fd.h"
#include "server/gpu_server/admin/admin_socket_lock.h"
#include "server/gpu_server/admin/checkpoints.h"
#include "server/gpu_server/admin/metrics.h"
#include "server/gpu_server/admin/replacements.h"
#include "server/gpu_server/admin/scheduler_link.h"
#include "server/gpu_server/admin/tenant_metrics.h"
#include "server/gpu_server/children/launcher/supervised_launcher.h"
#include "server/gpu_server/children/mps_groups/mps_folder.h"
#include "server/gpu_server/leases/lease_book.h"
#include "server/gpu_server/memory/swap_files.h"
#include "server/gpu_server/memory/swap_space.h"
#include "server/gpu_server/nvml/sampler.h"
#include "server/gpu_server/policies/policy_book.h"
#include "server/gpu_server/server_options.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/upgrade/parent_link.h"
#include "server/gpu_server/usage_check/driver_watch.h"
#include "server/jail/jailer.h"
#include "transport/grpc/health/health_listener.h"
#include "transport/listener.h"

namespace warpline::server {

// Used by one thread, in the order Create(), Start(), Drain(). Signals that the process handles
// with sigwait() are blocked before Create(), which starts threads.
class GpuServer {
 public:
  // Starts the supervisor, opens the devices, which starts their keepers, and puts everything
  // together. NOT_FOUND when a program does not lie beside this one; the device's error otherwise.
  // `parent` is borrowed, and has joined; null where there is none.
  static absl::StatusOr<std::unique_ptr<GpuServer>> Create(ServerOptions options,
                                                           ParentLink* parent = nullptr);

  // Ends without grace what Drain() has left.
  ~GpuServer();
  GpuServer(const GpuServer&) = delete;
  GpuServer& operator=(const GpuServer&) = delete;

  // Listens and takes sessions from then on, first those that another version passed on.
  // UNAVAILABLE when an address cannot be listened on, UNAUTHENTICATED for TLS files that are of no
  // use; INTERNAL when the port's file cannot be written; the error of a session that cannot go on.
  // After an error with a parent, the process must end without a destructor: what was passed on has
  // to stay as it is for another server.
  absl::Status Start();

  // Passes all sessions on to the next version by the parent. After OK the server has none any
  // more, and this object must be destroyed next. After an error, which says why, it goes on: see
  // SessionHost::CutAll().
  absl::Status PassOn(bool force);

  // Refuses new sessions, lets those that are there go on for the time that the options allow, and
  // ends the others with an error for the application. The scheduler is told.
  void Drain();

  // Of the first address that has one; 0 when there is none, or before Start().
  int port() const;
  SessionHost& host() { return *host_; }

 private:
  GpuServer(ServerOptions options, ParentLink* parent);
  absl::Status Compose();
  // Upgrades (gpu_server_upgrading.cc). The first four take what the version before passed on, in
  // this order.
  void TakeSettings();
  std::vector<UniqueFd> TakeBlocks();
  absl::Status TakePassed();
  std::string FormerHostMemorySocket() const;
  absl::Status AdoptPassed();
  // Has the parent keep all that the next version needs.
  absl::Status KeepAll();
  // Returns the address that the version before had in place of this one.
  std::string AddressOf(const std::string& address) const;
  absl::Status WatchDriver(const std::map<int, std::string>& pci_bus_ids);
  // Where the options ask for them.
  absl::Status MakeMps(const std::string& backend, SessionHostOptions* host);
  ListenerOptions MakeListenerOptions();
  void JoinScheduler();
  // Listens for the operator, where that can be.
  absl::Status StartAdminListener();
  // Where clients of this host open their sessions through shared memory at once. Without it they
  // do over TCP, and then go on there.
  void StartDirectListener();
  std::string AnswerWhere() const;
  // Records that the server started or stopped.
  void Record(audit::Event event);

  ServerOptions options_;  // Constant once it is composed.
  ParentLink* const parent_;
  const std::string name_;      // For clients' logs.
  const std::string instance_;  // Of WhereReply.
  std::string shm_name_;        // Constant once it is composed; empty for none.
  std::string admin_socket_;    // Constant once admin_serving_ is true.
  std::atomic<bool> admin_serving_{false};

  // In this order each part uses only those before it; the destructor ends them in reverse.
  std::unique_ptr<audit::AuditLog> audit_;  // Null where nothing is recorded.
  std::unique_ptr<jail::Jailer> jailer_;
  std::unique_ptr<supervisor::SupervisedLauncher> launcher_;
  std::unique_ptr<MpsFolder> mps_folder_;  // Null without MPS groups.
  std::unique_ptr<SwapSpace> swap_;        // Null for none. Before the devices.
  std::unique_ptr<SwapFiles> swap_files_;  // Null for none.
  // The sessions of the version before, until they are adopted, and later those that are passed on:
  // their memory stays as it is until the end.
  std::vector<SessionCut> passed_;
  std::unique_ptr<LeaseBook> leases_;
  std::unique_ptr<nvml::Sampler> sampler_;  // Null where no device has readings.
  std::unique_ptr<PolicyBook> policies_;    // Null with --dispatch=off.
  std::unique_ptr<SessionHost> host_;
  std::unique_ptr<DriverWatch> watch_;  // Null where nothing is dispatched on NVIDIA's devices.
  std::shared_ptr<ServerMetrics> metrics_;
  std::shared_ptr<TenantMetrics> tenant_metrics_;  // Null without --tenant_metrics.
  std::unique_ptr<prometheus::Exposer> exposer_;   // Null for none. Does not own what it exposes.
  std::unique_ptr<Replacements> replacements_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::unique_ptr<HealthListener> health_;  // Null for none.
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<AdminSocketLock> admin_lock_;  // Null for none.
  std::unique_ptr<Listener> direct_listener_;    // Null for none.
  std::unique_ptr<Listener> admin_listener_;     // Null for none.
  std::unique_ptr<SchedulerLink> scheduler_;     // Null for none.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_GPU_SERVER_H_
