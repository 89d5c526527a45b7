#include <cstdio>
#include <map>
#include <string>

#include "guard/guard.h"
#include "guard/records.h"
#include "guard/rewrite/words.h"
#include "server/device/cpu/testing/kernel_loader.h"

namespace warpline::cpu {
namespace {

// The pace word of the modules that were loaded last, by arena.
std::map<uint64_t, uint64_t>& PaceWords() {
  static auto* const words = new std::map<uint64_t, uint64_t>;
  return *words;
}

}  // namespace

CudaResult LoadText(device::Context* context, std::string_view text, uint64_t arena,
                    uint64_t variables, device::ModuleId* module) {
  const auto guarded = guard::Guard(text, {.arena_bits = 32, .hardened = WARPLINE_HARDENED});
  if (!guarded.ok()) {
    std::fprintf(stderr, "it is not guarded: %s\n", guarded.status().ToString().c_str());
    return CudaResult::kInvalidPtx;
  }
  for (const guard::Refusal& refusal : guarded->refusals) {
    std::fprintf(stderr, "%s is not guarded: %s\n", refusal.kernel.c_str(), refusal.reason.c_str());
  }
  CudaResult result = context->LoadModule(guarded->text, module);
  if (result != CudaResult::kSuccess) return result;
  uint64_t at = 0, bytes = 0;
  result = context->FindGlobal(*module, std::string(guard::kConstVariable), &at, &bytes);
  const auto write = [&](uint64_t address, const std::string& what) {
    if (result != CudaResult::kSuccess || what.empty()) return;
    result = context->CopyToDevice(address, what.data(), what.size(), device::kLegacyStream);
  };
  // The pace word is a variable of a module of nobody's.
  device::ModuleId words{};
  uint64_t pace = 0;
  if (result == CudaResult::kSuccess) result = context->LoadModule(guard::kPaceWordModule, &words);
  if (result == CudaResult::kSuccess)
    result = context->FindGlobal(words, guard::kPaceWordVariable, &pace, &bytes);
  PaceWords()[arena] = pace;
  // A ring without room for records; its head is written all the same.
  const uint64_t records = variables + (guarded->layout.globals_bytes + 63) / 64 * 64;
  write(at, guard::GuardWords(
                {.arena = arena, .globals = variables, .records = records, .pace = pace}));
  write(records, std::string(sizeof(guard::RecordsHeader), '\0'));
  write(variables, guard::GlobalsAt(guarded->layout, variables));
  return result;
}

void AddParameters(uint64_t arena, const device::LaunchConfig& config,
                   std::vector<std::byte>* params) {
  guard::AppendLaunchWords(
      guard::LaunchWordsOf(arena, config.grid, config.block, /*asks=*/false, PaceWords()[arena]),
      params);
}

bool LoadsGuarded() { return true; }

}  // namespace warpline::cpu
