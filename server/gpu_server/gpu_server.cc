#include "server/gpu_server/gpu_server.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/bind_front.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "audit/audited_method.h"
#include "common/crypto/secret.h"
#include "common/log/log.h"
#include "common/serving/server_process.h"
#include "common/serving/serving.h"
#include "common/steady_time.h"
#include "common/version.h"
#include "proto/admin.pb.h"
#include "proto/frames.h"
#include "proto/tier.h"
#include "server/gpu_server/admin/admin_service.h"
#include "server/gpu_server/admin/admin_socket.h"
#include "server/gpu_server/admin/admin_socket_lock.h"
#include "server/gpu_server/admin/device_status.h"
#include "server/gpu_server/admin/lease_methods.h"
#include "server/gpu_server/admin/trace_method.h"
#include "server/gpu_server/admin/upgrade_method.h"
#include "server/gpu_server/children/mps_groups/mps_groups.h"
#include "server/gpu_server/memory/device_memory.h"
#include "server/gpu_server/memory/host_memory_port.h"
#include "server/gpu_server/memory/pageable_access.h"
#include "server/gpu_server/memory/swap_file.h"
#include "server/gpu_server/modules/module_store.h"
#include "server/gpu_server/nvml/device_groups.h"
#include "server/gpu_server/open_devices.h"
#include "server/gpu_server/policies/dispatch_policies.h"
#include "server/gpu_server/policies/policy_methods.h"
#include "server/gpu_server/saved/saved_sessions.h"
#include "server/gpu_server/session/task_shares.h"
#include "server/gpu_server/worker_program.h"
#include "server/hostlink/backends/backend_names.h"
#include "server/hostlink/process/process_roles.h"
#include "server/hostlink/process/running_process.h"
#include "transport/grpc/tls/grpc_tls.h"
#include "transport/registry/listen.h"
#include "transport/shm/shm_address.h"

