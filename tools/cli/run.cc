#include "tools/cli/run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/sibling_program.h"
#include "common/text.h"
#include "common/tier/keyed_lines.h"
#include "common/version.h"
#include "proto/guard.h"
#include "proto/tier.h"
#include "tools/cli/child.h"
#include "tools/cli/keep.h"
#include "tools/cli/lease.h"
#include "tools/cli/process_family.h"
#include "tools/cli/program_check.h"
#include "tools/cli/renewer.h"
#include "tools/cli/text.h"
#include "tools/cli/token_keeper.h"

namespace warpline::cli {
namespace {

// The processes that a command has started get so long to notice that it has ended. Workers of
// pools and the like do.
constexpr absl::Duration kTimeToEnd = absl::Seconds(1);
// How many of those that remain are named.
constexpr size_t kMostNamed = 5;

constexpr absl::string_view kLinkerTokens[] = {"ORIGIN", "LIB", "PLATFORM"};

int Complain(const std::string& text, int code) {
  return cli::Complain("warpline run", text, code);
}

int Complain(const absl::Status& status, int code) {
  return Complain(std::string(status.message()), code);
}

int CodeOf(const absl::Status& status) {
  return status.code() == absl::StatusCode::kNotFound ? 127 : 126;
}

// Where the dynamic linker splits LD_LIBRARY_PATH, or puts something else in.
absl::Status CheckLibraryPath(const std::string& folder) {
  const bool splits = folder.find_first_of(":;") != std::string::npos;
  const bool expands = std::any_of(
      std::begin(kLinkerTokens), std::end(kLinkerTokens), [&folder](absl::string_view token) {
        return absl::StrContains(folder, absl::StrCat("$", token)) ||
               absl::StrContains(folder, absl::StrCat("${", token, "}"));
      });
  if (!splits && !expands) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "Warpline lies in ", folder, ", and programs cannot find libcuda.so.1 there: the system ",
      splits ? "splits LD_LIBRARY_PATH at colons and semicolons"
             : "replaces $ORIGIN, $LIB and $PLATFORM in LD_LIBRARY_PATH",
      ". Move Warpline to a folder without them"));
}

// The folder ../lib of an installation. NOT_FOUND when our libcuda.so.1 is not there,
// FAILED_PRECONDITION when programs could not find it there.
absl::StatusOr<std::string> LibraryFolder() {
  const absl::StatusOr<std::string> own = OwnFolder();
  if (!own.ok()) return absl::NotFoundError(own.status().message());
  const std::string folder = *own + "/../lib";
  if (access((folder + "/libcuda.so.1").c_str(), R_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("libcuda.so.1 of Warpline is not in ", folder));
  }
  char* resolved = realpath(folder.c_str(), nullptr);
  const std::string result = resolved == nullptr ? folder : resolved;
  free(resolved);
  if (auto status = CheckLibraryPath(result); !status.ok()) return status;
  return result;
}

// Puts `path` before what the variable holds.
void Prepend(const char* variable, const std::string& path) {
  const char* const value = getenv(variable);
  const bool has_value = value != nullptr && *value != '\0';
  setenv(variable, absl::StrCat(path, has_value ? ":" : "", has_value ? value : "").c_str(), 1);
}

// Shows what is known of a wait for a lease when that changes, and ends with a signal.
class WaitShower {
 public:
  bool Pause(const warpline_internal::WaitingReply& known, absl::Duration pause) {
    std::string text = absl::StrCat("waiting for a lease, ");
    if (known.missing_members() != 0) {
      absl::StrAppend(&text, known.missing_members(), " of its gang have not asked yet");
    } else {
      absl::StrAppend(&text, "about number ", known.position(), " of ", known.waiting(), ": ",
                      Shown(known.reason()));
    }
    if (text != shown_) Complain(text, 0);
    shown_ = std::move(text);
    signal_ = WaitForEndSignal(pause);
    return signal_ == 0;
  }
  int signal() const { return signal_; }

 private:
  std::string shown_;
  int signal_ = 0;
};

// Sets the tenant's tier where nobody has named one.
void TellTier(uint32_t tier) {
  if (tier == static_cast<uint32_t>(TierChoice::kIsolated) || tier >= std::size(kTierChoices)) {
    return;
  }
  setenv("WARPLINE_TIER", std::string(kTierChoices[tier]).c_str(), 0);
}

