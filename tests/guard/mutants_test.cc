// Changes guarded PTX at random and executes what the verifier still accepts: nothing of it may
// leave the arena. Only the arena and its zones are mapped, so whatever leaves them faults.
//   mutants_test --escapes=FILE [--only=TEXT] [--mutants=N] [--seed=N] [--hardened] [PTX FILES]
// N is the number of mutants that are executed. Prints how many were made, accepted and executed;
// ends with 1 at the first that left, and prints it.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/log/log.h"
#include "guard/guard.h"
#include "guard/rewrite/words.h"
#include "guard/verify/verify.h"
#include "server/device/cpu/execution/block.h"
#include "server/device/cpu/memory/device_heap.h"
#include "server/device/cpu/memory/host_budget.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/modules/cpu_module.h"
#include "server/device/cpu/output/print_buffer.h"
#include "tests/guard/escapes.h"

ABSL_FLAG(std::string, escapes, "", "the list of attacks, which are what is changed");
ABSL_FLAG(uint64_t, mutants, 3000, "how many are executed");
ABSL_FLAG(uint64_t, seed, 1, "of the random numbers");
ABSL_FLAG(std::string, only, "", "only of attacks with this in their text");
ABSL_FLAG(bool, hardened, false, "guard against faults as well, so that no fault is allowed");

namespace warpline::guard {
namespace {

constexpr int kArenaBits = 32;
constexpr uint64_t kArenaBytes = uint64_t{1} << kArenaBits;
constexpr uint64_t kZoneBytes = 16 << 20;
constexpr uint64_t kBases[] = {0x300000000000, 0x340000000000, 0x7e9000000000};

using Lines = std::vector<std::string>;

// The memory of one tenant. Its addresses are those of this process.
class Arena {
 public:
  bool Map() {
    for (const uint64_t base : kBases) {
      if (memory_.ReserveArena(base, 4 * kArenaBytes) != CudaResult::kSuccess) continue;
      base_ = base + kArenaBytes;
      return MapPaceWord() && memory_.MapSink(base_ - kZoneBytes, kArenaBytes + 2 * kZoneBytes) ==
                                  CudaResult::kSuccess;
    }
    return false;
  }
  cpu::MemoryMap& memory() { return memory_; }
  uint64_t base() const { return base_; }
  // Of the word that kernels go by, outside of the arena
  uint64_t pace() const { return pace_; }

 private:
  bool MapPaceWord() {
    std::string error;
    uint64_t bytes = 0;
    return cpu::CpuModule::Load(kPaceWordModule, &memory_, &pace_word_, &error) ==
               CudaResult::kSuccess &&
           pace_word_->FindGlobal(kPaceWordVariable, &pace_, &bytes) == CudaResult::kSuccess;
  }

