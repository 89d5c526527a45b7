#include "common/elf/dynamic_symbols.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "common/elf/sections.h"

namespace warpline::elf {
namespace {

constexpr SectionLimits kLimits = {.most_sections = 65536, .most_name_bytes = uint64_t{4} << 20};

absl::StatusOr<std::string> Contents(const Section& section, const ReadAt& read, uint64_t size) {
  const std::optional<FileRange> range = ContentsOf(section, size);
  if (!range.has_value() || range->bytes > kMostSymbolBytes) {
    return absl::InvalidArgumentError("its symbols lie outside of it, or are too many");
  }
  std::string bytes = read(range->offset, range->bytes);
  if (bytes.size() != range->bytes) return absl::InvalidArgumentError("its symbols cannot be read");
  return bytes;
}

}  // namespace

absl::StatusOr<std::vector<DynamicSymbol>> ReadDynamicSymbols(const ReadAt& read, uint64_t size,
                                                              std::string_view prefix) {
  const auto header = ReadHeader(read);
  if (!header.has_value() || !IsForX86_64(*header)) {
    return absl::InvalidArgumentError("it is no ELF file for 64-bit x86");
  }
  const auto sections = ReadSections(*header, read, size, kLimits);
  if (!sections.ok()) return sections.status();
  const auto table = std::find_if(sections->begin(), sections->end(), [](const Section& section) {
    return section.header.sh_type == SHT_DYNSYM;
  });
  std::vector<DynamicSymbol> found;
  if (table == sections->end()) return found;
  if (table->header.sh_link >= sections->size()) {
    return absl::InvalidArgumentError("its symbols have no names");
  }
  const auto symbols = Contents(*table, read, size);
  if (!symbols.ok()) return symbols.status();
  const auto names = Contents((*sections)[table->header.sh_link], read, size);
  if (!names.ok()) return names.status();
  size_t kept = 0;
  for (uint64_t i = 0; const auto symbol = ElementAt<Elf64_Sym>(*symbols, i); ++i) {
    const auto name = TextAt(*names, symbol->st_name, kMostSymbolNameBytes);
    if (!name.has_value()) return absl::InvalidArgumentError("a symbol has no name");
    if (name->empty() || !name->starts_with(prefix)) continue;
    kept += sizeof(DynamicSymbol) + name->size();
    if (kept > kMostKeptBytes) return absl::InvalidArgumentError("its symbols have too many names");
    found.push_back({std::string(*name), symbol->st_shndx != SHN_UNDEF,
                     ELF64_ST_BIND(symbol->st_info) == STB_WEAK});
  }
  return found;
}

}  // namespace warpline::elf
