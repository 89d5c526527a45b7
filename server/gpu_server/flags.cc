#include "server/gpu_server/flags.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "audit/audit_flags.h"
#include "common/byte_size.h"
#include "common/endpoint.h"
#include "common/serving/listen_address.h"
#include "common/serving/tls_flags.h"
#include "common/text_file.h"
#include "policy/builtin.h"
#include "proto/report_limits.h"
#include "proto/tier.h"
#include "server/gpu_server/admin/admin_socket.h"
#include "server/gpu_server/memory/guarded_sizes.h"
#include "server/hostlink/backends/backend_names.h"
#include "transport/registry/listen.h"
#include "transport/ucx/ucx_transports.h"

ABSL_FLAG(std::vector<std::string>, listen, {warpline::kDefaultEndpoint},
          "Addresses to serve clients on, separated by commas: host:port (port 0 for "
          "any) or unix:/path. [::]:port is every address of the host, 0.0.0.0:port "
          "every IPv4 address. Without TLS only loopback addresses and unix sockets "
          "are accepted.");
ABSL_FLAG(bool, shm, true,
          "Programs on this host use memory that they share with the server: a round "
          "trip takes a fraction of one over a socket. At a loopback address without "
          "TLS they do so from the beginning, elsewhere once their session is open. "
          "It is off if unix sockets need TLS (--tls_unix).");
ABSL_FLAG(std::vector<std::string>, ucx_networks, {},
          "Networks, such as 10.0.0.0/8, separated by commas. Sessions from these "
          "networks may go on over UCX once they are open: a round trip takes half of "
          "one over gRPC. UCX neither encrypts nor knows its peers, so name only "
          "networks that have no eavesdroppers and no intruders. Needs --shm.");
ABSL_FLAG(std::string, ucx_transports, "tcp",
          "What sessions over UCX go over, by UCX's names, such as rc,tcp for RDMA where there is "
          "any. Clients use the same list. Anything but tcp needs UCX's modules on both hosts, see "
          "docs/transports.md.");
ABSL_FLAG(std::string, relay_ports, "14700-14999",
          "The TCP ports at which sessions have connections of their own, which carry large copies "
          "faster: one for each session with TLS, two over UCX. Where clients do not reach them, "
          "everything goes over the port of --listen. Empty for any port, none for no such "
          "connections.");
ABSL_FLAG(std::string, port_file, "",
          "A file to which the server writes the port of the first host:port address "
          "once it is ready.");
ABSL_FLAG(std::string, device, "auto",
          absl::StrCat("The backend that executes: ", warpline::DescribeBackends(),
                       ", or auto, the first of them that has a device."));
ABSL_FLAG(warpline::ByteSize, session_memory, {},
          "The most device memory that a session may hold, such as 8GiB. 0 for all "
          "memory of the device but --device_reserve.");
ABSL_FLAG(warpline::ByteSize, peer_memory, {},
          "The most device memory that all sessions of one peer without a scheduler's "
          "lease may hold together, such as 24GiB. Memory that one session shares and "
          "another one has opened counts for both. Memory that an ended session has "
          "left counts for its peer while any session holds it. 0 for no bound: "
          "without leases every client may then have the whole device. "
          "--strangers_per_peer says what a peer is.");
ABSL_FLAG(warpline::ByteSize, tenant_host_memory, {},
          "The most host memory that all sessions of one tenant, or of one peer "
          "without a scheduler, may take together, such as 16GiB. It covers memory "
          "shared with clients on this host, module images, data kept for a session's "
          "next worker, and queues. Beyond it memory, modules and sessions are "
          "refused. 0 for half of the host's memory, or the least that --max_sessions "
          "sessions need if that is more.");
ABSL_FLAG(std::string, device_reserve, "",
          "Device memory left to workers' contexts and other programs, such as 2GiB. "
          "Empty for an eighth of a GPU, at most 4GiB but enough for --warm_workers, "
          "and for nothing of the CPU device.");
ABSL_FLAG(warpline::ByteSize, host_memory, {},
          "Page-locked memory that all sessions together may share with clients on this host, such "
          "as 16GiB; mapped memory beyond it is refused. 0 for half of the host's memory.");
ABSL_FLAG(warpline::ByteSize, swap_host, {},
          "Memory of the host to which `warpline page-out` moves sessions' device memory, such as "
          "64GiB. The server takes all of it when it starts. 0 for none.");
ABSL_FLAG(
    std::string, swap_dir, "",
    "A folder for files to which the memory of suspended sessions goes on from the memory of "
    "--swap_host, so that others can have that. The files have no name, and are encrypted with "
    "a key that ends with the session. Empty for none.");
ABSL_FLAG(
    std::string, saved_sessions, "",
    "A folder in which sessions outlive the server. When the server is told to end (SIGTERM), each "
    "session that can do without its worker is written there, with its device memory, and its "
    "client waits; a server that starts with the same folder goes on with it. The files are not "
    "encrypted. Needs --swap_host. Empty for none: sessions end with their server.");
