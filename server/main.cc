// warpline-server: owns a host's devices and runs the CUDA calls that clients forward to it.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/byte_size.h"
#include "common/endpoint.h"
#include "common/log/log.h"
#include "common/serving/listen_address.h"
#include "common/serving/server_process.h"
#include "common/serving/serving.h"
#include "common/serving/tls_flags.h"
#include "common/sibling_program.h"
#include "common/steady_time.h"
#include "common/version.h"
#include "server/admin/admin_service.h"
#include "server/admin/device_status.h"
#include "server/admin/metrics.h"
#include "server/admin/replacements.h"
#include "server/admin/scheduler_link.h"
#include "server/backends/backend_names.h"
#include "server/leases/lease_book.h"
#include "server/memory/device_memory.h"
#include "server/nvml/sampler.h"
#include "server/session/session_host.h"
#include "server/session/task_shares.h"
#include "transport/grpc/grpc_server.h"
#include "transport/grpc/server_tls.h"

ABSL_FLAG(std::vector<std::string>, listen, {warpline::kDefaultEndpoint},
          "Addresses to serve clients on, separated by commas: host:port (port 0 for any) or "
          "unix:/path. [::]:port is every address of the host, 0.0.0.0:port every one of IPv4. "
          "Without TLS only loopback and unix sockets are taken.");
ABSL_FLAG(std::string, port_file, "",
          "Where to write the port of the first host:port address once the server is ready.");
ABSL_FLAG(std::string, device, "auto",
          absl::StrCat("What executes: ", warpline::DescribeBackends(),
                       ", or auto, the first of them that has a device."));
ABSL_FLAG(warpline::ByteSize, session_memory, {},
          "Device memory that a session may hold, such as 8GiB. 0 for all that the device has less "
          "--device_reserve.");
ABSL_FLAG(std::string, device_reserve, "",
          "Device memory left to workers' contexts and others, such as 2GiB. Empty for an eighth "
          "of a GPU, at most 4GiB, and nothing of the CPU device.");
ABSL_FLAG(warpline::ByteSize, host_memory, {},
          "Page-locked memory that all sessions together may share with clients on this host, such "
          "as 16GiB; mapped memory beyond it is refused. 0 for half of the host's memory.");
ABSL_FLAG(int, max_sessions, 64, "Sessions at a time; more are refused.");
ABSL_FLAG(warpline::ByteSize, arena_size, {warpline::kMaxArenaBytes},
          "The largest range of device addresses that a session may have.");
ABSL_FLAG(std::string, admin_listen, "",
          "host:port for Prometheus (/metrics): plain text, no control, nothing about tenants. "
          "Empty for none.");
ABSL_FLAG(
    std::string, scheduler, "",
    "The scheduler to join: host:port or unix:/path. Sessions then need one of its leases. "
    "Empty for none. With TLS, WARPLINE_TLS_CA, _CERT and _KEY count for this connection, and "
    "without them --tls_ca, --tls_cert and --tls_key.");
ABSL_FLAG(std::string, scheduler_credential_file, "",
          "A file with the credential that `warpline servers add NAME` printed, NAME being --name. "
          "Empty for a scheduler on this host that has no tenants and servers with one yet.");
ABSL_FLAG(std::string, name, "",
          "What the scheduler calls this server, different for each. Empty for HOST:PORT.");
ABSL_FLAG(std::string, advertise, "",
          "With --scheduler: the address that programs reach this server at. Empty for the first "
          "of --listen.");
ABSL_FLAG(int, resume_seconds, 30,
          "How long a session waits for a client that lost its connection. 0 for not at all.");
ABSL_FLAG(int, warm_workers, -1,
          "Workers of each device that wait for a session with their device open, which takes a "
          "GPU's driver 0.1 to 0.3 s and half a GiB of its memory. -1: one of a GPU, none of the "
          "CPU device.");
