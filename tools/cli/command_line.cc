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

// Verbs that act on sessions of a server.
constexpr const char kOfSessions[] = "endpoint:text lease:text tenant:text";

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
     "wait:duration share_token reader:number"},
    {"keep-lease", Verb::kKeepLease, "endpoint:text"},
    {"stat", Verb::kStat, "endpoint:text json"},
    {"ps", Verb::kPs, "endpoint:text json"},
    {"top", Verb::kTop, "endpoint:text once interval:number"},
    {"tenant", Verb::kTenant,
     "endpoint:text memory:size max_leases:number max_sessions:number max_lease_sessions:number "
     "max_seconds:number rights:rights tiers:tiers tier:tier weight:number copy_weight:number "
     "priority:number slices:text parent:text reserved:size namespaces:text new_credential "
     "json"},
    {"slice", Verb::kSlice,
     "endpoint:text memory:size resident:size staging:size sessions:number handles:number "
     "module_bytes:size commands:number sm_percent:number launch_ms:number weight:number "
     "copy_weight:number priority:number period_ms:number budget_ms:number best_effort:zero_or_one "
     "json"},
    {"lease", Verb::kLease, "endpoint:text reason:text tenant:text json"},
    {"servers", Verb::kServers, "endpoint:text reason:text within:duration migrate json"},
    {"migrate", Verb::kMigrate, "endpoint:text to:text device:text nowait"},
    {"server", Verb::kServer, "endpoint:text to:text force"},
    {"checkpoint", Verb::kCheckpoint, "endpoint:text end"},
    {"restore", Verb::kRestore, "endpoint:text device:text"},
    {"replace", Verb::kReplace, kOfSessions},
    {"page-out", Verb::kPageOut, kOfSessions},
    {"page-in", Verb::kPageIn, kOfSessions},
    {"suspend", Verb::kSuspend, kOfSessions},
    {"resume", Verb::kResume, kOfSessions},
    {"revoke", Verb::kRevoke, "endpoint:text lease:text tenant:text reason:text"},
    {"limit", Verb::kLimit, "endpoint:text lease:text tenant:text resident:size"},
    {"devices", Verb::kDevices, "endpoint:text pid:number"},
    {"explain", Verb::kExplain, "hardened all"},
    {"audit", Verb::kAudit,
     "dir:text follow json verify anchor:text scheduler:text server:text since:text session:number "
     "tenant:text event:text"},
    {"policy", Verb::kPolicy, "endpoint:text name:text swap json"},
    {"program", Verb::kProgram, "dir:text json"},
    {"trace", Verb::kTrace, "endpoint:text seconds:number output:text"},
};

struct ActionInfo {
  Verb verb;
  const char* name;
  bool named;          // Takes a name.
  bool files = false;  // Takes files, at least one, behind the name.
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
    {Verb::kPolicy, "list", false},     {Verb::kProgram, "add", true, true},
    {Verb::kProgram, "list", false},    {Verb::kProgram, "remove", true},
    {Verb::kServer, "upgrade", false},
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
    case Verb::kServer:
      return {"server", "upgrade"};
    case Verb::kPolicy:
      return {"policy", "list, load, check, swap, rollback or remove"};
    case Verb::kProgram:
      return {"program", "add, list or remove"};
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

// Checks that --migrate is for draining, that a lease to be moved is named, and that its device is
// one of a server.
absl::Status CheckMigration(const CommandLine& line) {
  if (line.verb == Verb::kServers && line.Has("migrate") && line.action != "drain") {
    return Wrong("--migrate goes with ", "warpline servers drain", "");
  }
  if (line.verb != Verb::kMigrate) return absl::OkStatus();
  if (line.rest.empty()) return Wrong("no lease named", "", "");
  if (line.rest.size() > 1) return Wrong("unexpected argument \"", line.rest[1], "\"");
  if (line.Has("device") && line.Text("to").empty()) {
    return Wrong("--device is a device of a server: ", "give it --to=SERVER", "");
  }
  return absl::OkStatus();
}

// Checks that a checkpoint's lease or session and its folder are named.
absl::Status CheckCheckpoint(const CommandLine& line) {
  const bool saves = line.verb == Verb::kCheckpoint;
  if (!saves && line.verb != Verb::kRestore) return absl::OkStatus();
  const size_t words = saves ? 2 : 1;
  if (line.rest.size() > words) return Wrong("unexpected argument \"", line.rest[words], "\"");
  if (line.rest.size() == words && !line.rest[0].empty() && !line.rest.back().empty()) {
    return absl::OkStatus();
  }
  return Wrong(saves ? "name a lease or a session, and a folder" : "name a folder", "", "");
}

bool ActsOnSessions(Verb verb) {
  return verb == Verb::kReplace || verb == Verb::kPageOut || verb == Verb::kPageIn ||
         verb == Verb::kSuspend || verb == Verb::kResume || verb == Verb::kLimit ||
         verb == Verb::kRevoke;
}

absl::Status TakeAction(CommandLine* line) {
  const bool lists = line->verb == Verb::kServers || line->verb == Verb::kPolicy ||
                     line->verb == Verb::kSlice || line->verb == Verb::kProgram;
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
  const bool by_tenant = line->verb == Verb::kLease && line->Has("tenant");
  if (by_tenant && !line->rest.empty()) return Wrong("name either a lease or --tenant", "", "");
  if (found->named && line->rest.empty() && !by_tenant) {
    return Wrong("no ", WordsOf(line->verb).thing, " named");
  }
  if (found->files) {
    if (line->rest.size() < 2) return Wrong("expected a file behind \"", line->rest[0], "\"");
    return absl::OkStatus();
  }
  const size_t most = found->named ? 1 : 0;
  if (line->rest.size() > most) return Wrong("unexpected argument \"", line->rest[most], "\"");
  return absl::OkStatus();
}

}  // namespace

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
      line.rest = {verb->name};
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
  if (line.verb == Verb::kHold && line.Has("reader") && line.Has("share_token")) {
    return Wrong("warpline hold: give --reader or --share_token, not both", "", "");
  }
  if (auto status = CheckGang(line); !status.ok()) return status;
  const bool takes_session = ActsOnSessions(line.verb) && line.rest.size() == 1;
  const bool takes_command = line.verb == Verb::kHelp && line.rest.size() == 1;
  if (line.verb == Verb::kTenant || line.verb == Verb::kLease || line.verb == Verb::kServers ||
      line.verb == Verb::kPolicy || line.verb == Verb::kSlice || line.verb == Verb::kProgram ||
      line.verb == Verb::kServer) {
    if (auto status = TakeAction(&line); !status.ok()) return status;
  } else if (!takes_program && !takes_session && !takes_command && line.verb != Verb::kServe &&
             line.verb != Verb::kKeepLease && line.verb != Verb::kMigrate &&
             line.verb != Verb::kCheckpoint && line.verb != Verb::kRestore && !line.rest.empty()) {
    return Wrong("unexpected argument \"", line.rest[0], "\"");
  }
  if (auto status = CheckMigration(line); !status.ok()) return status;
  if (auto status = CheckCheckpoint(line); !status.ok()) return status;
  return line;
}

}  // namespace warpline::cli
