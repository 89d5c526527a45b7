#include "transport/grpc/base/grpc_process.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/crypto/openssl.h"
#include "common/log/log_budget.h"
#include "transport/loop_thread.h"

namespace warpline::grpc_internal {
namespace {

std::atomic<bool> g_serves{false};

// A peer can make gRPC complain as often as it likes, by handshakes that fail for example.
constexpr LogKind kLines[] = {{"grpc", 20, absl::Minutes(1)}};

// gRPC's threads may complain until the process is gone.
LogBudget& Log() {
  static LogBudget* const log = new LogBudget(kLines);
  return *log;
}

void ForwardLine(gpr_log_func_args* args) {
  if (args->severity < GPR_LOG_SEVERITY_ERROR) return;
  // A client gets its own words for it from tls_probe.h.
  if (!g_serves.load(std::memory_order_relaxed) &&
      absl::StartsWith(args->message, "Handshake failed")) {
    return;
  }
  if (const LogPermit permit = Log().Ask(0)) permit.Warning("grpc: ", args->message);
}

}  // namespace

void StartGrpc(bool poll_per_queue) {
  if (poll_per_queue) g_serves.store(true, std::memory_order_relaxed);
  static std::once_flag once;
  std::call_once(once, [poll_per_queue] {
    if (poll_per_queue && !grpc_is_initialized()) {
      setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/1);
    }
    // Debian builds Abseil with its deadlock detector, which gRPC's every lock would pay for.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    UseOpenSsl();
    ScopedSignalBlock block;
    gpr_set_log_function(&ForwardLine);
    grpc_init();
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
    // Not again in the children of a fork.
    static const pid_t process = getpid();
    std::atexit([] {
      if (getpid() == process) Log().Finish();
    });
  });
}

}  // namespace warpline::grpc_internal