namespace warpline::server {
namespace {

using Devices = std::vector<std::unique_ptr<DeviceMemory>>;

constexpr int kStrangersOfOthers = 32;

// What a client may send ahead on a stream that is not read (transport/grpc). A stranger's is read,
// as is a bulk connection, and holds a frame at most.
constexpr size_t kUnreadBytesOfStream = size_t{12} << 20;
constexpr size_t kUnreadBytesOfReadStream = size_t{2} << 20;
constexpr size_t kUnreadBytesOfSession =
    kUnreadBytesOfStream + kMaxBulkConnections * kUnreadBytesOfReadStream;
constexpr size_t kLeastBufferBytes = size_t{1} << 30;

absl::StatusOr<std::string> ProgramOr(const std::string& given, ProcessRole role) {
  if (!given.empty()) return given;
  return FindProgram(role);
}

absl::StatusOr<std::unique_ptr<supervisor::SupervisedLauncher>> StartSupervisor(
    const DeviceOptions& from) {
  auto path = ProgramOr(from.supervisor_program, ProcessRole::kSupervisor);
  if (!path.ok()) return path.status();
  ChildOptions program;
  program.path = *std::move(path);
  return supervisor::SupervisedLauncher::Create(std::move(program));
}

// More do not make the system give pages faster.
constexpr int kMostSwapThreads = 16;

bool Has(Tier tier, const TierOptions& options) {
  return std::find(options.tiers.begin(), options.tiers.end(), tier) != options.tiers.end();
}

absl::StatusOr<Devices> OpenAllDevices(const DeviceOptions& from, const TierOptions& tiers,
                                       SwapSpace* swap, SwapFiles* swap_files,
                                       ProcessLauncher* launcher, jail::Jailer* jailer,
                                       size_t descriptors) {
  auto keeper = ProgramOr(from.keeper_program, ProcessRole::kKeeper);
  if (!keeper.ok()) return keeper.status();
  OpenDevicesOptions options;
  options.memory.keeper.launcher = launcher;
  options.memory.keeper.jailer = jailer;
  options.memory.keeper.program.path = *std::move(keeper);
  options.memory.keeper.backend = from.backend;
  options.memory.reserve_bytes = from.reserve_bytes;
  options.memory.swap = swap;
  options.memory.swap_files = swap_files;
  // The contexts of the workers that wait, of one session, of the keeper and of the pager.
  options.memory.contexts =
      static_cast<uint64_t>(from.warm_workers.value_or(1)) + (swap == nullptr ? 2 : 3);
  if (Has(Tier::kGuarded, tiers)) options.memory.shared_contexts = tiers.guarded_standby ? 2 : 1;
  options.memory.shared_context_bytes = tiers.guarded_context_bytes;
  options.pageable_access = from.pageable_access;
  options.descriptors = descriptors;
  options.selected = DevicesToSelect(from.backend, &nvml::Library::Load);
  return OpenDevices(std::move(options), jailer);
}

// A server without a cache works, only slower: null where there is none.
std::unique_ptr<ModuleStore> OpenModuleStore(const ModuleStoreOptions& options) {
  if (options.dir.empty()) return nullptr;
  auto store = ModuleStore::Open(options);
  if (!store.ok()) {
    LogWarning("no module cache, modules are sent by every session: ",
               std::string(store.status().message()));
    return nullptr;
  }
  LogInfo("module cache dir=", options.dir, " bytes=", (*store)->bytes(),
          " limit_bytes=", options.max_bytes, " images=", (*store)->images(),
          " shared=", options.shared ? "true" : "false");
  return *std::move(store);
}

// The first unix socket that others can find: a relative path means nothing to them.
std::string UnixSocket(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    absl::string_view path = address;
    if (absl::ConsumePrefix(&path, "unix:") && absl::StartsWith(path, "/")) {
      return std::string(path);
    }
  }
  return "";
}

// Returns a name of an abstract socket that the folder's next server has, too, unless another
// process took it meanwhile.
std::string KeptName(const SavedSessions& saved, const std::string& what, const std::string& made) {
  std::string name = saved.NameOf(what, made);
  if (IsFreeName(name)) return name;
  LogWarning(
      "another process listens at the socket's name of the server before this one: sessions "
      "that share host memory with their clients cannot go on");
  return made;
}

// A name that no other server has, and that nobody knows before.
std::string NewShmName() {
  return absl::StrCat("warpline-shm-", getpid(), "-", absl::BytesToHexString(RandomBytes(8)));
}

void WarnOfFewTasks(const SessionHostOptions& options) {
  const TaskShares shares({options.tasks, options.max_sessions, options.tasks_per_stream});
  if (shares.suffices()) return;
  LogWarning("the system lets the server have tasks=", options.tasks,
             ", too few for sessions=", options.max_sessions,
             ": give it more (TasksMax, pids.max, RLIMIT_NPROC) or set --max_sessions");
}

absl::StatusOr<SessionHostOptions> HostOptions(const ServerOptions& from,
                                               const std::string& server_name,
                                               const std::string& backend) {
  auto worker = ProgramOr(from.device.worker_program, ProcessRole::kWorker);
  if (!worker.ok()) return worker.status();
  SessionHostOptions options;
  options.max_sessions = from.sessions.max_sessions;
  options.tasks = SystemTaskLimit();
  // Those of the CPU device have a thread besides, which does their work.
  options.tasks_per_stream = UsesNvidiaDriver(backend) ? 1 : 2;
  WarnOfFewTasks(options);
  options.session.worker = WorkerProgram(*worker, backend, from.device.hardware_queues);
  options.session.tiers = from.tiers.tiers;
  options.session.guarded.worker =
      SharedWorkerProgram(*worker, backend, from.device.cuda_libraries);
  options.session.guarded.max_arena_bytes = from.tiers.guarded_arena_bytes;
  options.session.guarded.memory_bytes = from.tiers.guarded_memory_bytes;
  options.session.guarded.hang_pause = from.tiers.guarded_hang_pause;
  options.session.guarded.launch_limit = from.tiers.guarded_launch_limit;
  options.session.guarded.process.windows.count = from.tiers.guarded_windows;
  options.session.guarded.process.windows.bytes = from.tiers.guarded_window_bytes;
  options.session.guarded.standby.kept =
      from.tiers.guarded_standby && Has(Tier::kGuarded, from.tiers);
  if (Has(Tier::kIsolated, from.tiers)) {
    // Those of MPS groups start with their daemon.
    const bool waits = UsesNvidiaDriver(backend) && !from.mps.of_tenants;
    options.session.warm_workers = from.device.warm_workers.value_or(waits ? 1 : 0);
  }
  options.host_memory_bytes = from.sessions.host_memory_bytes;
  options.overcommit.factor = from.device.memory_overcommit;
  options.idle = from.device.idle;
  options.session.max_arena_bytes = from.sessions.max_arena_bytes;
  options.session.server_name = server_name;
  options.modules = OpenModuleStore(from.modules);
  options.session.resume_timeout = from.sessions.resume_timeout;
  options.session.programs = std::make_shared<ProgramBook>(from.device.programs_dir);
  options.session.unix_socket = UnixSocket(from.listen.addresses);
  if (from.listen.shm) options.session.shm_name = NewShmName();
  return options;
}

// Null where nobody has relays.
absl::StatusOr<std::unique_ptr<RelayOptions>> MakeRelayOptions(const ListenOptions& from,
                                                               const std::string& shm_name,
                                                               ProcessLauncher* launcher,
                                                               jail::Jailer* jailer) {
  const bool tls = !from.tls.empty() && from.relay_ports.has_value() && from.shm;
  if (from.ucx_networks.empty() && !tls) return nullptr;
  auto program = FindProgram(ProcessRole::kRelay);
  if (!program.ok()) return program.status();
  auto relays = std::make_unique<RelayOptions>();
  relays->launcher = launcher;
  relays->jailer = jailer;
  relays->program.path = *std::move(program);
  relays->ucx_networks = from.ucx_networks;
  relays->tls = tls;
  relays->ports = from.relay_ports.value_or(RelayPorts());
  relays->server_name = shm_name;
  relays->ucx_transports = from.ucx_transports;
  if (!from.ucx_networks.empty() && !from.ucx_transports.IsOnlyTcp()) {
    const absl::Status there = CheckUcxTransports(*relays);
    if (!there.ok()) {
      return absl::Status(there.code(), absl::StrCat("--ucx_transports: ", there.message(),
                                                     " (docs/transports.md says what it needs)"));
    }
  }
  return relays;
}

// Null where workers guard modules by themselves.
absl::StatusOr<std::unique_ptr<CompilerOptions>> MakeCompilerOptions(const DeviceOptions& from,
                                                                     const std::string& backend,
                                                                     ProcessLauncher* launcher,
                                                                     jail::Jailer* jailer) {
  if (from.guard_compiler == "none") return nullptr;
  auto program = ProgramOr(from.compiler_program, ProcessRole::kCompiler);
  if (!program.ok() && from.guard_compiler == "auto") {
    LogWarning("guarded modules are compiled in the session's worker: ",
               std::string(program.status().message()));
    return nullptr;
  }
  if (!program.ok()) return program.status();
  auto compilers = std::make_unique<CompilerOptions>();
  compilers->launcher = launcher;
  compilers->jailer = jailer;
  compilers->program.path = *std::move(program);
  compilers->compiles = UsesNvidiaDriver(backend);
  if (from.guard_compiler != "auto") compilers->library = from.guard_compiler;
  return compilers;
}

// A tenant that is alone may open as many sessions as there may be.
uint64_t TenantHostBytes(const SessionLimits& limits, const SessionOptions& session) {
  if (limits.tenant_host_bytes != 0) return limits.tenant_host_bytes;
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  const uint64_t half = pages / 2 * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::max(half, static_cast<uint64_t>(limits.max_sessions) * HostBytesOfSession(session));
}

std::string NameForScheduler(const ServerOptions& options) {
  if (!options.scheduler.name.empty()) return options.scheduler.name;
  const std::string& first = options.listen.addresses.front();
  const std::string port = first.substr(first.rfind(':') + 1);
  // Ports of the system's choice are no name.
  return absl::StrCat(HostName(), ":", port == "0" ? absl::StrCat("pid", getpid()) : port);
}

// Returns what the record of an action is called in the audit; null for a replacement.
const char* NameOf(warpline_internal::ReplaceRequest::Action action) {
  switch (action) {
    case warpline_internal::ReplaceRequest::PAGE_OUT:
      return "out";
    case warpline_internal::ReplaceRequest::PAGE_IN:
      return "in";
    case warpline_internal::ReplaceRequest::SUSPEND:
      return "suspend";
    case warpline_internal::ReplaceRequest::RESUME:
      return "resume";
    case warpline_internal::ReplaceRequest::LIMIT:
      return "limit";
    default:
      return nullptr;
  }
}

// Of what it only asks again, how far a replacement is, there is no record.
std::optional<audit::Record> DescribeReplace(const std::string& request) {
  warpline_internal::ReplaceRequest parsed;
  if (parsed.ParseFromString(request) && parsed.ticket() != 0) return std::nullopt;
  audit::Record record{.event = audit::Event::kAdminReplace,
                       .tenant = parsed.tenant(),
                       .lease = parsed.lease(),
                       .session = parsed.session()};
  if (parsed.action() == warpline_internal::ReplaceRequest::REVOKE) {
    record.event = audit::Event::kAdminRevoke;
    record.texts = {{"why", parsed.reason()}};
    return record;
  }
  const char* const action = NameOf(parsed.action());
  if (action == nullptr) return record;
  record.event = audit::Event::kAdminPage;
  record.texts = {{"action", action}};
  if (parsed.action() == warpline_internal::ReplaceRequest::LIMIT) {
    record.numbers = {{"resident_bytes", parsed.resident_bytes()}};
  }
  return record;
}

std::unique_ptr<nvml::Sampler> MakeSampler(const Devices& devices) {
  if (!UsesNvidiaDriver(devices.front()->backend())) return nullptr;
  nvml::SamplerOptions options;
  for (const auto& device : devices) options.pci_bus_ids.push_back(device->info().pci_bus_id());
  return std::make_unique<nvml::Sampler>(std::move(options));
}

// By ordinal; none where NVML has no readings.
std::map<int, std::string> PciBusIds(const Devices& devices) {
  std::map<int, std::string> ids;
  if (!UsesNvidiaDriver(devices.front()->backend())) return ids;
  for (const auto& device : devices) ids[device->ordinal()] = device->info().pci_bus_id();
  return ids;
}

}  // namespace

