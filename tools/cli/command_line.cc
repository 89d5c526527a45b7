#include "tools/cli/command_line.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace warpline::cli {
namespace {

struct VerbName {
  const char* name;
  Verb verb;
};

constexpr VerbName kVerbs[] = {
    {"help", Verb::kHelp},         {"--help", Verb::kHelp},
    {"-h", Verb::kHelp},           {"serve", Verb::kServe},
    {"--version", Verb::kVersion}, {"run", Verb::kRun},
    {"stat", Verb::kStat},         {"ps", Verb::kPs},
    {"replace", Verb::kReplace},
};

// The option that `arg` ("--tls_ca=FILE") gives, whose value is then left in `arg`; null for
// others.
std::string* TlsOption(absl::string_view* arg, TlsFiles* tls) {
  if (absl::ConsumePrefix(arg, "--tls_ca=")) return &tls->ca;
  if (absl::ConsumePrefix(arg, "--tls_cert=")) return &tls->cert;
  if (absl::ConsumePrefix(arg, "--tls_key=")) return &tls->key;
  if (absl::ConsumePrefix(arg, "--tls_server_name=")) return &tls->server_name;
  return nullptr;
}

}  // namespace

const char kHelp[] = R"(warpline: run CUDA programs on a GPU server.

  warpline serve [FLAGS]                    start a server on this host; see warpline serve --help
  warpline run [--endpoint=E] [--] PROGRAM  run a program with its CUDA calls forwarded to a server
  warpline stat [--endpoint=E]              counters of a server's devices and sessions
  warpline ps [--endpoint=E]                the sessions of a server, one a line
  warpline replace [--endpoint=E] [SESSION] have other workers take over from those of one session
                                            or all, as after an upgrade
  warpline --version | --help

E is host:port or unix:/path; without it WARPLINE_ENDPOINT counts, and then 127.0.0.1:14000.
`stat` and `ps` are answered to callers on the server's own host only.
A server with TLS also needs --tls_ca=FILE, --tls_cert=FILE and --tls_key=FILE, or WARPLINE_TLS_CA,
WARPLINE_TLS_CERT and WARPLINE_TLS_KEY; --tls_server_name=NAME (WARPLINE_TLS_SERVER_NAME) where its
certificate names another host than E does.
)";

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args) {
  CommandLine line;
  if (args.empty()) return line;
  bool found = false;
  for (const VerbName& known : kVerbs) {
    if (args[0] != known.name) continue;
    line.verb = known.verb;
    found = true;
  }
  if (!found) {
    return absl::InvalidArgumentError(absl::StrCat("unknown command \"", args[0], "\""));
  }
  size_t next = 1;
  if (line.verb != Verb::kServe) {
    for (; next < args.size(); ++next) {
      absl::string_view arg = args[next];
      if (absl::ConsumePrefix(&arg, "--endpoint=")) {
        line.endpoint = std::string(arg);
      } else if (arg == "--endpoint" && next + 1 < args.size()) {
        line.endpoint = args[++next];
      } else if (std::string* tls = TlsOption(&arg, &line.tls); tls != nullptr) {
        *tls = std::string(arg);
      } else if (arg == "--help" || arg == "-h") {
        line.verb = Verb::kHelp;
        return line;
      } else if (arg == "--" && line.verb == Verb::kRun) {
        ++next;
        break;
      } else if (absl::StartsWith(arg, "-")) {
        return absl::InvalidArgumentError(absl::StrCat("unknown option \"", arg, "\""));
      } else {
        break;
      }
    }
  }
  line.rest.assign(args.begin() + static_cast<std::ptrdiff_t>(next), args.end());
  if (line.verb == Verb::kRun && line.rest.empty()) {
    return absl::InvalidArgumentError("warpline run: no program given");
  }
  const bool takes_session = line.verb == Verb::kReplace && line.rest.size() == 1;
  if (line.verb != Verb::kRun && line.verb != Verb::kServe && !takes_session &&
      !line.rest.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", line.rest[0], "\""));
  }
  return line;
}

}  // namespace warpline::cli
