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
               [--tier=isolated|guarded|auto]
               [--guard=off|fence|hardened | --check] [--] PROGRAM
                                   run a program, and all processes that it starts, under one
                                   lease. --tier=guarded runs it in a context that it shares with
                                   others; --tier=auto does so unless its device code or an earlier
                                   run shows that it needs a process of its own. --check reports
                                   which accesses of its kernels are wrong, and where. --wait waits
                                   for a lease that does not fit now. The N runs of one --gang, on
                                   any hosts, get their leases when there is room for all. The
                                   lease lasts until the processes that PROGRAM leaves running have
                                   ended, too
  warpline hold --folder=DIR [--endpoint=E] [--slice=NAME] [--memory=4GiB] [--gpus=N | --device=D]
                [--sessions=N] [--wait=10m] [--share_token | --reader=UID]
                                   wait for a lease and hold it until SIGTERM, for programs that
                                   are started elsewhere with WARPLINE_LEASE_FOLDER=DIR. With
                                   --wait, exit with 3 if there is no room in that time, and with 4
                                   if no server answers. With --share_token programs of all users
                                   may read the token there (the containers of a pod), with
                                   --reader those of one other user
  warpline ps [--endpoint=E]       list the sessions of a server, or of a scheduler's servers
  warpline top [--endpoint=E] [--once] [--interval=SECONDS]
                                   list them with rates, again and again
  warpline devices [--endpoint=E] [--pid=PID]
                                   show the lease's part of the server's devices, or the part of a
                                   process without a lease. Under `warpline run`, nvidia-smi shows
                                   it, too
  warpline explain [--hardened] [--all] PROGRAM
                                   show which kernels of a program and its libraries can be
                                   guarded, so that they may share a context with others, why other
                                   kernels cannot, and what --tier=auto would choose. It reads all
                                   of them and runs none. Exits with 0 if all kernels can be
                                   guarded and the server executes the functions of cuBLAS that are
                                   used, with 1 if not, and with 2 for a file that it cannot
                                   explain, such as a script or a pipe
  warpline stat [--endpoint=E]     print counters of a server's devices and sessions
  warpline policy [list]           list the policies that can divide a server's devices, and the
                                   one in use
  warpline policy load FILE [--name=NAME] [--swap]
                                   load a policy that clang compiled to eBPF; with --swap, use it
  warpline policy check FILE       check whether a server would accept it; needs no server
  warpline policy swap NAME        use this policy from now on
  warpline policy rollback         use the policy that was in use before
  warpline policy remove NAME
  warpline program add NAME FILE... [--dir=DIR]
                                   vet the device code of programs, libraries, fatbins, cubins and
                                   PTX: tenants with the right to launch and without the right to
                                   load run it, and no other code, at servers with
                                   --programs_dir=DIR. DIR is /etc/warpline/programs unless it is
                                   given. It needs no server
  warpline program [list] [--dir=DIR]
  warpline program remove NAME [--dir=DIR]
                                   sessions that open later can no longer load it
  warpline trace [--seconds=5] -o FILE
                                   record which sessions had a server's devices, which waited, and
                                   why, while it runs; with --seconds=0, write what the server
                                   remembers. Perfetto (ui.perfetto.dev) and chrome://tracing open
                                   the file
  warpline replace [SESSIONS]      replace the workers of sessions of a server, such as after an
                                   upgrade
  warpline server upgrade [--to=PATH] [--force]
                                   have another version of a server's program take its place
                                   (warpline serve --upgrades). Sessions come to rest and go on
                                   there; if it does not start, the former version goes on. PATH is
                                   a warpline-server or the folder of a bundle; without it, it is
                                   the file at the server's own path. A server with sessions that
                                   cannot go on stays as it is; with --force those sessions end
  warpline checkpoint LEASE|SESSION DIR [--end]
                                   save a lease's sessions, or one session, of a server in the
                                   folder DIR (warpline serve --swap_host=SIZE). They rest for a
                                   moment, and go on; with --end they end once the disk has them,
                                   and their programs wait to be restored. What the folder has of
                                   their memory already is not written again
  warpline restore DIR [--device=GPU-UUID]
                                   have the sessions of such a folder go on at a server, on the GPU
                                   that they had or on this one
  warpline revoke SESSIONS [--reason=WHY]
                                   end sessions of a server now; their programs get
                                   CUDA_ERROR_NOT_PERMITTED
  warpline page-out [SESSIONS]     move the device memory of sessions of a server to the host
                                   (warpline serve --swap_host=SIZE). A session has it back before
                                   its next command
  warpline page-in [SESSIONS]      move it back now
  warpline suspend [SESSIONS]      move their memory to the host and end their workers, so that they
                                   keep nothing on the device. A session goes on with its next call
  warpline resume [SESSIONS]       have them go on now
  warpline limit [SESSIONS] --resident=SIZE
                                   let the lease of each have at most so much of each GPU at a time
                                   until its last session ends (0 for no limit)

  warpline audit [--dir=DIR] [--follow] [--json] [--since=WHEN] [--session=N] [--tenant=T]
                 [--event=E]
                                   print what a server recorded about its sessions and operators
  warpline audit --verify [--dir=DIR] [--anchor=A | --scheduler=E --server=NAME]
                                   check that this record is whole. Exits with 0 if it is;
                                   otherwise prints the first line that was changed, cut off or
                                   removed, and exits with 1

  warpline serve [FLAGS]           start a server on this host; see warpline serve --help
  warpline servers [list]          list the servers of a scheduler
  warpline servers add NAME        print the credential that server NAME will show
  warpline servers renew NAME      print another credential. The old one is not valid any more, and
                                   the scheduler accepts the server's audit record as it is, even
                                   if a part of it is lost
  warpline servers remove NAME     remove a server, and end its leases; stop the server first
  warpline servers cordon NAME [--reason=WHY]
                                   give the server no new leases
  warpline servers drain NAME [--within=10m] [--reason=WHY]
                                   give it no new leases, and end its leases after this time; their
                                   holders are told
  warpline servers drain NAME --migrate [--within=10m] [--reason=WHY]
                                   give it no new leases, and move its leases to other servers.
                                   Leases that cannot be moved are listed, and end after this time.
                                   Exits with 0 if no lease is left
  warpline servers uncordon NAME   give the server leases again
  warpline lease list              list a scheduler's leases
  warpline lease revoke LEASE | --tenant=NAME [--reason=WHY]
                                   end a lease, or all leases of a tenant and of the tenants below
                                   it: their sessions end, too. The tenant may lease again
  warpline migrate LEASE [--to=SERVER [--device=GPU-UUID]] [--nowait]
                                   move a lease with its sessions to another server: this one, or
                                   any that has room. It waits until the lease has moved, or exits
                                   with 1 and says why it has not. With --nowait, or Ctrl-C, the
                                   move goes on
  warpline slice [list]            list the shapes of a vGPU that tenants may have
  warpline slice add NAME [SHAPE]
  warpline slice set NAME [SHAPE]  change a slice; leases of it keep what they have
  warpline slice remove NAME       remove a slice that no tenant may have
  warpline tenant list             list a scheduler's tenants
  warpline tenant add NAME [LIMITS]
  warpline tenant set NAME [LIMITS] [--new_credential]
  warpline tenant remove NAME      remove a tenant, and end its leases
  warpline --version | --help
  warpline help COMMAND            show the help of one command, as does warpline COMMAND --help

