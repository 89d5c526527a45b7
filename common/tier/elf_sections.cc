#include "common/tier/elf_sections.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace warpline::tier {
namespace {

// Libraries have some dozens.
constexpr uint64_t kMostSections = 4096;
constexpr uint64_t kMostNames = uint64_t{1} << 20;
// Of whole programs, and of what is linked for the device later.
constexpr std::string_view kNames[] = {".nv_fatbin", "__nv_relfatbin"};

template <typename T>
T LoadAt(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

std::string_view NameAt(std::string_view names, uint64_t at) {
  if (at >= names.size()) return {};
  const std::string_view rest = names.substr(at);
  return rest.substr(0, rest.find('\0'));
}

}  // namespace

std::optional<std::vector<FileRange>> DeviceCodeSections(const ReadAt& read, uint64_t size) {
  const std::string head = read(0, sizeof(Elf64_Ehdr));
  if (head.size() != sizeof(Elf64_Ehdr) || std::memcmp(head.data(), ELFMAG, SELFMAG) != 0 ||
      head[EI_CLASS] != ELFCLASS64 || head[EI_DATA] != ELFDATA2LSB) {
    return std::nullopt;
  }
  const auto elf = LoadAt<Elf64_Ehdr>(head, 0);
  const uint64_t count = elf.e_shnum;
  if (count == 0 || count > kMostSections || elf.e_shentsize != sizeof(Elf64_Shdr) ||
      elf.e_shoff > size || elf.e_shstrndx >= count) {
    return std::nullopt;
  }
  const std::string table = read(elf.e_shoff, count * sizeof(Elf64_Shdr));
  if (table.size() != count * sizeof(Elf64_Shdr)) return std::nullopt;
  const auto strings = LoadAt<Elf64_Shdr>(table, elf.e_shstrndx * sizeof(Elf64_Shdr));
  if (strings.sh_offset > size) return std::nullopt;
  const std::string names =
      read(strings.sh_offset, std::min<uint64_t>(strings.sh_size, kMostNames));
  std::vector<FileRange> found;
  for (uint64_t i = 0; i < count; ++i) {
    const auto section = LoadAt<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr));
    const std::string_view name = NameAt(names, section.sh_name);
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) continue;
    if (section.sh_type == SHT_NOBITS || section.sh_offset >= size) continue;
    found.push_back(
        {section.sh_offset, std::min<uint64_t>(section.sh_size, size - section.sh_offset)});
  }
  return found;
}

}  // namespace warpline::tier
