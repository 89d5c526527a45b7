#include "common/fatbin/image_view.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/fatbin/format.h"

namespace warpline::fatbin {
namespace {

const char* Bytes(const void* image) { return static_cast<const char*>(image); }

std::string_view Container(const void* image) {
  return {Bytes(image), LoadAt<uint16_t>(image, 6) + LoadAt<uint64_t>(image, 8)};
}

// A cubin ends with the last of its section table, program table, sections and segments.
std::string_view Cubin(const void* image) {
  const auto header = LoadAt<Elf64_Ehdr>(image, 0);
  uint64_t end = sizeof(header);
  end = std::max(end, header.e_phoff + uint64_t{header.e_phentsize} * header.e_phnum);
  end = std::max(end, header.e_shoff + uint64_t{header.e_shentsize} * header.e_shnum);
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto section = LoadAt<Elf64_Shdr>(image, header.e_shoff + i * header.e_shentsize);
    if (section.sh_type == SHT_NOBITS) continue;
    end = std::max(end, section.sh_offset + section.sh_size);
  }
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = LoadAt<Elf64_Phdr>(image, header.e_phoff + i * header.e_phentsize);
    end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  return {Bytes(image), end};
}

}  // namespace

bool IsWrapper(const void* image) {
  // Only the number's first byte is compared, because a text may be shorter than the number.
  return static_cast<unsigned char>(*Bytes(image)) == (kWrapperMagic & 0xff) &&
         LoadAt<uint32_t>(image, 0) == kWrapperMagic;
}

absl::StatusOr<std::string_view> ViewImage(const void* image) {
  if (image == nullptr) return absl::InvalidArgumentError("no image");
  // The first byte tells text from the rest, so that a text of one byte is not overrun.
  const unsigned char first = static_cast<unsigned char>(*Bytes(image));
  if (IsWrapper(image)) {
    image = LoadAt<const void*>(image, 8);
    if (image == nullptr || LoadAt<uint32_t>(image, 0) != kContainerMagic) {
      return absl::InvalidArgumentError("wrapper without a fatbin");
    }
    return Container(image);
  }
  if (first == (kContainerMagic & 0xff) && LoadAt<uint32_t>(image, 0) == kContainerMagic) {
    return Container(image);
  }
  if (std::strncmp(Bytes(image), ELFMAG, SELFMAG) == 0) return Cubin(image);
  if (first == '.' || first == '/' || first == ' ' || (first >= '\t' && first <= '\r')) {
    return std::string_view(Bytes(image));
  }
  return absl::InvalidArgumentError("neither a fatbin, nor a cubin, nor PTX");
}

std::vector<std::string_view> PrelinkedImages(const void* image) {
  std::vector<std::string_view> images;
  if (image == nullptr || !IsWrapper(image) || LoadAt<uint32_t>(image, 4) != 2) {
    return images;
  }
  const auto* list = LoadAt<const void* const*>(image, 16);
  for (; list != nullptr && *list != nullptr; ++list) {
    if (LoadAt<uint32_t>(*list, 0) != kContainerMagic) break;
    images.push_back(Container(*list));
  }
  return images;
}

}  // namespace warpline::fatbin
