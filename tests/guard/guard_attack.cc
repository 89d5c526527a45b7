// Makes every attack of escapes.txt from one tenant's arena on another's, in one context: first as
// it is, then guarded.
//   guard_attack [--device=cpu] [--hardened] [--jobs=N] --escapes=FILE
// One line an attack, then `attack: S of N stopped`; ends with 1 unless S is N, and unless each
// that the list says does harm without the guard does it. Each kernel runs in a process of its own:
// what it does to the context it does to no other, and one that does not end is ended.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
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
ABSL_FLAG(int, jobs, 1, "so many attacks are made at once");
ABSL_FLAG(int, timeout_s, 60, "a kernel that takes longer does not end");

namespace warpline::guard {
namespace {

constexpr size_t kWords = 4096;
// More than may begin without asking whether to stop, of blocks that take as long as those of the
// list.
constexpr uint32_t kManyBlocks = 1 << 17;
constexpr uint32_t kSecret = 0x5ec20000;

// A kernel that has nothing to do but loop does not end if it has not by then. It takes a GPU a
// while to open a context.
int HangMs() { return absl::GetFlag(FLAGS_device) == "cpu" ? 2000 : 8000; }

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
absl::StatusOr<Outcome> RunHere(const Escape& escape, const GuardedText* guarded) {
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
  std::vector<device::ParamLayout> layout;
  CudaResult found = arenas.context().Params(*kernel, &layout);
  // The last one of a guarded kernel says what its launch is like.
  if (guarded != nullptr && !layout.empty()) layout.pop_back();
  if (found != CudaResult::kSuccess || layout.size() != 4) {
    return absl::InternalError("the kernel's parameters cannot be found");
  }
  // p0, p1, n, tm
  std::vector<std::byte> params(layout[3].offset + layout[3].size);
  const uint64_t target = arenas.neighbour().memory + 4096;
  const uint64_t mine = arenas.attacker().memory;
  const uint32_t n = 64;
  std::memcpy(params.data(), &target, 8);
  std::memcpy(params.data() + layout[1].offset, &mine, 8);
  std::memcpy(params.data() + layout[2].offset, &n, 4);
  if (escape.residue && arenas.LeaveInSharedMemory(kSecret) != CudaResult::kSuccess) {
    return absl::InternalError("nothing can be left in shared memory");
  }
  const uint32_t blocks = escape.grid ? kManyBlocks : 1;
  const CudaResult ended = escape.loops && guarded != nullptr
                               ? arenas.RunAndStop(*kernel, arenas.attacker(), params, blocks)
                               : arenas.Run(*kernel, escape.group ? 128 : 32, 0, params, blocks);
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

// A process that writes to a pipe.
struct Child {
  pid_t pid = -1;
  int out = -1;
};

template <typename Body>
Child Start(Body body) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    body(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

// What it wrote until it closed the pipe. False if that took longer than the limit; it is ended
// then.
bool Finish(const Child& child, int timeout_ms, std::string* written) {
  bool in_time = true;
  char buffer[4096];
  for (;;) {
    pollfd waits = {child.out, POLLIN, 0};
    in_time = poll(&waits, 1, timeout_ms) > 0;
    const ssize_t bytes = in_time ? read(child.out, buffer, sizeof(buffer)) : 0;
    if (bytes <= 0) break;
    written->append(buffer, static_cast<size_t>(bytes));
  }
  if (!in_time) kill(child.pid, SIGKILL);
  close(child.out);
  waitpid(child.pid, nullptr, 0);
  return in_time;
}

void Write(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t bytes = write(fd, text.data() + at, text.size() - at);
    if (bytes <= 0) _exit(1);
    at += static_cast<size_t>(bytes);
  }
}

// The same in a process of its own. Its outcome comes as four letters and the harm.
absl::StatusOr<Outcome> Run(const Escape& escape, const GuardedText* guarded) {
  const Child child = Start([&](int out) {
    const auto outcome = RunHere(escape, guarded);
    const auto letter = [](bool is_so) { return is_so ? "y" : "n"; };
    Write(out, outcome.ok() ? absl::StrCat("y", letter(outcome->ran), letter(outcome->harm.done),
                                           letter(outcome->harm.faulted), outcome->harm.how)
                            : absl::StrCat("nnnn", std::string(outcome.status().message())));
  });
  if (child.pid < 0) return absl::InternalError("no process");
  std::string said;
  Outcome outcome;
  const bool hangs = escape.loops && guarded == nullptr;
  if (!Finish(child, hangs ? HangMs() : absl::GetFlag(FLAGS_timeout_s) * 1000, &said)) {
    outcome.ran = true;
    outcome.harm = {true, false, "it does not end"};
    return outcome;
  }
  if (said.size() < 4) {
    outcome.ran = true;
    outcome.harm = {true, false, "the process ended"};
    return outcome;
  }
  if (said[0] != 'y') return absl::InternalError(said.substr(4));
  outcome.ran = said[1] == 'y';
  outcome.harm = {said[2] == 'y', said[3] == 'y', said.substr(4)};
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
  auto escapes = ReadEscapes(file);
  // A group that trusts itself has nobody who would stop its loops, and no secrets.
  if (escapes.ok() && !absl::GetFlag(FLAGS_hardened)) {
    std::erase_if(*escapes, [](const Escape& escape) { return escape.loops || escape.residue; });
  }
  if (!escapes.ok() || escapes->empty()) {
    std::fprintf(stderr, "no list of attacks: %s\n", escapes.status().ToString().c_str());
    return 2;
  }
  // As many processes as jobs, each with one attack; told in the order of the list.
  const auto jobs = static_cast<size_t>(std::clamp(absl::GetFlag(FLAGS_jobs), 1, 64));
  const int longest_ms = absl::GetFlag(FLAGS_timeout_s) * 3000;
  size_t stopped = 0;
  std::deque<Child> running;
  const auto finish = [&] {
    std::string said;
    if (!Finish(running.front(), longest_ms, &said)) said += "attack: it broke off\n";
    running.pop_front();
    stopped += said.find(": stopped (") != std::string::npos ? 1 : 0;
    std::fputs(said.c_str(), stdout);
  };
  for (const Escape& escape : *escapes) {
    if (running.size() == jobs) finish();
    running.push_back(Start([&](int out) {
      dup2(out, STDOUT_FILENO);
      Attack(escape);
      std::fflush(stdout);
    }));
    if (running.back().pid < 0) {
      std::fprintf(stderr, "no more processes\n");
      return 2;
    }
  }
  while (!running.empty()) finish();
  std::printf("attack: %zu of %zu stopped\n", stopped, escapes->size());
  return stopped == escapes->size() ? 0 : 1;
}

}  // namespace
}  // namespace warpline::guard

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::guard::Main();
}
