#include "tools/cli/served_libraries.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/elf/dynamic_symbols.h"
#include "common/plain_file.h"

namespace warpline::cli {
namespace {

constexpr std::string_view kLibraries[] = {"libcublas.so.13", "libcublasLt.so.13"};
constexpr std::string_view kPrefix = "cublas";

std::vector<elf::DynamicSymbol> SymbolsOf(const std::string& path) {
  const auto file = PlainFile::Open(path);
  if (!file.ok()) return {};
  auto symbols = elf::ReadDynamicSymbols(
      [&](uint64_t offset, uint64_t bytes) { return file->Read(offset, bytes); }, file->size(),
      kPrefix);
  return symbols.ok() ? *std::move(symbols) : std::vector<elf::DynamicSymbol>();
}

}  // namespace

ServedLibraries::ServedLibraries(const std::string& folder) {
  for (const std::string_view name : kLibraries) {
    Library library;
    // Those that only say that they are not supported are weak (client_stub/libraries).
    for (elf::DynamicSymbol& symbol : SymbolsOf(absl::StrCat(folder, "/", std::string(name)))) {
      if (!symbol.defined) continue;
      (symbol.weak ? library.known : library.executes).insert(std::move(symbol.name));
    }
    if (library.executes.empty()) continue;
    names_.emplace(name);
    libraries_.emplace(name, std::move(library));
  }
}

void ServedLibraries::AddUser(const std::string& path) {
  if (names_.empty()) return;
  for (const elf::DynamicSymbol& symbol : SymbolsOf(path)) {
    if (symbol.defined) continue;
    for (auto& [name, library] : libraries_) {
      if (library.executes.contains(symbol.name)) library.executed.insert(symbol.name);
      if (library.known.contains(symbol.name)) library.refused.insert(symbol.name);
    }
  }
}

std::vector<std::string> ServedLibraries::Lines(const std::set<std::string>& needed) const {
  std::vector<std::string> lines;
  for (const auto& [name, library] : libraries_) {
    if (!needed.contains(name)) continue;
    const size_t used = library.executed.size() + library.refused.size();
    lines.push_back(absl::StrCat(name, ": the server executes ", library.executed.size(), " of ",
                                 used, " functions that are used"));
    for (const std::string& function : library.refused) {
      lines.push_back(absl::StrCat("  ", function, ": is not executed, and returns an error"));
    }
  }
  return lines;
}

bool ServedLibraries::IsComplete(const std::set<std::string>& needed) const {
  return absl::c_all_of(libraries_, [&](const auto& library) {
    return library.second.refused.empty() || !needed.contains(library.first);
  });
}

}  // namespace warpline::cli