// On the guarded tier, frameworks that compile their kernels themselves hand PTX over when these
// variables say so. The user's own values stay.
void TellFrameworks(const std::string& libraries) {
  const char* const tier = getenv("WARPLINE_TIER");
  if (tier == nullptr || tier != TierName(Tier::kGuarded)) return;
  // Libraries whose work the server does: NVIDIA's own would be refused there. Loaded first, they
  // are found by their names wherever a program's own search would lead.
  for (const char* const name : {"libcublasLt.so.13", "libcublas.so.13"}) {
    Prepend("LD_PRELOAD", absl::StrCat(libraries, "/guarded/", name));
  }
  // CuPy takes reductions from a library of machine code otherwise. It ignores that this library's
  // kernels are refused, and returns wrong results.
  setenv("CUPY_ACCELERATORS", "", 0);
  // It keeps machine code of runs without Warpline in its usual folder.
  if (const std::string cache = tier::CacheFolder(); !cache.empty()) {
    setenv("CUPY_CACHE_DIR", absl::StrCat(cache, "/cupy").c_str(), 0);
  }
  const absl::StatusOr<std::string> ptxas = FindSibling("warpline-ptxas", "");
  if (!ptxas.ok() || getenv("TRITON_PTXAS_PATH") != nullptr) return;
  setenv("TRITON_PTXAS_PATH", ptxas->c_str(), 1);
  // The guard knows no instructions that only Hopper has.
  setenv("TRITON_OVERRIDE_ARCH", "sm80", 0);
}

void TellDriverVersion(int version) {
  // The version is asked for before there is a connection. A newer driver can do all that clients
  // offer.
  if (version > 0) {
    setenv("WARPLINE_DRIVER_VERSION", absl::StrCat(std::min(version, kCudaVersion)).c_str(), 0);
  }
}

std::string NamesOf(const ProcessFamily& family) {
  const std::vector<FamilyMember>& members = family.members();
  std::string names;
  for (size_t i = 0; i < members.size() && i < kMostNamed; ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", Shown(members[i].name), " ", members[i].pid);
  }
  return members.size() > kMostNamed ? names + ", ..." : names;
}

constexpr char kUseHold[] =
    "to hold a lease for programs that outlive the command that starts them, use `warpline hold`";

// Says why the lease does not go on for the processes that a command has left; empty when it does.
std::string WhyItEnds(const ChildEnd& end, const Orphans& orphans) {
  if (getpid() == 1) {
    return "`warpline run` is the first process of its PID namespace, so the system ends them with "
           "it, and their lease ends";
  }
  if (end.told_to_end) return "it was told to end, so their lease ends, too";
  if (orphans.told_to_end) return "`warpline run` was told to end then, so their lease ends, too";
  return "";
}

// Ends what `warpline run` holds for a command that has ended and has left processes running: has
// the lease go on for these, or gives it back for the reason `why_it_ends`. Says what happens.
void LeaveBehind(const std::string& command, const std::string& endpoint,
                 const ProcessFamily& family, const std::string& why_it_ends, Lease* lease,
                 TokenKeeper* keeper, Renewer* renewer) {
  const std::string left =
      absl::StrCat(command, " has ended and left processes running (", NamesOf(family), "): ");
  if (!why_it_ends.empty()) {
    Complain(absl::StrCat(left, why_it_ends, "; ", kUseHold), 0);
    renewer->Release();
    return;
  }
  const std::string token = renewer->Stop();
  const auto process = StartKeeping(*lease, endpoint, token, family, keeper);
  if (process.ok()) {
    Complain(absl::StrCat(left, "process ", *process, " keeps their lease until they end (`kill ",
                          *process, "` gives it back before); ", kUseHold),
             0);
    return;
  }
  Complain(absl::StrCat(left, "their lease ends (", process.status().message(), "); ", kUseHold),
           0);
  (void)lease->Release(token);
}

