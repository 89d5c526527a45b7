#include "tools/cli/help_text.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace warpline::cli {
namespace {

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
  warpline help COMMAND            of one command; so does warpline COMMAND --help

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

// Which commands a paragraph below the synopsis is about, by its first words.
struct Paragraph {
  const char* begins;
  const char* commands;  // Separated by spaces.
};
constexpr Paragraph kParagraphs[] = {
    {"E is host:port",
     "run hold ps top devices stat servers lease slice tenant policy trace replace"},
    {"LIMITS are", "tenant"},
    {"SHAPE is", "slice"},
    {"DIR is the", "audit"},
    {"A server or scheduler with TLS",
     "run hold ps top devices stat servers lease slice tenant audit policy trace replace"},
    {"ps, top, stat,", "ps top stat policy trace replace"},
};

bool IsAbout(absl::string_view paragraph, const std::string& command) {
  for (const Paragraph& known : kParagraphs) {
    if (!absl::StartsWith(paragraph, known.begins)) continue;
    const std::vector<std::string> commands = absl::StrSplit(known.commands, ' ');
    for (const std::string& about : commands) {
      if (about == command) return true;
    }
  }
  return false;
}

// The lines of the synopsis that are a command's: those that begin with it, and what is indented
// below them.
std::string SynopsisOf(const std::string& command, absl::string_view synopsis) {
  constexpr absl::string_view kEntry = "  warpline ";
  std::string found;
  bool own = false;
  for (const absl::string_view line : absl::StrSplit(synopsis, '\n')) {
    if (absl::StartsWith(line, kEntry)) {
      const std::vector<absl::string_view> words = absl::StrSplit(line.substr(kEntry.size()), ' ');
      own = words[0] == command;
    }
    if (own && !line.empty()) absl::StrAppend(&found, line, "\n");
  }
  return found;
}

}  // namespace

std::string HelpText() { return kHelp; }

std::string HelpText(const std::string& command) {
  // The synopsis has gaps between its groups, and the paragraphs follow where no line is indented.
  const std::vector<absl::string_view> parts = absl::StrSplit(kHelp, "\n\n");
  std::string synopsis;
  std::string more;
  for (const absl::string_view part : parts) {
    if (absl::StartsWith(part, "  warpline ")) {
      absl::StrAppend(&synopsis, SynopsisOf(command, part));
    } else if (IsAbout(part, command)) {
      absl::StrAppend(&more, "\n", absl::StripSuffix(part, "\n"), "\n");
    }
  }
  if (synopsis.empty()) return "";
  return absl::StrCat(synopsis, more, "\nwarpline --help shows all commands.\n");
}

}  // namespace warpline::cli
