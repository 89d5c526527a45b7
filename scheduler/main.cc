// warpline-scheduler: gives out leases on the devices of a pool of servers.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "audit/audit_flags.h"
#include "audit/audit_log.h"
#include "common/endpoint.h"
#include "common/log/log.h"
#include "common/serving/duration_flag.h"
#include "common/serving/listen_address.h"
#include "common/serving/server_process.h"
#include "common/serving/serving.h"
#include "common/serving/tls_flags.h"
#include "common/steady_time.h"
#include "common/version.h"
#include "scheduler/etcd/elected_role.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/etcd_flags.h"
#include "scheduler/methods.h"
#include "scheduler/metrics.h"
#include "scheduler/page/page_handler.h"
#include "scheduler/page/page_server.h"
#include "scheduler/page/pool_source.h"
#include "scheduler/redirector.h"
#include "scheduler/role.h"
#include "scheduler/scheduler.h"
#include "scheduler/service_accounts/account_flags.h"
#include "scheduler/service_accounts/account_gate.h"
#include "scheduler/state/state_command.h"
#include "scheduler/state/state_copy.h"
#include "scheduler/state_folder.h"
#include "scheduler/store/sqlite_key_value_store.h"
#include "scheduler/store/store.h"
#include "transport/grpc/grpc_server.h"
#include "transport/grpc/health/health_listener.h"
#include "transport/grpc/server_tls.h"

ABSL_FLAG(std::vector<std::string>, listen, {warpline::kDefaultSchedulerEndpoint},
          "Addresses to serve servers, clients and operators on, separated by commas: "
          "host:port (port 0 for any) or unix:/path. [::]:port is every address of "
          "the host, 0.0.0.0:port every IPv4 address. Without TLS only loopback "
          "addresses and unix sockets are accepted.");
ABSL_FLAG(std::string, port_file, "",
          "A file to which the scheduler writes the port of the first host:port "
          "address once it is ready.");
ABSL_FLAG(std::string, state, "",
          "The folder for the state, or etcd://host:port,host:port,... for a state "
          "that several schedulers share; one of them leads. Empty for "
          "~/.local/state/warpline-scheduler.");
ABSL_FLAG(std::string, placement, "spread",
          "The choice of the device for a lease: spread (the one with the most free "
          "memory) or pack (the one with the least that is enough).");
ABSL_FLAG(bool, preemption, false,
          "Lets a waiting request end other leases after notice. Those are leases of "
          "lower priority and, while the request is within its own tenant's reserved "
          "memory, leases of tenants that have more than is reserved for them.");
ABSL_FLAG(warpline::DurationFlag, preemption_notice, absl::Minutes(1),
          "How long such a lease lasts after its holder is told.");
ABSL_FLAG(warpline::DurationFlag, share_epoch, absl::ZeroDuration(),
          "How often leases end, after notice, that tenants have beyond their shares, "
          "while tenants with less than their shares wait. Reserved memory counts "
          "first. 0 for never.");
ABSL_FLAG(warpline::DurationFlag, patience, absl::Minutes(10),
          "A request that has waited for this long gets devices set aside for it as "
          "they become free.");
ABSL_FLAG(int, max_waiting, 128, "The most requests of each tenant that may wait.");
ABSL_FLAG(int, decision_log_mb, 32,
          "The MiB of placement decisions to keep in the folder \"decisions\" of the "
          "state folder; 0 for none.");
ABSL_FLAG(warpline::DurationFlag, lease_ttl, absl::Seconds(60),
          "How long a lease lasts that is not renewed and has no sessions.");
ABSL_FLAG(warpline::DurationFlag, report_interval, absl::Seconds(1), "How often servers report.");
ABSL_FLAG(warpline::DurationFlag, lost_after, absl::Seconds(5),
          "A server that is silent for this long is lost: it gets no new leases.");
ABSL_FLAG(warpline::DurationFlag, forget_after, absl::Hours(1),
          "A server that is lost for this long is forgotten, and its leases end.");
ABSL_FLAG(warpline::DurationFlag, key_period, absl::Hours(24 * 30),
          "How long a key signs tokens before the next one does.");
ABSL_FLAG(int, tenant_calls, 50,
          "How often per second each tenant's programs may ask for leases or renew "
          "them in the long run; a burst may have ten times as many calls. A lease is "
          "renewed three times in --lease_ttl.");