ABSL_FLAG(
    int, hardware_queues, 0,
    "Hardware queues of each session, 1 to 32, as CUDA_DEVICE_MAX_CONNECTIONS: work of streams "
    "that share one waits for each other. All contexts of a GPU share its queues: an H200 has "
    "room for 15 contexts of 32 each, 62 of 8, over 110 of 2. 0: the driver's choice, room for "
    "100.");
ABSL_FLAG(
    std::string, module_cache_dir, "",
    "Where module images are kept that clients have sent, so that later sessions need not send "
    "them again. One server at a time uses a folder. Empty for $CACHE_DIRECTORY, or "
    "warpline/modules in $XDG_CACHE_HOME or ~/.cache; \"none\" to keep none.");
ABSL_FLAG(warpline::ByteSize, module_cache_bytes, {4ull << 30},
          "How much of them is kept at most, such as 4GiB. 0 to keep none.");
ABSL_FLAG(
    bool, module_cache_shared, false,
    "Every tenant finds what any has sent. A tenant can then tell by the time that a load takes "
    "whether another has loaded the same.");
ABSL_FLAG(int, drain_seconds, 10,
          "After SIGTERM or SIGINT, how long running sessions may go on before they get an error.");

namespace warpline {
namespace {

constexpr char kUsage[] = R"(runs the CUDA calls of remote programs on this host's GPUs.