ABSL_FLAG(bool, upgrades, false,
          "The server runs as the child of a process of its own, which `warpline server upgrade` "
          "and SIGHUP have start another version of the server in its place: sessions go on there, "
          "and so does the former version if the other one does not start. Needs --swap_host, with "
          "room for the device memory of all sessions.");
ABSL_FLAG(
    std::string, programs_dir, "",
    "The folder of vetted programs, which `warpline program add` fills. A session with the right "
    "to "
    "launch and without the right to load may load and run these programs, and no other code. "
    "Empty for none.");
ABSL_FLAG(double, memory_overcommit, 1,
          "Sessions may have so many times a device's memory together, up to 16, such as 1.5. What "
          "does not fit is in the memory of --swap_host meanwhile: sessions without work leave the "
          "device first, and sessions that work take turns. With 1, memory is moved only by "
          "`warpline page-out`.");
ABSL_FLAG(
    absl::Duration, idle, absl::ZeroDuration(),
    "A session that has done nothing for this time, such as 10m, is suspended until its next "
    "call: its memory is moved to the memory of --swap_host, and its worker ends. Where the "
    "worker has something that would be lost with it, only the memory is moved. 0 for never.");
ABSL_FLAG(int, max_sessions, 64, "The most sessions at a time, up to 8192; more are refused.");
ABSL_FLAG(int, strangers_per_peer, 64,
          "The most streams that one peer may have open on which it has not opened or "
          "resumed a session. It may have four times as many connections without a "
          "session. For a further one the peer's oldest is closed. Sessions do not "
          "count: --max_sessions bounds those, and a lease its own. A peer is the "
          "name in a client's certificate, else its address (the first 64 bits for "
          "IPv6), else the user at the other end of a unix socket. Programs open "
          "their session at once, so this needs to cover only the programs that start "
          "in the same moment behind one address. Those are the programs of a host, "
          "of a network behind NAT, or all that come through `ssh -L`.");
ABSL_FLAG(warpline::ByteSize, arena_size, {warpline::kMaxArenaBytes},
          "The largest range of device addresses that a session may have.");
ABSL_FLAG(std::vector<std::string>, tiers, std::vector<std::string>({"isolated"}),
          "The tiers that the server offers, separated by commas. They differ in what "
          "keeps sessions of a device apart. isolated: each session has a process and "
          "a context of its own, and runs any program. guarded: hardened kernels run "
          "in a context that many sessions share, for programs that ask for it "
          "(--tier=guarded).");
ABSL_FLAG(warpline::ByteSize, guarded_arena_size, {warpline::kMinArenaBytes},
          "The largest range of device addresses that a session of the guarded tier "
          "may have, from 4GiB to 1TiB. All of it is mapped, so a larger one takes "
          "longer to open. With 4GiB kernels check addresses at the least cost.");
ABSL_FLAG(warpline::ByteSize, guarded_memory, {1ull << 30},
          "Device memory of a session of the guarded tier whose lease does not say "
          "how much. The session gets it when it opens, and gets no more later. A "
          "part of it serves stray accesses and variables of modules: 82MiB of 1GiB, "
          "12MiB of 32MiB. A sixteenth of it stays for streams and graphs.");
ABSL_FLAG(int, guarded_launch_seconds, 0,
          "The longest time that a launch of a session of the guarded tier may take; "
          "a lease may say less. After that its kernels are ended, and the program "
          "gets CUDA_ERROR_LAUNCH_TIMEOUT. The time counts while nothing in one of "
          "the session's streams becomes complete. 0 for no limit: then only kernels "
          "are ended that run for more than 10 s while another session waits for "
          "their multiprocessors, or to load code.");
ABSL_FLAG(int, guarded_hang_seconds, 60,
          "How long a tenant gets no session of the guarded tier after its work there "
          "did not end, which ends the process of all its sessions. The time is twice "
          "as long after each further time, up to a day. Without a lease the pause is "
          "the peer's, as in --peer_memory. Sessions of the isolated tier stay "
          "allowed. 0 for no pause.");
ABSL_FLAG(bool, guarded_standby, true,
          "Each device whose guarded tier is in use has one more process with its "
          "context open. It takes over at once when the tier's process is lost: "
          "sessions at rest then go on 0.9 s earlier on an H100. It takes the memory "
          "of one more context, which is 1.7 GiB there. Without it the next process "
          "is started when it is needed.");
ABSL_FLAG(int, guarded_windows, 16,
          "Blocks of host memory that the process of the guarded tier locks for its "
          "device when it starts; its standby locks as many. A session on this host "
          "gets one when it first makes a large copy, whose bytes then do not go with "
          "its commands. The blocks are part of --host_memory. Sessions for which "
          "none is left go on without one. 0 to 64.");
ABSL_FLAG(warpline::ByteSize, guarded_window, {16ull << 20},
          "The size of each block of --guarded_windows, from 4MiB to 32MiB, whole "
          "MiB.");
ABSL_FLAG(std::string, guarded_context_memory, "",
          "Device memory that the process of the guarded tier takes without any "
          "session, such as 2GiB; its standby takes as much again. Sessions are "
          "promised that much less of a device when --tiers has guarded. Empty for "
          "1.75GiB of a GPU, as seen on an H100, and for nothing of the CPU device.");
