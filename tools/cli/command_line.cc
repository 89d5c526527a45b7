#include "tools/cli/command_line.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/byte_size.h"
#include "lease/rights.h"
#include "proto/devices.h"
#include "proto/tier.h"

namespace warpline::cli {
namespace {

struct VerbInfo {
  const char* name;
  Verb verb;
  // Words, separated by spaces: options with a value of a kind (":size", ":number", ":rights",
  // ":tiers", ":tier", ":duration", ":text") or without one; ":maybe_duration" and ":zero_or_one"
  // take it only after an equals sign, and are "inf" and "1" without.
  const char* options;
};

constexpr VerbInfo kVerbs[] = {
    {"help", Verb::kHelp, ""},
    {"--help", Verb::kHelp, ""},
    {"-h", Verb::kHelp, ""},
    {"--version", Verb::kVersion, ""},
    {"serve", Verb::kServe, ""},
    {"run", Verb::kRun,
     "endpoint:text memory:size device:text gpus:number sessions:number guard:text check "
     "tier:tier slice:text wait:maybe_duration gang:text members:number"},
    {"hold", Verb::kHold,
     "folder:text endpoint:text memory:size device:text gpus:number sessions:number slice:text "
     "share_token"},
    {"keep-lease", Verb::kKeepLease, "endpoint:text of_server"},
    {"stat", Verb::kStat, "endpoint:text json"},
    {"ps", Verb::kPs, "endpoint:text json"},
    {"top", Verb::kTop, "endpoint:text once interval:number"},
    {"tenant", Verb::kTenant,
     "endpoint:text memory:size max_leases:number max_sessions:number max_lease_sessions:number "
     "max_seconds:number rights:rights tiers:tiers tier:tier weight:number copy_weight:number "
     "priority:number slices:text parent:text reserved:size namespaces:text new_credential "
     "json"},
    {"slice", Verb::kSlice,
     "endpoint:text memory:size staging:size sessions:number handles:number module_bytes:size "
     "commands:number sm_percent:number launch_ms:number weight:number copy_weight:number "
     "priority:number period_ms:number budget_ms:number best_effort:zero_or_one json"},
    {"lease", Verb::kLease, "endpoint:text reason:text json"},
    {"servers", Verb::kServers, "endpoint:text reason:text within:duration json"},
    {"replace", Verb::kReplace, "endpoint:text"},
    {"devices", Verb::kDevices, "endpoint:text pid:number"},
    {"explain", Verb::kExplain, "hardened all"},
    {"audit", Verb::kAudit,
     "dir:text follow json verify anchor:text scheduler:text server:text since:text session:number "
     "tenant:text event:text"},
    {"policy", Verb::kPolicy, "endpoint:text name:text swap json"},
    {"trace", Verb::kTrace, "endpoint:text seconds:number output:text"},
};

struct ActionInfo {
  Verb verb;
  const char* name;
  bool named;  // Takes a name.
};

constexpr ActionInfo kActions[] = {
    {Verb::kTenant, "add", true},       {Verb::kTenant, "set", true},
    {Verb::kTenant, "remove", true},    {Verb::kTenant, "list", false},
    {Verb::kLease, "list", false},      {Verb::kLease, "revoke", true},
    {Verb::kSlice, "add", true},        {Verb::kSlice, "set", true},
    {Verb::kSlice, "remove", true},     {Verb::kSlice, "list", false},
    {Verb::kServers, "add", true},      {Verb::kServers, "renew", true},
    {Verb::kServers, "remove", true},   {Verb::kServers, "list", false},
    {Verb::kServers, "cordon", true},   {Verb::kServers, "uncordon", true},
    {Verb::kServers, "drain", true},    {Verb::kPolicy, "load", true},
    {Verb::kPolicy, "check", true},     {Verb::kPolicy, "swap", true},
    {Verb::kPolicy, "rollback", false}, {Verb::kPolicy, "remove", true},
    {Verb::kPolicy, "list", false},
};

// The words with which a verb that has actions names its object, and its actions.
struct ActionWords {
  const char* thing;
  const char* actions;
};

ActionWords WordsOf(Verb verb) {
  switch (verb) {
    case Verb::kTenant:
      return {"tenant", "add, set, remove or list"};
    case Verb::kSlice:
      return {"slice", "add, set, remove or list"};
    case Verb::kServers:
      return {"server", "add, renew, remove, cordon, uncordon, drain or list"};
    case Verb::kPolicy:
      return {"policy", "list, load, check, swap, rollback or remove"};
    default:
      return {"lease", "list or revoke"};
  }
}

absl::Status Wrong(const absl::AlphaNum& a, const absl::AlphaNum& b, const absl::AlphaNum& c) {
  return absl::InvalidArgumentError(absl::StrCat(a, b, c));
}

// The options of every verb that connects.
constexpr char kTlsOptions[] = "tls_ca:text tls_cert:text tls_key:text tls_server_name:text";

std::string* TlsOption(const std::string& name, TlsFiles* tls) {
  if (name == "tls_ca") return &tls->ca;
  if (name == "tls_cert") return &tls->cert;
  if (name == "tls_key") return &tls->key;
  return name == "tls_server_name" ? &tls->server_name : nullptr;
}

// The kind of an option's value; empty for a switch. NOT_FOUND for an unknown option.
absl::StatusOr<std::string> KindOf(const VerbInfo& verb, const std::string& option) {
  const bool connects =
      absl::StrContains(verb.options, "endpoint") || absl::StrContains(verb.options, "scheduler");
  const std::string options = absl::StrCat(verb.options, " ", connects ? kTlsOptions : "");
  for (const absl::string_view word : absl::StrSplit(options, ' ', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(word, ':');
    if (parts[0] == option) return parts.size() > 1 ? parts[1] : "";
  }
  return absl::NotFoundError("");
}

absl::Status CheckValue(const std::string& kind, const std::string& option,
                        const std::string& value) {
  ByteSize size;
  std::string error;
  uint32_t number;
  if (kind == "size" && !AbslParseFlag(value, &size, &error)) {
    return Wrong(absl::StrCat("--", option, "=", value), ": ", error);
  }
  absl::Duration duration;
  if (absl::EndsWith(kind, "duration") &&
      (!absl::ParseDuration(value, &duration) || duration < absl::ZeroDuration())) {
    return Wrong(absl::StrCat("--", option, "=", value), ": ",
                 "expected a time like 90s, 10m or 2h");
  }
  if (kind == "number" && !absl::SimpleAtoi(value, &number)) {
    return Wrong(absl::StrCat("--", option, "=", value), ": ", "expected a whole number");
  }
  if (kind == "zero_or_one" && value != "0" && value != "1") {
    return Wrong(absl::StrCat("--", option, "=", value), ": ", "expected 0 or 1");
  }
  if (kind == "rights") {
    if (const auto rights = ParseRights(value); !rights.ok()) {
      return Wrong(absl::StrCat("--", option, "=", value), ": ", rights.status().message());
    }
  }
  const std::string given = absl::StrCat("--", option, "=", value);
  if (kind == "tier" && !ParseTierChoice(value).has_value()) {
    return Wrong(given, ": ", "expected isolated, guarded or auto");
  }
  if (kind == "tiers" && !ParseTierSet(value).has_value()) {
    return Wrong(given, ": ", "expected all, or isolated and guarded with a comma between");
  }
  return absl::OkStatus();
}

// Takes the option at args[*next], and its value when that is the next word. Returns true when it
// took something.
absl::StatusOr<bool> TakeOption(const VerbInfo& verb, const std::vector<std::string>& args,
                                size_t* next, CommandLine* line) {
  const std::string& arg = args[*next];
  if (!absl::StartsWith(arg, "-")) return false;
  const size_t equals = arg.find('=');
  std::string name = absl::StartsWith(arg, "--") ? arg.substr(2, equals - 2) : "";
  if (arg == "-o") name = "output";
  const auto kind = KindOf(verb, name);
  if (!kind.ok()) return Wrong("unknown option \"", arg, "\"");
  std::string value = "1";
  if (equals != std::string::npos) {
    if (kind->empty()) return Wrong("option --", name, " takes no value");
    value = arg.substr(equals + 1);
  } else if (*kind == "maybe_duration") {
    value = "inf";
  } else if (!kind->empty() && *kind != "zero_or_one") {
    if (*next + 1 >= args.size()) return Wrong("option --", name, " needs a value");
    value = args[++*next];
  }
  if (auto status = CheckValue(*kind, name, value); !status.ok()) return status;
  if (name == "endpoint") {
    line->endpoint = value;
  } else if (std::string* tls = TlsOption(name, &line->tls); tls != nullptr) {
    *tls = value;
  } else {
    line->options[name] = value;
  }
  return true;
}

// Checks --gpus, and that --device names as many devices.
absl::Status CheckGpus(const CommandLine& line) {
  if (!line.Has("gpus")) return absl::OkStatus();
  const uint64_t gpus = line.Number("gpus");
  if (gpus == 0 || gpus > kMaxSessionDevices) {
    return Wrong(absl::StrCat("--gpus=", line.Text("gpus")), ": expected 1 to ",
                 kMaxSessionDevices);
  }
  const std::string device = line.Text("device");
  const auto named = static_cast<uint64_t>(std::count(device.begin(), device.end(), ',')) + 1;
  if (!device.empty() && named != gpus) {
    return Wrong("--gpus and --device do not agree: ", gpus, absl::StrCat(" and ", named));
  }
  return absl::OkStatus();
}

// Checks that a gang has a name, members, and waits.
absl::Status CheckGang(const CommandLine& line) {
  if (line.verb != Verb::kRun) return absl::OkStatus();
  if (line.Has("gang") != line.Has("members")) {
    return Wrong("a gang has both ", "--gang=NAME and --members=N", "");
  }
  if (!line.Has("gang")) return absl::OkStatus();
  if (line.Text("gang").empty() || line.Text("gang").size() > 64) {
    return Wrong("--gang=", line.Text("gang"), ": expected a name of up to 64 characters");
  }
  if (line.Number("members") < 1 || line.Number("members") > 1024) {
    return Wrong("--members=", line.Text("members"), ": expected 1 to 1024");
  }
  if (!line.Has("wait")) return Wrong("a gang waits for its members: ", "give it --wait", "");
  return absl::OkStatus();
}

absl::Status TakeAction(CommandLine* line) {
  const bool lists =
      line->verb == Verb::kServers || line->verb == Verb::kPolicy || line->verb == Verb::kSlice;
  if (lists && line->rest.empty()) line->rest.push_back("list");
  const ActionInfo* found = nullptr;
  for (const ActionInfo& action : kActions) {
    if (action.verb == line->verb && !line->rest.empty() && line->rest[0] == action.name) {
      found = &action;
    }
  }
  if (found == nullptr) {
    const char* all = WordsOf(line->verb).actions;
    return line->rest.empty()
               ? Wrong("expected ", all, "")
               : Wrong("unknown action \"", line->rest[0], absl::StrCat("\": expected ", all));
  }
  line->action = found->name;
  line->rest.erase(line->rest.begin());
  if (found->named && line->rest.empty()) {
    return Wrong("no ", WordsOf(line->verb).thing, " named");
  }
  const size_t most = found->named ? 1 : 0;
  if (line->rest.size() > most) return Wrong("unexpected argument \"", line->rest[most], "\"");
  return absl::OkStatus();
}

}  // namespace

const char kHelp[] = R"(warpline: run CUDA programs on a GPU server