E is host:port or unix:/path of a server or a scheduler. Several schedulers that share a state are
named with commas between; one of them leads. Without --endpoint, WARPLINE_ENDPOINT counts. Without
that it is 127.0.0.1:14000, or 127.0.0.1:14100 for commands that only a scheduler answers. D is a
device: a number, or GPU-<uuid> or its beginning; or several devices with commas between. Without
--device the lease has as many GPUs of one server as --gpus says, one by default. --memory is of
each GPU. CUDA_VISIBLE_DEVICES chooses among the lease's GPUs by their numbers, from 0.
--sessions=N allows N processes that use the GPUs at a time. ps, stat, servers and the lists take
--json.

LIMITS are these. --memory=SIZE, --max_leases=N and --max_sessions=N bound all leases of the tenant
together (0 for no limit); a run without --sessions gets a quarter of --max_sessions.
--max_lease_sessions=N and --max_seconds=N bound each lease (0 seconds for no limit). --rights=LIST
is all, none, or some of launch (run kernels), load (bring code), copy_in, copy_out (to and from
the device) and memory, with commas between; a session's call without its right gets
CUDA_ERROR_NOT_PERMITTED. --tiers=LIST is all, or isolated and guarded with a comma between;
sessions of other tiers get that error, too. --tier is the tier of runs that name none (isolated by
default). --weight=N and --copy_weight=N (1 to 1000, 1 by default) divide the time and the copies
of a device among tenants whose leases want it at the same time. --priority=N counts for servers
with --dispatch=priority. Weight and priority also order the requests that wait for a lease.
--parent=TENANT puts the tenant below another one, whose limits count the tenant's leases as well.
--reserved=SIZE is the memory on which the tenant, and those below it, can count if the scheduler
runs with --preemption. --namespaces=LIST (with commas between, or none) are namespaces of a
Kubernetes cluster. Their pods act as the tenant by their ServiceAccounts' tokens, if the scheduler
takes such tokens (--cluster_keys).

