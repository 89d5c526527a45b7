// What a server is started with, as a value that has been checked: see flags.h.
#ifndef WARPLINE_SERVER_GPU_SERVER_SERVER_OPTIONS_H_
#define WARPLINE_SERVER_GPU_SERVER_SERVER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "audit/audit_log.h"
#include "common/serving/tls_files.h"
#include "memory/arena_book.h"
#include "proto/tier.h"
#include "server/gpu_server/children/relays/networks.h"
#include "server/gpu_server/children/relays/relay_process.h"
#include "server/gpu_server/memory/pageable_access.h"
#include "server/gpu_server/modules/module_store.h"
#include "server/jail/jailer.h"
#include "transport/ucx/ucx_transports.h"

namespace warpline::server {

// Where the server listens, and what it says there of itself.
struct ListenOptions {
  // host:port or unix:/path; at least one, and without TLS none that other hosts reach.
  std::vector<std::string> addresses;
  TlsFiles tls;
  bool tls_on_unix_sockets = false;
  // Clients on this host may go on through shared memory.
  bool shm = true;
  // Clients that come from these networks may go on over UCX, at these ports.
  Networks ucx_networks = {};
  UcxTransports ucx_transports = {};
  std::optional<RelayPorts> relay_ports = RelayPorts();  // None without relays.
  // Where the port of the first host:port address is written; empty for nowhere.
  std::string port_file;
  // Where Prometheus scrapes; empty for nowhere.
  std::string admin_address;
  // Whether it is also told what each tenant has.
  bool tenant_metrics = false;
  // Where health checks are answered in plain text; empty for nowhere.
  std::string health_address;
  // Where the operator asks, as AdminSocketPath() takes it.
  std::string admin_socket = "none";
};

// The backend that executes, and the things that its sessions share.
struct DeviceOptions {
  // A backend such as "auto" or "cpu:2", in the form that ParseDevice() of
  // server/hostlink/backends/backend_names.h takes.
  std::string backend = "auto";
  // Device memory left to others; DeviceMemoryOptions says what it is by default.
  std::optional<uint64_t> reserve_bytes;
  // Host memory that device memory of sessions can be moved to; 0 for none.
  uint64_t swap_bytes = 0;
  // A folder for files with the memory of suspended sessions; empty for none.
  std::string swap_dir = {};
  // A folder in which sessions outlive the server; empty for none.
  std::string saved_sessions = {};
  // The server can be replaced by another version while sessions go on (upgrade/).
  bool upgrades = false;
  // The folder of vetted programs; empty for none.
  std::string programs_dir = {};
  // Sessions may have so many times the devices' memory together; see MemoryOvercommit.
  double memory_overcommit = 1;
  // A session that has done nothing for this time is suspended; infinite for never.
  absl::Duration idle = absl::InfiniteDuration();
  // Workers of each device that wait for a session; by default one of a GPU, none of another.
  std::optional<int> warm_workers;
  PageableAccess pageable_access = PageableAccess::kWarn;
  // Hardware queues of each session, 1 to 32; 0 for the driver's choice.
  int hardware_queues = 0;
  // What guards and compiles modules of guarded sessions: "auto", the path of a libnvJitLink, or
  // "none" for the session's worker.
  std::string guard_compiler = "auto";
  // Folders, divided by colons, in which shared workers find NVIDIA's libraries.
  std::string cuda_libraries;
  // Empty for the programs that lie beside this one.
  std::string supervisor_program;
  std::string worker_program;
  std::string keeper_program;
  std::string compiler_program;
};

// Whose workers of the isolated tier share a device through NVIDIA's Multi-Process Service.
struct MpsGroupOptions {
  // Those of one tenant; nobody's otherwise.
  bool of_tenants = false;
  std::string control;  // The path of nvidia-cuda-mps-control.
  std::string place;    // Of the groups' folder, as MpsFolder takes it.
};

// The tiers of sessions, and what those of the guarded one may have.
struct TierOptions {
  // At least one, each once.
  std::vector<Tier> tiers = {Tier::kIsolated};
  // A power of two from 4 GiB to 1 TiB.
  uint64_t guarded_arena_bytes = kMinArenaBytes;
  // Device memory of a session whose lease does not say how much.
  uint64_t guarded_memory_bytes = 1ull << 30;
  // For how long somebody gets no session whose work did not end, at first.
  absl::Duration guarded_hang_pause = absl::Minutes(1);
  // The longest that a launch of any of them may take.
  absl::Duration guarded_launch_limit = absl::InfiniteDuration();
  // Whether each device in use has a second process that takes over when the first one is lost.
  bool guarded_standby = true;
  // Host memory that each process of the guarded tier has locked for copies, in so many pieces, of
  // which a session gets one.
  uint64_t guarded_window_bytes = 16ull << 20;
  size_t guarded_windows = 16;
  // What each of these processes takes of the device; DeviceMemoryOptions says what it is by
  // default.
  std::optional<uint64_t> guarded_context_bytes;
};

// How sessions share the time of devices.
struct DispatchOptions {
  // A policy of policy/builtin.h, the file of an object (with a '/'), or "off" for whatever the
  // driver does.
  std::string policy = "band";
  absl::Duration quantum = absl::Milliseconds(6);
  // dispatch::ArbiterOptions::expect_ns.
  absl::Duration expect = absl::Milliseconds(3);
};

// What each session may have.
struct SessionLimits {
  int max_sessions = 64;
  // Streams that one peer may have open without having opened or resumed a session: see
  // ListenerOptions.
  int strangers_per_peer = 64;
  // Device memory of a session; 0 for all that the device has.
  uint64_t quota_bytes = 0;
  // Device memory of all sessions of a peer without a lease of a scheduler; 0 for no bound.
  uint64_t peer_memory_bytes = 0;
  // Host memory of all sessions of a tenant, or of a peer; 0 for half of the host's.
  uint64_t tenant_host_bytes = 0;
  // Host memory that all sessions together share with clients; 0 for half of the host's.
  uint64_t host_memory_bytes = 0;
  // A power of two.
  uint64_t max_arena_bytes = kMaxArenaBytes;
  // How long a session waits for a client that lost its connection.
  absl::Duration resume_timeout = absl::Seconds(30);
};

// The scheduler that the server belongs to.
struct SchedulerOptions {
  std::string address;  // Empty for none; the rest is then of no use.
  std::string credential;
  // What the server is called there, and the address that clients reach it at. Empty for what
  // follows from the host's name and the first address.
  std::string name;
  std::string advertised;
};

struct ServerOptions {
  ListenOptions listen;
  DeviceOptions device;
  // How workers and keepers are confined.
  jail::JailerOptions jail;
  SessionLimits sessions;
  TierOptions tiers;
  MpsGroupOptions mps;
  DispatchOptions dispatch;
  // Without a folder no module images are kept.
  ModuleStoreOptions modules;
  SchedulerOptions scheduler;
  // Without a folder nothing is recorded.
  audit::AuditLogOptions audit;
  // How long sessions may go on when the server drains.
  absl::Duration drain_timeout = absl::Seconds(10);
  // Its leases are moved to other servers first.
  bool migrate_on_drain = false;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SERVER_OPTIONS_H_