ABSL_FLAG(std::string, admin_listen, "",
          "host:port for Prometheus (/metrics), in plain text. It controls nothing, "
          "and says nothing about tenants without --tenant_metrics. Empty for none. "
          "It must be a loopback address, unless --admin_listen_anywhere is given.");
ABSL_FLAG(bool, tenant_metrics, false,
          "Prometheus is also told the names of tenants and what each of them has. "
          "Every program that can reach --admin_listen can then read that.");
ABSL_FLAG(bool, admin_listen_anywhere, false,
          "--admin_listen may be an address that other hosts reach.");
ABSL_FLAG(std::string, page_listen, "",
          "host:port of a loopback address for the pool's web page, in plain text. "
          "The page asks for the operator's credential, or a tenant's. Other hosts "
          "reach it by `ssh -L`, `kubectl port-forward`, or a proxy on this host that "
          "speaks TLS. Empty for none.");
ABSL_FLAG(std::string, health_listen, "",
          "host:port for health checks (grpc.health.v1) in plain text, such as a kubelet's: the "
          "services liveness and readiness, and nothing else. Empty for none.");

namespace warpline::scheduler {
namespace {

constexpr char kUsage[] = R"(gives out leases on the devices of a pool of servers.

  warpline-scheduler [--listen=127.0.0.1:14100] [--state=FOLDER] [flags]
  warpline-scheduler state show|copy [flags]          about states at rest: see state --help

Servers join with `warpline-server --scheduler=ADDRESS`; programs reach it with
`warpline run --endpoint=ADDRESS -- PROGRAM`, or with WARPLINE_ENDPOINT=ADDRESS.

Until a tenant is added, programs and servers of this host need no credential.
`warpline tenant add NAME` adds a tenant and prints its credential; from then on programs need one.
`warpline servers add NAME` does the same for a server, which shows its credential with --name=NAME
and --scheduler_credential_file. From the first tenant or server on, all servers need theirs.

Pods of a Kubernetes cluster may show their ServiceAccount's token in place of a credential
(--cluster_keys, --cluster_issuer): it acts as the tenant that has the pod's namespace.

Several schedulers can share a state in etcd (--state=etcd://host:port,... with --etcd_ca and so
on). One leads, and another takes over when it is gone. Servers, programs and operators name all of
them, separated by commas.

A web page of the pool is at --page_listen. It shows hosts, their GPUs, the leases on them and the
requests that wait. It asks for a credential, and shows a tenant only its own leases and requests.

Signals: SIGTERM or SIGINT ends it, with exit code 0. Sessions go on; leases are kept in the state
folder.)";

// Servers have the same limit.
constexpr absl::Duration kHelloTimeout = absl::Seconds(10);

// Allows one connection of each server, and those of programs that ask.
constexpr int kMaxConnections = 4096;

// A request of many kilobytes is for a moment. glibc by itself would soon have all of them in its
// heaps, which hundreds of strangers' requests at once leave in pieces that nothing fits in.
constexpr int kLargeBytes = 64 << 10;

absl::Status CheckFlags() {
  const auto listen = absl::GetFlag(FLAGS_listen);
  if (listen.empty()) return absl::InvalidArgumentError("--listen names no address");
  const bool tls = !TlsFilesFromFlags().empty();
  for (const std::string& address : listen) {
    if (auto status = CheckListenAddress(address, tls); !status.ok()) return status;
  }
  const auto metrics = CheckMetricsAddress(absl::GetFlag(FLAGS_admin_listen),
                                           absl::GetFlag(FLAGS_admin_listen_anywhere));
  if (!metrics.ok()) return metrics;
  if (auto status = page::CheckPageAddress(absl::GetFlag(FLAGS_page_listen)); !status.ok()) {
    return status;
  }
  if (auto status = CheckHealthAddress(absl::GetFlag(FLAGS_health_listen)); !status.ok()) {
    return status;
  }
  const std::string placement = absl::GetFlag(FLAGS_placement);
  if (placement != "spread" && placement != "pack") {
    return absl::InvalidArgumentError(
        absl::StrCat("--placement=", placement, ": expected spread or pack"));
  }
  const absl::Duration interval = absl::GetFlag(FLAGS_report_interval).get();
  if (interval < absl::Milliseconds(10) || interval > absl::Minutes(10)) {
    return absl::InvalidArgumentError("--report_interval must be from 10ms to 10m");
  }
  if (absl::GetFlag(FLAGS_lost_after).get() < 2 * interval) {
    return absl::InvalidArgumentError("--lost_after must be at least two of --report_interval");
  }
  if (absl::GetFlag(FLAGS_lease_ttl).get() < 4 * interval ||
      absl::GetFlag(FLAGS_lease_ttl).get() > absl::Hours(24)) {
    return absl::InvalidArgumentError(
        "--lease_ttl must be at least four of --report_interval, and at most a day");
  }
  if (absl::GetFlag(FLAGS_forget_after).get() < absl::GetFlag(FLAGS_lost_after).get()) {
    return absl::InvalidArgumentError("--forget_after must not be less than --lost_after");
  }
  // Holders hear of it when they renew, three times in --lease_ttl.
  const bool gives_notice = absl::GetFlag(FLAGS_preemption) ||
                            absl::GetFlag(FLAGS_share_epoch).get() != absl::ZeroDuration();
  if (gives_notice &&
      (absl::GetFlag(FLAGS_preemption_notice).get() < absl::GetFlag(FLAGS_lease_ttl).get() / 2 ||
       absl::GetFlag(FLAGS_preemption_notice).get() > absl::Hours(24))) {
    return absl::InvalidArgumentError(
        "--preemption_notice must be at least half of --lease_ttl, and at most a day");
  }
  // A lease whose holder is told at the end of one epoch is gone before the next epoch ends.
  if (const absl::Duration epoch = absl::GetFlag(FLAGS_share_epoch).get();
      epoch != absl::ZeroDuration() &&
      (epoch < absl::GetFlag(FLAGS_preemption_notice).get() || epoch > absl::Hours(24 * 7))) {
    return absl::InvalidArgumentError(
        "--share_epoch must be 0, or from --preemption_notice to seven days");
  }
  if (absl::GetFlag(FLAGS_patience).get() < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--patience must not be negative");
  }
  if (absl::GetFlag(FLAGS_max_waiting) < 0 || absl::GetFlag(FLAGS_max_waiting) > 4096) {
    return absl::InvalidArgumentError("--max_waiting must be from 0 to 4096");
  }
  const int decisions = absl::GetFlag(FLAGS_decision_log_mb);
  if (decisions < 0 || decisions > 65536) {
    return absl::InvalidArgumentError("--decision_log_mb must be from 0 to 65536");
  }
  if (absl::GetFlag(FLAGS_tenant_calls) < 1 || absl::GetFlag(FLAGS_tenant_calls) > 1000000) {
    return absl::InvalidArgumentError("--tenant_calls must be from 1 to 1000000");
  }
  // For a moment after each change, tokens are signed by the second newest key.
  if (absl::GetFlag(FLAGS_key_period).get() < 2 * absl::GetFlag(FLAGS_lease_ttl).get()) {
    return absl::InvalidArgumentError("--key_period must be at least two of --lease_ttl");
  }
  return absl::OkStatus();
}

std::string StateFolder() {
  const std::string state = absl::GetFlag(FLAGS_state);
  const std::string folder = IsEtcdState(state) ? StateFolderFromFlags() : state;
  return folder.empty() ? DefaultSchedulerState() : folder;
}

SchedulerOptions OptionsFromFlags(const std::string& folder, std::string operator_credential) {
  SchedulerOptions options;
  options.operator_credential = std::move(operator_credential);
  options.placement.order = absl::GetFlag(FLAGS_placement) == "pack" ? placement::Order::kPack
                                                                     : placement::Order::kSpread;
  options.placement.preemption = absl::GetFlag(FLAGS_preemption);
  options.placement.notice = absl::GetFlag(FLAGS_preemption_notice).get();
  options.placement.epoch = absl::GetFlag(FLAGS_share_epoch).get();
  options.placement.patience = absl::GetFlag(FLAGS_patience).get();
  options.placement.max_waiting_of_tenant = static_cast<uint32_t>(absl::GetFlag(FLAGS_max_waiting));
  if (const int megabytes = absl::GetFlag(FLAGS_decision_log_mb); megabytes != 0) {
    options.decisions.folder = folder + "/decisions";
    options.decisions.file_bytes =
        (static_cast<uint64_t>(megabytes) << 20) / options.decisions.files;
  }
  options.lease_ttl = absl::GetFlag(FLAGS_lease_ttl).get();
  options.tenant_calls_per_second = absl::GetFlag(FLAGS_tenant_calls);
  options.tenant_calls_at_once = 10.0 * absl::GetFlag(FLAGS_tenant_calls);
  options.report_interval = absl::GetFlag(FLAGS_report_interval).get();
  options.lost_after = absl::GetFlag(FLAGS_lost_after).get();
  options.forget_after = absl::GetFlag(FLAGS_forget_after).get();
  options.clock = [] { return SteadyNow(); };
  return options;
}

// The scheduler's role, alone or one of several, and the client of etcd that it needs.
struct OpenedRole {
  std::unique_ptr<EtcdClient> etcd;  // Null for the only scheduler.
  std::unique_ptr<Role> role;
  ElectedRole* elected = nullptr;  // The role, if it is one of several.
};

absl::StatusOr<OpenedRole> OpenRole(const std::string& folder,
                                    std::shared_ptr<AccountGate> accounts, audit::AuditLog* audit) {
  if (auto status = HoldStateFolder(folder); !status.ok()) return status;
  auto operator_credential = CredentialIn(OperatorFileIn(folder));
  if (!operator_credential.ok()) return operator_credential.status();
  SchedulerOptions options = OptionsFromFlags(folder, *std::move(operator_credential));
  options.accounts = std::move(accounts);
  options.audit = audit;
  const absl::Duration key_period = absl::GetFlag(FLAGS_key_period).get();
  OpenedRole opened;
  if (const std::string state = absl::GetFlag(FLAGS_state); IsEtcdState(state)) {
    auto client = EtcdClientFromFlags(state);
    if (!client.ok()) return client.status();
    auto prefix = EtcdPrefixFromFlags();
    if (!prefix.ok()) return prefix.status();
    const auto ttl = LeaderTtlFromFlags();
    if (!ttl.ok()) return ttl.status();
    opened.etcd = std::make_unique<EtcdClient>(*std::move(client));
    auto elected = std::make_unique<ElectedRole>(ElectedRoleOptions{.scheduler = std::move(options),
                                                                    .prefix = *std::move(prefix),
                                                                    .key_period = key_period,
                                                                    .leader_ttl = *ttl},
                                                 opened.etcd.get());
    opened.elected = elected.get();
    opened.role = std::move(elected);
    return opened;
  }
  auto keys = KeyRing::Open(KeysFileIn(folder), key_period, options.lost_after, SteadyNow());
  if (!keys.ok()) return keys.status();
  const auto epoch = EpochIn(EpochFileIn(folder));
  if (!epoch.ok()) return epoch.status();
  auto state = SqliteKeyValueStore::Open(StateFileIn(folder), *epoch);
  if (!state.ok()) return state.status();
  auto store = Store::Open(*std::move(state));
  if (!store.ok()) return store.status();
  auto scheduler = Scheduler::Create(std::move(options), *std::move(store), *std::move(keys));
  if (!scheduler.ok()) return scheduler.status();
  opened.role = std::make_unique<SoleRole>(*std::move(scheduler));
  return opened;
}

// The first address of `listen`, with the port that was taken for it.
std::string AdvertisedAddress(const std::vector<std::string>& listen, int port) {
  const std::string named = AdvertisedFromFlags();
  if (!named.empty()) return named;
  const std::string& first = listen.front();
  if (absl::StartsWith(first, "unix:")) return first;
  return absl::StrCat(first.substr(0, first.rfind(':')), ":", port);
}

void HousekeepUntilSignal(Role* role, Redirector* redirector, const EndSignals& signals) {
  const absl::Duration pause =
      std::min(absl::Seconds(1), absl::GetFlag(FLAGS_report_interval).get());
  while (!signals.WaitFor(pause)) {
    role->Housekeep();
    redirector->EndSilent(kHelloTimeout);
  }
}

void Record(audit::AuditLog* audit, audit::Event event) {
  if (audit == nullptr) return;
  audit->Add({.event = event,
              .texts = {{"version", kVersion}},
              .numbers = {{"pid", static_cast<uint64_t>(getpid())}}});
}

int Run() {
  if (auto status = CheckFlags(); !status.ok()) return Complain(status);
  mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  auto audit_options = audit::AuditLogOptionsFromFlags();
  if (!audit_options.ok()) return Complain(audit_options.status());
  audit_options->refuses = "operators' actions";
  const EndSignals signals;
  RaiseDescriptorLimit();
  const std::string folder = StateFolder();
  auto accounts = AccountGateFromFlags();
  if (!accounts.ok()) return Complain(accounts.status());
  const auto audit = audit::OpenAudit(*audit_options);
  if (!audit.ok()) return Complain(audit.status());
  auto opened = OpenRole(folder, *std::move(accounts), audit->get());
  if (!opened.ok()) return Complain(opened.status());
  Role* const role = opened->role.get();
  const auto metrics =
      std::make_shared<SchedulerMetrics>(role, absl::GetFlag(FLAGS_tenant_metrics));
  auto exposer = ExposeMetrics(absl::GetFlag(FLAGS_admin_listen), metrics);
  if (!exposer.ok()) return Complain(exposer.status());
  const auto health = HealthListener::Start(absl::GetFlag(FLAGS_health_listen));
  if (!health.ok()) return Complain(health.status());
  page::PoolOfRole pool(role);
  page::PageHandler page_handler(&pool, [] { return SteadyNow(); });
  const auto page = page::PageServer::Start(absl::GetFlag(FLAGS_page_listen), &page_handler);
  if (!page.ok()) return Complain(page.status());
  if (*page != nullptr) LogInfo("shows the pool page_port=", (*page)->port());
  Redirector redirector(role);
  KnownCredentials known;
  GrpcServerOptions options;
  options.methods =
      SchedulerMethods(role, absl::StrCat("warpline-scheduler ", kVersion, " on ", HostName()),
                       audit->get(), &known);
  options.method_queues = SchedulerQueues(options.methods, &known);
  options.max_connections = kMaxConnections;
  options.bulk = false;
  TakeTlsFlags(&options);
  GrpcServer server(options);
  const auto listen = absl::GetFlag(FLAGS_listen);
  if (auto status = server.Start(listen, &redirector); !status.ok()) return Complain(status);
  server.SetServing(true);
  if (*health != nullptr) (*health)->SetReady(true);
  if (const std::string path = absl::GetFlag(FLAGS_port_file); !path.empty()) {
    if (auto status = WritePortFile(path, server.port()); !status.ok()) return Complain(status);
  }
  LogInfo(
      "serving version=", kVersion, " listen=", absl::StrJoin(listen, ","), " port=", server.port(),
      " state=", opened->etcd == nullptr ? folder : absl::StrCat("etcd://", opened->etcd->name()),
      " pid=", getpid());
  if (opened->elected != nullptr) {
    opened->elected->Start(AdvertisedAddress(listen, server.port()));
  }
  Record(audit->get(), audit::Event::kSchedulerStarted);
  if (const auto sole = role->Leading(); sole.ok() && (*sole)->Counts().tenants == 0) {
    LogInfo(
        "no tenant is configured: programs and servers of this host are taken without a "
        "credential; `warpline tenant add` ends that");
  }
  HousekeepUntilSignal(role, &redirector, signals);
  LogInfo("stopping");
  redirector.StartDrain();
  if (*health != nullptr) (*health)->SetReady(false);
  server.SetServing(false);
  server.Shutdown(absl::Seconds(1));
  Record(audit->get(), audit::Event::kSchedulerStopped);
  exposer->reset();
  LogInfo("stopped");
  return 0;
}

}  // namespace
}  // namespace warpline::scheduler