SHAPE is the part of each GPU that a lease has. --memory=SIZE and --staging=SIZE (host memory that
is shared with the server: page-locked, and for copies) are for all sessions of the lease together,
and --sessions=N is their number at a time. With --resident=SIZE at most so much of the memory is on
a GPU at a time: sessions of the lease take turns there, one that wants more alone is refused, and
the server needs --swap_host. --handles=N (streams, events, modules, kernels, ...),
--module_bytes=SIZE and --commands=N (sent and not complete) are for each session. --sm_percent=N
is a part of the multiprocessors (guarded tier), and --launch_ms=N the longest that a launch may
take. --weight=N, --copy_weight=N and --priority=N replace the tenant's. --period_ms=P and
--budget_ms=B reserve B of the GPU's time in each P on servers with --dispatch=reservation; the
leases of a GPU can reserve at most 90 % of it together. --best_effort lets the server end its
kernels and sessions at once when more urgent work waits. 0, or an option that is not given, means
the value without a slice. A run names its slice with --slice=NAME or WARPLINE_SLICE, and is
refused if it asks for more than the slice has. The tenant's --slices=LIST says which slices it may
have: names with commas between, any, or none (by default). With names, a run without --slice gets
the first. The tenant's LIMITS bound it in any case.

DIR is the --audit_dir of a server or scheduler, /var/lib/warpline/audit by default. WHEN is a time
(2026-11-22T15:00:00Z), a day, or an age (90m). E is an event (session.refused) or the events of
one thing (session). A is an anchor, which the server writes to the system's log and tells its
scheduler (`warpline servers`); with it, a record that was cut off before the anchor is found, too.
--scheduler and --server take the anchor that the scheduler at E has of its server NAME, and also
find records that the server lost. audit exits with 1 for a record that is broken, and with 3 for
one that cannot be read.

SESSIONS is the number of a session (warpline ps), --lease=LEASE or --tenant=NAME for the sessions
of one, or nothing for all.

A server or scheduler with TLS also needs --tls_ca=FILE, --tls_cert=FILE and --tls_key=FILE, or
WARPLINE_TLS_CA, WARPLINE_TLS_CERT and WARPLINE_TLS_KEY. It needs --tls_server_name=NAME
(WARPLINE_TLS_SERVER_NAME) if its certificate names another host than E does. A scheduler with
tenants wants a credential: WARPLINE_CREDENTIAL, or the file WARPLINE_CREDENTIAL_FILE. The file is
read anew for each request, so it may be a pod's ServiceAccount token, which changes. Commands that
change or list tenants and leases want the operator's credential. It is in the file
WARPLINE_OPERATOR_CREDENTIAL_FILE, else in operator.credential in the state folder of your own
scheduler or of the service.

ps, top, stat, policy, trace, server, checkpoint, restore, replace, page-out, page-in, suspend,
resume, limit and revoke are for a server's operator: the server's own user or root, on its host.
They find the server's admin socket themselves (warpline serve --admin_socket=PATH); if that socket
is forwarded from another host, E is unix:/PATH. Under `warpline run`, or with a tenant's credential at a scheduler, ps, top and stat
show that lease or tenant only.
)";

// A paragraph below the synopsis, by its first words, and the commands that it is about.
struct Paragraph {
  const char* begins;
  const char* commands;  // Separated by spaces.
};
constexpr Paragraph kParagraphs[] = {
    {"E is host:port",
     "run hold ps top devices stat servers lease migrate slice tenant policy trace server "
     "checkpoint restore replace page-out page-in suspend resume limit revoke"},
    {"SESSIONS is", "replace page-out page-in suspend resume limit revoke"},
    {"LIMITS are", "tenant"},
    {"SHAPE is", "slice"},
    {"DIR is the", "audit"},
    {"A server or scheduler with TLS",
     "run hold ps top devices stat servers lease migrate slice tenant audit policy trace server "
     "checkpoint restore replace page-out page-in suspend resume limit revoke"},
    {"ps, top, stat,",
     "ps top stat policy trace server checkpoint restore replace page-out page-in suspend resume "
     "limit revoke"},
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

// Returns the lines of the synopsis about a command: those that begin with it, and the lines that
// are indented below them.
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