  cpu::MemoryMap memory_;
  std::shared_ptr<cpu::CpuModule> pace_word_;
  uint64_t pace_ = 0;
  uint64_t base_ = 0;
};

enum class End { kNotRun, kFine, kFault, kEscape };

// Whether a fault tells of an access that no mutant may make, or of a barrier that ends the
// context. One in shared memory is the tenant's own as long as it is not guarded against faults.
bool IsEscape(CudaResult fault, const std::string& text, bool hardened) {
  if (hardened) {
    const bool is_barrier =
        fault == CudaResult::kIllegalInstruction && text.find("barrier") != std::string::npos;
    return fault == CudaResult::kIllegalAddress || fault == CudaResult::kMisalignedAddress ||
           is_barrier;
  }
  // The windows of the other spaces are at the end of the generic addresses.
  return fault == CudaResult::kIllegalAddress && text.find("shared") == std::string::npos &&
         text.find("generic address 0xfff") == std::string::npos;
}

// Runs one block of the kernel for a moment.
End Execute(const std::string& text, bool hardened, Arena* arena, std::string* fault) {
  std::shared_ptr<cpu::CpuModule> module;
  std::string error;
  cpu::MemoryMap& memory = arena->memory();
  if (cpu::CpuModule::Load(text, &memory, &module, &error) != CudaResult::kSuccess) {
    return End::kNotRun;
  }
  uint64_t words = 0, bytes = 0;
  if (module->FindGlobal(std::string(kConstVariable), &words, &bytes) != CudaResult::kSuccess) {
    return End::kNotRun;
  }
  const std::string values = GuardWords({.arena = arena->base(),
                                         .globals = arena->base() + (64 << 20),
                                         .records = arena->base() + (96 << 20),
                                         .pace = arena->pace()});
  std::memcpy(reinterpret_cast<void*>(words), values.data(), values.size());
  const auto constants = [&] { return std::string(reinterpret_cast<const char*>(words), bytes); };
  const std::string before = constants();
  End end = End::kNotRun;
  for (const std::string& name : module->KernelNames()) {
    std::shared_ptr<cpu::Kernel> kernel;
    if (module->FindKernel(name, &kernel) != CudaResult::kSuccess) continue;
    std::vector<std::byte> params(std::max<uint32_t>(kernel->param_bytes, 192));
    const uint64_t own = arena->base() + (32 << 20), far = arena->base() + 3 * kArenaBytes;
    std::memcpy(params.data(), &far, 8);
    std::memcpy(params.data() + 8, &own, 8);
    // Blocks of such a grid ask whether to stop.
    const std::array<uint32_t, 3> grid = {1 << 21, 1, 1}, threads = {40, 1, 1};
    const LaunchWords launch =
        LaunchWordsOf(arena->base(), grid, threads, /*asks=*/false, arena->pace());
    if (kernel->param_bytes >= sizeof(launch)) {
      std::memcpy(params.data() + kernel->param_bytes - sizeof(launch), &launch, sizeof(launch));
    }
    cpu::PrintBuffer output;
    cpu::DeviceHeap heap(&memory);
    cpu::HostBudget budget(uint64_t{1} << 30);
    cpu::LaunchShape shape;
    shape.code = &kernel->code;
    shape.memory = &memory;
    shape.params = params;
    shape.grid = grid;
    shape.block = threads;
    shape.dynamic_shared_bytes = 64;
    shape.output = &output;
    shape.heap = &heap;
    shape.budget = &budget;
    cpu::Block block(shape);
    if (!block.ok()) continue;
    block.Start(0);
    cpu::Block::Outcome outcome = cpu::Block::Outcome::kMoreToDo;
    for (int pass = 0; pass < 3 && outcome == cpu::Block::Outcome::kMoreToDo; ++pass) {
      outcome = block.Run();
    }
    end = End::kFine;
    if (outcome == cpu::Block::Outcome::kFault) {
      *fault = block.fault_text();
      end = IsEscape(block.fault(), *fault, hardened) ? End::kEscape : End::kFault;
      break;
    }
  }
  if (constants() != before) {
    *fault = "it wrote to the constants";
    end = End::kEscape;
  }
  return end;
}

// A tenant's statement, and any other that the verifier has to look at, changed in some way.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  Lines Mutate(const Lines& lines) {
    Lines result = lines;
    for (uint64_t changes = 1 + Below(3); changes > 0; --changes) Change(&result);
    return result;
  }
  uint64_t Below(uint64_t bound) { return random_() % bound; }

 private:
  void Change(Lines* lines) {
    const size_t at = Below(lines->size());
    const size_t other = Below(lines->size());
    switch (Below(7)) {
      case 0:
        lines->erase(lines->begin() + static_cast<ptrdiff_t>(at));
        return;
      case 1:
        std::swap((*lines)[at], (*lines)[other]);
        return;
      case 2:
        lines->insert(lines->begin() + static_cast<ptrdiff_t>(at), (*lines)[other]);
        return;
      default:
        return ChangeWord(&(*lines)[at], (*lines)[other]);
    }
  }

  static bool IsWord(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '%' || c == '$';
  }
  static std::vector<std::pair<size_t, size_t>> WordsOf(const std::string& line) {
    std::vector<std::pair<size_t, size_t>> words;
    for (size_t i = 0; i < line.size();) {
      if (!IsWord(line[i])) {
        ++i;
        continue;
      }
      const size_t begin = i;
      while (i < line.size() && IsWord(line[i])) ++i;
      words.emplace_back(begin, i - begin);
    }
    return words;
  }

