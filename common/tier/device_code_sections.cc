#include "common/tier/device_code_sections.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace warpline::tier {
namespace {

// Libraries have some dozens.
constexpr elf::SectionLimits kLimits = {.most_sections = 4096,
                                        .most_name_bytes = uint64_t{1} << 20};
// The names for whole programs, and for code that is linked for the device later.
constexpr std::string_view kNames[] = {".nv_fatbin", "__nv_relfatbin"};

bool HoldsDeviceCode(const elf::Section& section) {
  return section.header.sh_type != SHT_NOBITS && section.name.has_value() &&
         std::find(std::begin(kNames), std::end(kNames), *section.name) != std::end(kNames);
}

}  // namespace

std::optional<std::vector<elf::FileRange>> DeviceCodeSections(const elf::ReadAt& read,
                                                              uint64_t size) {
  const auto header = elf::ReadHeader(read);
  if (!header.has_value() || !elf::Is64Bit(*header)) return std::nullopt;
  const auto sections = elf::ReadSections(*header, read, size, kLimits);
  if (!sections.ok() || sections->empty()) return std::nullopt;
  std::vector<elf::FileRange> found;
  for (const elf::Section& section : *sections) {
    const uint64_t offset = section.header.sh_offset;
    if (!HoldsDeviceCode(section) || offset >= size) continue;
    found.push_back({offset, std::min<uint64_t>(section.header.sh_size, size - offset)});
  }
  return found;
}

}  // namespace warpline::tier
