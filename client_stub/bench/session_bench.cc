// What a session and its allocator cost the application's threads.
//   session_bench [seconds per line] [grpc]
// Without `grpc` the server lives in the session's own loop; with it, behind gRPC in this process.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client_stub/arena/allocator.h"
#include "client_stub/session/opening/session_impl.h"
#include "client_stub/session/testing/fake_acceptor.h"
#include "client_stub/session/testing/fake_server.h"
#include "transport/grpc/grpc_server.h"

namespace warpline::stub {
namespace {

using Clock = std::chrono::steady_clock;

double g_seconds = 0.5;

// Prints the mean and the best of batches of `batch` calls.
template <typename Body>
void Line(const char* name, int batch, const Body& body) {
  double best = 1e9;
  double total = 0;
  uint64_t calls = 0;
  while (total < g_seconds) {
    const auto start = Clock::now();
    for (int i = 0; i < batch; ++i) body();
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, elapsed / batch);
    total += elapsed;
    calls += batch;
  }
  std::printf("%-52s %9.1f ns mean %9.1f ns best\n", name, total / calls * 1e9, best * 1e9);
}

void Run(Session& session) {
  const std::string params(64, 'p');
  const cmd::Launch launch = {.stream = 1, .kernel = 2};
  const auto send = [&] { session.commands().Send(launch, params); };
  Line("launch, bursts of 1000 with a synchronize between", 1, [&] {
    for (int i = 0; i < 1000; ++i) send();
    session.commands().Call(WaitKind::kSynchronize, cmd::ContextSync{});
  });
  // The appends alone: the window is empty before each burst and larger than it.
  double append = 0;
  for (int burst = 0; burst < 200; ++burst) {
    session.commands().Call(WaitKind::kSynchronize, cmd::ContextSync{});
    const auto start = Clock::now();
    for (int i = 0; i < 1000; ++i) send();
    append += std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::printf("%-52s %9.1f ns mean\n", "launch, the append alone", append / 200000 * 1e9);
  Line("launch, as fast as the window lets", 1000, send);
  Line("round trip", 100,
       [&] { session.commands().Call(WaitKind::kRoundTrip, cmd::ContextSync{}); });
  const std::string large(256 << 10, 'd');
  Line("copy in of 64 MiB, in pieces of 256 KiB, synchronized", 1, [&] {
    for (int i = 0; i < 256; ++i) session.commands().Send(cmd::CopyToDevice{}, large);
    session.commands().Call(WaitKind::kSynchronize, cmd::ContextSync{});
  });
  std::vector<char> data(64 << 10);
  Line("copy out of 64 KiB", 10, [&] {
    session.commands().CopyOut(1, data.data(), session.terms().arena_base, data.size(), true,
                               nullptr);
  });
  const uint64_t seq = session.commands().last_seq();
  Line("Retired, by the session", 1000, [&] { session.commands().Retired(1, seq); });
  Line("Retired, by the stream", 1000, [&] { session.commands().Retired(1, seq + 100); });

  Allocator allocator(&session);
  uint64_t address = 0;
  Line("Allocate and Free, 64 KiB, idle session", 1000, [&] {
    allocator.Allocate(64 << 10, &address);
    allocator.Free(address);
  });
  Line("Allocate, launch and Free, 64 KiB", 1000, [&] {
    allocator.Allocate(64 << 10, &address);
    send();
    allocator.Free(address);
  });
  Line("AllocateAsync and FreeAsync, 64 KiB", 1000, [&] {
    allocator.AllocateAsync(64 << 10, 1, &address);
    allocator.FreeAsync(address, 1);
  });
  std::vector<uint64_t> addresses(10000);
  Line("Allocate x 10000 then Free x 10000, mixed", 1, [&] {
    for (size_t i = 0; i < addresses.size(); ++i) {
      allocator.Allocate(512 * (1 + i * 7919 % 400), &addresses[i]);
    }
    for (const uint64_t at : addresses) allocator.Free(at);
  });
  for (size_t i = 0; i < addresses.size(); ++i) allocator.Allocate(4096, &addresses[i]);
  Allocation allocation;
  size_t next = 0;
  Line("Find among 10000", 1000, [&] {
    next = (next + 7919) % addresses.size();
    allocator.Find(addresses[next] + 100, &allocation);
  });
  std::fputs(session.counters().ToText().c_str(), stdout);
}

int Main(bool over_grpc) {
  FakeServer server;
  server.record_commands = false;
  FakeAcceptor acceptor(&server);
  GrpcServer grpc{GrpcServerOptions()};
  absl::StatusOr<std::unique_ptr<Session>> session;
  if (over_grpc) {
    const std::string address = absl::StrCat("unix:/tmp/session_bench.", getpid());
    if (const absl::Status status = grpc.Start({address}, &acceptor); !status.ok()) {
      std::printf("%s\n", status.ToString().c_str());
      return 1;
    }
    SessionOptions options;
    options.endpoint = address;
    session = Session::Open(options);
  } else {
    session = OpenSession({}, server.MakeDialer());
  }
  if (!session.ok()) {
    std::printf("%s\n", session.status().ToString().c_str());
    return 1;
  }
  Run(**session);
  session->reset();
  grpc.Shutdown(absl::ZeroDuration());
  return 0;
}

}  // namespace
}  // namespace warpline::stub

int main(int argc, char** argv) {
  if (argc > 1) warpline::stub::g_seconds = std::atof(argv[1]);
  return warpline::stub::Main(argc > 2 && std::string(argv[2]) == "grpc");
}
