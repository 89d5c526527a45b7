// Random sessions of one lease whose clients do all they can to have more than their slice is: they
// lie about sizes, take until they are refused, send without waiting, come back, vanish in the
// middle. Under `warpline run --slice=NAME`, which gives them the lease:
//
//   limit_storm --sessions=N [--threads=T] [--seed=S] [--memory=BYTES] [--handles=N]
//               [--module_bytes=BYTES] [--commands=N] [--lease_sessions=N]
//
// N sessions are opened, however often a thread is refused one because others have all that there
// is. Each of the threads has one at a time, of either tier. The limits are those of the slice,
// of which those that are given are watched. Prints every session that got more than that, and at
// last "limit_storm: N sessions, O opened, R refused, V violations"; exits with 1 where V is not 0.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/cuda/cuda_numbers.h"
#include "common/mutex.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "proto/wire.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "tests/hostile/commands.h"

ABSL_FLAG(int, sessions, 100, "How many sessions.");
ABSL_FLAG(int, threads, 8, "How many at a time.");
ABSL_FLAG(uint64_t, seed, 1, "Of what they do.");
ABSL_FLAG(uint64_t, memory, 0, "The slice's bytes of device memory; 0 for not watched.");
ABSL_FLAG(uint64_t, handles, 0, "A session's handles.");
ABSL_FLAG(uint64_t, module_bytes, 0, "A session's bytes of module images.");
ABSL_FLAG(uint64_t, commands, 0, "A session's commands in flight.");
ABSL_FLAG(int, lease_sessions, 0, "The lease's sessions.");

namespace warpline::attack {
namespace {

using hostile::Random;
using hostile::RawClient;
using warpline_internal::MemoryGrant;
using warpline_internal::MemoryRequest;

constexpr uint64_t kStream = 100;
constexpr uint32_t kNonBlocking = 1;

// What all sessions of the process have together, as far as they know.
class Sum {
 public:
  // Returns the sum with `bytes` more.
  uint64_t Add(uint64_t bytes) {
    MutexLock lock(&mu_);
    return held_ += bytes;
  }
  void Take(uint64_t bytes) {
    MutexLock lock(&mu_);
    held_ -= bytes;
  }