ABSL_FLAG(std::string, mps, "off",
          "Whether sessions of the isolated tier share a device through NVIDIA's "
          "Multi-Process Service. Their kernels then run at once, each with the "
          "sm_percent of its slice. tenant: sessions of one tenant on one device "
          "share it; without a scheduler, those of one certificate or unix user. off: "
          "none do. The server starts and ends a daemon for each group. A tenant's "
          "sessions then share faults, and their jail is weaker: docs/mps.md.");
ABSL_FLAG(std::string, mps_control, "",
          "The program nvidia-cuda-mps-control for --mps. Empty for the one in PATH.");
ABSL_FLAG(std::string, mps_dir, "",
          "The folder for the sockets of the daemons of --mps. Its path must be "
          "short, and workers' users must be able to pass through it. Empty for "
          "$RUNTIME_DIRECTORY, or /tmp.");
ABSL_FLAG(std::string, dispatch, "band",
          "How sessions of different leases share the time of a device. band: by the "
          "weights of their leases; fifo: the one that waits longest first; priority: "
          "the highest priority first; edf: by their periods; fairness: by finish "
          "times. reservation: a slice's time in each period where it has one, and "
          "else by weight. The file of a policy of your own: ./mine.bpf.o; "
          "docs/policies.md. off: as the driver does it. `warpline policy` changes it "
          "while the server runs. Sessions of the same lease, or of one peer without "
          "a scheduler, share as the driver does it. A lease that is alone pays "
          "nothing for it, unless a policy of your own wants to be asked about it as "
          "well.");
ABSL_FLAG(int, dispatch_quantum_us, 6000,
          "How long one lease has an engine of a device to itself while others want "
          "it. Between two leases the engine is idle for some 150 us.");
ABSL_FLAG(int, dispatch_expect_us, 3000,
          "How long before an expected arrival others make way, if the policy knows "
          "which lease is urgent (priority, reservation). A lease that comes every 4 "
          "to 100 ms is expected. Leases that would have to yield to it then keep "
          "only one command or 300 us of work in flight, for at most half of the "
          "time. 0 (never) to 20000.");
ABSL_FLAG(std::string, admin_listen, "",
          "host:port for Prometheus (/metrics), in plain text. It controls nothing, "
          "and says nothing about tenants without --tenant_metrics. Empty for none. "
          "It must be a loopback address, unless --admin_listen_anywhere is given.");
ABSL_FLAG(bool, tenant_metrics, false,
          "Prometheus is also told the names of tenants and what each of them has. "
          "Every program that can reach --admin_listen can then read that.");
ABSL_FLAG(bool, admin_listen_anywhere, false,
          "--admin_listen may be an address that other hosts reach.");
ABSL_FLAG(std::string, health_listen, "",
          "host:port for health checks (grpc.health.v1) in plain text, such as a kubelet's: the "
          "services liveness and readiness, and nothing else. Empty for none.");
ABSL_FLAG(std::string, admin_socket, "auto",
          "The unix socket of the server's operator, for the server's user and root "
          "alone. `warpline ps`, `stat`, `top` and `replace` find it and ask there. A "
          "path; auto: admin.sock in $RUNTIME_DIRECTORY, or admin-PORT.sock in "
          "warpline of $XDG_RUNTIME_DIR or, without one, in /run/warpline or "
          "/tmp/warpline-UID; or none. Clients are told of their own tenant's "
          "sessions only, wherever they come from.");
ABSL_FLAG(std::string, scheduler, "",
          "The scheduler to join: host:port or unix:/path. Several schedulers that "
          "share a state are separated by commas. Sessions then need a lease of the "
          "scheduler. Empty for none. With TLS this connection uses WARPLINE_TLS_CA, "
          "_CERT and _KEY, or without them --tls_ca, --tls_cert and --tls_key.");
ABSL_FLAG(std::string, scheduler_credential_file, "",
          "A file with the credential that `warpline servers add NAME` printed; NAME "
          "is --name. Empty for a scheduler on this host that has no tenants yet, and "
          "no servers with a credential.");
ABSL_FLAG(std::string, name, "",
          "The server's name at the scheduler, different for each server. Empty for "
          "HOST:PORT.");
ABSL_FLAG(std::string, advertise, "",
          "With --scheduler: the address at which programs reach this server. Empty "
          "for the first of --listen.");
ABSL_FLAG(int, resume_seconds, 30,
          "How long a session waits for a client that lost its connection. 0 for not at all.");
ABSL_FLAG(int, warm_workers, -1,
          "Workers of each device that wait for a session with their device open. To "
          "open a GPU takes 0.1 to 0.3 s, and half a GiB of its memory. -1: one for a "
          "GPU, none for the CPU device, and none with --mps.");
ABSL_FLAG(int, hardware_queues, 0,
          "Hardware queues of each session, 1 to 32, as CUDA_DEVICE_MAX_CONNECTIONS. "
          "Streams that share a queue wait for each other's work. All contexts of a "
          "GPU share its queues: an H200 has room for 15 contexts of 32 each, 62 of "
          "8, over 110 of 2. 0: the driver's choice, with room for 100.");