GpuServer::GpuServer(ServerOptions options, ParentLink* parent)
    : options_(std::move(options)),
      parent_(parent),
      name_(absl::StrCat("warpline-server ", kVersion, " on ", HostName())),
      instance_(absl::BytesToHexString(RandomBytes(16))) {}

absl::StatusOr<std::unique_ptr<GpuServer>> GpuServer::Create(ServerOptions options,
                                                             ParentLink* parent) {
  std::unique_ptr<GpuServer> server(new GpuServer(std::move(options), parent));
  const absl::Status composed = server->Compose();
  if (!composed.ok()) return composed;
  return server;
}

absl::Status GpuServer::Compose() {
  // The supervisor has the limit that there is when it starts.
  const size_t descriptors = RaiseDescriptorLimit();
  auto audit = audit::OpenAudit(options_.audit);
  if (!audit.ok()) return audit.status();
  audit_ = *std::move(audit);
  TakeSettings();
  jailer_ = std::make_unique<jail::Jailer>(options_.jail);
  auto launcher = StartSupervisor(options_.device);
  if (!launcher.ok()) return launcher.status();
  launcher_ = *std::move(launcher);
  if (options_.device.swap_bytes > 0) {
    const auto threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    auto swap = SwapSpace::Open(options_.device.swap_bytes, std::min(threads, kMostSwapThreads),
                                TakeBlocks());
    if (!swap.ok()) return swap.status();
    swap_ = *std::move(swap);
  }
  if (const absl::Status taken = TakePassed(); !taken.ok()) return taken;
  if (!options_.device.swap_dir.empty()) {
    if (const absl::Status may = CheckSwapDirectory(options_.device.swap_dir); !may.ok()) {
      return may;
    }
    swap_files_ = std::make_unique<SwapFiles>(options_.device.swap_dir, swap_.get());
  }
  auto devices = OpenAllDevices(options_.device, options_.tiers, swap_.get(), swap_files_.get(),
                                launcher_.get(), jailer_.get(), descriptors);
  if (!devices.ok()) return devices.status();
  auto host = HostOptions(options_, name_, devices->front()->backend());
  if (!host.ok()) return host.status();
  LeaseBookOptions leases;
  leases.server_name = NameForScheduler(options_);
  leases.required = !options_.scheduler.address.empty();
  leases.session_memory_bytes = options_.sessions.quota_bytes;
  leases.peer_memory_bytes = options_.sessions.peer_memory_bytes;
  leases.payer_host_bytes = TenantHostBytes(options_.sessions, host->session);
  leases.clock = [] { return SteadyNow(); };
  auto book = LeaseBook::Create(std::move(leases));
  if (!book.ok()) return book.status();
  leases_ = *std::move(book);
  host->leases = leases_.get();
  host->children.launcher = launcher_.get();
  host->children.jailer = jailer_.get();
  auto relays =
      MakeRelayOptions(options_.listen, host->session.shm_name, launcher_.get(), jailer_.get());
  if (!relays.ok()) return relays.status();
  host->children.relays = *std::move(relays);
  auto compilers = MakeCompilerOptions(options_.device, devices->front()->backend(),
                                       launcher_.get(), jailer_.get());
  if (!compilers.ok()) return compilers.status();
  host->children.compilers = *std::move(compilers);
  if (const absl::Status mps = MakeMps(devices->front()->backend(), &*host); !mps.ok()) return mps;
  // Otherwise sessions share devices as the driver has it.
  if (options_.dispatch.policy != "off") {
    auto policies = MakeDispatchPolicies({.policy = options_.dispatch.policy,
                                          .quantum = options_.dispatch.quantum,
                                          .expect = options_.dispatch.expect,
                                          .audit = audit_.get()});
    if (!policies.ok()) return policies.status();
    policies_ = std::move(policies->book);
    host->dispatcher = std::move(policies->dispatcher);
  }
  host->session.host_memory_socket = FormerHostMemorySocket();
  if (!options_.device.saved_sessions.empty()) {
    auto saved = SavedSessions::Open(options_.device.saved_sessions, swap_.get());
    if (!saved.ok()) return saved.status();
    host->saved = *std::move(saved);
    if (host->session.host_memory_socket.empty()) {
      host->session.host_memory_socket = KeptName(*host->saved, "host", HostMemoryPort::NewName());
    }
  }
  host->audit = audit_.get();
  sampler_ = MakeSampler(*devices);
  shm_name_ = host->session.shm_name;
  const std::map<int, std::string> pci_bus_ids = PciBusIds(*devices);
  host_ = std::make_unique<SessionHost>(*std::move(host), *std::move(devices));
  if (absl::Status watched = WatchDriver(pci_bus_ids); !watched.ok()) return watched;
  metrics_ = std::make_shared<ServerMetrics>(host_.get());
  auto exposer = ExposeMetrics(options_.listen.admin_address, metrics_);
  if (!exposer.ok()) return exposer.status();
  exposer_ = *std::move(exposer);
  if (exposer_ != nullptr && options_.listen.tenant_metrics) {
    tenant_metrics_ = std::make_shared<TenantMetrics>(host_.get());
    exposer_->RegisterCollectable(tenant_metrics_);
  }
  replacements_ = std::make_unique<Replacements>(host_.get());
  checkpoints_ = std::make_unique<Checkpoints>(
      CheckpointActions{.save = absl::bind_front(&SessionHost::SaveCheckpoint, host_.get()),
                        .restore = absl::bind_front(&SessionHost::RestoreCheckpoint, host_.get())},
      swap_.get());
  return absl::OkStatus();
}