  // Replaces a word by another, by one of another line, or by a number.
  void ChangeWord(std::string* line, const std::string& other) {
    static const char* const kWords[] = {
        "%r1",     "%r4",   "%r5",    "%d1",     "%d2",      "%d3",       "%d4",        "wlg_at",
        "wlg_off", "wlg_x", "wlg_lo", "wlg_hi",  "wlg_base", "wlg_local", "0",          "4",
        "-4",      "16",    "4096",   "8388608", "-8388608", "8388612",   "4294967296", "60",
        "64",      "68",    "255",    "global",  "shared",   "local",     "param",      "const",
        "u32",     "u64",   "b64",    "b128",    "v4",       "v2",        "f64",        "st",
        "ld",      "mov",   "add",    "sub",     "min",      "and",       "234",        "248",
        "lop3",    "cvta",  "to",     "selp",    "wlg_ps",   "wlg_pl"};
    const auto words = WordsOf(*line);
    if (words.empty()) return;
    const auto [begin, size] = words[Below(words.size())];
    std::string replacement = kWords[Below(std::size(kWords))];
    const auto others = WordsOf(Below(2) == 0 ? other : *line);
    if (Below(2) == 0 && !others.empty()) {
      const auto [from, length] = others[Below(others.size())];
      replacement = (others == words ? *line : other).substr(from, length);
    }
    line->replace(begin, size, replacement);
  }

  std::mt19937_64 random_;
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

int Main(const std::vector<char*>& files) {
  SetLogLevel(static_cast<LogLevel>(static_cast<int>(LogLevel::kError) + 1));
  const bool hardened = absl::GetFlag(FLAGS_hardened);
  const auto escapes = ReadEscapes(ReadFile(absl::GetFlag(FLAGS_escapes)));
  if (!escapes.ok()) return 2;
  std::vector<std::string> texts;
  for (const Escape& escape : *escapes) {
    if (absl::StrContains(escape.text, absl::GetFlag(FLAGS_only))) texts.push_back(escape.text);
  }
  for (const char* const file : files) texts.push_back(ReadFile(file));
  std::vector<Lines> seeds;
  for (const std::string& text : texts) {
    const auto guarded = Guard(text, {kArenaBits, hardened});
    if (!guarded.ok() || guarded->kernels.empty()) continue;
    seeds.push_back(absl::StrSplit(guarded->text, '\n'));
  }
  Arena arena;
  if (seeds.empty() || !arena.Map()) {
    std::fprintf(stderr, "nothing to change, or no memory\n");
    return 2;
  }
  Mutator mutator(absl::GetFlag(FLAGS_seed));
  uint64_t made = 0, accepted = 0, executed = 0;
  std::map<std::string, uint64_t> faults;
  while (executed < absl::GetFlag(FLAGS_mutants)) {
    const std::string text =
        absl::StrJoin(mutator.Mutate(seeds[mutator.Below(seeds.size())]), "\n");
    ++made;
    if (!Verify(text, {kArenaBits, hardened}).ok()) continue;
    ++accepted;
    std::string fault;
    const End end = Execute(text, hardened, &arena, &fault);
    if (end == End::kNotRun) continue;
    ++executed;
    if (end == End::kFine) continue;
    ++faults[fault.substr(0, fault.find(" in kernel"))];
    if (end == End::kEscape) {
      std::printf("%s\nit left the arena, or faulted: %s\n", text.c_str(), fault.c_str());
      return 1;
    }
  }
  // Those that are the tenant's own.
  std::map<std::string, uint64_t> kinds;
  for (const auto& [text, count] : faults) kinds[text.substr(0, text.find(" at "))] += count;
  for (const auto& [kind, count] : kinds) {
    std::printf("%8llu ended with: %s\n", static_cast<unsigned long long>(count), kind.c_str());
  }
  std::printf("mutants: %llu made, %llu accepted, %llu executed, none left the arena\n",
              static_cast<unsigned long long>(made), static_cast<unsigned long long>(accepted),
              static_cast<unsigned long long>(executed));
  return 0;
}

}  // namespace
}  // namespace warpline::guard

int main(int argc, char** argv) {
  const std::vector<char*> files = absl::ParseCommandLine(argc, argv);
  return warpline::guard::Main({files.begin() + 1, files.end()});
}