  warpline run [--endpoint=E] [--slice=NAME] [--memory=4GiB] [--gpus=N | --device=D] [--sessions=N]
               [--wait[=10m]] [--gang=NAME --members=N]
               [--tier=isolated|guarded|auto] [--guard=off|fence|clamped|stoppable|hardened | --check]
               [--] PROGRAM
                                   run a program, and all that it starts, under one lease; with
                                   --tier=guarded in a context that it shares with others, with
                                   --tier=auto there unless its device code or an earlier run says
                                   that it needs a process of its own, with --check, tell which
                                   accesses of its kernels are wrong, and where; with --wait, wait for
                                   a lease that does not fit now; N runs of one --gang, on whichever
                                   hosts, get their leases when there is room for all. When PROGRAM
                                   ends and leaves processes running, the lease goes on for them
  warpline hold --folder=DIR [--endpoint=E] [--slice=NAME] [--memory=4GiB] [--gpus=N | --device=D]
                [--sessions=N] [--share_token]
                                   hold a lease until SIGTERM, waiting until there is one, for
                                   programs that are started elsewhere with WARPLINE_LEASE_FOLDER=DIR;
                                   with --share_token programs of all users may read the token there
                                   (the containers of a pod)
  warpline ps [--endpoint=E]       the sessions of a server or of a scheduler's servers, one a line
  warpline top [--endpoint=E] [--once] [--interval=SECONDS]
                                   the same with rates, again and again
  warpline devices [--endpoint=E] [--pid=PID]
                                   what the lease, or a process without one, has of the server's
                                   devices; under `warpline run` also nvidia-smi shows it
  warpline explain [--hardened] [--all] PROGRAM
                                   which kernels of a program and its libraries can be guarded, so
                                   that they may share a context with others', why others cannot, and
                                   what --tier=auto would choose. All are read, and nothing of them
                                   runs. Exits with 0 if all kernels can, with 1 if not, and with 2
                                   for what it cannot explain, such as a script or a pipe
  warpline stat [--endpoint=E]     counters of a server's devices and sessions
  warpline policy [list]           what may decide who goes first on a server's devices, and what does
  warpline policy load FILE [--name=NAME] [--swap]
                                   load a policy, which clang compiled to eBPF; with --swap, use it
  warpline policy check FILE       whether a server would take it, without one
  warpline policy swap NAME        use this one from now on
  warpline policy rollback         use again what was used before
  warpline policy remove NAME
  warpline trace [--seconds=5] -o FILE
                                   who had a server's devices, who waited and why, while it runs; with
                                   --seconds=0, what the server remembers. Perfetto (ui.perfetto.dev)
                                   and chrome://tracing open the file
  warpline replace [SESSION]       have other workers take over from those of one session of a server
                                   or all, as after an upgrade