ABSL_FLAG(std::string, guard_compiler, "auto",
          "The compiler for modules that are guarded. auto: jailed processes guard "
          "each module, and compile it with NVIDIA's libnvJitLink if there is one, "
          "else the session's worker compiles it with its driver. The path of a "
          "libnvJitLink: as auto, with this library. none: the session's worker does "
          "both.");
ABSL_FLAG(std::string, cuda_libraries, "/usr/local/cuda/lib64",
          "Folders, divided by colons, in which NVIDIA's libcublas.so.13 is, whose functions "
          "the server executes for guarded sessions. Empty for none. The CPU device takes the "
          "system's OpenBLAS or BLAS.");
ABSL_FLAG(std::string, pageable_access, "warn",
          "What the server does when it starts on a GPU that reaches pageable memory "
          "(HMM, or ATS as on Grace). A kernel on such a GPU can read and write all "
          "memory of its worker's process. warn writes a line to the log, refuse ends "
          "the server. The default is warn, because workers are kept apart from each "
          "other and from the server all the same, and many drivers switch it on.");
ABSL_FLAG(std::string, require_jail, "best_effort",
          "How complete the jail must be around workers and keepers, which execute "
          "tenants' requests. best_effort says in the log which layers this host "
          "lacks, and goes on. strict ends a process that lacks a layer, and so the "
          "server at its start. docs/security.md lists the layers.");
ABSL_FLAG(std::string, worker_cgroup, "auto",
          "The place of the control groups (cgroup v2) of workers and keepers. auto: "
          "below the server's own group if it was delegated and holds nothing else, "
          "as with systemd's Delegate=yes. A folder, such as /sys/fs/cgroup/warpline. "
          "none: they have no groups. With a group, each has a share of the "
          "processors that is independent of its threads, and the limits of "
          "--worker_memory and --worker_tasks.");
ABSL_FLAG(warpline::ByteSize, worker_memory, {},
          "The most host memory of a worker's control group, such as 16GiB. 0 for no "
          "limit. With the CPU device it includes the memory of the worker's session.");
ABSL_FLAG(int, worker_tasks, 8192, "The most threads of a worker's control group.");
ABSL_FLAG(std::string, worker_uids, "auto",
          "The user ids of workers and keepers; each process has its own. FIRST-LAST; "
          "auto, a range from 1900000000 up if the server may set user ids (root, or "
          "CAP_SETUID, CAP_SETGID and CAP_KILL); or none. Without user ids of their "
          "own, they have user namespaces.");
ABSL_FLAG(std::string, module_cache_dir, "",
          "The folder for module images that clients have sent, so that later "
          "sessions need not send them again. Only one server at a time may use a "
          "folder. Empty for $CACHE_DIRECTORY, or warpline/modules in $XDG_CACHE_HOME "
          "or ~/.cache; \"none\" to keep none.");
ABSL_FLAG(warpline::ByteSize, module_cache_bytes, {4ull << 30},
          "The most bytes of module images to keep, such as 4GiB. 0 to keep none.");
ABSL_FLAG(bool, module_cache_shared, false,
          "Every tenant finds the module images that any tenant has sent. A tenant "
          "can then tell by the time of a load whether another tenant has loaded the "
          "same image.");
ABSL_FLAG(int, drain_seconds, 10,
          "How long running sessions may go on after SIGTERM or SIGINT before they "
          "get an error.");
ABSL_FLAG(bool, migrate_on_drain, false,
          "A server that gets SIGTERM or SIGINT has the scheduler move its leases to other "
          "servers, for as long as --drain_seconds. Programs go on there. What cannot be moved "
          "has the rest of that time, as without this flag. Needs --scheduler and --swap_host.");
ABSL_FLAG(bool, check_config, false,
          "Starts nothing. Prints \"ok\", or the first fault in the flags and in the "
          "files that they name, and exits with 0 or 2.");

namespace warpline::server {
namespace {

constexpr int kMostWarmWorkers = 64;
constexpr double kMostOvercommit = 16;
constexpr absl::Duration kLeastIdle = absl::Milliseconds(100);
constexpr absl::Duration kLeastQuantum = absl::Milliseconds(1);
constexpr absl::Duration kMostExpect = absl::Milliseconds(20);
constexpr absl::Duration kMostQuantum = absl::Seconds(1);
constexpr int kMostHardwareQueues = 32;
constexpr int kMostStrangersPerPeer = 4096;
constexpr uint64_t kMostGuardedArenaBytes = 1ull << 40;
constexpr uint64_t kLeastGuardedMemory = 32ull << 20;
constexpr int kMostGuardedWindows = 64;
// A client uses at most kMostGuardedWindow of staging memory.
constexpr uint64_t kGuardedWindowUnit = 1ull << 20;
constexpr uint64_t kLeastGuardedWindow = 4 * kGuardedWindowUnit;
constexpr uint64_t kMostGuardedWindow = 32 * kGuardedWindowUnit;

absl::StatusOr<std::optional<RelayPorts>> ParseRelayPorts(const std::string& text) {
  if (text == "none") return std::nullopt;
  if (text.empty()) return RelayPorts();
  const std::vector<std::string> ends = absl::StrSplit(text, '-');
  RelayPorts ports;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &ports.first) ||
      !absl::SimpleAtoi(ends[1], &ports.last) || ports.first == 0 || ports.last > 65535 ||
      ports.first > ports.last) {
    return absl::InvalidArgumentError(
        absl::StrCat("--relay_ports=", text, ": expected a range such as 14700-14999, or none"));
  }
  return ports;
}

