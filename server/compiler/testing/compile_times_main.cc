// How long it takes to guard and compile PTX files in this process, through the three stages, and
// when the compiler has kept the result.
//
//   compile_times_main a.ptx b.ptx ...
//
// Without libnvJitLink it guards only.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/packets/packet_socket.h"
#include "guard/guard.h"
#include "server/compiler/broker.h"
#include "server/compiler/client/compiler_client.h"
#include "server/compiler/jit_link.h"
#include "server/compiler/stages.h"

namespace warpline::compiler {
namespace {

constexpr int kSm = 90;

double Ms(absl::Time since) { return absl::ToDoubleMilliseconds(absl::Now() - since); }

void Measure(const char* path, const JitLink* jit, CompilerClient* client) {
  std::ifstream file(path);
  const std::string ptx{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const guard::RewriteOptions options = {.arena_bits = 36};
  absl::Time start = absl::Now();
  const auto guarded = guard::Guard(ptx, options);
  if (!guarded.ok())
    return (void)std::printf("%s: %s\n", path, guarded.status().ToString().c_str());
  const double guard_ms = Ms(start);
  start = absl::Now();
  size_t code_bytes = 0;
  if (jit != nullptr) code_bytes = jit->Compile(guarded->text, kSm).value_or("").size();
  const double compile_ms = Ms(start);
  start = absl::Now();
  const bool accepted = client->Compile(ptx, options, kSm, Output::kText).ok();
  const double text_ms = Ms(start);
  const Output output = jit == nullptr ? Output::kText : Output::kCubin;
  start = absl::Now();
  const auto first = client->Compile(ptx, options, kSm, output);
  const double first_ms = Ms(start);
  if (!first.ok()) return (void)std::printf("%s: %s\n", path, first.status().ToString().c_str());
  start = absl::Now();
  const auto again = client->Compile(ptx, options, kSm, output);
  const double cached_ms = Ms(start);
  std::printf(
      "%s: ptx_bytes=%zu code_bytes=%zu guard_ms=%.2f compile_ms=%.2f two_stages_ms=%.2f "
      "three_stages_ms=%.2f "
      "cached_ms=%.3f cached=%d\n",
      path, ptx.size(), code_bytes, guard_ms, compile_ms, accepted ? text_ms : -1, first_ms,
      cached_ms, again.ok() && again->cached());
}

}  // namespace
}  // namespace warpline::compiler

int main(int argc, char** argv) {
  using namespace warpline::compiler;
  const auto jit = JitLink::Load("");
  auto pair = warpline::PacketSocketPair();
  auto control = warpline::PacketSocketPair();
  const pid_t broker_pid = fork();
  if (broker_pid == 0) {
    pair->first.Reset(-1);
    control->first.Reset(-1);
    BrokerOptions options;
    options.stages = RealStages(jit.ok() ? &*jit : nullptr);
    Broker broker(std::move(options));
    broker.AddClient(std::move(pair->second));
    broker.Run(control->second.get(), [] { return false; });
    _exit(0);
  }
  pair->second.Reset(-1);
  control->second.Reset(-1);
  CompilerClient client(std::move(pair->first));
  for (int i = 1; i < argc; ++i) Measure(argv[i], jit.ok() ? &*jit : nullptr, &client);
  control->first.Reset(-1);
  waitpid(broker_pid, nullptr, 0);
  return 0;
}
