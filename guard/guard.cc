#include "guard/guard.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "guard/rewrite/words.h"
#include "guard/source_lines.h"
#include "guard/verify/verify.h"
#include "ptx/parser.h"
#include "ptx/printer.h"

namespace warpline::guard {

namespace {

// After so many functions that the verifier refuses, the module is not worth the time.
constexpr int kMostTries = 16;

// The function in whose text a refusal of the verifier's, "line N: ...", lies; empty for none.
std::string FunctionAt(const std::string& text, absl::string_view refusal) {
  size_t line = 0;
  absl::ConsumePrefix(&refusal, "line ");
  if (!absl::SimpleAtoi(refusal.substr(0, refusal.find(':')), &line)) return "";
  std::string function;
  size_t begin = 0;
  for (size_t number = 1; number <= line && begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view head = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    // A function's head begins at the start of its line; its name stands before the parameters,
    // which come last.
    if (head.empty() || head.front() != '.') continue;
    const size_t entry = head.find(".entry "), func = head.find(".func ");
    if (entry == std::string_view::npos && func == std::string_view::npos) continue;
    const size_t name_end = head.rfind(" (");
    if (name_end == std::string_view::npos || name_end == 0) continue;
    const size_t name_begin = head.rfind(' ', name_end - 1) + 1;
    function = head.substr(name_begin, name_end - name_begin);
  }
  return function;
}

// Returns N of the target sm_N, with whatever letter behind it.
int TargetOf(const ptx::Module& module) {
  absl::string_view target = module.targets[0];
  if (!absl::ConsumePrefix(&target, "sm_")) return 0;
  while (!target.empty() && !absl::ascii_isdigit(target.back())) target.remove_suffix(1);
  int number = 0;
  return absl::SimpleAtoi(target, &number) ? number : 0;
}

}  // namespace

absl::StatusOr<GuardedText> Guard(std::string_view text, const RewriteOptions& options) {
  const absl::StatusOr<ptx::Module> module = ptx::Parse(text);
  if (!module.ok()) return module.status();
  RewriteOptions tried = options;
  for (int tries = 1;; ++tries) {
    absl::StatusOr<GuardedModule> guarded = Rewrite(*module, tried);
    if (!guarded.ok()) return guarded.status();
    GuardedText result;
    result.text = ptx::Print(guarded->module);
    const absl::Status verified = Verify(result.text, PolicyOf(options));
    if (verified.ok()) {
      result.layout = std::move(guarded->layout);
      result.kernels = std::move(guarded->kernels);
      result.target = TargetOf(*module);
      result.leaves_records = guarded->leaves_records;
      result.refusals = std::move(guarded->refusals);
      result.sites = std::move(guarded->sites);
      NameSources(text, &result.sites);
      return result;
    }
    const std::string why = absl::StrCat("the verifier refuses it: ", verified.message());
    const std::string function = FunctionAt(result.text, verified.message());
    if (function.empty() || tries == kMostTries || !tried.refused.emplace(function, why).second) {
      return absl::InternalError(why);
    }
  }
}

Policy PolicyOf(const RewriteOptions& options) {
  return {.arena_bits = options.arena_bits, .hardened = options.hardened};
}

std::string GlobalsAt(const ModuleLayout& layout, uint64_t address) {
  std::string bytes = layout.globals_image;
  for (const Relocation& relocation : layout.relocations) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + relocation.offset, sizeof(value));
    value += address;
    std::memcpy(bytes.data() + relocation.offset, &value, sizeof(value));
  }
  return bytes;
}

std::string GuardWords(const ModulePlaces& places) {
  std::string words(kGuardWordBytes, '\0');
  const auto high = static_cast<uint32_t>(places.arena >> 32);
  for (const uint64_t lane : {0, 1}) {
    std::memcpy(words.data() + kArenaHighWords + lane * sizeof(high), &high, sizeof(high));
  }
  std::memcpy(words.data() + kGlobalsWord, &places.globals, sizeof(places.globals));
  std::memcpy(words.data() + kRecordsWord, &places.records, sizeof(places.records));
  std::memcpy(words.data() + kRangesWord, &places.ranges, sizeof(places.ranges));
  std::memcpy(words.data() + kPaceWord, &places.pace, sizeof(places.pace));
  return words;
}

LaunchWords LaunchWordsOf(uint64_t arena, const std::array<uint32_t, 3>& grid,
                          const std::array<uint32_t, 3>& block, bool asks, uint64_t pace) {
  uint64_t blocks = 1;
  // Less than 2^63 at each step
  for (const uint32_t part : grid) blocks = std::min<uint64_t>(blocks * part, kMostCountedBlocks);
  if (asks) blocks = kMostCountedBlocks;
  const auto high = static_cast<uint32_t>(arena >> 32);
  LaunchWords words;
  words.arena_high[0] = words.arena_high[1] = high;
  words.blocks = words.shape = static_cast<uint32_t>(blocks);
  if (block[1] != 1 || block[2] != 1) words.shape |= kNotARow;
  // No device takes a block of more than 1024 threads, or of none.
  words.zero_stride = 16 * block[0] * block[1] * block[2];
  words.pace = pace;
  return words;
}

}  // namespace warpline::guard
