// First messages: hellos that ask for what there is not, and first frames that are no hello.
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/frames.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"

namespace warpline::attack {
namespace {

using hostile::RawClient;
using warpline_internal::Hello;

// Stopped when no session comes of this first frame, and the channel ends at once.
WireResult First(const WireTarget& target, uint32_t kind, std::string payload) {
  auto client = RawClient::Connect(target.endpoint, target.tls);
  if (!client.ok()) return Unprepared(client.status());
  (*client)->Send(kind, std::move(payload));
  const auto welcome = (*client)->Expect(kWelcome, kPatience);
  if (welcome.ok()) return Succeeded("it was welcomed");
  if (!(*client)->closed()) return Succeeded("the channel was left open");
  const std::string why(welcome.status().message());
  return SaysCrashed(why) || absl::StrContains(why, "the worker died") ? Succeeded(why)
                                                                       : Stopped(why);
}

WireResult Greet(const WireTarget& target, void (*change)(Hello* hello)) {
  Hello hello = HonestHello();
  change(&hello);
  return First(target, kHello, hello.SerializeAsString());
}

WireResult CommandsFirst(const WireTarget& target) {
  return First(target, kCommands, std::string(64, '\0'));
}

WireResult ServersFrameFirst(const WireTarget& target) {
  return First(target, kWelcome, HonestHello().SerializeAsString());
}

WireResult EmptyHello(const WireTarget& target) { return First(target, kHello, ""); }

WireResult CutHello(const WireTarget& target) {
  const std::string hello = HonestHello().SerializeAsString();
  return First(target, kHello, hello.substr(0, hello.size() - 1));
}

WireResult HelloWithoutTheStart(const WireTarget& target) {
  return First(target, kHello, std::string(100'000, '\x0a'));
}

WireResult OtherVersion(const WireTarget& target) {
  return Greet(target, [](Hello* hello) {
    hello->set_min_version(kProtocolVersion + 1);
    hello->set_max_version(~0u);
  });
}

WireResult BackwardsVersions(const WireTarget& target) {
  return Greet(target, [](Hello* hello) {
    hello->set_min_version(kProtocolVersion);
    hello->set_max_version(0);
  });
}

WireResult HugeArena(const WireTarget& target) {
  return Greet(target, [](Hello* hello) {
    hello->set_arena_base(1ull << 63);
    hello->set_arena_bytes(1ull << 63);
  });
}

WireResult CrookedArena(const WireTarget& target) {
  return Greet(target, [](Hello* hello) { hello->set_arena_base(kArena + 4096); });
}

// Where the worker's own program, its libraries and its stack may lie.
WireResult ArenaOverTheWorker(const WireTarget& target) {
  return Greet(target, [](Hello* hello) {
    hello->set_arena_base(0x7ff000000000);
    hello->set_arena_bytes(1ull << 36);
    hello->mutable_initial_memory()->set_va(0x7ff000000000);
  });
}

WireResult ArenaOverHostMemory(const WireTarget& target) {
  return Greet(target, [](Hello* hello) {
    hello->set_arena_base(kHostArenaBase);
    hello->set_arena_bytes(kHostArenaBytes);
    hello->mutable_initial_memory()->set_va(kHostArenaBase);
  });
}

WireResult FirstMemoryOutside(const WireTarget& target) {
  Hello hello = HonestHello();
  hello.mutable_initial_memory()->set_va(kArena + kArenaBytes);
  const auto session = WireSession::OpenWith(target, hello);
  if (!session.ok()) return Stopped(std::string(session.status().message()));
  const auto& grant = (*session)->welcome().initial_memory();
  return grant.bytes() == 0 ? Stopped(absl::StrCat("none of it: CUDA error ", grant.error()))
                            : Succeeded(absl::StrCat(grant.bytes(), " bytes"));
}

// Names after the first one that there is not are not looked at, so these are of one that there is.
WireResult ManyDevices(const WireTarget& target) {
  return Greet(target, [](Hello* hello) {
    std::string devices = "0";
    for (int i = 1; i < 40; ++i) devices.append(",0");
    hello->set_device(devices);
  });
}

WireResult SameDeviceTwice(const WireTarget& target) {
  return Greet(target, [](Hello* hello) { hello->set_device("0,0"); });
}

WireResult MadeUpToken(const WireTarget& target) {
  return Greet(target, [](Hello* hello) { hello->set_token("YQ.YQ.YQ"); });
}

WireResult LargeToken(const WireTarget& target) {
  return Greet(target, [](Hello* hello) { hello->set_token(std::string(500'000, 'a')); });
}

// A name that would be lines of the server's log.
WireResult ForgedLogLine(const WireTarget& target) {
  Hello hello = HonestHello();
  hello.set_program(
      "x\nI 2026-01-01 server closed session=1 reason=\"forged-by-the-attack\"\r\x1b[2J\xc2\x9b");
  {
    auto session = WireSession::OpenWith(target, hello);
    if (!session.ok()) return Stopped(std::string(session.status().message()));
    (*session)->client()->Close();
  }
  std::ifstream file(target.log);
  const std::string log(std::istreambuf_iterator<char>(file), {});
  if (absl::StrContains(log, "\nI 2026-01-01 server closed") || absl::StrContains(log, "\x1b")) {
    return Succeeded("the log has the forged line");
  }
  return absl::StrContains(log, "forged-by-the-attack")
             ? Stopped("the log has it as one escaped word")
             : Stopped("the log does not have it");
}

WireResult LongProgramName(const WireTarget& target) {
  const Footprint before = Measure(target);
  for (int i = 0; i < 5; ++i) {
    Hello hello = HonestHello();
    hello.set_program(std::string(900'000, 'n'));
    (void)WireSession::OpenWith(target, hello).ok();
  }
  return JudgeGrowth(target, before, {64 << 10, 200, 100, 100'000});
}

// The server watches the process that a client says it is, to see it end. It is told of a process
// of the server's own, which must not be harmed when the session ends.
WireResult AnotherProcessAsClient(const WireTarget& target) {
  Hello hello = HonestHello();
  hello.set_pid(static_cast<uint32_t>(target.pid));
  for (int i = 0; i < 3; ++i) (void)WireSession::OpenWith(target, hello).ok();
  return JudgeNeighbour(target, "a client that said that it was the server");
}

// The client vanishes while its session is opening.
WireResult VanishWhileOpening(const WireTarget& target) {
  const Footprint before = Measure(target);
  const std::set<pid_t> workers = Workers(target);
  for (int i = 0; i < 20 * target.scale; ++i) {
    auto client = RawClient::Connect(target.endpoint, target.tls);
    if (!client.ok()) return Unprepared(client.status());
    (*client)->Send(kHello, hostile::ValidHello(/*resumable=*/i % 2 == 0));
    (*client)->Flush();
  }
  // What this one waits behind has been begun when it is served.
  const WireResult served = JudgeNeighbour(target, "clients that vanish");
  if (served.outcome != WireOutcome::kStopped) return served;
  const WireResult grown = JudgeGrowth(target, before, {128 << 10, 500, 200, 1 << 20});
  return grown.outcome == WireOutcome::kStopped ? JudgeLeftovers(target, workers) : grown;
}

constexpr WireAttack kAttacks[] = {
    {"commands_before_a_hello", "-", "", &CommandsFirst},
    {"a_servers_frame_before_a_hello", "-", "", &ServersFrameFirst},
    {"hello_of_nothing", "-", "", &EmptyHello},
    {"hello_that_is_cut", "-", "", &CutHello},
    {"hello_of_garbage", "-", "", &HelloWithoutTheStart},
    {"hello_of_another_version", "-", "", &OtherVersion},
    {"hello_with_versions_backwards", "-", "", &BackwardsVersions},
    {"arena_of_half_the_addresses", "-", "", &HugeArena},
    {"arena_that_is_not_aligned", "-", "", &CrookedArena},
    {"arena_over_the_workers_own_memory", "C1", "", &ArenaOverTheWorker},
    {"arena_over_shared_host_memory", "C1", "", &ArenaOverHostMemory},
    {"first_memory_outside_the_arena", "-", "", &FirstMemoryOutside},
    {"forty_devices", "-", "", &ManyDevices},
    {"the_same_device_twice", "-", "", &SameDeviceTwice},
    {"token_that_nobody_signed", "-", "", &MadeUpToken},
    {"token_of_half_a_megabyte", "-", "", &LargeToken},
    {"program_name_with_lines_for_the_log", "H4", "", &ForgedLogLine},
    {"program_names_of_a_megabyte", "H4", "", &LongProgramName},
    {"the_servers_process_as_client", "-", "", &AnotherProcessAsClient},
    {"vanish_while_opening", "-", "", &VanishWhileOpening},
};

}  // namespace

absl::Span<const WireAttack> OpeningAttacks() { return kAttacks; }

}  // namespace warpline::attack
