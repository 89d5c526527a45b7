// The hostile sessions of the suite "share": each keeps its worker as busy as a client can, in one
// of several ways, until the process is ended. One that the server ends is opened again.
//
//   share_flood --endpoint=HOST:PORT --sessions=N
//
// Prints "flooding N" once so many sessions are open and at work.
#include <stdio.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/frames.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"

ABSL_FLAG(std::string, endpoint, "", "HOST:PORT of the server.");
ABSL_FLAG(int, sessions, 64, "How many sessions flood.");

namespace warpline::attack {
namespace {

// A kernel that takes long, and code to load.
constexpr char kCode[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry spin(.param .u32 turns) {\n"
    "  .reg .pred %p;\n  .reg .b32 %r<4>;\n"
    "  ld.param.u32 %r1, [turns];\n  mov.u32 %r2, 0;\n"
    "again:\n  add.u32 %r2, %r2, 1;\n  setp.lt.u32 %p, %r2, %r1;\n  @%p bra again;\n"
    "  ret;\n}\n";
constexpr uint64_t kModule = 1;
constexpr uint64_t kKernel = 2;
constexpr uint64_t kEvent = 3;
constexpr uint64_t kFirstStream = 100;
constexpr uint32_t kNonBlocking = 1;

// Sends what was added and waits until the worker has done it, however long that takes.
bool Finish(WireSession* session) {
  const uint64_t seq = session->Add(cmd::ContextSync{});
  session->Submit();
  while (true) {
    const auto done = session->Await(seq);
    if (done.ok()) return true;
    if (!absl::IsDeadlineExceeded(done.status())) {
      fprintf(stderr, "share_flood: %s\n", done.status().ToString().c_str());
      return false;
    }
  }
}

void OpenStreams(WireSession* session, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    session->Add(cmd::StreamCreate{kFirstStream + i, kNonBlocking, 0});
  }
}

// Long kernels of many blocks, on several streams at once.
bool LongKernels(WireSession* session, uint64_t) {
  constexpr uint64_t kStreams = 16;
  OpenStreams(session, kStreams);
  const uint32_t turns = 1 << 20;
  const std::string tail(reinterpret_cast<const char*>(&turns), sizeof(turns));
  while (true) {
    for (uint64_t i = 0; i < kStreams; ++i) {
      session->Add(cmd::Launch{kFirstStream + i, kKernel, 64, 1, 1, 32, 1, 1, 0, 0}, tail);
    }
    if (!Finish(session)) return false;
  }
}

// Many streams that are woken all the time.
bool Wakeups(WireSession* session, uint64_t) {
  constexpr uint64_t kStreams = 200;
  OpenStreams(session, kStreams);
  session->Add(cmd::EventCreate{kEvent, 0});
  const uint32_t turns = 1;
  const std::string tail(reinterpret_cast<const char*>(&turns), sizeof(turns));
  while (true) {
    for (int round = 0; round < 16; ++round) {
      for (uint64_t i = 0; i < kStreams; ++i) {
        session->Add(cmd::Launch{kFirstStream + i, kKernel, 1, 1, 1, 1, 1, 1, 0, 0}, tail);
        session->Add(cmd::EventRecord{kEvent, kFirstStream + i});
      }
    }
    if (!Finish(session)) return false;
  }
}

bool Copies(WireSession* session, uint64_t) {
  const std::string piece(256 << 10, 'x');
  const uint64_t half = session->own_bytes() / 2;
  while (true) {
    for (int i = 0; i < 3; ++i) session->Add(cmd::CopyToDevice{kLegacyStreamHandle, kOwn}, piece);
    for (int i = 0; i < 64; ++i) {
      session->Add(cmd::CopyOnDevice{kLegacyStreamHandle, kOwn, kOwn + half, half});
      session->Add(cmd::Memset{kLegacyStreamHandle, kOwn, half / 4, 7, 4});
    }
    if (!Finish(session)) return false;
  }
}

// Modules that differ each time, so that nothing of them is known.
bool Modules(WireSession* session, uint64_t number) {
  for (uint64_t round = 0;; ++round) {
    std::string code = kCode;
    for (int i = 0; i < 400; ++i) {
      absl::StrAppend(&code, ".visible .entry k", number, "_", round, "_", i,
                      "() {\n  .reg .b32 %r<2>;\n  mov.u32 %r1, ", i, ";\n  ret;\n}\n");
    }
    for (uint64_t i = 0; i < 8; ++i) {
      session->Add(cmd::ImageData{1000, code.size(), 0}, code);
      session->Add(cmd::ModuleLoad{1001, 1000});
      session->Add(cmd::ModuleUnload{1001});
      if (!Finish(session)) return false;
    }
  }
}

// Requests for memory and its return, which are the server's own work.
bool Requests(WireSession* session, uint64_t) {
  while (true) {
    for (uint64_t id = 10; id < 42; ++id) {
      const uint64_t va = kArena + (1024 + id * 2) * kMiB;
      session->client()->Send(kMemoryRequest, Request(id, va, 2 * kMiB).SerializeAsString());
      warpline_internal::MemoryReturn give_back;
      give_back.set_va(va);
      give_back.set_bytes(2 * kMiB);
      session->client()->Send(kMemoryReturn, give_back.SerializeAsString());
    }
    for (int i = 0; i < 256; ++i) session->Add(cmd::ContextSync{});
    if (!Finish(session)) return false;
  }
}

// What costs the clients little keeps the workers busiest.
constexpr bool (*kFloods[])(WireSession*, uint64_t) = {
    &LongKernels, &Wakeups, &Copies, &LongKernels, &Modules, &LongKernels, &Wakeups, &Requests};

// Null, with a line that says why, when the server does not take it.
std::unique_ptr<WireSession> OpenOne(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) {
    fprintf(stderr, "share_flood: no session: %s\n", session.status().ToString().c_str());
    return nullptr;
  }
  const auto loaded = (*session)->Load(kModule, std::string(kCode));
  const auto found = (*session)->Call(cmd::KernelFind{kKernel, kModule}, "spin");
  if (loaded.ok() && *loaded == 0 && found.ok() && *found == 0) return *std::move(session);
  fprintf(stderr, "share_flood: a session does not take the kernel\n");
  return nullptr;
}

// A session that the server ends is followed by another, so that there are always as many.
[[noreturn]] void Flood(const WireTarget& target, std::unique_ptr<WireSession> session,
                        uint64_t number) {
  while (true) {
    if (session != nullptr) kFloods[number % std::size(kFloods)](session.get(), number);
    session.reset();
    absl::SleepFor(absl::Milliseconds(100));
    session = OpenOne(target);
  }
}

int Main() {
  WireTarget target;
  target.endpoint = absl::GetFlag(FLAGS_endpoint);
  const auto count = static_cast<uint64_t>(absl::GetFlag(FLAGS_sessions));
  std::vector<std::unique_ptr<WireSession>> sessions;
  for (uint64_t i = 0; i < count; ++i) {
    sessions.push_back(OpenOne(target));
    if (sessions.back() == nullptr) return 1;
  }
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < count; ++i) {
    threads.emplace_back([&target, session = std::move(sessions[i]), i]() mutable {
      Flood(target, std::move(session), i);
    });
  }
  printf("flooding %d\n", static_cast<int>(count));
  fflush(stdout);
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace
}  // namespace warpline::attack

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::attack::Main();
}