  warpline audit [--dir=DIR] [--follow] [--json] [--since=WHEN] [--session=N] [--tenant=T] [--event=E]
                                   what a server recorded of its sessions and operators
  warpline audit --verify [--dir=DIR] [--anchor=A | --scheduler=E --server=NAME]
                                   whether that record is whole: exits with 0, or with 1 and the
                                   first line that was changed, cut off or removed

  warpline serve [FLAGS]           start a server on this host; see warpline serve --help
  warpline servers [list]          the servers of a scheduler
  warpline servers add NAME        prints the credential that server NAME shows
  warpline servers renew NAME      prints another one; the old one is of no use from then on, and
                                   the server's audit is taken as it is, whatever it has lost
  warpline servers remove NAME     ends its leases, too; stop the server first
  warpline servers cordon NAME [--reason=WHY]
                                   gives it no new leases
  warpline servers drain NAME [--within=10m] [--reason=WHY]
                                   nor lets its leases go on for longer; their holders are told
  warpline servers uncordon NAME   gives it leases again
  warpline lease list              its leases
  warpline lease revoke LEASE [--reason=WHY]
  warpline slice [list]            the shapes of a vGPU that its tenants may have
  warpline slice add NAME [SHAPE]
  warpline slice set NAME [SHAPE]  leases that were made of it keep what they have
  warpline slice remove NAME       not while a tenant has it
  warpline tenant list             its tenants
  warpline tenant add NAME [LIMITS]
  warpline tenant set NAME [LIMITS] [--new_credential]
  warpline tenant remove NAME      ends its leases, too
  warpline --version | --help

E is host:port or unix:/path of a server or a scheduler, or of several schedulers of which one leads,
separated by commas; without it WARPLINE_ENDPOINT counts, and then 127.0.0.1:14000, or
127.0.0.1:14100 for what only a scheduler answers. D is a number or
GPU-<uuid>, of which the beginning is enough, or several with commas between; without it the lease is of as many GPUs of one server as
--gpus says, one by default, and --memory is of each of them. CUDA_VISIBLE_DEVICES chooses among the
lease's GPUs by their numbers, from 0. N sessions are as many processes that use the GPUs at a time.
ps, stat, servers and the lists take --json.

LIMITS are --memory=SIZE, --max_leases=N and --max_sessions=N of all leases of the tenant together
(0 for no limit), --max_lease_sessions=N and --max_seconds=N of each (0 seconds for no limit), and
--rights=LIST of its sessions: all, none, or some of launch (run kernels), load (bring code),
copy_in, copy_out (to and from the device) and memory, separated by commas. A call without its right
gets CUDA_ERROR_NOT_PERMITTED, and so does a session of a tier that is not in --tiers=LIST (all, or
isolated and guarded with a comma between); --tier is what a run of the tenant's has that names none
(isolated). Of --max_sessions, a run that names no --sessions gets a quarter. Where leases of
others want a device at the same time, each has its time by --weight=N, and copies by --copy_weight=N
(1 to 1000, 1 by default); --priority=N counts for servers with --dispatch=priority. The same weight and
priority say whose request is next of those that wait. A tenant with --parent=TENANT is below that one,
whose limits count what it has as well; --reserved=SIZE of memory is what it, and those below it, can
count on where the scheduler runs with --preemption. --namespaces=LIST, with commas between, or none, are
those of a Kubernetes cluster whose pods act as the tenant by their ServiceAccounts' tokens, where the
scheduler takes such (--cluster_keys).

SHAPE is, of each GPU of a lease: --memory=SIZE and --staging=SIZE (host memory that is shared with the
server: page-locked, and for copies), of all sessions of the lease together; --sessions=N at a time;
--handles=N (streams, events, modules, kernels, ...), --module_bytes=SIZE and --commands=N (sent and
not complete) of each session; --sm_percent=N of the multiprocessors (guarded tier); --launch_ms=N, the
longest that a launch may take; --weight=N, --copy_weight=N and --priority=N in place of the tenant's;
--period_ms=P and --budget_ms=B, so much time of the GPU in each period for servers with
--dispatch=reservation, of which the leases of a GPU have 90 % together at most;
--best_effort: its kernels and sessions may be ended at once when more urgent work waits.
0, or an option that is not given, leaves a part to what there is without a slice. A run names its slice
with --slice=NAME, or WARPLINE_SLICE; more than the slice has is refused. Which slices a tenant may have
is its --slices=LIST: names with commas between, any, or none (by default). With names, a run that
names none is of the first one. The tenant's LIMITS bound it in any case.

DIR is the --audit_dir of a server or scheduler, and without it /var/lib/warpline/audit. WHEN is a time
(2026-11-22T15:00:00Z), a day, or how long ago (90m); E is an event (session.refused) or the events of
one thing (session). A is an anchor, as the server says it in the system's log and to its scheduler
(`warpline servers`): a record that was cut off before it is found, too. With --scheduler and --server
it is the one that the scheduler at E has of its server NAME, and any that the server lost. audit exits
with 1 for a record that is broken, and with 3 for one that cannot be read.

A server or scheduler with TLS also needs --tls_ca=FILE, --tls_cert=FILE and --tls_key=FILE, or
WARPLINE_TLS_CA, WARPLINE_TLS_CERT and WARPLINE_TLS_KEY; --tls_server_name=NAME
(WARPLINE_TLS_SERVER_NAME) where its certificate names another host than E does.
A scheduler with tenants wants a credential: WARPLINE_CREDENTIAL, or WARPLINE_CREDENTIAL_FILE, a file
that is read anew whenever it is asked for, such as a pod's ServiceAccount token that changes. What
changes tenants and leases wants the operator's: WARPLINE_OPERATOR_CREDENTIAL_FILE, else
operator.credential in the state folder of your own scheduler or of the service. So do its listings.

ps, top, stat, policy, trace and replace are for a server's operator: its own user or root, on its host. They ask
at its admin socket, which the server names itself (warpline serve --admin_socket=PATH); where that
socket is forwarded from another host, E is unix:/PATH. Under `warpline run`, or with a tenant's
credential at a scheduler, ps, top and stat show what concerns that lease or tenant.
)";

std::string CommandLine::Text(const std::string& option) const {
  const auto found = options.find(option);
  return found == options.end() ? "" : found->second;
}

uint64_t CommandLine::Size(const std::string& option) const {
  ByteSize size;
  std::string error;
  return Has(option) && AbslParseFlag(Text(option), &size, &error) ? size.bytes : 0;
}

absl::Duration CommandLine::Duration(const std::string& option, absl::Duration otherwise) const {
  absl::Duration duration;
  return Has(option) && absl::ParseDuration(Text(option), &duration) ? duration : otherwise;
}

uint64_t CommandLine::Number(const std::string& option) const {
  uint32_t number = 0;
  return absl::SimpleAtoi(Text(option), &number) ? number : 0;
}

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args) {
  CommandLine line;
  if (args.empty()) return line;
  const VerbInfo* verb = nullptr;
  for (const VerbInfo& known : kVerbs) {
    if (args[0] == known.name) verb = &known;
  }
  if (verb == nullptr) return Wrong("unknown command \"", args[0], "\"");
  line.verb = verb->verb;
  size_t next = 1;
  for (; next < args.size() && line.verb != Verb::kServe; ++next) {
    if (args[next] == "--help" || args[next] == "-h") {
      line.verb = Verb::kHelp;
      return line;
    }
    if (args[next] == "--" && line.verb == Verb::kRun) {
      ++next;
      break;
    }
    const auto taken = TakeOption(*verb, args, &next, &line);
    if (!taken.ok()) return taken.status();
    if (*taken) continue;
    if (line.verb == Verb::kRun) break;
    line.rest.push_back(args[next]);
  }
  for (; next < args.size(); ++next) line.rest.push_back(args[next]);
  const bool takes_program = line.verb == Verb::kRun || line.verb == Verb::kExplain;
  if (takes_program && line.rest.empty()) {
    return Wrong("warpline ", line.verb == Verb::kRun ? "run" : "explain", ": no program given");
  }
  if (auto status = CheckGpus(line); !status.ok()) return status;
  if (line.verb == Verb::kHold && line.Text("folder").empty()) {
    return Wrong("warpline hold: no --folder given", "", "");
  }
  if (auto status = CheckGang(line); !status.ok()) return status;
  const bool takes_session = line.verb == Verb::kReplace && line.rest.size() == 1;
  if (line.verb == Verb::kTenant || line.verb == Verb::kLease || line.verb == Verb::kServers ||
      line.verb == Verb::kPolicy || line.verb == Verb::kSlice) {
    if (auto status = TakeAction(&line); !status.ok()) return status;
  } else if (!takes_program && !takes_session && line.verb != Verb::kServe &&
             line.verb != Verb::kKeepLease && !line.rest.empty()) {
    return Wrong("unexpected argument \"", line.rest[0], "\"");
  }
  return line;
}

}  // namespace warpline::cli