absl::StatusOr<ListenOptions> Listen() {
  ListenOptions options;
  options.addresses = absl::GetFlag(FLAGS_listen);
  options.tls = TlsFilesFromFlags();
  options.tls_on_unix_sockets = TlsOnUnixSockets();
  options.shm = absl::GetFlag(FLAGS_shm) && !options.tls_on_unix_sockets;
  auto networks = Networks::Parse(absl::GetFlag(FLAGS_ucx_networks));
  if (!networks.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ucx_networks: ", std::string(networks.status().message())));
  }
  options.ucx_networks = *std::move(networks);
  if (!options.ucx_networks.empty() && !options.shm) {
    return absl::InvalidArgumentError("--ucx_networks needs --shm");
  }
  auto transports = UcxTransports::Parse(absl::GetFlag(FLAGS_ucx_transports));
  absl::Status usable = transports.ok() ? transports->CheckBetweenHosts() : transports.status();
  if (!usable.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ucx_transports: ", std::string(usable.message())));
  }
  options.ucx_transports = *std::move(transports);
  if (!options.ucx_transports.IsOnlyTcp() && options.ucx_networks.empty()) {
    return absl::InvalidArgumentError("--ucx_transports needs --ucx_networks");
  }
  auto ports = ParseRelayPorts(absl::GetFlag(FLAGS_relay_ports));
  if (!ports.ok()) return ports.status();
  options.relay_ports = *ports;
  if (!options.ucx_networks.empty() && !ports->has_value()) {
    return absl::InvalidArgumentError("--ucx_networks needs --relay_ports");
  }
  options.port_file = absl::GetFlag(FLAGS_port_file);
  options.admin_address = absl::GetFlag(FLAGS_admin_listen);
  options.tenant_metrics = absl::GetFlag(FLAGS_tenant_metrics);
  absl::Status metrics =
      CheckMetricsAddress(options.admin_address, absl::GetFlag(FLAGS_admin_listen_anywhere));
  if (!metrics.ok()) return metrics;
  options.health_address = absl::GetFlag(FLAGS_health_listen);
  if (auto status = CheckHealthAddress(options.health_address); !status.ok()) return status;
  options.admin_socket = absl::GetFlag(FLAGS_admin_socket);
  if (absl::Status status = CheckAdminSocket(options.admin_socket); !status.ok()) return status;
  if (options.addresses.empty()) return absl::InvalidArgumentError("--listen names no address");
  for (const std::string& address : options.addresses) {
    const absl::Status status = CheckAddress(address, !options.tls.empty());
    if (!status.ok()) return status;
  }
  return options;
}

// Parses the value `text` of the flag `flag`. Returns no value for an empty text.
absl::StatusOr<std::optional<uint64_t>> OptionalBytes(absl::string_view flag,
                                                      const std::string& text) {
  if (text.empty()) return std::optional<uint64_t>();
  ByteSize size;
  std::string error;
  if (!AbslParseFlag(text, &size, &error)) {
    return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", text, ": ", error));
  }
  return std::optional<uint64_t>(size.bytes);
}

absl::StatusOr<PageableAccess> Pageable() {
  const std::string text = absl::GetFlag(FLAGS_pageable_access);
  if (text == "warn") return PageableAccess::kWarn;
  if (text == "refuse") return PageableAccess::kRefuse;
  return absl::InvalidArgumentError(
      absl::StrCat("--pageable_access=", text, ": expected warn or refuse"));
}