// Isolated workers are their tenants', and the driver sees what they do.
absl::Status GpuServer::WatchDriver(const std::map<int, std::string>& pci_bus_ids) {
  if (pci_bus_ids.empty() || host_->dispatcher() == nullptr) return absl::OkStatus();
  DriverWatchOptions options;
  options.pci_bus_ids = pci_bus_ids;
  options.dispatcher = host_->dispatcher();
  options.end_session = [host = host_.get()](uint64_t session, const std::string& reason) {
    host->EndSession(session, reason);
  };
  auto watch = DriverWatch::Create(std::move(options));
  if (!watch.ok()) return watch.status();
  watch_ = *std::move(watch);
  return absl::OkStatus();
}

absl::Status GpuServer::MakeMps(const std::string& backend, SessionHostOptions* host) {
  if (!options_.mps.of_tenants) return absl::OkStatus();
  if (!UsesNvidiaDriver(backend)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--mps needs GPUs, and the device is ", backend));
  }
  auto program = FindProgram(ProcessRole::kMps);
  if (!program.ok()) return program.status();
  auto folder = MpsFolder::Make(options_.mps.place);
  if (!folder.ok()) return folder.status();
  mps_folder_ = *std::move(folder);
  auto mps = std::make_unique<MpsOptions>();
  mps->launcher = launcher_.get();
  mps->jailer = jailer_.get();
  mps->program.path = *std::move(program);
  mps->control = options_.mps.control;
  mps->folder = mps_folder_->path();
  host->children.mps = std::move(mps);
  LogWarning(
      "--mps=tenant: the isolated workers of one tenant on one GPU share a user id, faults and "
      "an MPS daemon, whose sockets they reach through their jail; docs/mps.md says what "
      "that gives up. control=",
      options_.mps.control);
  return absl::OkStatus();
}

