#include "client_stub/core/image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

namespace warpline::stub {
namespace {

// cuda's fatbinary_section.h: what a program's constructors register.
constexpr uint32_t kWrapperMagic = 0x466243b1;
struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const char* data;
  const void* more;  // Version 2: the containers before linking, which need not be sent.
};

constexpr uint32_t kContainerMagic = 0xba55ed50;
struct ContainerHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t entries_bytes;
};

template <typename T>
T Read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// The end of the last thing that the headers place in the image.
uint64_t ElfBytes(const char* image) {
  const auto header = Read<Elf64_Ehdr>(image);
  uint64_t end = header.e_ehsize;
  end = std::max(end, header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize);
  end = std::max(end, header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize);
  for (unsigned int i = 0; i < header.e_shnum && header.e_shentsize == sizeof(Elf64_Shdr); ++i) {
    const auto section = Read<Elf64_Shdr>(image + header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  for (unsigned int i = 0; i < header.e_phnum && header.e_phentsize == sizeof(Elf64_Phdr); ++i) {
    const auto segment = Read<Elf64_Phdr>(image + header.e_phoff + i * sizeof(Elf64_Phdr));
    end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

bool IsPtx(std::string_view text) { return text.find(".version") != std::string_view::npos; }

}  // namespace

CUresult FindImage(const void* image, std::string_view* bytes) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const char* at = static_cast<const char*>(image);
  if (std::strncmp(at, ELFMAG, SELFMAG) == 0) {
    if (at[EI_CLASS] != ELFCLASS64) return CUDA_ERROR_INVALID_IMAGE;
    *bytes = {at, ElfBytes(at)};
    return CUDA_SUCCESS;
  }
  // Text is at least one byte and its end; of anything else the first four are the kind.
  const bool text = at[0] > 0 && (at[1] == 0 || at[2] == 0 || at[3] == 0 ||
                                  (at[1] > 0 && at[2] > 0 && at[3] > 0));
  if (text) {
    *bytes = {at, std::strlen(at) + 1};
    return IsPtx(*bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
  }
  if (Read<uint32_t>(at) == kWrapperMagic) {
    at = Read<Wrapper>(at).data;
    if (at == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  }
  const auto header = Read<ContainerHeader>(at);
  if (header.magic != kContainerMagic || header.header_bytes < sizeof(ContainerHeader)) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *bytes = {at, header.header_bytes + header.entries_bytes};
  return CUDA_SUCCESS;
}

CUresult ReadImageFile(const char* path, std::string* bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  bytes->assign(std::istreambuf_iterator<char>(file), {});
  if (file.bad() || bytes->empty()) return CUDA_ERROR_FILE_NOT_FOUND;
  // Text in a file has no end of its own.
  if ((*bytes)[0] > 0 && (*bytes)[0] != ELFMAG[0] && bytes->back() != '\0') bytes->push_back('\0');
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
