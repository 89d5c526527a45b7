#include "common/tier/elf_sections.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace warpline::tier {
namespace {

// Libraries have some dozens.
constexpr uint64_t kMostSections = 4096;
constexpr uint64_t kMostNames = uint64_t{1} << 20;
// Of whole programs, and of what is linked for the device later.
constexpr std::string_view kNames[] = {".nv_fatbin", "__nv_relfatbin"};

std::string_view NameAt(std::string_view names, uint64_t at) {
  if (at >= names.size()) return {};
  const std::string_view rest = names.substr(at);
  return rest.substr(0, rest.find('\0'));
}

}  // namespace

std::optional<std::vector<FileRange>> DeviceCodeSections(const elf::ReadAt& read, uint64_t size) {
  const auto header = elf::ReadHeader(read);
  if (!header.has_value()) return std::nullopt;
  const uint64_t count = header->e_shnum;
  if (count == 0 || count > kMostSections || header->e_shentsize != sizeof(Elf64_Shdr) ||
      header->e_shoff > size || header->e_shstrndx >= count) {
    return std::nullopt;
  }
  const std::string table = read(header->e_shoff, count * sizeof(Elf64_Shdr));
  if (table.size() != count * sizeof(Elf64_Shdr)) return std::nullopt;
  const auto strings = elf::LoadAt<Elf64_Shdr>(table, header->e_shstrndx * sizeof(Elf64_Shdr));
  if (strings.sh_offset > size) return std::nullopt;
  const std::string names =
      read(strings.sh_offset, std::min<uint64_t>(strings.sh_size, kMostNames));
  std::vector<FileRange> found;
  for (uint64_t i = 0; i < count; ++i) {
    const auto section = elf::LoadAt<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr));
    const std::string_view name = NameAt(names, section.sh_name);
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) continue;
    if (section.sh_type == SHT_NOBITS || section.sh_offset >= size) continue;
    found.push_back(
        {section.sh_offset, std::min<uint64_t>(section.sh_size, size - section.sh_offset)});
  }
  return found;
}

}  // namespace warpline::tier