ListenerOptions GpuServer::MakeListenerOptions() {
  ListenerOptions options;
  const int max_sessions = std::min(options_.sessions.max_sessions, 1 << 20);
  options.max_strangers_of_peer = options_.sessions.strangers_per_peer;
  options.trusts_own_process = true;  // It connects for relays (server/gpu_server/children/relays).
  // So that others have room while one peer has all that it may have.
  options.max_strangers = options_.sessions.strangers_per_peer + kStrangersOfOthers;
  // The host counts sessions and says why it refuses. Each may have a stream and another on which
  // it is being resumed, and its bulk connections; there are as many strangers that were told to go
  // as those that were not.
  constexpr int kStreamsOfSession = 2 + static_cast<int>(kMaxBulkConnections);
  options.max_sessions = kStreamsOfSession * max_sessions + 2 * options.max_strangers;
  // So that those who push as much as they can leave the others their room.
  options.max_buffer_bytes =
      std::max(kLeastBufferBytes,
               2 * (static_cast<size_t>(max_sessions) * kUnreadBytesOfSession +
                    static_cast<size_t>(options.max_strangers) * kUnreadBytesOfReadStream));
  // Those of each session, those of operators, and some that are none of ours.
  options.max_connections = kStreamsOfSession * max_sessions + 512;
  options.tls = options_.listen.tls;
  options.tls_on_unix_sockets = options_.listen.tls_on_unix_sockets;
  options.methods[kStatMethod] = [this](const std::string& peer, const std::string& request) {
    return AnswerClientStat(host_.get(), *leases_, name_, peer, request);
  };
  options.methods[kWhereMethod] = [this](const std::string&, const std::string&) {
    return AnswerWhere();
  };
  options.methods[kDeviceStatusMethod] = [this](const std::string& peer,
                                                const std::string& request) {
    return AnswerDeviceStatus(host_->Snapshot(), *leases_, sampler_.get(), peer, request);
  };
  AddLeaseMethods(host_.get(), leases_.get(), &options.methods);
  return options;
}

