#include "common/elf/elf_header.h"

namespace warpline::elf {

bool IsElf(std::string_view bytes) { return bytes.starts_with(std::string_view(ELFMAG, SELFMAG)); }

ReadAt InMemory(std::string_view bytes) {
  return [bytes](uint64_t offset, uint64_t count) {
    return offset > bytes.size() ? std::string() : std::string(bytes.substr(offset, count));
  };
}

std::optional<Elf64_Ehdr> ReadHeader(const ReadAt& read) {
  const std::string head = read(0, sizeof(Elf64_Ehdr));
  if (head.size() != sizeof(Elf64_Ehdr) || !IsElf(head)) return std::nullopt;
  return LoadAt<Elf64_Ehdr>(head, 0);
}

bool Is64Bit(const Elf64_Ehdr& header) {
  return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
}

bool IsForX86_64(const Elf64_Ehdr& header) {
  return Is64Bit(header) && header.e_machine == EM_X86_64;
}

std::vector<Elf64_Phdr> ReadSegments(const Elf64_Ehdr& header, const ReadAt& read) {
  std::vector<Elf64_Phdr> segments;
  const size_t count = header.e_phnum;
  if (header.e_phentsize != sizeof(Elf64_Phdr) || count > kMostSegments) return segments;
  const std::string table = read(header.e_phoff, count * sizeof(Elf64_Phdr));
  if (table.size() != count * sizeof(Elf64_Phdr)) return segments;
  for (size_t i = 0; i < count; ++i) {
    segments.push_back(LoadAt<Elf64_Phdr>(table, i * sizeof(Elf64_Phdr)));
  }
  return segments;
}

}  // namespace warpline::elf
