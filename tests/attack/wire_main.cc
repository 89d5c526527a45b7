// Makes one attack of the wire suite, and looks after it whether an honest client is served.
//
//   wire_client --endpoint=HOST:PORT --pid=SERVER --log=FILE --attack=NAME
//   wire_client --list
//
// The last line of what it prints is "OUTCOME DETAIL". --list prints a line for each attack: its
// name, the finding that it is about, and the flags of a server without what stops it, or "-".
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/attack/wire.h"

ABSL_FLAG(std::string, endpoint, "", "HOST:PORT of the server, on this machine");
ABSL_FLAG(int, pid, 0, "its process");
ABSL_FLAG(std::string, log, "", "the file that it logs to");
ABSL_FLAG(std::string, tier, "isolated", "of the sessions that attack");
ABSL_FLAG(std::vector<std::string>, foreign, {}, "addresses at which others have memory");
ABSL_FLAG(int, scale, 1, "floods are so many times as large");
ABSL_FLAG(std::string, attack, "", "which one");
ABSL_FLAG(std::string, tls_ca, "", "of a server with TLS");
ABSL_FLAG(std::string, tls_cert, "", "the attacker's own");
ABSL_FLAG(std::string, tls_key, "", "its key");
ABSL_FLAG(bool, honest_first, false, "look whether an honest client is served before it, too");
ABSL_FLAG(bool, list, false, "print the attacks; with --tier=guarded those that it alone has");

namespace warpline::attack {
namespace {

constexpr absl::Span<const WireAttack> (*kFamilies[])() = {
    &OpeningAttacks, &FrameAttacks,      &AddressAttacks, &MemoryAttacks, &CodeAttacks,
    &OthersAttacks,  &ResumptionAttacks, &AdminAttacks,   &FloodAttacks,  &SharedMemoryAttacks,
    &BulkAttacks,    &RelayAttacks,      &WindowAttacks};
// Attacks on what sessions of the guarded tier alone have.
constexpr absl::Span<const WireAttack> (*kGuardedFamilies[])() = {&LibraryAttacks};

using Family = absl::Span<const WireAttack> (*)();

std::vector<WireAttack> AttacksOf(absl::Span<const Family> families) {
  std::vector<WireAttack> all;
  for (const Family family : families) all.insert(all.end(), family().begin(), family().end());
  return all;
}

const char* NameOf(WireOutcome outcome) {
  switch (outcome) {
    case WireOutcome::kStopped:
      return "stopped";
    case WireOutcome::kSucceeded:
      return "succeeded";
    case WireOutcome::kUnprepared:
      return "unprepared";
    case WireOutcome::kNotHere:
      return "not_here";
  }
  return "";
}

int List(Tier tier) {
  for (const WireAttack& attack :
       tier == Tier::kGuarded ? AttacksOf(kGuardedFamilies) : AttacksOf(kFamilies)) {
    const std::string without = attack.without;
    std::printf("%s %s %s\n", attack.name, attack.finding, without.empty() ? "-" : attack.without);
  }
  return 0;
}

// Says what came of it and ends the process: without destructors, since connections may be left
// that end slowly.
[[noreturn]] void Say(WireResult result) {
  for (char& c : result.detail) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::printf("%s %s\n", NameOf(result.outcome), result.detail.c_str());
  std::fflush(stdout);
  _exit(0);
}

int Main() {
  const auto tier = ParseTier(absl::GetFlag(FLAGS_tier));
  if (!tier) return 64;
  if (absl::GetFlag(FLAGS_list)) return List(*tier);
  std::vector<uint64_t> foreign;
  for (const std::string& text : absl::GetFlag(FLAGS_foreign)) {
    if (!absl::SimpleHexAtoi(text, &foreign.emplace_back())) return 64;
  }
  const WireTarget target = {absl::GetFlag(FLAGS_endpoint),
                             absl::GetFlag(FLAGS_pid),
                             absl::GetFlag(FLAGS_log),
                             absl::GetFlag(FLAGS_scale),
                             *tier,
                             foreign,
                             {.ca = absl::GetFlag(FLAGS_tls_ca),
                              .cert = absl::GetFlag(FLAGS_tls_cert),
                              .key = absl::GetFlag(FLAGS_tls_key)}};
  if (absl::GetFlag(FLAGS_honest_first)) {
    if (const absl::Status served = HonestSession(target); !served.ok()) Say(Unprepared(served));
  }
  std::vector<WireAttack> attacks = AttacksOf(kFamilies);
  const std::vector<WireAttack> guarded = AttacksOf(kGuardedFamilies);
  attacks.insert(attacks.end(), guarded.begin(), guarded.end());
  for (const WireAttack& attack : attacks) {
    if (absl::GetFlag(FLAGS_attack) != attack.name) continue;
    WireResult result = attack.run(target);
    if (result.outcome == WireOutcome::kStopped) {
      const absl::Status after = HonestSession(target);
      if (!after.ok()) {
        result =
            Succeeded(absl::StrCat(result.detail, "; then an honest client: ", after.ToString()));
      }
    }
    Say(std::move(result));
  }
  return 64;
}

}  // namespace
}  // namespace warpline::attack

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::attack::Main();
}