std::string GpuServer::AnswerWhere() const {
  warpline_internal::WhereReply reply;
  if (admin_serving_.load(std::memory_order_acquire)) reply.set_socket(admin_socket_);
  reply.set_instance(instance_);
  return reply.SerializeAsString();
}

// The operator has a listener apart, since a connection does not say at which address it came.
absl::Status GpuServer::StartAdminListener() {
  const std::string& chosen = options_.listen.admin_socket;
  const std::string own = port() == 0 ? absl::StrCat("pid", getpid()) : absl::StrCat(port());
  auto path = AdminSocketPath(chosen, own);
  absl::Status status = path.status();
  if (status.ok() && path->empty()) return status;
  if (status.ok() && chosen == "auto") {
    RemoveStaleAdminSockets(path->substr(0, path->rfind('/')));
    // Without the lock the socket's file stays if this process is killed, and that is all.
    if (auto lock = AdminSocketLock::Take(*path); lock.ok()) {
      admin_lock_ = std::make_unique<AdminSocketLock>(*std::move(lock));
    }
  }
  if (status.ok()) {
    ListenerOptions options;
    options.own_user_only = true;
    options.max_sessions = 0;
    options.max_connections = 64;
    options.methods[kWhereMethod] = [this](const std::string&, const std::string&) {
      return AnswerWhere();
    };
    options.methods[kStatMethod] = [this](const std::string&, const std::string& request) {
      return AnswerStat(host_.get(), name_, request);
    };
    options.methods[kReplaceMethod] = audit::Audited(
        audit_.get(), &DescribeReplace, [this](const std::string&, const std::string& request) {
          return AnswerReplace(host_.get(), replacements_.get(), request);
        });
    options.methods[kUpgradeMethod] = audit::Audited(
        audit_.get(), &DescribeUpgrade, [this](const std::string&, const std::string& request) {
          return AnswerUpgrade(parent_, request);
        });
    options.methods[kCheckpointMethod] = audit::Audited(
        audit_.get(), &DescribeCheckpoint, [this](const std::string&, const std::string& request) {
          return checkpoints_->Answer(request);
        });
    options.methods[kTraceMethod] = [this](const std::string&, const std::string& request) {
      return AnswerTrace(host_->dispatcher(), request);
    };
    options.methods[kPolicyMethod] = audit::Audited(
        audit_.get(), &DescribePolicy, [this](const std::string&, const std::string& request) {
          return AnswerPolicy(policies_.get(), request);
        });
    admin_listener_ = MakeListener(std::move(options));
    status = admin_listener_->Start({"unix:" + *path}, host_.get());
  }
  if (status.ok()) {
    admin_listener_->SetServing(true);
    admin_socket_ = *path;
    admin_serving_.store(true, std::memory_order_release);
    LogInfo("the operator is answered at admin_socket=", admin_socket_);
    return status;
  }
  admin_listener_.reset();
  if (chosen != "auto") return status;
  LogWarning("no admin socket, so nobody is answered `warpline ps` and `replace`: ",
             std::string(status.message()), "; name another with --admin_socket");
  return absl::OkStatus();
}

