#include "common/elf/sections.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"

namespace warpline::elf {
namespace {

// Some names are the ends of others, and some sections have the same name. Real files have no more
// bytes of names than this many times the bytes of their tables.
constexpr uint64_t kMostNaming = 4;

bool LiesWithin(const FileRange& range, uint64_t size) {
  return range.offset <= size && range.bytes <= size - range.offset;
}

// Reads all of the range; nothing where the file has been cut since its size was taken.
std::optional<std::string> ReadAll(const ReadAt& read, const FileRange& range) {
  std::string bytes = read(range.offset, range.bytes);
  if (bytes.size() != range.bytes) return std::nullopt;
  return bytes;
}

absl::Status NoTable() {
  return absl::InvalidArgumentError("its table of sections is outside of it, or too large");
}

absl::Status NoNames() { return absl::InvalidArgumentError("its sections have no names"); }

absl::Status NameAll(std::string_view names, std::vector<Section>* sections) {
  // No name that has no end is searched for it.
  names = names.substr(0, names.rfind('\0') + 1);
  uint64_t left = kMostNaming * (names.size() + sections->size() * sizeof(Elf64_Shdr));
  for (Section& section : *sections) {
    const auto name = TextAt(names, section.header.sh_name, names.size());
    if (!name.has_value()) continue;
    if (name->size() > left) return NoNames();
    left -= name->size();
    section.name.emplace(*name);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Section>> ReadSections(const Elf64_Ehdr& header, const ReadAt& read,
                                                  uint64_t size, const SectionLimits& limits) {
  std::vector<Section> sections;
  if (header.e_shoff == 0) return sections;
  if (header.e_shentsize != sizeof(Elf64_Shdr) ||
      !LiesWithin({header.e_shoff, sizeof(Elf64_Shdr)}, size)) {
    return NoTable();
  }
  // Numbers that are too large for the header are in the first section.
  uint64_t count = header.e_shnum, names_at = header.e_shstrndx;
  if (count == 0 || names_at == SHN_XINDEX) {
    const auto first = ReadAll(read, {header.e_shoff, sizeof(Elf64_Shdr)});
    if (!first.has_value()) return NoTable();
    const auto numbers = LoadAt<Elf64_Shdr>(*first, 0);
    if (count == 0) count = numbers.sh_size;
    if (names_at == SHN_XINDEX) names_at = numbers.sh_link;
  }
  const uint64_t most = (size - header.e_shoff) / sizeof(Elf64_Shdr);
  if (count > std::min(most, limits.most_sections)) return NoTable();
  const auto table = ReadAll(read, {header.e_shoff, count * sizeof(Elf64_Shdr)});
  if (!table.has_value()) return NoTable();
  if (names_at >= count) return NoNames();
  sections.resize(count);
  for (uint64_t i = 0; i < count; ++i) {
    sections[i].header = LoadAt<Elf64_Shdr>(*table, i * sizeof(Elf64_Shdr));
  }
  const auto names_in = ContentsOf(sections[names_at], size);
  if (!names_in.has_value() || names_in->bytes > limits.most_name_bytes) return NoNames();
  const auto names = ReadAll(read, *names_in);
  if (!names.has_value()) return NoNames();
  if (absl::Status named = NameAll(*names, &sections); !named.ok()) return named;
  return sections;
}

std::optional<FileRange> ContentsOf(const Section& section, uint64_t size) {
  if (section.header.sh_type == SHT_NULL || section.header.sh_type == SHT_NOBITS) {
    return FileRange();
  }
  const FileRange range = {section.header.sh_offset, section.header.sh_size};
  if (!LiesWithin(range, size)) return std::nullopt;
  return range;
}

std::optional<std::string_view> ContentsOf(const Section& section, std::string_view file) {
  const auto range = ContentsOf(section, uint64_t{file.size()});
  if (!range.has_value()) return std::nullopt;
  return file.substr(range->offset, range->bytes);
}

std::optional<std::string_view> TextAt(std::string_view strings, uint64_t at, size_t most) {
  if (at >= strings.size()) return std::nullopt;
  const std::string_view rest = strings.substr(at);
  // One more for the NUL, if there is room for it.
  const size_t end = rest.substr(0, most < rest.size() ? most + 1 : rest.size()).find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  return rest.substr(0, end);
}

}  // namespace warpline::elf