absl::StatusOr<DeviceOptions> Device() {
  DeviceOptions options;
  options.backend = absl::GetFlag(FLAGS_device);
  if (const auto choice = ParseDevice(options.backend); !choice.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device=", options.backend, ": ", std::string(choice.status().message())));
  }
  auto reserve = OptionalBytes("device_reserve", absl::GetFlag(FLAGS_device_reserve));
  if (!reserve.ok()) return reserve.status();
  options.reserve_bytes = *reserve;
  options.swap_bytes = absl::GetFlag(FLAGS_swap_host).bytes;
  options.swap_dir = absl::GetFlag(FLAGS_swap_dir);
  if (!options.swap_dir.empty() && options.swap_bytes == 0) {
    return absl::InvalidArgumentError(
        "--swap_dir needs --swap_host, the host's memory on the way from the devices to files");
  }
  options.programs_dir = absl::GetFlag(FLAGS_programs_dir);
  options.saved_sessions = absl::GetFlag(FLAGS_saved_sessions);
  if (!options.saved_sessions.empty() && options.swap_bytes == 0) {
    return absl::InvalidArgumentError(
        "--saved_sessions needs --swap_host, the host's memory on the way between devices and "
        "files");
  }
  options.upgrades = absl::GetFlag(FLAGS_upgrades);
  if (options.upgrades && options.swap_bytes == 0) {
    return absl::InvalidArgumentError(
        "--upgrades needs --swap_host, the host's memory in which device memory goes from one "
        "version to the next");
  }
  options.memory_overcommit = absl::GetFlag(FLAGS_memory_overcommit);
  if (!(options.memory_overcommit >= 1) || options.memory_overcommit > kMostOvercommit) {
    return absl::InvalidArgumentError(
        absl::StrCat("--memory_overcommit must be from 1 to ", kMostOvercommit));
  }
  if (options.memory_overcommit > 1 && options.swap_bytes == 0) {
    return absl::InvalidArgumentError(
        "--memory_overcommit needs --swap_host, the host's memory for what does not fit on the "
        "devices: about as much as sessions may have together lets all of them use it");
  }
  const absl::Duration idle = absl::GetFlag(FLAGS_idle);
  if (idle < absl::ZeroDuration()) return absl::InvalidArgumentError("--idle must not be negative");
  if (idle > absl::ZeroDuration()) {
    if (options.swap_bytes == 0) {
      return absl::InvalidArgumentError(
          "--idle needs --swap_host, the host's memory for what idle sessions have");
    }
    options.idle = std::max(idle, kLeastIdle);
  }
  const auto pageable = Pageable();
  if (!pageable.ok()) return pageable.status();
  options.pageable_access = *pageable;
  const int warm = absl::GetFlag(FLAGS_warm_workers);
  if (warm < -1 || warm > kMostWarmWorkers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--warm_workers must be from -1 to ", kMostWarmWorkers));
  }
  if (warm >= 0) options.warm_workers = warm;
  options.hardware_queues = absl::GetFlag(FLAGS_hardware_queues);
  options.cuda_libraries = absl::GetFlag(FLAGS_cuda_libraries);
  options.guard_compiler = absl::GetFlag(FLAGS_guard_compiler);
  if (options.hardware_queues < 0 || options.hardware_queues > kMostHardwareQueues) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hardware_queues must be from 0 to ", kMostHardwareQueues));
  }
  return options;
}

absl::StatusOr<jail::JailerOptions> Jail() {
  jail::JailerOptions options;
  const std::string required = absl::GetFlag(FLAGS_require_jail);
  if (required != "strict" && required != "best_effort") {
    return absl::InvalidArgumentError(
        absl::StrCat("--require_jail=", required, ": it is strict or best_effort"));
  }
  options.strict = required == "strict";
  options.cgroup = absl::GetFlag(FLAGS_worker_cgroup);
  if (options.cgroup != "auto" && options.cgroup != "none" && options.cgroup.rfind('/', 0) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--worker_cgroup=", options.cgroup, ": it is auto, none, or a folder"));
  }
  options.limits.memory_bytes = absl::GetFlag(FLAGS_worker_memory).bytes;
  if (absl::GetFlag(FLAGS_worker_tasks) < 64) {
    return absl::InvalidArgumentError("--worker_tasks must be at least 64");
  }
  options.limits.tasks = static_cast<uint64_t>(absl::GetFlag(FLAGS_worker_tasks));
  auto uids = jail::ParseWorkerUids(absl::GetFlag(FLAGS_worker_uids));
  if (!uids.ok()) {
    return absl::Status(uids.status().code(),
                        absl::StrCat("--worker_uids: ", std::string(uids.status().message())));
  }
  options.uids = *uids;
  return options;
}

absl::StatusOr<TierOptions> Tiers() {
  TierOptions options;
  options.tiers.clear();
  for (const std::string& name : absl::GetFlag(FLAGS_tiers)) {
    const std::optional<Tier> tier = ParseTier(name);
    if (!tier.has_value()) {
      const std::vector<std::string> names(std::begin(kTiers), std::end(kTiers));
      return absl::InvalidArgumentError(absl::StrCat("--tiers: there is no tier \"", name,
                                                     "\", only ", absl::StrJoin(names, " and ")));
    }
    const auto& known = options.tiers;
    if (std::find(known.begin(), known.end(), *tier) == known.end()) options.tiers.push_back(*tier);
  }
  if (options.tiers.empty()) return absl::InvalidArgumentError("--tiers names no tier");
  const uint64_t arena = absl::GetFlag(FLAGS_guarded_arena_size).bytes;
  if (arena < kMinArenaBytes || arena > kMostGuardedArenaBytes || !std::has_single_bit(arena)) {
    return absl::InvalidArgumentError(
        "--guarded_arena_size must be a power of two from 4GiB to 1TiB");
  }
  options.guarded_arena_bytes = arena;
  options.guarded_memory_bytes = absl::GetFlag(FLAGS_guarded_memory).bytes;
  if (options.guarded_memory_bytes < kLeastGuardedMemory) {
    return absl::InvalidArgumentError("--guarded_memory must be at least 32MiB");
  }
  const int launch_seconds = absl::GetFlag(FLAGS_guarded_launch_seconds);
  if (launch_seconds < 0) {
    return absl::InvalidArgumentError("--guarded_launch_seconds must not be negative");
  }
  if (launch_seconds > 0) options.guarded_launch_limit = absl::Seconds(launch_seconds);
  if (const auto sizes = GuardedSizesFor(options.guarded_memory_bytes, arena); !sizes.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--guarded_memory: ", std::string(sizes.status().message())));
  }
  auto context =
      OptionalBytes("guarded_context_memory", absl::GetFlag(FLAGS_guarded_context_memory));
  if (!context.ok()) return context.status();
  options.guarded_context_bytes = *context;
  if (absl::GetFlag(FLAGS_guarded_hang_seconds) < 0) {
    return absl::InvalidArgumentError("--guarded_hang_seconds must not be negative");
  }
  options.guarded_hang_pause = absl::Seconds(absl::GetFlag(FLAGS_guarded_hang_seconds));
  options.guarded_standby = absl::GetFlag(FLAGS_guarded_standby);
  const int windows = absl::GetFlag(FLAGS_guarded_windows);
  if (windows < 0 || windows > kMostGuardedWindows) {
    return absl::InvalidArgumentError(
        absl::StrCat("--guarded_windows must be 0 to ", kMostGuardedWindows));
  }
  options.guarded_windows = static_cast<size_t>(windows);
  options.guarded_window_bytes = absl::GetFlag(FLAGS_guarded_window).bytes;
  if (options.guarded_window_bytes < kLeastGuardedWindow ||
      options.guarded_window_bytes > kMostGuardedWindow ||
      options.guarded_window_bytes % kGuardedWindowUnit != 0) {
    return absl::InvalidArgumentError("--guarded_window must be whole MiB from 4MiB to 32MiB");
  }
  return options;
}