void GpuServer::StartDirectListener() {
  if (shm_name_.empty() || !options_.listen.tls.empty()) return;
  std::vector<std::string> addresses;
  for (const std::string& address : listener_->addresses()) {
    for (std::string& direct : ShmAddressesAt(address)) addresses.push_back(std::move(direct));
  }
  if (addresses.empty()) return;
  ListenerOptions options = MakeListenerOptions();
  options.methods.clear();  // They are asked for over gRPC.
  direct_listener_ = MakeListener(std::move(options));
  const absl::Status started = direct_listener_->Start(addresses, host_.get());
  if (started.ok()) return;
  direct_listener_.reset();
  LogWarning("sessions of this host are opened over TCP: ", std::string(started.message()));
}

absl::Status GpuServer::Start() {
  auto health = HealthListener::Start(options_.listen.health_address);
  if (!health.ok()) return health.status();
  health_ = *std::move(health);
  host_->FindSaved();
  host_->ExpectPassed(passed_);
  listener_ = MakeListener(MakeListenerOptions());
  std::vector<std::string> addresses;
  for (const std::string& address : options_.listen.addresses) {
    addresses.push_back(AddressOf(address));
  }
  if (!shm_name_.empty()) addresses.push_back("shm://" + shm_name_);
  absl::Status status = listener_->Start(addresses, host_.get());
  if (!status.ok()) return status;
  StartDirectListener();
  if (status = StartAdminListener(); !status.ok()) return status;
  listener_->SetServing(true);
  if (health_ != nullptr) health_->SetReady(true);
  if (!options_.listen.port_file.empty()) {
    status = WritePortFile(options_.listen.port_file, port());
    if (!status.ok()) return status;
  }
  LogInfo("serving version=", kVersion, " listen=", absl::StrJoin(options_.listen.addresses, ","),
          " port=", port(), " pid=", getpid());
  Record(audit::Event::kServerStarted);
  if (!options_.scheduler.address.empty()) JoinScheduler();
  if (status = AdoptPassed(); !status.ok()) return status;
  host_->RestoreSaved();
  return absl::OkStatus();
}

