#include "tools/cli/explain.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/elf/library_walk.h"
#include "common/plain_file.h"
#include "common/sibling_program.h"
#include "common/tier/device_code.h"
#include "common/tier/file_survey.h"
#include "common/tier/keyed_lines.h"
#include "common/tier/program_identity.h"
#include "common/tier/tier_record.h"
#include "tools/cli/explained_file.h"
#include "tools/cli/program_check.h"
#include "tools/cli/served_libraries.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

// So many libraries that are not there are named, and of the others the number.
constexpr size_t kMostMissingNamed = 10;

void Complain(const std::string& what) { cli::Complain("warpline", Shown(what), 0); }

// What all files have together.
struct Totals {
  size_t kernels = 0;
  size_t guarded = 0;
  uint64_t machine_code = 0;
  bool doubts = false;  // Something was not looked into.
};

void Print(const std::string& path, const ExplainedFile& file, bool all, Totals* totals) {
  for (const std::string& doubt : file.doubts) Complain(absl::StrCat(path, ": ", doubt));
  totals->doubts |= !file.doubts.empty();
  if (file.kernels.empty() && file.machine_code == 0) return;
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
  totals->kernels += file.kernels.size();
  totals->guarded += fine;
  totals->machine_code += file.machine_code;
}

absl::StatusOr<ExplainedFile> ExplainPath(const std::string& path, FileExplainer* explainer) {
  const auto file = PlainFile::Open(path);
  if (!file.ok()) return file.status();
  auto explained = explainer->Explain(
      [&file](uint64_t offset, uint64_t bytes) { return file->Read(offset, bytes); }, file->size());
  if (explained.ok()) return explained;
  return absl::Status(
      explained.status().code(),
      absl::StrCat("cannot explain ", path, ": ", std::string(explained.status().message())));
}

// Why the file cannot be the program that is explained; empty for one that can.
std::string WhyNoProgram(const std::string& path, const ExplainedFile& file) {
  switch (file.kind) {
    case ExplainedFile::Kind::kElf:
    case ExplainedFile::Kind::kDeviceCode:
      return "";
    case ExplainedFile::Kind::kScript:
      return absl::StrCat("cannot explain ", path, ": it is a script for ", file.interpreter,
                          ": explain that program, with the script behind it");
    case ExplainedFile::Kind::kOther:
      break;
  }
  return absl::StrCat("cannot explain ", path,
                      ": it is neither a program, nor a library, nor a fatbin, nor PTX");
}

absl::StatusOr<std::string> PathOf(const std::string& name) {
  if (access(name.c_str(), R_OK) == 0) return name;
  return FindProgram(name);
}

// The libraries of the program, in the loader's order. Adds those to `needed` that the server
// serves, which are not looked into.
std::vector<std::string> LibrariesOf(const std::string& program, const ServedLibraries& served,
                                     Totals* totals, std::set<std::string>* needed) {
  elf::WalkOptions options = elf::WalkOptionsHere();
  options.present = served.names();
  elf::LibraryWalk walk = elf::WalkLibraries(program, options);
  needed->merge(walk.present);
  for (const std::string& doubt : walk.doubts) Complain(doubt);
  totals->doubts |= !walk.doubts.empty();
  if (!walk.missing.empty()) {
    const size_t named = std::min(walk.missing.size(), kMostMissingNamed);
    const std::vector<std::string> names(walk.missing.begin(),
                                         walk.missing.begin() + static_cast<ptrdiff_t>(named));
    Complain(absl::StrCat(
        "libraries that are not found here are not looked into: ", absl::StrJoin(names, ", "),
        named < walk.missing.size() ? absl::StrCat(" and ", walk.missing.size() - named, " more")
                                    : ""));
  }
  return walk.paths;
}

}  // namespace

std::string ExplainChoice(const std::string& program, const std::vector<std::string>& words,
                          const std::vector<std::string>& files,
                          const std::set<std::string>& needed, const std::string& cache_folder) {
  const std::string known =
      tier::TierRecord(cache_folder).Find(tier::IdentifyProgram(program, words));
  if (!known.empty()) {
    return absl::StrCat("--tier=auto: isolated, as ", Shown(known), " in an earlier run");
  }
  if (!needed.empty()) {
    return absl::StrCat("--tier=auto: isolated, because of ", *needed.begin(),
                        ": only --tier=guarded has the server execute its functions");
  }
  // A start has tighter bounds on all files together, which its cache makes up for.
  tier::FileSurvey survey({.cache_folder = "",
                           .most_bytes = uint64_t{16} << 30,
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
  std::vector<std::string> files;
  std::string first;
  Totals totals;
  FileExplainer explainer(line.Has("hardened"));
  const auto own = OwnFolder();
  ServedLibraries served(own.ok() ? absl::StrCat(*own, "/../lib/guarded") : "");
  std::set<std::string> needed;
  std::set<std::string> seen;
  for (const std::string& name : line.rest) {
    const auto path = PathOf(name);
    if (!path.ok()) {
      Complain(std::string(path.status().message()));
      return 2;
    }
    const auto program = ExplainPath(*path, &explainer);
    const std::string wrong = !program.ok()   ? std::string(program.status().message())
                              : first.empty() ? WhyNoProgram(*path, *program)
                                              : "";
    if (!wrong.empty()) {
      Complain(wrong);
      return 2;
    }
    if (first.empty()) first = *path;
    files.push_back(*path);
    served.AddUser(*path);
    if (seen.insert(*path).second) Print(*path, *program, line.Has("all"), &totals);
    for (const std::string& library : LibrariesOf(*path, served, &totals, &needed)) {
      files.push_back(library);
      served.AddUser(library);
      if (!seen.insert(library).second) continue;
      const auto file = ExplainPath(library, &explainer);
      if (file.ok()) {
        Print(library, *file, line.Has("all"), &totals);
      } else {
        Complain(std::string(file.status().message()));
        totals.doubts = true;
      }
    }
  }
  for (const std::string& text : served.Lines(needed)) std::printf("%s\n", Shown(text).c_str());
  if (totals.kernels == 0 && totals.machine_code == 0) {
    std::printf("no kernels in %s or its libraries\n", Shown(line.rest[0]).c_str());
  } else {
    std::printf("guarded: %zu of %zu kernels\n", totals.guarded, totals.kernels);
  }
  std::printf("%s\n", ExplainChoice(first, line.rest, files, needed, tier::CacheFolder()).c_str());
  const bool all = totals.guarded == totals.kernels && totals.machine_code == 0;
  return all && served.IsComplete(needed) && !totals.doubts ? 0 : 1;
}

}  // namespace warpline::cli
