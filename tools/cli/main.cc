// warpline: the command line.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/endpoint.h"
#include "common/lease/lease_key.h"
#include "common/lease_folder.h"
#include "common/program_start.h"
#include "common/serving/tls_files.h"
#include "common/sibling_program.h"
#include "common/version.h"
#include "tools/cli/audit.h"
#include "tools/cli/checkpoint.h"
#include "tools/cli/command_line.h"
#include "tools/cli/devices.h"
#include "tools/cli/explain.h"
#include "tools/cli/help_text.h"
#include "tools/cli/hold.h"
#include "tools/cli/keep.h"
#include "tools/cli/migrate.h"
#include "tools/cli/operator.h"
#include "tools/cli/policy.h"
#include "tools/cli/program.h"
#include "tools/cli/report.h"
#include "tools/cli/run.h"
#include "tools/cli/text.h"
#include "tools/cli/top.h"
#include "tools/cli/trace.h"
#include "tools/cli/upgrade.h"

namespace warpline::cli {
namespace {

int Complain(const std::string& text, int code) { return cli::Complain("warpline", text, code); }

std::string Endpoint(const CommandLine& line, const char* otherwise = kDefaultEndpoint) {
  if (!line.endpoint.empty()) return line.endpoint;
  const char* const variable = getenv("WARPLINE_ENDPOINT");
  const absl::string_view endpoint =
      absl::StripAsciiWhitespace(variable == nullptr ? "" : variable);
  return std::string(endpoint.empty() ? otherwise : endpoint);
}

// Exports the path of an option, or else that of the variable, as an absolute one: the program that
// is run may change its folder.
void ExportPath(const char* variable, std::string path) {
  const char* const former = getenv(variable);
  if (path.empty() && former != nullptr) path = former;
  std::error_code ignored;
  if (!path.empty()) setenv(variable, std::filesystem::absolute(path, ignored).c_str(), 1);
}

// Exports the options to the programs that are started, since options take precedence over
// variables.
void ExportTls(const TlsFiles& tls) {
  ExportPath(kTlsCaVariable, tls.ca);
  ExportPath(kTlsCertVariable, tls.cert);
  ExportPath(kTlsKeyVariable, tls.key);
  if (!tls.server_name.empty()) setenv(kTlsServerNameVariable, tls.server_name.c_str(), 1);
}

// What a lease's folder says, for whatever is asked or started here, as the client library takes
// it.
void ExportLeaseFolder() {
  const char* const folder = getenv(kLeaseFolderVariable);
  if (folder == nullptr || *folder == '\0') return;
  for (const char* variable : {"WARPLINE_ENDPOINT", "WARPLINE_TOKEN_FILE"}) {
    const char* const value = getenv(variable);
    if (value != nullptr && *value != '\0') return;
  }
  const HeldLease held = ReadLeaseFolder(folder);
  if (held.endpoint.empty()) return;
  setenv("WARPLINE_ENDPOINT", held.endpoint.c_str(), 1);
  setenv("WARPLINE_TOKEN_FILE", held.token_file.c_str(), 1);
  unsetenv(kLeaseKeyVariable);
  if (!held.driver_version.empty()) {
    setenv("WARPLINE_DRIVER_VERSION", held.driver_version.c_str(), 0);
  }
  if (!held.tier.empty()) setenv("WARPLINE_TIER", held.tier.c_str(), 0);
}

// Replaces this process. Returns only on failure, with the exit code that shells use.
int Exec(const std::string& program, const std::vector<std::string>& args) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  execvp(program.c_str(), argv.data());
  const int error = errno;
  return Complain(absl::StrCat("cannot run ", program, ": ", std::strerror(error)),
                  error == ENOENT ? 127 : 126);
}

int Help(const CommandLine& line) {
  const std::string text = line.rest.empty() ? HelpText() : HelpText(line.rest[0]);
  if (text.empty()) {
    return Complain(absl::StrCat("unknown command \"", line.rest[0], "\"; see warpline --help"), 2);
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

int Serve(const CommandLine& line) {
  const auto server = FindSibling("warpline-server", "");
  if (!server.ok()) return Complain(std::string(server.status().message()), 1);
  return Exec(*server, line.rest);
}

int Print(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return Complain(std::string(text.status().message()), 1);
  std::fputs(text->c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

absl::StatusOr<std::string> Report(const CommandLine& line) {
  const auto reply = AskServer(Endpoint(line));
  if (!reply.ok()) return reply.status();
  if (line.Has("json")) return ToJson(*reply);
  return line.verb == Verb::kPs ? PsReport(*reply) : StatReport(*reply);
}

absl::StatusOr<std::string> Devices(const CommandLine& line) {
  const auto reply = AskForDevices(Endpoint(line), static_cast<uint32_t>(line.Number("pid")));
  if (!reply.ok()) return reply.status();
  return DevicesReport(*reply);
}

int ActOnSessions(const CommandLine& line, warpline_internal::ReplaceRequest::Action action,
                  const char* done) {
  uint64_t session = 0;
  if (!line.rest.empty() && (!absl::SimpleAtoi(line.rest[0], &session) || session == 0)) {
    return Complain(absl::StrCat("no session's number: ", line.rest[0]), 2);
  }
  warpline_internal::ReplaceRequest request;
  request.set_action(action);
  request.set_session(session);
  request.set_lease(line.Text("lease"));
  request.set_tenant(line.Text("tenant"));
  request.set_resident_bytes(line.Size("resident"));
  request.set_reason(line.Text("reason"));
  const auto reply = AskToReplace(Endpoint(line), std::move(request));
  if (!reply.ok()) return Complain(std::string(reply.status().message()), 1);
  int code = 0;
  for (const auto& one : reply->sessions()) {
    if (!one.error().empty()) code = 1;
    std::printf("session %llu: %s\n", static_cast<unsigned long long>(one.session()),
                one.error().empty() ? done : Shown(one.error()).c_str());
  }
  return code;
}

int Main(const std::vector<std::string>& args) {
  const auto line = ParseCommandLine(args);
  if (!line.ok()) {
    return Complain(absl::StrCat(std::string(line.status().message()), "; see warpline --help"), 2);
  }
  ExportTls(line->tls);
  if (line->verb != Verb::kHold) ExportLeaseFolder();
  switch (line->verb) {
    case Verb::kHelp:
      return Help(*line);
    case Verb::kVersion:
      std::printf("warpline %s\n", kVersion);
      return 0;
    case Verb::kServe:
      return Serve(*line);
    case Verb::kRun:
      return Run(*line, Endpoint(*line));
    case Verb::kHold:
      return Hold(*line, Endpoint(*line, kDefaultSchedulerEndpoint));
    case Verb::kKeepLease:
      return KeepLease(*line, Endpoint(*line));
    case Verb::kStat:
    case Verb::kPs:
      return Print(Report(*line));
    case Verb::kTop:
      return Top(*line, Endpoint(*line));
    case Verb::kTenant:
    case Verb::kLease:
    case Verb::kSlice:
    case Verb::kServers:
      if (line->Has("migrate")) {
        return DrainByMoving(*line, Endpoint(*line, kDefaultSchedulerEndpoint));
      }
      return Print(Operate(*line, Endpoint(*line, kDefaultSchedulerEndpoint)));
    case Verb::kMigrate:
      return Migrate(*line, Endpoint(*line, kDefaultSchedulerEndpoint));
    case Verb::kServer:
      return UpgradeServer(*line, Endpoint(*line));
    case Verb::kCheckpoint:
    case Verb::kRestore:
      return SaveOrRestore(*line, Endpoint(*line));
    case Verb::kReplace:
      return ActOnSessions(*line, warpline_internal::ReplaceRequest::REPLACE, "replaced");
    case Verb::kPageOut:
      return ActOnSessions(*line, warpline_internal::ReplaceRequest::PAGE_OUT,
                           "its memory is away");
    case Verb::kPageIn:
      return ActOnSessions(*line, warpline_internal::ReplaceRequest::PAGE_IN, "its memory is back");
    case Verb::kSuspend:
      return ActOnSessions(*line, warpline_internal::ReplaceRequest::SUSPEND, "suspended");
    case Verb::kResume:
      return ActOnSessions(*line, warpline_internal::ReplaceRequest::RESUME, "resumed");
    case Verb::kLimit:
      if (!line->Has("resident")) return Complain("expected --resident=SIZE", 2);
      return ActOnSessions(*line, warpline_internal::ReplaceRequest::LIMIT,
                           "its lease has the limit");
    case Verb::kRevoke:
      if (line->rest.empty() && !line->Has("lease") && !line->Has("tenant")) {
        return Complain("expected a session's number, --lease=LEASE or --tenant=NAME", 2);
      }
      return ActOnSessions(*line, warpline_internal::ReplaceRequest::REVOKE, "revoked");
    case Verb::kDevices:
      return Print(Devices(*line));
    case Verb::kExplain:
      return Explain(*line);
    case Verb::kAudit:
      return Audit(*line);
    case Verb::kPolicy:
      return Print(Policy(*line, Endpoint(*line)));
    case Verb::kProgram:
      return Print(Program(*line));
    case Verb::kTrace:
      return Print(Trace(*line, Endpoint(*line)));
  }
  return 2;
}

}  // namespace
}  // namespace warpline::cli

int main(int argc, char** argv) {
  warpline::StartProgram();
  return warpline::cli::Main(std::vector<std::string>(argv + 1, argv + argc));
}