int GpuServer::port() const {
  if (listener_ == nullptr) return 0;
  for (const std::string& address : listener_->addresses()) {
    int port = 0;
    if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "shm:")) continue;
    if (absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) return port;
  }
  return 0;
}

void GpuServer::Record(audit::Event event) {
  if (audit_ == nullptr) return;
  audit_->Add({.event = event,
               .texts = {{"version", kVersion}},
               .numbers = {{"pid", static_cast<uint64_t>(getpid())}}});
}

void GpuServer::JoinScheduler() {
  SchedulerLinkOptions options;
  options.schedulers = ParseAddresses(options_.scheduler.address);
  options.target = [tls = options_.listen.tls](const std::string& address) {
    // Certificates for servers often do not serve clients: the variables may name another.
    GrpcTarget target = {.address = address, .tls = ClientTls(address)};
    if (target.tls == nullptr && WantsTls(tls, address)) {
      target.tls = std::make_shared<TlsSource>(TlsSource::Side::kClient, tls);
    }
    return target;
  };
  options.credential = options_.scheduler.credential;
  // Where clients find the server: the port is known only once it listens.
  const std::string& advertised = options_.scheduler.advertised;
  options.endpoint = advertised.empty() ? listener_->addresses().front() : advertised;
  options.version = kVersion;
  if (audit_ != nullptr) {
    options.audit_head = [this] { return audit::FormatAnchor(audit_->head()); };
  }
  if (sampler_ != nullptr) {
    options.groups = [this] {
      std::vector<std::string> addresses;
      for (const DeviceSnapshot& device : host_->Snapshot().devices) {
        addresses.push_back(device.info.pci_bus_id());
      }
      return nvml::GroupsOf(*sampler_->Get(), addresses);
    };
  }
  options.space = swap_.get();
  scheduler_ = std::make_unique<SchedulerLink>(std::move(options), host_.get(), leases_.get());
}

void GpuServer::Drain() {
  LogInfo("draining sessions=", host_->sessions(),
          " drain_seconds=", absl::ToInt64Seconds(options_.drain_timeout));
  host_->StartDrain();
  listener_->SetServing(false);
  if (health_ != nullptr) health_->SetReady(false);
  const absl::Time deadline = SteadyNow() + options_.drain_timeout;
  if (options_.migrate_on_drain) {
    scheduler_->MoveAway(deadline);
    host_->AwaitMoved(deadline);
    LogInfo("moved leases away, sessions=", host_->sessions());
  }
  const int saved = host_->SaveAll(options_.drain_timeout);
  if (saved > 0) LogInfo("saved sessions=", saved, " dir=", options_.device.saved_sessions);
  const absl::Duration left =
      options_.migrate_on_drain ? deadline - SteadyNow() : options_.drain_timeout;
  if (!host_->WaitUntilIdle(left)) {
    LogWarning("ending sessions=", host_->sessions());
    host_->FaultAll("the server is shutting down");
    host_->WaitUntilIdle(absl::Seconds(2));
  }
  if (direct_listener_ != nullptr) direct_listener_->Shutdown(absl::Seconds(1));
  listener_->Shutdown(absl::Seconds(1));
  Record(audit::Event::kServerStopped);
  // Reports once more: that there are no sessions any more.
  scheduler_.reset();
  exposer_.reset();
}

GpuServer::~GpuServer() {
  scheduler_.reset();
  exposer_.reset();
  metrics_.reset();
  // Their methods use everything else. Afterwards no session has a channel.
  admin_listener_.reset();
  direct_listener_.reset();
  listener_.reset();
  replacements_.reset();
  // Nobody comes back to a session that waits for its client.
  if (host_ != nullptr) host_->FaultAll("the server is shutting down");
  watch_.reset();
  host_.reset();
  sampler_.reset();
  leases_.reset();
  mps_folder_.reset();
  // By now it has nothing to supervise.
  launcher_.reset();
  jailer_.reset();
  audit_.reset();
}

}  // namespace warpline::server