// Returns the path of the program in PATH; empty when there is none.
std::string FindInPath(const std::string& program) {
  const char* const path = getenv("PATH");
  for (const absl::string_view folder :
       absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty())) {
    std::string file = absl::StrCat(folder, "/", program);
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

absl::StatusOr<MpsGroupOptions> Mps(const TierOptions& tiers, const std::string& device) {
  MpsGroupOptions options;
  const std::string mode = absl::GetFlag(FLAGS_mps);
  if (mode == "off") return options;
  if (mode != "tenant") {
    return absl::InvalidArgumentError(absl::StrCat("--mps=", mode, ": it is tenant or off"));
  }
  if (std::find(tiers.tiers.begin(), tiers.tiers.end(), Tier::kIsolated) == tiers.tiers.end()) {
    return absl::InvalidArgumentError("--mps needs the isolated tier, which --tiers leaves out");
  }
  if (device != "auto" && !UsesNvidiaDriver(device)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--mps needs GPUs, and --device=", device, " has none"));
  }
  options.of_tenants = true;
  options.control = absl::GetFlag(FLAGS_mps_control);
  if (options.control.empty()) options.control = FindInPath("nvidia-cuda-mps-control");
  if (options.control.empty()) {
    return absl::NotFoundError(
        "--mps: there is no nvidia-cuda-mps-control in PATH; name it with --mps_control");
  }
  if (options.control.front() != '/' || access(options.control.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("--mps_control=", options.control, " is not the absolute path of a program"));
  }
  options.place = absl::GetFlag(FLAGS_mps_dir);
  if (!options.place.empty() && options.place.front() != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("--mps_dir=", options.place, ": it is an absolute path"));
  }
  return options;
}

absl::StatusOr<DispatchOptions> Dispatch() {
  DispatchOptions options;
  options.policy = absl::GetFlag(FLAGS_dispatch);
  if (options.policy != "off" && !absl::StrContains(options.policy, '/')) {
    const absl::Status known = policy::MakePolicy(options.policy).status();
    if (!known.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dispatch: ", std::string(known.message()), ", off, and files with a /"));
    }
  }
  options.quantum = absl::Microseconds(absl::GetFlag(FLAGS_dispatch_quantum_us));
  if (options.quantum < kLeastQuantum || options.quantum > kMostQuantum) {
    return absl::InvalidArgumentError(absl::StrCat("--dispatch_quantum_us must be from ",
                                                   absl::ToInt64Microseconds(kLeastQuantum), " to ",
                                                   absl::ToInt64Microseconds(kMostQuantum)));
  }
  options.expect = absl::Microseconds(absl::GetFlag(FLAGS_dispatch_expect_us));
  if (options.expect < absl::ZeroDuration() || options.expect > kMostExpect) {
    return absl::InvalidArgumentError(absl::StrCat("--dispatch_expect_us must be from 0 to ",
                                                   absl::ToInt64Microseconds(kMostExpect)));
  }
  return options;
}

