// Makes one attack of the tier suite, in a session of its own.
//
//   tier_attack --state=FILE --endpoint=HOST:PORT --escapes=FILE --successor=PROGRAM --attack=NAME
//   tier_attack --list --escapes=FILE
//
// The last line that it prints is "OUTCOME DETAIL", as wire_client's is. It cannot be
// seen from here whether the neighbour, whose state FILE has, is as before.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/attack/tier/attack.h"
#include "tests/attack/tier/escape_attack.h"

ABSL_FLAG(std::string, state, "", "what the neighbour says of itself");
ABSL_FLAG(std::string, endpoint, "", "HOST:PORT of the server");
ABSL_FLAG(std::string, escapes, "", "tests/guard/escapes.txt");
ABSL_FLAG(std::string, successor, "", "the program tier_successor");
ABSL_FLAG(std::string, attack, "", "which one");
ABSL_FLAG(bool, list, false, "print the names of the attacks");

namespace warpline::attack {
namespace {

constexpr absl::Span<const TierAttack> (*kFamilies[])() = {
    &KernelAttacks, &PrintAttacks,  &GraphAttacks,     &StaleAttacks,
    &CallAttacks,   &HandleAttacks, &TensorMapAttacks, &ResidueAttacks};
// Before the number of its line, the name of an attack of the list.
constexpr char kEscape[] = "escape_";

[[noreturn]] void Say(std::string_view outcome, std::string detail) {
  for (char& c : detail) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::printf("%s %s\n", std::string(outcome).c_str(), detail.c_str());
  std::fflush(stdout);
  // Kernels may still run, for which the driver's end would wait.
  _exit(0);
}

[[noreturn]] void Judge(const absl::StatusOr<Loot>& loot) {
  if (absl::IsUnimplemented(loot.status())) Say("not_here", std::string(loot.status().message()));
  if (!loot.ok()) Say("unprepared", std::string(loot.status().message()));
  size_t secrets = 0;
  for (const uint32_t word : loot->words) secrets += IsSecret(word) ? 1 : 0;
  if (secrets != 0) {
    Say("succeeded", absl::StrCat("it has ", secrets, " words of a neighbour's; ", loot->detail));
  }
  Say(loot->got_through ? "succeeded" : "stopped", loot->detail);
}

std::vector<guard::Escape> Escapes() {
  std::ifstream in(absl::GetFlag(FLAGS_escapes));
  const std::string file{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  auto escapes = guard::ReadEscapes(file);
  if (!escapes.ok()) Say("unprepared", std::string(escapes.status().message()));
  return *std::move(escapes);
}

int List() {
  for (const auto family : kFamilies) {
    for (const TierAttack& attack : family()) std::printf("%s\n", attack.name);
  }
  for (const guard::Escape& escape : Escapes()) std::printf("%s%d\n", kEscape, escape.line);
  return 0;
}

const NeighbourState* ReadState() {
  const int file = open(absl::GetFlag(FLAGS_state).c_str(), O_RDONLY | O_CLOEXEC);
  void* const at = mmap(nullptr, sizeof(NeighbourState), PROT_READ, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) Say("unprepared", "no state");
  return static_cast<const NeighbourState*>(at);
}

int Main() {
  if (absl::GetFlag(FLAGS_list)) return List();
  const TierTarget target = {ReadState(), absl::GetFlag(FLAGS_endpoint),
                             absl::GetFlag(FLAGS_successor)};
  const std::string name = absl::GetFlag(FLAGS_attack);
  auto home = Home::Open();
  if (!home.ok()) Say("unprepared", std::string(home.status().message()));
  for (const auto family : kFamilies) {
    for (const TierAttack& attack : family()) {
      if (name == attack.name) Judge(attack.run(home->get(), target));
    }
  }
  for (const guard::Escape& escape : Escapes()) {
    if (name != absl::StrCat(kEscape, escape.line)) continue;
    absl::StatusOr<Loot> loot = MakeEscape(escape, home->get(), target);
    if (loot.ok()) loot->detail = absl::StrCat(escape.body.substr(0, 90), "; ", loot->detail);
    Judge(loot);
  }
  return 64;
}

}  // namespace
}  // namespace warpline::attack

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::attack::Main();
}
