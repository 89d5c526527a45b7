#include "tools/cli/served_libraries.h"

#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/elf/dynamic_symbols.h"
#include "common/plain_file.h"

namespace warpline::cli {
namespace {

constexpr std::string_view kCublas = "libcublas.so.13";
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
  // Those that only say that they are not supported are weak (client_stub/libraries).
  for (elf::DynamicSymbol& symbol : SymbolsOf(absl::StrCat(folder, "/", std::string(kCublas)))) {
    if (!symbol.defined) continue;
    (symbol.weak ? known_ : executes_).insert(std::move(symbol.name));
  }
  if (!executes_.empty()) names_.emplace(kCublas);
}

void ServedLibraries::AddUser(const std::string& path) {
  if (names_.empty()) return;
  for (const elf::DynamicSymbol& symbol : SymbolsOf(path)) {
    if (symbol.defined) continue;
    if (executes_.contains(symbol.name)) executed_.insert(symbol.name);
    if (known_.contains(symbol.name)) refused_.insert(symbol.name);
  }
}

std::vector<std::string> ServedLibraries::Lines(const std::set<std::string>& needed) const {
  std::vector<std::string> lines;
  if (!needed.contains(std::string(kCublas))) return lines;
  lines.push_back(absl::StrCat(std::string(kCublas), ": the server executes ", executed_.size(),
                               " of ", executed_.size() + refused_.size(),
                               " functions that are used"));
  for (const std::string& name : refused_) {
    lines.push_back(absl::StrCat("  ", name, ": is not executed, and returns an error"));
  }
  return lines;
}

}  // namespace warpline::cli
