#include "common/fatbin/image_view.h"

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
  const auto program_at = LoadAt<uint64_t>(image, 32);
  const auto sections_at = LoadAt<uint64_t>(image, 40);
  const auto program_size = LoadAt<uint16_t>(image, 54);
  const auto program_count = LoadAt<uint16_t>(image, 56);
  const auto section_size = LoadAt<uint16_t>(image, 58);
  const auto section_count = LoadAt<uint16_t>(image, 60);
  uint64_t end = kElfHeaderBytes;
  end = std::max(end, program_at + uint64_t{program_size} * program_count);
  end = std::max(end, sections_at + uint64_t{section_size} * section_count);
  for (uint64_t i = 0; i < section_count; ++i) {
    constexpr uint32_t kNoBits = 8;
    const uint64_t at = sections_at + i * section_size;
    if (LoadAt<uint32_t>(image, at + 4) == kNoBits) continue;
    end = std::max(end, LoadAt<uint64_t>(image, at + 24) + LoadAt<uint64_t>(image, at + 32));
  }
  for (uint64_t i = 0; i < program_count; ++i) {
    const uint64_t at = program_at + i * program_size;
    end = std::max(end, LoadAt<uint64_t>(image, at + 8) + LoadAt<uint64_t>(image, at + 32));
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
  if (std::strncmp(Bytes(image), kElfMagic.data(), kElfMagic.size()) == 0) return Cubin(image);
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
