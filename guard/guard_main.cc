// Guards the PTX of files: PTX text, or programs and libraries with PTX in them.
//   guard_main [--arena_bits=36] [--hardened] [--checks] [--out=DIR] [--list] FILE...
// Prints how many kernels can be guarded, and why the others cannot. With --out it writes each
// module as it would be compiled. Ends with 1 when the verifier refused
// something that the rewriter wrote.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/elf/elf_header.h"
#include "common/fatbin/fatbin.h"
#include "common/plain_file.h"
#include "guard/guard.h"
#include "ptx/ast.h"
#include "ptx/parser.h"

ABSL_FLAG(int, arena_bits, 36, "the arena has 2^arena_bits bytes");
ABSL_FLAG(bool, hardened, false,
          "kernels do not fault either, can be stopped, and begin with shared memory that is zero");
ABSL_FLAG(bool, checks, false, "accesses are checked, to find mistakes");
ABSL_FLAG(bool, list, false, "print each kernel that cannot be guarded");
ABSL_FLAG(std::string, out, "", "a folder for the guarded modules");

namespace warpline::guard {
namespace {

struct Totals {
  uint64_t modules = 0, kernels = 0, guarded = 0, rejected = 0, in_bytes = 0, out_bytes = 0;
  absl::Duration time;
  std::map<std::string, uint64_t> reasons;
};

// Empty, with a complaint, where the file cannot be read.
std::string ReadFile(const std::string& path) {
  const auto file = PlainFile::Open(path);
  if (file.ok()) return file->Read(0, file->size());
  std::fprintf(stderr, "%s\n", std::string(file.status().message()).c_str());
  return "";
}

std::vector<std::string> TextsOf(std::string_view bytes) {
  std::vector<std::string> texts;
  if (!elf::IsElf(bytes) && fatbin::FindContainers(bytes).empty()) {
    texts.emplace_back(bytes);
    return texts;
  }
  for (const std::string_view container : fatbin::FindContainers(bytes)) {
    const auto entries = fatbin::ParseImage(container);
    if (!entries.ok()) continue;
    for (const fatbin::ImageEntry& entry : *entries) {
      if (entry.kind != fatbin::ImageKind::kPtx) continue;
      absl::StatusOr<std::string> text = fatbin::EntryPayload(entry);
      if (text.ok()) texts.push_back(*std::move(text));
    }
  }
  return texts;
}

// The reason without the names and numbers in it.
std::string KindOf(const std::string& reason) {
  std::string kind = reason;
  if (kind.starts_with("line ")) kind.erase(0, std::min(kind.size(), kind.find(": ") + 2));
  if (const size_t end = kind.find(": "); end != std::string::npos) {
    const std::string statement = kind.substr(end + 2);
    kind.resize(end);
    if (kind.find("does not know") != std::string::npos) {
      size_t begin = 0;
      if (statement.starts_with("@")) begin = statement.find(' ') + 1;
      absl::StrAppend(&kind, ": ", statement.substr(begin, statement.find(' ', begin) - begin));
    }
  }
  return kind;
}

uint64_t CountKernels(const ptx::Module& module) {
  uint64_t count = 0;
  for (const auto& item : module.items) {
    const auto* const function = std::get_if<ptx::Function>(&item);
    if (function != nullptr && function->is_entry && function->has_body) ++count;
  }
  return count;
}

void GuardOne(const std::string& name, const std::string& text, Totals* totals) {
  ++totals->modules;
  totals->in_bytes += text.size();
  const auto module = ptx::Parse(text);
  const uint64_t kernels = module.ok() ? CountKernels(*module) : 0;
  totals->kernels += kernels;
  const absl::Time start = absl::Now();
  const auto guarded = Guard(text, {.arena_bits = absl::GetFlag(FLAGS_arena_bits),
                                    .hardened = absl::GetFlag(FLAGS_hardened),
                                    .checks = absl::GetFlag(FLAGS_checks)});
  totals->time += absl::Now() - start;
  if (!guarded.ok()) {
    const std::string why(guarded.status().message());
    std::printf("%s: %s\n", name.c_str(), why.c_str());
    totals->reasons[KindOf(why)] += std::max<uint64_t>(kernels, 1);
    return;
  }
  totals->out_bytes += guarded->text.size();
  for (const Refusal& refusal : guarded->refusals) {
    ++totals->reasons[KindOf(refusal.reason)];
    if (refusal.reason.find("the verifier refuses") != std::string::npos) ++totals->rejected;
    if (absl::GetFlag(FLAGS_list)) {
      std::printf("%s: %s: %s: %s\n", name.c_str(), refusal.kernel.c_str(),
                  refusal.function.c_str(), refusal.reason.c_str());
    }
  }
  totals->guarded += guarded->kernels.size();
  if (const std::string folder = absl::GetFlag(FLAGS_out);
      !folder.empty() && !guarded->kernels.empty()) {
    std::ofstream(absl::StrCat(folder, "/", name, ".ptx")) << guarded->text;
  }
}

int Main(const std::vector<char*>& files) {
  Totals totals;
  std::set<size_t> seen;
  for (const char* const path : files) {
    int number = 0;
    for (const std::string& text : TextsOf(ReadFile(path))) {
      if (!seen.insert(std::hash<std::string>()(text)).second) continue;
      GuardOne(absl::StrCat(std::filesystem::path(path).filename().string(), ".", number++), text,
               &totals);
    }
  }
  std::vector<std::pair<uint64_t, std::string>> reasons;
  for (const auto& [reason, count] : totals.reasons) reasons.emplace_back(count, reason);
  std::sort(reasons.rbegin(), reasons.rend());
  for (const auto& [count, reason] : reasons) {
    std::printf("%8llu  %s\n", static_cast<unsigned long long>(count), reason.c_str());
  }
  std::printf("%llu modules, %.1f MB of PTX become %.1f MB, rewritten and verified in %.2f s\n",
              static_cast<unsigned long long>(totals.modules),
              static_cast<double>(totals.in_bytes) / 1e6,
              static_cast<double>(totals.out_bytes) / 1e6, absl::ToDoubleSeconds(totals.time));
  std::printf("guarded: %llu of %llu kernels\n", static_cast<unsigned long long>(totals.guarded),
              static_cast<unsigned long long>(totals.kernels));
  return totals.rejected == 0 ? 0 : 1;
}

}  // namespace
}  // namespace warpline::guard

int main(int argc, char** argv) {
  const std::vector<char*> files = absl::ParseCommandLine(argc, argv);
  return warpline::guard::Main({files.begin() + 1, files.end()});
}