absl::StatusOr<SessionLimits> Sessions() {
  SessionLimits limits;
  limits.max_sessions = absl::GetFlag(FLAGS_max_sessions);
  limits.strangers_per_peer = absl::GetFlag(FLAGS_strangers_per_peer);
  if (limits.strangers_per_peer < 1 || limits.strangers_per_peer > kMostStrangersPerPeer) {
    return absl::InvalidArgumentError(
        absl::StrCat("--strangers_per_peer must be 1 to ", kMostStrangersPerPeer));
  }
  if (limits.max_sessions < 1) {
    return absl::InvalidArgumentError("--max_sessions must be at least 1");
  }
  if (limits.max_sessions > kMostReportedSessions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max_sessions is at most ", kMostReportedSessions, ", which a scheduler can be told of"));
  }
  if (absl::GetFlag(FLAGS_resume_seconds) < 0) {
    return absl::InvalidArgumentError("--resume_seconds must not be negative");
  }
  limits.resume_timeout = absl::Seconds(absl::GetFlag(FLAGS_resume_seconds));
  limits.max_arena_bytes = absl::GetFlag(FLAGS_arena_size).bytes;
  const uint64_t arena = limits.max_arena_bytes;
  if (arena < kMinArenaBytes || arena > kMaxArenaBytes || (arena & (arena - 1)) != 0) {
    return absl::InvalidArgumentError("--arena_size must be a power of two from 4GiB to 32TiB");
  }
  limits.quota_bytes = absl::GetFlag(FLAGS_session_memory).bytes;
  limits.peer_memory_bytes = absl::GetFlag(FLAGS_peer_memory).bytes;
  limits.host_memory_bytes = absl::GetFlag(FLAGS_host_memory).bytes;
  limits.tenant_host_bytes = absl::GetFlag(FLAGS_tenant_host_memory).bytes;
  return limits;
}

// Returns the folder for module images; empty to keep none.
std::string ModuleCacheDir() {
  const std::string dir = absl::GetFlag(FLAGS_module_cache_dir);
  if (dir == "none" || absl::GetFlag(FLAGS_module_cache_bytes).bytes == 0) return "";
  if (!dir.empty()) return dir;
  const auto under = [](const char* variable, const char* rest) -> std::string {
    const char* const value = getenv(variable);
    return value == nullptr || *value != '/' ? "" : absl::StrCat(value, rest);
  };
  std::string found = under("CACHE_DIRECTORY", "/modules");
  if (found.empty()) found = under("XDG_CACHE_HOME", "/warpline/modules");
  return found.empty() ? under("HOME", "/.cache/warpline/modules") : found;
}

ModuleStoreOptions Modules() {
  ModuleStoreOptions options;
  options.dir = ModuleCacheDir();
  options.max_bytes = absl::GetFlag(FLAGS_module_cache_bytes).bytes;
  options.shared = absl::GetFlag(FLAGS_module_cache_shared);
  return options;
}

absl::StatusOr<SchedulerOptions> Scheduler() {
  SchedulerOptions options;
  options.address = absl::GetFlag(FLAGS_scheduler);
  options.name = absl::GetFlag(FLAGS_name);
  options.advertised = absl::GetFlag(FLAGS_advertise);
  const std::string path = absl::GetFlag(FLAGS_scheduler_credential_file);
  if (path.empty()) return options;
  if (options.address.empty()) {
    return absl::InvalidArgumentError("--scheduler_credential_file needs --scheduler");
  }
  auto credential = ReadWordFile(path);
  if (!credential.ok()) {
    return absl::Status(credential.status().code(), absl::StrCat("--scheduler_credential_file: ",
                                                                 credential.status().message()));
  }
  options.credential = *std::move(credential);
  return options;
}

}  // namespace

absl::StatusOr<ServerOptions> ServerOptionsFromFlags() {
  ServerOptions options;
  auto listen = Listen();
  if (!listen.ok()) return listen.status();
  options.listen = *std::move(listen);
  auto device = Device();
  if (!device.ok()) return device.status();
  options.device = *std::move(device);
  auto jail = Jail();
  if (!jail.ok()) return jail.status();
  options.jail = *jail;
  auto sessions = Sessions();
  if (!sessions.ok()) return sessions.status();
  options.sessions = *sessions;
  auto tiers = Tiers();
  if (!tiers.ok()) return tiers.status();
  options.tiers = *std::move(tiers);
  auto mps = Mps(options.tiers, options.device.backend);
  if (!mps.ok()) return mps.status();
  options.mps = *std::move(mps);
  auto dispatch = Dispatch();
  if (!dispatch.ok()) return dispatch.status();
  options.dispatch = *std::move(dispatch);
  auto scheduler = Scheduler();
  if (!scheduler.ok()) return scheduler.status();
  options.scheduler = *std::move(scheduler);
  if (absl::GetFlag(FLAGS_drain_seconds) < 0) {
    return absl::InvalidArgumentError("--drain_seconds must not be negative");
  }
  options.drain_timeout = absl::Seconds(absl::GetFlag(FLAGS_drain_seconds));
  options.migrate_on_drain = absl::GetFlag(FLAGS_migrate_on_drain);
  if (options.migrate_on_drain &&
      (options.scheduler.address.empty() || options.device.swap_bytes == 0)) {
    return absl::InvalidArgumentError("--migrate_on_drain needs --scheduler and --swap_host");
  }
  options.modules = Modules();
  auto audit = audit::AuditLogOptionsFromFlags();
  if (!audit.ok()) return audit.status();
  options.audit = *std::move(audit);
  return options;
}

bool OnlyChecksConfig() { return absl::GetFlag(FLAGS_check_config); }

}  // namespace warpline::server