  warpline-server [--listen=127.0.0.1:14000] [--device=auto] [flags]

Programs reach it with WARPLINE_ENDPOINT=127.0.0.1:14000 and Warpline's libcuda.so.1 in their
library path; `warpline run -- PROGRAM` sets both. The binaries warpline-worker and warpline-keeper
lie beside this one.

Configuration file: --flagfile=PATH reads flags from a file, one a line ("--max_sessions=16"; lines
that start with # are comments). --undefok and --fromenv work as in other Abseil programs.

Signals: the first SIGTERM or SIGINT drains (health says NOT_SERVING, new sessions are refused,
running ones may still be resumed and have --drain_seconds to end) and exits with 0; the second exits at once.)";

absl::Status CheckFlags() {
  const auto listen = absl::GetFlag(FLAGS_listen);
  if (listen.empty()) return absl::InvalidArgumentError("--listen names no address");
  const bool tls = !TlsFilesFromFlags().empty();
  for (const std::string& address : listen) {
    const absl::Status status = CheckListenAddress(address, tls);
    if (!status.ok()) return status;
  }
  const std::string device = absl::GetFlag(FLAGS_device);
  if (const auto choice = ParseDevice(device); !choice.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device=", device, ": ", std::string(choice.status().message())));
  }
  if (absl::GetFlag(FLAGS_max_sessions) < 1) {
    return absl::InvalidArgumentError("--max_sessions must be at least 1");
  }
  if (absl::GetFlag(FLAGS_scheduler).empty() &&
      !absl::GetFlag(FLAGS_scheduler_credential_file).empty()) {
    return absl::InvalidArgumentError("--scheduler_credential_file needs --scheduler");
  }
  if (absl::GetFlag(FLAGS_warm_workers) < -1 || absl::GetFlag(FLAGS_warm_workers) > 64) {
    return absl::InvalidArgumentError("--warm_workers must be from -1 to 64");
  }
  if (absl::GetFlag(FLAGS_hardware_queues) < 0 || absl::GetFlag(FLAGS_hardware_queues) > 32) {
    return absl::InvalidArgumentError("--hardware_queues must be from 0 to 32");
  }
  if (absl::GetFlag(FLAGS_drain_seconds) < 0) {
    return absl::InvalidArgumentError("--drain_seconds must not be negative");
  }
  if (absl::GetFlag(FLAGS_resume_seconds) < 0) {
    return absl::InvalidArgumentError("--resume_seconds must not be negative");
  }
  const uint64_t arena = absl::GetFlag(FLAGS_arena_size).bytes;
  if (arena < kMinArenaBytes || arena > kMaxArenaBytes || (arena & (arena - 1)) != 0) {
    return absl::InvalidArgumentError("--arena_size must be a power of two from 4GiB to 32TiB");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<uint64_t>> DeviceReserve() {
  const std::string text = absl::GetFlag(FLAGS_device_reserve);
  if (text.empty()) return std::optional<uint64_t>();
  ByteSize size;
  std::string error;
  if (!AbslParseFlag(text, &size, &error)) {
    return absl::InvalidArgumentError(absl::StrCat("--device_reserve=", text, ": ", error));
  }
  return std::optional<uint64_t>(size.bytes);
}

absl::StatusOr<std::vector<std::unique_ptr<DeviceMemory>>> OpenDevices(size_t descriptors) {
  const auto keeper = FindSibling("warpline-keeper", "keeper");
  if (!keeper.ok()) return keeper.status();
  const auto reserve = DeviceReserve();
  if (!reserve.ok()) return reserve.status();
  std::vector<std::unique_ptr<DeviceMemory>> devices;
  DeviceMemoryOptions options;
  options.keeper.program.path = *keeper;
  options.keeper.backend = absl::GetFlag(FLAGS_device);
  options.reserve_bytes = *reserve;
  int count = 1;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    options.keeper.ordinal = ordinal;
    options.max_chunks = descriptors / 2 / static_cast<size_t>(count);
    auto device = DeviceMemory::Open(options);
    if (!device.ok()) {
      return absl::Status(
          device.status().code(),
          absl::StrCat("device ", ordinal, ": ", std::string(device.status().message())));
    }
    // What "auto" became for the first device holds for all.
    options.keeper.backend = (*device)->backend();
    count = (*device)->device_count();
    if (!(*device)->note().empty()) LogInfo("no GPU is used: ", (*device)->note());
    LogInfo("device gpu=", ordinal, " name=\"", (*device)->info().name(),
            "\" backend=", (*device)->backend(), " memory_bytes=", (*device)->info().total_bytes(),
            " capacity_bytes=", (*device)->capacity_bytes());
    devices.push_back(std::move(*device));
  }
  return devices;
}

// Empty for none.
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

// A server without a cache works, only slower: null where there is none.
std::unique_ptr<ModuleStore> OpenModuleStore() {
  ModuleStoreOptions options;
  options.dir = ModuleCacheDir();
  if (options.dir.empty()) return nullptr;
  options.max_bytes = absl::GetFlag(FLAGS_module_cache_bytes).bytes;
  options.shared = absl::GetFlag(FLAGS_module_cache_shared);
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

absl::StatusOr<SessionHostOptions> HostOptions(const std::string& server_name,
                                               const std::string& backend) {
  const auto worker = FindSibling("warpline-worker", "worker");
  if (!worker.ok()) return worker.status();
  SessionHostOptions options;
  options.max_sessions = absl::GetFlag(FLAGS_max_sessions);
  options.session.worker.path = *worker;
  options.tasks = SystemTaskLimit();
  // Those of the CPU device have a thread besides, which does their work.
  options.tasks_per_stream = UsesNvidiaDriver(backend) ? 1 : 2;
  const TaskShares shares({options.tasks, options.max_sessions, options.tasks_per_stream});
  if (!shares.suffices()) {
    LogWarning("the system lets the server have tasks=", options.tasks,
               ", too few for sessions=", options.max_sessions,
               ": give it more (TasksMax, pids.max, RLIMIT_NPROC) or set "
               "--max_sessions");
  }
  if (UsesNvidiaDriver(backend)) {
    // NVIDIA's driver places module variables by the process's layout, and a worker that takes over
    // from another must find them where they were.
    options.session.worker.same_addresses = true;
    options.session.worker.environment = {{"CUDA_MODULE_LOADING", "LAZY"}};
    if (const int queues = absl::GetFlag(FLAGS_hardware_queues); queues > 0) {
      options.session.worker.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS",
                                                      absl::StrCat(queues));
    }
  }
  const int warm = absl::GetFlag(FLAGS_warm_workers);
  options.session.warm_workers = warm >= 0 ? warm : UsesNvidiaDriver(backend) ? 1 : 0;
  options.session.quota_bytes = absl::GetFlag(FLAGS_session_memory).bytes;
  options.host_memory_bytes = absl::GetFlag(FLAGS_host_memory).bytes;
  options.session.max_arena_bytes = absl::GetFlag(FLAGS_arena_size).bytes;
  options.session.server_name = server_name;
  options.modules = OpenModuleStore();
  options.session.resume_timeout = absl::Seconds(absl::GetFlag(FLAGS_resume_seconds));
  for (const std::string& address : absl::GetFlag(FLAGS_listen)) {
    // A relative path means nothing to others.
    absl::string_view path = address;
    if (absl::ConsumePrefix(&path, "unix:") && absl::StartsWith(path, "/")) {
      options.session.unix_socket = std::string(path);
      break;
    }
  }
  return options;
}

absl::StatusOr<std::string> SchedulerCredential() {
  const std::string path = absl::GetFlag(FLAGS_scheduler_credential_file);
  if (path.empty()) return "";
  std::ifstream file(path);
  std::string credential;
  if (!(file >> credential)) {
    return absl::NotFoundError(absl::StrCat("cannot read --scheduler_credential_file=", path));
  }
  return credential;
}

// Where clients find the server: the port is known only once it listens.
std::string Advertised(const std::string& first, int port) {
  const std::string advertise = absl::GetFlag(FLAGS_advertise);
  if (!advertise.empty()) return advertise;
  if (absl::StartsWith(first, "unix:")) return first;
  return absl::StrCat(first.substr(0, first.rfind(':')), ":", port);
}

std::string NameForScheduler(const std::string& host_name, const std::string& first) {
  const std::string name = absl::GetFlag(FLAGS_name);
  if (!name.empty()) return name;
  const std::string port = first.substr(first.rfind(':') + 1);
  // Ports of the system's choice are no name.
  return absl::StrCat(host_name, ":", port == "0" ? absl::StrCat("pid", getpid()) : port);
}

absl::StatusOr<std::unique_ptr<LeaseBook>> MakeLeaseBook(const std::string& host_name,
                                                         const std::string& first) {
  LeaseBookOptions options;
  options.server_name = NameForScheduler(host_name, first);
  options.required = !absl::GetFlag(FLAGS_scheduler).empty();
  options.clock = [] { return SteadyNow(); };
  return LeaseBook::Create(std::move(options));
}

// Null where no device has readings.
std::unique_ptr<nvml::Sampler> MakeSampler(
    const std::vector<std::unique_ptr<DeviceMemory>>& devices) {
  if (!UsesNvidiaDriver(devices.front()->backend())) return nullptr;
  nvml::SamplerOptions options;
  for (const auto& device : devices) options.pci_bus_ids.push_back(device->info().pci_bus_id());
  return std::make_unique<nvml::Sampler>(std::move(options));
}

void Drain(SessionHost* host, GrpcServer* server, const EndSignals& signals) {
  const int seconds = absl::GetFlag(FLAGS_drain_seconds);
  LogInfo("draining sessions=", host->sessions(), " drain_seconds=", seconds);
  // Workers and keepers go with the process.
  std::thread([signals] {
    signals.Wait();
    LogWarning("second signal: exiting at once");
    _exit(1);
  }).detach();
  host->StartDrain();
  server->SetServing(false);
  if (!host->WaitUntilIdle(absl::Seconds(seconds))) {
    LogWarning("ending sessions=", host->sessions());
    host->FaultAll("the server is shutting down");
    host->WaitUntilIdle(absl::Seconds(2));
  }
  server->Shutdown(absl::Seconds(1));
}

int Run() {
  const absl::Status flags = CheckFlags();
  if (!flags.ok()) return Complain(flags);
  if (getenv("CUDA_VISIBLE_DEVICES") != nullptr) {
    LogWarning("CUDA_VISIBLE_DEVICES is set and has no effect: clients choose devices");
  }
  const EndSignals signals;
  auto devices = OpenDevices(RaiseDescriptorLimit());
  if (!devices.ok()) return Complain(devices.status());

  const std::string host_name = HostName();
  const std::string server_name = absl::StrCat("warpline-server ", kVersion, " on ", host_name);
  auto options = HostOptions(server_name, devices->front()->backend());
  if (!options.ok()) return Complain(options.status());
  const auto listen = absl::GetFlag(FLAGS_listen);
  auto leases = MakeLeaseBook(host_name, listen.front());
  if (!leases.ok()) return Complain(leases.status());
  options->leases = leases->get();
  auto scheduler_credential = SchedulerCredential();
  if (!scheduler_credential.ok()) return Complain(scheduler_credential.status());
  const auto sampler = MakeSampler(*devices);
  // The host takes the options over.
  const int max_sessions = options->max_sessions;
  const uint64_t quota_bytes = options->session.quota_bytes;
  SessionHost host(*std::move(options), std::move(*devices));
  auto metrics = std::make_shared<ServerMetrics>(&host);
  auto exposer = ExposeMetrics(absl::GetFlag(FLAGS_admin_listen), metrics);
  if (!exposer.ok()) return Complain(exposer.status());

  Replacements replacements(&host);
  GrpcServerOptions server_options;
  // The host counts sessions and says why it refuses; this bound is for what has not got so far.
  server_options.max_sessions = max_sessions + 64;
  server_options.methods[kStatMethod] = [&](const std::string& peer, const std::string&) {
    return AnswerStat(&host, server_name, peer);
  };
  server_options.methods[kDeviceStatusMethod] = [&, quota_bytes](const std::string&,
                                                                 const std::string& request) {
    return AnswerDeviceStatus(host.Snapshot(), **leases, sampler.get(), quota_bytes, request);
  };
  // A connection or two of each session, those of operators, and some that are none of ours.
  server_options.max_connections = 2 * std::min(max_sessions, 1 << 20) + 512;
  TakeTlsFlags(&server_options);
  AddLeaseMethods(&host, leases->get(), &server_options.methods);
  server_options.methods[kReplaceMethod] = [&](const std::string& peer,
                                               const std::string& request) {
    return AnswerReplace(&host, &replacements, peer, request);
  };
  GrpcServer server(server_options);
  const absl::Status started = server.Start(listen, &host);
  if (!started.ok()) return Complain(started);
  server.SetServing(true);
  const std::string port_file = absl::GetFlag(FLAGS_port_file);
  if (!port_file.empty()) {
    const absl::Status written = WritePortFile(port_file, server.port());
    if (!written.ok()) return Complain(written);
  }
  LogInfo("serving version=", kVersion, " listen=", absl::StrJoin(listen, ","),
          " port=", server.port(), " pid=", getpid());
  std::unique_ptr<SchedulerLink> link;
  if (const std::string scheduler = absl::GetFlag(FLAGS_scheduler); !scheduler.empty()) {
    SchedulerLinkOptions link_options;
    link_options.scheduler.address = scheduler;
    // Certificates for servers often do not serve clients: the variables may name another.
    link_options.scheduler.tls = ClientTls(scheduler);
    const TlsFiles tls = TlsFilesFromFlags();
    if (link_options.scheduler.tls == nullptr && WantsTls(tls, scheduler)) {
      link_options.scheduler.tls = std::make_shared<TlsSource>(TlsSource::Side::kClient, tls);
    }
    link_options.credential = *std::move(scheduler_credential);
    link_options.endpoint = Advertised(listen.front(), server.port());
    link_options.version = kVersion;
    link = std::make_unique<SchedulerLink>(std::move(link_options), &host, leases->get());
  }
  signals.Wait();
  Drain(&host, &server, signals);
  link.reset();
  exposer->reset();
  LogInfo("stopped");
  return 0;
}

}  // namespace
}  // namespace warpline

int main(int argc, char** argv) {
  const warpline::ServerProgram program = {"warpline-server", "server", warpline::kUsage,
                                           "server/main.cc"};
  return warpline::RunServerProgram(program, argc, argv, &warpline::Run);
}