// Runs the program under the lease, and then gives the lease back or leaves it to the processes
// that the program has left. Returns the exit code.
int RunUnder(Lease* lease, TokenKeeper* keeper, const std::string& program, const CommandLine& line,
             const std::string& endpoint, const sigset_t& mask) {
  // A shell that has executed `warpline run` in its place may have started them.
  const ProcessFamily others = ProcessFamily::Of(getpid());
  AdoptOrphans();
  Renewer renewer(lease, keeper, lease->granted().token(), Renewer::First::kAfterPause);
  const auto child = StartChild(program, line.rest, mask);
  if (!child.ok()) {
    renewer.Release();
    return Complain(child.status(), CodeOf(child.status()));
  }
  const ChildEnd end = WaitForChild(*child);
  Orphans orphans;
  if (!renewer.lost()) orphans = WaitForOrphans(kTimeToEnd, others);
  if (orphans.running.members().empty()) {
    renewer.Release();
  } else {
    LeaveBehind(line.rest[0], endpoint, orphans.running, WhyItEnds(end, orphans), lease, keeper,
                &renewer);
  }
  return end.code;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Lease>> AcquireFor(const CommandLine& line,
                                                  const std::string& endpoint,
                                                  const std::string& program,
                                                  const LeaseWait* wait) {
  const auto credential = TenantCredential();
  if (!credential.ok()) return credential.status();
  warpline_internal::AcquireRequest request;
  request.set_credential(*credential);
  request.set_memory_bytes(line.Size("memory"));
  request.set_device(line.Text("device"));
  request.set_devices(static_cast<uint32_t>(line.Number("gpus")));
  request.set_sessions(static_cast<uint32_t>(line.Number("sessions")));
  const char* const slice = getenv("WARPLINE_SLICE");
  request.set_slice(line.Has("slice") ? line.Text("slice") : slice == nullptr ? "" : slice);
  request.set_program(FitText(program.substr(program.rfind('/') + 1), 255));
  request.set_pid(static_cast<uint32_t>(getpid()));
  request.set_gang(line.Text("gang"));
  request.set_members(static_cast<uint32_t>(line.Number("members")));
  auto lease = wait != nullptr ? Lease::AcquireWaiting(endpoint, request, *wait)
                               : Lease::Acquire(endpoint, request);
  if (!lease.ok()) return lease;
  if (!request.slice().empty() && (*lease)->granted().slice() != request.slice()) {
    (void)(*lease)->Release((*lease)->granted().token());
    return absl::UnimplementedError(
        absl::StrCat("what answers at ", endpoint, " knows no slices: is it too old?"));
  }
  const std::string& granted = (*lease)->granted().device();
  const auto devices = static_cast<uint64_t>(std::count(granted.begin(), granted.end(), ',')) + 1;
  if (devices >= line.Number("gpus")) return lease;
  (void)(*lease)->Release((*lease)->granted().token());
  return absl::UnimplementedError(absl::StrCat(
      "what answers at ", endpoint, " gives out leases of ", devices, " GPU: is it too old?"));
}

int Run(const CommandLine& line, const std::string& endpoint) {
  const auto libraries = LibraryFolder();
  if (!libraries.ok()) return Complain(libraries.status(), 1);
  const auto program = FindProgram(line.rest[0]);
  if (!program.ok()) return Complain(program.status(), CodeOf(program.status()));
  const std::string wrong = WhatIsWrongWith(*program);
  if (!wrong.empty()) Complain(absl::StrCat("warning: ", wrong), 0);

  if (line.Has("guard") && line.Has("check")) {
    return Complain("--check is --guard=report: give one of them", 2);
  }
  const bool guards = line.Has("guard") || line.Has("check");
  if (guards) {
    const std::string mode = line.Has("check") ? "report" : line.Text("guard");
    if (!ParseGuardMode(mode).has_value()) {
      return Complain(absl::StrCat("--guard=", mode, ": expected one of ", GuardModeChoices()), 2);
    }
    setenv("WARPLINE_GUARD", mode.c_str(), 1);
  }
  const bool has_tier = line.Has("tier");
  if (has_tier) {
    const std::string& tier = line.Text("tier");
    if (guards && tier == TierName(Tier::kGuarded)) {
      return Complain("--guard and --check are for sessions of the isolated tier", 2);
    }
    setenv("WARPLINE_TIER", tier.c_str(), 1);
  }
  const sigset_t mask = BlockForwardedSignals();
  Prepend("LD_LIBRARY_PATH", *libraries);
  // When another `warpline run` around this one has a lease already, this program is part of it.
  const bool inherits = line.endpoint.empty() && HasLeaseFor(endpoint) &&
                        line.options.size() == (guards ? 1u : 0u) + (has_tier ? 1u : 0u);
  if (inherits) {
    TellFrameworks(*libraries);
    const auto child = StartChild(*program, line.rest, mask);
    return child.ok() ? WaitForChild(*child).code
                      : Complain(child.status(), CodeOf(child.status()));
  }
  WaitShower shower;
  LeaseWait wait;
  wait.at_most = line.Duration("wait", absl::InfiniteDuration());
  wait.pause = [&shower](const auto& known, absl::Duration pause) {
    return shower.Pause(known, pause);
  };
  auto lease = AcquireFor(line, endpoint, line.rest[0], line.Has("wait") ? &wait : nullptr);
  if (shower.signal() != 0) return 128 + shower.signal();
  if (!lease.ok()) return Complain(lease.status(), 1);
  auto keeper = TokenKeeper::Create((*lease)->endpoint(), (*lease)->granted().token());
  if (!keeper.ok()) {
    (void)(*lease)->Release((*lease)->granted().token());
    return Complain(keeper.status(), 1);
  }
  setenv("WARPLINE_ENDPOINT", (*lease)->endpoint().c_str(), 1);
  (*keeper)->Export();
  TellDriverVersion((*lease)->granted().driver_version());
  if (!guards) TellTier((*lease)->granted().tier());
  TellFrameworks(*libraries);
  // The program needs its lease, but not the means to get others.
  unsetenv("WARPLINE_CREDENTIAL");
  unsetenv("WARPLINE_CREDENTIAL_FILE");
  return RunUnder(lease->get(), keeper->get(), *program, line, endpoint, mask);
}

}  // namespace warpline::cli
