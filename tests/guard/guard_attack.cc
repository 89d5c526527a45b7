// Makes every attack of escapes.txt from one tenant's arena on another's, in one context: first as
// it is, then guarded.
//   guard_attack [--device=cpu] [--hardened] --escapes=FILE
// One line an attack, then `attack: S of N stopped`; ends with 1 unless S is N, and unless each
// that the list says does harm without the guard does it.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "tests/guard/escapes.h"
#include "tests/guard/two_arenas.h"

ABSL_FLAG(std::string, device, "cpu", "where kernels run: cpu or cuda");
ABSL_FLAG(std::string, escapes, "", "the list of attacks");
ABSL_FLAG(bool, hardened, false, "guard against faults as well");

namespace warpline::guard {
namespace {

constexpr size_t kWords = 4096;
constexpr uint32_t kSecret = 0x5ec20000;

// What an attack did to the neighbour.
struct Harm {
  bool done = false;
  bool faulted = false;  // It ended the context.
  std::string how;
};

struct Outcome {
  bool ran = false;  // The device takes such a kernel.
  Harm harm;
};

// Runs the kernel, of `guarded` if it is not null, in a context of its own.
absl::StatusOr<Outcome> Run(const Escape& escape, const GuardedText* guarded) {
  auto opened = TwoArenas::Open(absl::GetFlag(FLAGS_device));
  if (!opened.ok()) return opened.status();
  TwoArenas& arenas = **opened;
  std::vector<uint32_t> secret(kWords), own(kWords);
  for (size_t i = 0; i < kWords; ++i) secret[i] = kSecret + static_cast<uint32_t>(i);
  if (arenas.Write(arenas.neighbour().memory, secret) != CudaResult::kSuccess ||
      arenas.Write(arenas.attacker().memory, own) != CudaResult::kSuccess) {
    return absl::InternalError("memory cannot be written");
  }
  Outcome outcome;
  const auto kernel = guarded != nullptr ? arenas.LoadFor(arenas.attacker(), *guarded, "k")
                                         : arenas.Load(escape.text, "k");
  if (absl::IsNotFound(kernel.status())) return outcome;
  if (!kernel.ok()) return kernel.status();
  outcome.ran = true;
  // p0, p1, n, and tm at a multiple of 64.
  std::vector<std::byte> params(64 + 128);
  const uint64_t target = arenas.neighbour().memory + 4096;
  const uint64_t mine = arenas.attacker().memory;
  const uint32_t n = 64;
  std::memcpy(params.data(), &target, 8);
  std::memcpy(params.data() + 8, &mine, 8);
  std::memcpy(params.data() + 16, &n, 4);
  const CudaResult ended = arenas.Run(*kernel, 32, 0, params);
  if (ended != CudaResult::kSuccess) {
    outcome.harm = {true, true, absl::StrCat("the context ended with CUDA error ", ended)};
    return outcome;
  }
  std::vector<uint32_t> after;
  if (arenas.Read(arenas.neighbour().memory, kWords, &after) != CudaResult::kSuccess ||
      arenas.Read(mine, kWords, &own) != CudaResult::kSuccess) {
    return absl::InternalError("memory cannot be read");
  }
  for (size_t i = 0; i < kWords; ++i) {
    if (after[i] != secret[i]) {
      outcome.harm = {true, false, absl::StrCat("it wrote ", after[i], " to the neighbour")};
    } else if (own[i] >= kSecret && own[i] < kSecret + kWords) {
      outcome.harm = {true, false, absl::StrCat("it read ", own[i], " of the neighbour")};
    }
  }
  return outcome;
}

// Returns whether all is as the list says, and prints a line.
bool Attack(const Escape& escape) {
  const RewriteOptions options = {TwoArenas::kArenaBits, absl::GetFlag(FLAGS_hardened)};
  const std::string name = escape.body.substr(0, 90);
  const auto say = [&](bool stopped, const std::string& detail) {
    std::printf("attack: guard %d %s: %s (%s)\n", escape.line, name.c_str(),
                stopped ? "stopped" : "NOT STOPPED", detail.c_str());
    return stopped;
  };
  const bool is_refused =
      escape.treatment == Escape::Treatment::kRefused || (escape.soft && options.hardened);
  const auto guarded = Guard(escape.text, options);
  if (absl::IsInternal(guarded.status())) {
    return say(false, std::string(guarded.status().message()));
  }
  const bool refused = !guarded.ok() || guarded->kernels.empty();
  if (refused != is_refused) {
    return say(false, refused ? "it is refused, against what the list says"
                              : "it is not refused, against what the list says");
  }
  const auto before = Run(escape, nullptr);
  if (!before.ok()) return say(false, std::string(before.status().message()));
  std::string without = !before->ran         ? "this device does not take it"
                        : !before->harm.done ? "no harm seen"
                                             : before->harm.how;
  if (escape.harms && absl::GetFlag(FLAGS_device) == "cpu" && !before->harm.done) {
    return say(
        false,
        absl::StrCat("without the guard it does no harm, against what the list says: ", without));
  }
  absl::StrAppend(&without, " without the guard");
  if (refused) {
    const std::string why =
        guarded.ok() ? guarded->refusals[0].reason : std::string(guarded.status().message());
    return say(true, absl::StrCat("refused: ", why, "; ", without));
  }
  const auto after = Run(escape, &*guarded);
  if (!after.ok()) return say(false, std::string(after.status().message()));
  if (after->harm.done) {
    // Within a group that trusts itself, for which mode fence is, a fault is the group's own.
    return say(after->harm.faulted && escape.faults && !options.hardened,
               absl::StrCat(after->harm.how, "; ", without));
  }
  return say(true, absl::StrCat(after->ran ? "no harm; " : "not run; ", without));
}

int Main() {
  std::ifstream in(absl::GetFlag(FLAGS_escapes));
  const std::string file{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto escapes = ReadEscapes(file);
  if (!escapes.ok() || escapes->empty()) {
    std::fprintf(stderr, "no list of attacks: %s\n", escapes.status().ToString().c_str());
    return 2;
  }
  size_t stopped = 0;
  for (const Escape& escape : *escapes) stopped += Attack(escape) ? 1 : 0;
  std::printf("attack: %zu of %zu stopped\n", stopped, escapes->size());
  return stopped == escapes->size() ? 0 : 1;
}

}  // namespace
}  // namespace warpline::guard

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::guard::Main();
}