 private:
  Mutex mu_;
  uint64_t held_ ABSL_GUARDED_BY(mu_) = 0;
};

Sum g_sessions;

uint64_t Upto(Random& random, uint64_t most) { return random() % most + 1; }

// The arena of thread `number`, in which its sessions' addresses are.
uint64_t ArenaOf(int number) { return kArena + static_cast<uint64_t>(number) * kArenaBytes; }

struct Storm {
  WireTarget target;
  uint64_t arena = 0;
  Random random;
};

// Each of these returns what its session got too much of; nothing when all is well, whether or not
// the session lives on.

// Asks for memory of all sizes, possible ones and others, until it is refused several times.
std::string Hoard(Storm& storm, WireSession& session) {
  const uint64_t most = absl::GetFlag(FLAGS_memory);
  uint64_t got = session.own_bytes();
  uint64_t va = storm.arena + 1024 * kMiB;
  int refused = 0;
  for (uint64_t id = 1; id < 200 && refused < 4; ++id) {
    MemoryRequest request = Request(id, va, Upto(storm.random, 128) * 2 * kMiB);
    // Mostly what there is.
    if (storm.random() % 4 != 0) request.set_min_bytes(2 * kMiB);
    switch (storm.random() % 8) {
      case 0:
        request.set_want_bytes(storm.random());
        break;
      case 1:
        request.set_min_bytes(storm.random());
        break;
      case 2:
        request.set_va(storm.random());
        break;
      case 3:
        request.set_va(0);
        request.set_handle(id);
        break;
      default:
        break;
    }
    const auto grant = session.Ask(request);
    if (!grant.ok()) break;
    if (grant->error() != 0) {
      ++refused;
      continue;
    }
    got += grant->bytes();
    va += request.want_bytes();
    if (va > storm.arena + kArenaBytes - 1024 * kMiB) break;
  }
  if (most == 0 || got <= most) return "";
  return absl::StrCat(got, " bytes of memory, of ", most);
}

std::string Handles(Storm&, WireSession& session) {
  const uint64_t most = absl::GetFlag(FLAGS_handles);
  const uint64_t wanted = most + 100;
  for (uint64_t i = 0; i < wanted; ++i) session.Add(cmd::EventCreate{1000 + i, 2, 0});
  const auto done = session.Call(cmd::ContextSync{});
  if (!done.ok() || most == 0) return "";
  const uint64_t got = wanted - session.failures();
  return got <= most ? "" : absl::StrCat(got, " handles, of ", most);
}

// The memory behind handles is little, so that it is their number that counts.
std::string MemoryHandles(Storm&, WireSession& session) {
  const uint64_t most = absl::GetFlag(FLAGS_handles);
  uint64_t got = 0;
  for (uint64_t i = 0; i < most / 32 + 8; ++i) {
    MemoryRequest request = Request(1000 + i, 0, 2 * kMiB);
    request.set_want_bytes(64 * kMiB);
    request.set_handle(1 + i * 32);
    const auto grant = session.Ask(request);
    if (!grant.ok() || grant->error() != 0) break;
    got += grant->bytes() / (2 * kMiB);
  }
  if (most == 0 || got <= most) return "";
  return absl::StrCat(got, " memory handles, of ", most);
}

// Images that say how large they will be, of which a part comes.
std::string Images(Storm& storm, WireSession& session) {
  const uint64_t most = absl::GetFlag(FLAGS_module_bytes);
  if (most == 0) return "";
  uint64_t claimed = 0;
  std::vector<std::pair<uint64_t, uint64_t>> images;
  const std::string part(64 << 10, 'x');
  for (uint64_t i = 0; i < 40; ++i) {
    uint64_t total = Upto(storm.random, most / 8) + part.size();
    if (storm.random() % 8 == 0) total = storm.random();
    images.emplace_back(session.Add(cmd::ImageData{5000 + i, total, 0}, part), total);
    session.Submit();
  }
  const size_t before = session.failures();
  const auto done = session.Call(cmd::ContextSync{});
  if (!done.ok()) return "";
  const size_t refused = session.failures() - before;
  // Which were refused is not said one by one here; the smallest that may have been taken count.
  std::vector<uint64_t> totals;
  for (const auto& [seq, total] : images) totals.push_back(total);
  std::sort(totals.begin(), totals.end());
  for (size_t i = 0; i + refused < totals.size(); ++i) claimed += totals[i];
  return claimed <= most ? "" : absl::StrCat(claimed, " bytes of images, of ", most);
}

// Commands that cannot become complete, since a host function before them does not return.
std::string Flood(Storm& storm, WireSession& session) {
  const uint64_t most = absl::GetFlag(FLAGS_commands);
  if (most == 0) return "";
  session.Add(cmd::StreamCreate{kStream, kNonBlocking, 0});
  const auto made = session.Call(cmd::ContextSync{});
  if (!made.ok()) return "";
  // Those up to here are complete, but for the answer that said so.
  uint64_t base = session.Add(cmd::HostCall{kStream, 1});
  uint64_t last = base;
  const uint64_t own = storm.arena + (kOwn - kArena);
  for (int frame = 0; frame < 16; ++frame) {
    for (uint64_t i = 0; i < most / 4; ++i) {
      last = session.Add(cmd::Memset{kStream, own, 64, 0, 4});
    }
    session.Submit();
  }
  // Where there is a bound nothing more comes, of which there is no event. A longer look sees more,
  // and never anything that is not there.
  uint64_t received = 0;
  const absl::Time deadline = absl::Now() + absl::Seconds(1);
  while (absl::Now() < deadline && received < last) {
    const auto frame = session.client()->Next(deadline - absl::Now());
    if (!frame.ok()) break;
    ReceivedBody body;
    if (frame->kind != kReceived || frame->payload.size() != sizeof(body)) continue;
    std::memcpy(&body, frame->payload.data(), sizeof(body));
    received = body.seq;
  }
  const uint64_t bound = base + most + kHostDoneWindow;
  if (received <= bound) return "";
  return absl::StrCat(received - base, " commands in flight, of ", most);
}

std::string Garbage(Storm& storm, WireSession& session) {
  std::string commands;
  const auto count = static_cast<uint32_t>(Upto(storm.random, 60));
  for (uint32_t i = 0; i < count; ++i) hostile::AppendRandomCommand(storm.random, &commands);
  if (storm.random() % 3 == 0) hostile::Mutate(storm.random, &commands);
  session.client()->Send(kCommands, hostile::CommandsPayload(1, count, commands));
  (void)session.client()->Next(absl::Milliseconds(50));
  return "";
}

std::string Nothing(Storm&, WireSession&) { return ""; }

// Comes back on another connection, perhaps; the session waits for it otherwise.
void Return(Storm& storm, WireSession& session) {
  warpline_internal::Resume resume;
  resume.set_session(session.welcome().session());
  resume.set_secret(session.welcome().secret());
  resume.set_attempt(1);
  session.Drop();
  if (storm.random() % 2 == 0) return;
  auto client = RawClient::Connect(storm.target.endpoint);
  if (!client.ok()) return;
  (*client)->Send(kResume, resume.SerializeAsString());
  (void)(*client)->Expect(kResumed, absl::Seconds(2));
  if (storm.random() % 2 == 0) (*client)->Close();
}

constexpr std::string (*kDeeds[])(Storm&, WireSession&) = {
    &Hoard, &Hoard, &Handles, &MemoryHandles, &Images, &Flood, &Garbage, &Nothing};

enum class Outcome { kOpened, kRefused };

Outcome OneSession(Storm& storm, std::string* violation) {
  const bool guarded = storm.random() % 2 == 0;
  const bool resumable = storm.random() % 4 == 0;
  storm.target.tier = guarded ? Tier::kGuarded : Tier::kIsolated;
  if (storm.random() % 16 == 0) {
    // Gone before it is there.
    auto client = RawClient::Connect(storm.target.endpoint);
    if (client.ok()) (*client)->Send(kHello, HonestHello(resumable).SerializeAsString());
    return Outcome::kRefused;
  }
  auto session = WireSession::OpenAt(storm.target, storm.arena, resumable);
  if (!session.ok()) return Outcome::kRefused;
  const int most = absl::GetFlag(FLAGS_lease_sessions);
  const uint64_t open = g_sessions.Add(1);
  if (most != 0 && open > static_cast<uint64_t>(most)) {
    *violation = absl::StrCat(open, " sessions, of ", most);
  }
  const auto deed = kDeeds[storm.random() % std::size(kDeeds)];
  const std::string found = deed(storm, **session);
  if (!found.empty()) *violation = found;
  g_sessions.Take(1);
  switch (storm.random() % 3) {
    case 0:
      (*session)->client()->Close();
      break;
    case 1:
      if (resumable) Return(storm, **session);
      break;
    default:
      break;  // It vanishes.
  }
  return Outcome::kOpened;
}

int Main() {
  const char* const endpoint = getenv("WARPLINE_ENDPOINT");
  if (endpoint == nullptr) {
    std::fprintf(stderr, "limit_storm: run it under `warpline run`\n");
    return 64;
  }
  const int sessions = absl::GetFlag(FLAGS_sessions);
  Mutex mu;
  int begun = 0;
  int opened = 0;
  int refused = 0;
  int violations = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < absl::GetFlag(FLAGS_threads); ++number) {
    threads.emplace_back([&, number] {
      Storm storm;
      storm.target.endpoint = endpoint;
      storm.arena = ArenaOf(number);
      while (true) {
        int mine = 0;
        {
          MutexLock lock(&mu);
          if (begun == sessions) return;
          mine = begun++;
        }
        // What a session does depends on its number and how often it was tried alone.
        storm.random.seed(absl::GetFlag(FLAGS_seed) * 1'000'003 + static_cast<uint64_t>(mine));
        const absl::Time deadline = absl::Now() + kPatience;
        std::string violation;
        int tried = 0;
        bool is_open = OneSession(storm, &violation) == Outcome::kOpened;
        for (; !is_open && absl::Now() < deadline; ++tried) {
          absl::SleepFor(absl::Milliseconds(Upto(storm.random, 20)));
          is_open = OneSession(storm, &violation) == Outcome::kOpened;
        }
        MutexLock lock(&mu);
        refused += tried;
        opened += is_open ? 1 : 0;
        if (!violation.empty()) {
          ++violations;
          std::printf("limit_storm: session %d had %s\n", mine, violation.c_str());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("limit_storm: %d sessions, %d opened, %d refused, %d violations\n", sessions, opened,
              refused, violations);
  std::fflush(stdout);
  return violations == 0 ? 0 : 1;
}

}  // namespace
}  // namespace warpline::attack

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::attack::Main();
}
