#include "tools/cli/run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/sibling_program.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "common/version.h"
#include "proto/guard.h"
#include "proto/tier.h"
#include "tools/cli/child.h"
#include "tools/cli/lease.h"
#include "tools/cli/program_check.h"
#include "tools/cli/token_file.h"

namespace warpline::cli {
namespace {

constexpr absl::Duration kRetry = absl::Seconds(2);

int Complain(const std::string& text, int code) {
  std::fprintf(stderr, "warpline run: %s\n", text.c_str());
  return code;
}

int Complain(const absl::Status& status, int code) {
  return Complain(std::string(status.message()), code);
}

int CodeOf(const absl::Status& status) {
  return status.code() == absl::StatusCode::kNotFound ? 127 : 126;
}

// The folder ../lib of an installation. NOT_FOUND when our libcuda.so.1 is not there.
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
  return result;
}

void PrependLibraryPath(const std::string& folder) {
  const char* path = getenv("LD_LIBRARY_PATH");
  const bool has_path = path != nullptr && *path != '\0';
  setenv("LD_LIBRARY_PATH", absl::StrCat(folder, has_path ? ":" : "", has_path ? path : "").c_str(),
         1);
}

// Keeps the token in the file fresh until it is destroyed.
class Renewer {
 public:
  Renewer(Lease* lease, TokenFile* file)
      : lease_(lease),
        file_(file),
        pause_(absl::Milliseconds(std::max<uint32_t>(lease->granted().renew_ms(), 100))),
        token_(lease->granted().token()) {
    thread_ = std::thread([this] { Run(); });
  }

  // Ends renewing and gives the lease back.
  void Release() {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
      stop_.NotifyAll();
    }
    thread_.join();
    // When the scheduler does not answer, the lease expires by itself.
    (void)lease_->Release(token_);
  }

 private:
  bool SleepFor(absl::Duration pause) {
    const absl::Time until = SteadyNow() + pause;
    MutexLock lock(&mu_);
    while (!stopping_ && SteadyNow() < until) {
      stop_.WaitWithTimeout(&mu_, std::max(until - SteadyNow(), absl::Milliseconds(1)));
    }
    return !stopping_;
  }

  void Run() {
    absl::Duration pause = pause_;
    while (SleepFor(pause)) {
      auto token = lease_->Renew(token_);
      if (!token.ok()) {
        pause = std::min(pause_, kRetry);
        const auto code = token.status().code();
        const bool over =
            code == absl::StatusCode::kNotFound || code == absl::StatusCode::kFailedPrecondition;
        if (over || !in_trouble_) {
          Complain(over
                       ? absl::StrCat("the lease is lost: ", token.status().message())
                       : absl::StrCat("the lease cannot be renewed now (", token.status().message(),
                                      "): what runs goes on, and it is tried again"),
                   0);
        }
        in_trouble_ = true;
        if (over) return;
        continue;
      }
      pause = pause_;
      in_trouble_ = false;
      token_ = *std::move(token);
      if (auto status = file_->Replace(token_); !status.ok()) Complain(status, 0);
    }
  }

  Lease* const lease_;
  TokenFile* const file_;
  const absl::Duration pause_;
  // Belongs to the thread; after the thread was joined, to the thread that joined it.
  std::string token_;
  bool in_trouble_ = false;
  Mutex mu_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// Sets the tenant's tier where nobody has named one.
void TellTier(uint32_t tier) {
  if (tier == static_cast<uint32_t>(TierChoice::kIsolated) || tier >= std::size(kTierChoices)) {
    return;
  }
  setenv("WARPLINE_TIER", std::string(kTierChoices[tier]).c_str(), 0);
}

void TellDriverVersion(int version) {
  // The version is asked for before there is a connection. A newer driver can do all that clients
  // offer.
  if (version > 0) {
    setenv("WARPLINE_DRIVER_VERSION", absl::StrCat(std::min(version, kCudaVersion)).c_str(), 0);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Lease>> AcquireFor(const CommandLine& line,
                                                  const std::string& endpoint,
                                                  const std::string& program) {
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
  auto lease = Lease::Acquire(endpoint, request);
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
      return Complain(absl::StrCat("--guard=", mode,
                                   ": expected off, fence, clamped, stoppable, hardened or report"),
                      2);
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
  PrependLibraryPath(*libraries);
  // When another `warpline run` around this one has a lease already, this program is part of it.
  const bool inherits = getenv("WARPLINE_TOKEN_FILE") != nullptr && line.endpoint.empty() &&
                        line.options.size() == (guards ? 1u : 0u) + (has_tier ? 1u : 0u);
  if (inherits) {
    const auto child = StartChild(*program, line.rest, mask);
    return child.ok() ? WaitForChild(*child) : Complain(child.status(), CodeOf(child.status()));
  }
  auto lease = AcquireFor(line, endpoint, line.rest[0]);
  if (!lease.ok()) return Complain(lease.status(), 1);
  auto file = TokenFile::Create((*lease)->granted().token());
  if (!file.ok()) {
    (void)(*lease)->Release((*lease)->granted().token());
    return Complain(file.status(), 1);
  }
  setenv("WARPLINE_ENDPOINT", (*lease)->endpoint().c_str(), 1);
  setenv("WARPLINE_TOKEN_FILE", (*file)->path().c_str(), 1);
  TellDriverVersion((*lease)->granted().driver_version());
  if (!guards) TellTier((*lease)->granted().tier());
  // The program needs its lease, but not the means to get others.
  unsetenv("WARPLINE_CREDENTIAL");
  unsetenv("WARPLINE_CREDENTIAL_FILE");
  Renewer renewer(lease->get(), file->get());
  const auto child = StartChild(*program, line.rest, mask);
  const int code =
      child.ok() ? WaitForChild(*child) : Complain(child.status(), CodeOf(child.status()));
  renewer.Release();
  return code;
}

}  // namespace warpline::cli
