// warpline-server: owns a host's devices and runs the CUDA calls that clients forward to it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/log/log.h"
#include "common/mutex.h"
#include "common/serving/server_process.h"
#include "server/gpu_server/flags.h"
#include "server/gpu_server/gpu_server.h"
#include "server/gpu_server/server_options.h"
#include "server/gpu_server/upgrade/parent_link.h"
#include "server/gpu_server/upgrade/server_parent.h"
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

// Says what is wrong, to the parent as well, and returns the exit code.
int ComplainTo(ParentLink* parent, const absl::Status& status) {
  if (parent != nullptr) parent->Fail(status);
  return Complain(status);
}

// The flags are right; what else can be known of them without starting anything.
int CheckConfig(const ServerOptions& options, ParentLink* parent) {
  if (!options.listen.tls.empty()) {
    const auto tls = TlsSource(TlsSource::Side::kServer, options.listen.tls).Current();
    if (!tls.ok()) return ComplainTo(parent, tls.status());
  }
  std::puts("ok");
  if (parent != nullptr) parent->ReadyInCheck();
  return 0;
}

int RunParent() {
  ServerParentOptions options;
  std::ifstream file("/proc/self/cmdline");
  for (std::string word; std::getline(file, word, '\0');) options.args.push_back(word);
  std::error_code error;
  // A link that leads to another version by the next upgrade is followed then.
  if (!options.args.empty() && options.args[0].find('/') != std::string::npos) {
    options.program = std::filesystem::absolute(options.args[0], error);
  } else {
    options.program = std::filesystem::read_symlink("/proc/self/exe", error);
  }
  if (error || options.args.empty()) {
    return Complain(absl::InternalError("the system does not say where this program is"));
  }
  options.args.erase(options.args.begin());
  RaiseDescriptorLimit();
  SetLogName("server-parent");
  return ServerParent(std::move(options)).Run();
}

// The orders that the process's first thread waits for.
class Orders {
 public:
  enum class Kind { kEnd, kPassOn };

  void Give(Kind kind, bool force = false) {
    MutexLock lock(&mu_);
    orders_.emplace_back(kind, force);
    changed_.NotifyAll();
  }
  std::pair<Kind, bool> Await() {
    MutexLock lock(&mu_);
    while (orders_.empty()) changed_.Wait(&mu_);
    const auto order = orders_.front();
    orders_.pop_front();
    return order;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::deque<std::pair<Kind, bool>> orders_ ABSL_GUARDED_BY(mu_);
};

int Run() {
  const std::unique_ptr<ParentLink> parent = ParentLink::OfThisProcess();
  auto options = ServerOptionsFromFlags();
  if (!options.ok()) return ComplainTo(parent.get(), options.status());
  if (OnlyChecksConfig()) return CheckConfig(*options, parent.get());
  if (parent == nullptr && options->device.upgrades) return RunParent();
  if (getenv("CUDA_VISIBLE_DEVICES") != nullptr) {
    LogWarning("CUDA_VISIBLE_DEVICES is set and has no effect: clients choose devices");
  }
  GoFirst();
  const EndSignals signals;
  // It outlives the threads that give orders.
  Orders* const orders = new Orders;
  if (parent != nullptr) {
    const absl::Status joined =
        parent->Join([orders](const warpline_internal::UpgradeOrder& order) {
          orders->Give(Orders::Kind::kPassOn, order.force());
        });
    if (!joined.ok()) return Complain(joined);
  }
  auto server = GpuServer::Create(*std::move(options), parent.get());
  absl::Status started = server.status();
  if (server.ok()) started = (*server)->Start();
  if (!started.ok()) {
    ComplainTo(parent.get(), started);
    // Another server goes on with what was passed on to this one.
    if (parent != nullptr) _exit(2);
    return 2;
  }
  std::thread([signals, orders] {
    signals.Wait();
    orders->Give(Orders::Kind::kEnd);
    signals.Wait();
    LogWarning("second signal: exiting at once");
    // Workers and keepers go with the process.
    _exit(1);
  }).detach();
  while (true) {
    const auto [kind, force] = orders->Await();
    if (kind == Orders::Kind::kEnd) {
      (*server)->Drain();
      break;
    }
    if (const absl::Status passed = (*server)->PassOn(force); passed.ok()) break;
  }
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
