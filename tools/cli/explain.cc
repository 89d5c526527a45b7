#include "tools/cli/explain.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/fatbin/fatbin.h"
#include "common/tier/device_code.h"
#include "common/tier/file_survey.h"
#include "common/tier/keyed_lines.h"
#include "common/tier/program_identity.h"
#include "common/tier/tier_record.h"
#include "common/unique_fd.h"
#include "guard/guard.h"
#include "ptx/ast.h"
#include "ptx/parser.h"
#include "tools/cli/program_check.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

constexpr char kLoader[] = "/lib64/ld-linux-x86-64.so.2";

// Names by which a kernel's forms for several architectures are one.
using Reasons = std::map<std::string, std::string>;

void Note(const std::string& kernel, const std::string& reason, Reasons* reasons) {
  const auto [at, is_new] = reasons->emplace(kernel, reason);
  if (!is_new && reason.empty()) at->second.clear();
}

void ExplainText(const std::string& text, bool hardened, Reasons* reasons) {
  const auto guarded = guard::Guard(text, {.arena_bits = 36, .hardened = hardened});
  if (guarded.ok()) {
    for (const std::string& kernel : guarded->kernels) Note(kernel, "", reasons);
    for (const guard::Refusal& refusal : guarded->refusals) {
      Note(refusal.kernel,
           refusal.function == refusal.kernel
               ? refusal.reason
               : absl::StrCat("it calls ", refusal.function, ": ", refusal.reason),
           reasons);
    }
    return;
  }
  const std::string why(guarded.status().message());
  const auto module = ptx::Parse(text);
  if (!module.ok()) return Note("(a module)", why, reasons);
  for (const auto& item : module->items) {
    const auto* const function = std::get_if<ptx::Function>(&item);
    if (function != nullptr && function->is_entry) Note(function->name, why, reasons);
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Runs a program and returns what it wrote to its standard output.
std::string OutputOf(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  write_end = UniqueFd();
  if (error != 0) return "";
  std::string output;
  char buffer[4096];
  while (true) {
    const ssize_t got = read(read_end.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    output.append(buffer, static_cast<size_t>(got));
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return output;
}

// The libraries that the dynamic loader finds for the file. It only lists them, and runs nothing of
// the file. Empty for what is no program or library.
std::vector<std::string> LibrariesOf(const std::string& path) {
  std::vector<std::string> libraries;
  const std::string text = OutputOf({kLoader, "--list", path});
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) {
    const size_t begin = line.find(" => /");
    const size_t end = line.rfind(" (0x");
    if (begin == std::string::npos || end == std::string::npos || end < begin + 4) continue;
    libraries.push_back(line.substr(begin + 4, end - begin - 4));
  }
  return libraries;
}

}  // namespace

ExplainedFile ExplainFile(const std::string& path, std::string_view bytes, bool hardened) {
  ExplainedFile file;
  file.path = path;
  Reasons reasons;
  const std::vector<std::string_view> containers = fatbin::FindContainers(bytes);
  if (containers.empty() && bytes.find(".version") != std::string_view::npos &&
      !bytes.starts_with("\x7f"
                         "ELF")) {
    ExplainText(std::string(bytes), hardened, &reasons);
  }
  std::set<std::string> seen;
  uint64_t left_bytes = tier::kMostLookedInto;
  for (const std::string_view container : containers) {
    const auto entries = fatbin::ParseImage(container);
    if (!entries.ok()) continue;
    if (tier::CodeOfContainer(container, &left_bytes).machine_code_alone) ++file.machine_code;
    for (const fatbin::ImageEntry& entry : *entries) {
      if (entry.kind != fatbin::ImageKind::kPtx) continue;
      const absl::StatusOr<std::string> text = fatbin::EntryPayload(entry);
      if (text.ok() && seen.insert(*text).second) ExplainText(*text, hardened, &reasons);
    }
  }
  for (auto& [name, reason] : reasons) file.kernels.push_back({name, std::move(reason)});
  return file;
}

std::string ExplainChoice(const std::string& program, const std::vector<std::string>& words,
                          const std::vector<std::string>& files, const std::string& cache_folder) {
  const std::string known =
      tier::TierRecord(cache_folder).Find(tier::IdentifyProgram(program, words));
  if (!known.empty()) {
    return absl::StrCat("--tier=auto: isolated, as ", Shown(known), " in an earlier run");
  }
  // Without the bounds of a start.
  tier::FileSurvey survey({.cache_folder = "",
                           .most_file_bytes = uint64_t{1} << 30,
                           .most_bytes = uint64_t{1} << 40,
                           .most_time = absl::InfiniteDuration()});
  std::set<std::string> targets;
  for (const std::string& path : files) {
    const tier::DeviceCode code = survey.Look(path);
    if (!code.obstacle.empty()) {
      return absl::StrCat("--tier=auto: isolated, because of ", Shown(path), ": ", code.obstacle);
    }
    targets.insert(code.targets.begin(), code.targets.end());
  }
  if (targets.empty()) {
    return "--tier=auto: guarded, as long as it loads no library with machine code alone";
  }
  return absl::StrCat(
      "--tier=auto: guarded, where the server offers that and the device takes PTX for ",
      absl::StrJoin(targets, " and "));
}

int Explain(const CommandLine& line) {
  const bool all = line.Has("all");
  std::vector<std::string> files;
  std::string first;
  for (const std::string& name : line.rest) {
    std::string path = name;
    if (access(path.c_str(), R_OK) != 0) {
      const auto program = FindProgram(name);
      if (!program.ok()) {
        std::fprintf(stderr, "warpline: %s\n", std::string(program.status().message()).c_str());
        return 2;
      }
      path = *program;
    }
    if (first.empty()) first = path;
    files.push_back(path);
    for (std::string& library : LibrariesOf(path)) files.push_back(std::move(library));
  }
  std::set<std::string> seen;
  size_t kernels = 0, guarded = 0, machine_code = 0;
  for (const std::string& path : files) {
    if (!seen.insert(path).second) continue;
    const ExplainedFile file = ExplainFile(path, ReadFile(path), line.Has("hardened"));
    if (file.kernels.empty() && file.machine_code == 0) continue;
    const auto fine = static_cast<size_t>(
        std::count_if(file.kernels.begin(), file.kernels.end(),
                      [](const ExplainedKernel& kernel) { return kernel.reason.empty(); }));
    std::printf("%s: %zu of %zu kernels can be guarded\n", Shown(path).c_str(), fine,
                file.kernels.size());
    if (file.machine_code != 0) {
      std::printf("  %llu modules without PTX: they run in a process of their own only\n",
                  static_cast<unsigned long long>(file.machine_code));
    }
    for (const ExplainedKernel& kernel : file.kernels) {
      if (!kernel.reason.empty()) {
        std::printf("  %s: %s\n", Shown(kernel.name).c_str(), Shown(kernel.reason).c_str());
      } else if (all) {
        std::printf("  %s: can be guarded\n", Shown(kernel.name).c_str());
      }
    }
    kernels += file.kernels.size();
    guarded += fine;
    machine_code += file.machine_code;
  }
  if (kernels == 0 && machine_code == 0) {
    std::printf("no kernels in %s or its libraries\n", Shown(line.rest[0]).c_str());
  } else {
    std::printf("guarded: %zu of %zu kernels\n", guarded, kernels);
  }
  std::printf("%s\n", ExplainChoice(first, line.rest, files, tier::CacheFolder()).c_str());
  return guarded == kernels && machine_code == 0 ? 0 : 1;
}

}  // namespace warpline::cli
