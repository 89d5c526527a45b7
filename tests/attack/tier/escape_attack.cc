#include "tests/attack/tier/escape_attack.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace warpline::attack {
namespace {

// Behind the start of the neighbour's memory, so that offsets lead to more of it.
constexpr uint64_t kOffset = 4096;
constexpr unsigned kThreads = 32, kGroupThreads = 128;
// For so long a kernel without end runs beside the others.
constexpr absl::Duration kLooping = absl::Milliseconds(300);

// Null, and `why`, when the module or the kernel is refused.
CUfunction Load(const guard::Escape& escape, std::string* why) {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUresult result = DRIVER(cuModuleLoadData)(&module, escape.text.c_str());
  if (result == CUDA_SUCCESS) result = DRIVER(cuModuleGetFunction)(&kernel, module, "k");
  if (result == CUDA_SUCCESS) return kernel;
  *why = absl::StrCat("refused with CUDA error ", static_cast<int>(result));
  return nullptr;
}

CUresult Launch(CUfunction kernel, unsigned threads, const Home& home, const TierTarget& target) {
  uint64_t there = target.neighbour->memory + kOffset, mine = home.memory();
  uint32_t n = 64;
  std::array<char, 128> map = {};
  void* parameters[] = {&there, &mine, &n, map.data()};
  return DRIVER(cuLaunchKernel)(kernel, 1, 1, 1, threads, 1, 1, 0, nullptr, parameters, nullptr);
}

}  // namespace

absl::StatusOr<Loot> MakeEscape(const guard::Escape& escape, Home* home, const TierTarget& target) {
  Loot loot;
  CUfunction kernel = Load(escape, &loot.detail);
  if (kernel == nullptr) return loot;
  // The guard of the tier is the hardened one.
  if (escape.treatment == guard::Escape::Treatment::kRefused || escape.soft) {
    return Loot{{}, "it is not refused, against what the list says", true};
  }
  CUresult result = Launch(kernel, escape.group ? kGroupThreads : kThreads, *home, target);
  if (result == CUDA_SUCCESS && escape.loops) {
    absl::SleepFor(kLooping);
    loot.detail = "ran without an end until its session's";
    return loot;
  }
  if (result == CUDA_SUCCESS) result = home->Wait();
  loot.detail = absl::StrCat("ran, and ended with CUDA error ", static_cast<int>(result));
  loot.words = home->ReadMemory();
  return loot;
}

}  // namespace warpline::attack
