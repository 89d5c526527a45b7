// warpline-server: owns a host's devices and runs the CUDA calls that clients forward to it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "common/log/log.h"
#include "common/serving/server_process.h"
#include "server/gpu_server/flags.h"
#include "server/gpu_server/gpu_server.h"
#include "server/gpu_server/server_options.h"
#include "server/hostlink/process/priority.h"
#include "transport/grpc/tls/grpc_tls.h"

namespace warpline::server {
namespace {

constexpr char kUsage[] = R"(runs the CUDA calls of remote programs on this host's GPUs.

  warpline-server [--listen=127.0.0.1:14000] [--device=auto] [flags]

Programs reach it with WARPLINE_ENDPOINT=127.0.0.1:14000 and Warpline's libcuda.so.1 in their
library path; `warpline run -- PROGRAM` sets both. The binaries warpline-supervisor,
warpline-worker, warpline-keeper, warpline-relay, warpline-compiler and warpline-mps lie beside this one.

Configuration file: --flagfile=PATH reads flags from a file, one a line ("--max_sessions=16"; lines
that start with # are comments). --undefok and --fromenv work as in other Abseil programs.
With --check_config as well nothing is started: "ok", or the first thing that is wrong, is printed.

Signals: the first SIGTERM or SIGINT drains (health says NOT_SERVING, new sessions are refused,
running ones may still be resumed and have --drain_seconds to end) and exits with 0; the second exits at once.)";

// The flags are right; what else can be known of them without starting anything.
int CheckConfig(const ServerOptions& options) {
  if (!options.listen.tls.empty()) {
    const auto tls = TlsSource(TlsSource::Side::kServer, options.listen.tls).Current();
    if (!tls.ok()) return Complain(tls.status());
  }
  std::puts("ok");
  return 0;
}

int Run() {
  auto options = ServerOptionsFromFlags();
  if (!options.ok()) return Complain(options.status());
  if (OnlyChecksConfig()) return CheckConfig(*options);
  if (getenv("CUDA_VISIBLE_DEVICES") != nullptr) {
    LogWarning("CUDA_VISIBLE_DEVICES is set and has no effect: clients choose devices");
  }
  GoFirst();
  const EndSignals signals;
  auto server = GpuServer::Create(*std::move(options));
  if (!server.ok()) return Complain(server.status());
  if (const absl::Status started = (*server)->Start(); !started.ok()) return Complain(started);
  signals.Wait();
  std::thread([signals] {
    signals.Wait();
    LogWarning("second signal: exiting at once");
    // Workers and keepers go with the process.
    _exit(1);
  }).detach();
  (*server)->Drain();
  LogInfo("stopped");
  return 0;
}

}  // namespace
}  // namespace warpline::server

int main(int argc, char** argv) {
  const warpline::ServerProgram program = {"warpline-server", "server", warpline::server::kUsage,
                                           "server/gpu_server/flags.cc"};
  return warpline::RunServerProgram(program, argc, argv, &warpline::server::Run);
}