namespace warpline::scheduler {
namespace {

std::string state_verb;

int RunState() {
  if (!IsStateVerb(state_verb)) {
    return Complain(absl::InvalidArgumentError(
        absl::StrCat("state \"", state_verb, "\": expected show or copy; see state --help")));
  }
  const auto said =
      RunStateVerb(state_verb, {.state = absl::GetFlag(FLAGS_state), .folder = StateFolder()});
  if (!said.ok()) return Complain(said.status());
  std::fputs(said->c_str(), stdout);
  return 0;
}

// `warpline-scheduler state VERB [flags]`.
int StateMain(int argc, char** argv) {
  std::vector<char*> arguments = {argv[0]};
  int next = 2;
  if (next < argc && argv[next][0] != '-') state_verb = argv[next++];
  arguments.insert(arguments.end(), argv + next, argv + argc);
  const auto count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  const ServerProgram program = {"warpline-scheduler", "scheduler", kStateUsage,
                                 "scheduler/state/state_command.cc"};
  return RunServerProgram(program, count, arguments.data(), &RunState);
}

}  // namespace
}  // namespace warpline::scheduler

int main(int argc, char** argv) {
  if (argc > 1 && absl::string_view(argv[1]) == "state") {
    return warpline::scheduler::StateMain(argc, argv);
  }
  const warpline::ServerProgram program = {"warpline-scheduler", "scheduler",
                                           warpline::scheduler::kUsage, "scheduler/main.cc"};
  return warpline::RunServerProgram(program, argc, argv, &warpline::scheduler::Run);
}
