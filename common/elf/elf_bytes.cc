#include "common/elf/elf_bytes.h"

#include <elf.h>

#include <cstring>

namespace warpline::elf {
namespace {

template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

Elf64_Ehdr Header() {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  return header;
}

Elf64_Dyn Entry(int64_t tag, uint64_t value) {
  Elf64_Dyn entry = {};
  entry.d_tag = tag;
  entry.d_un.d_val = value;
  return entry;
}

}  // namespace

std::string ElfBytes(const std::vector<DynamicText>& texts, uint64_t flags_1) {
  std::string strings(1, '\0');
  std::vector<Elf64_Dyn> entries;
  for (const auto& [tag, text] : texts) {
    entries.push_back(Entry(tag, strings.size()));
    strings += text + '\0';
  }
  if (flags_1 != 0) entries.push_back(Entry(DT_FLAGS_1, flags_1));
  constexpr uint64_t kDynamicAt = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
  const uint64_t strings_at = kDynamicAt + (entries.size() + 2) * sizeof(Elf64_Dyn);
  entries.push_back(Entry(DT_STRTAB, static_cast<int64_t>(kElfAddress + strings_at)));
  entries.push_back(Entry(DT_NULL, 0));

  Elf64_Ehdr header = Header();
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  Elf64_Phdr load = {};
  load.p_type = PT_LOAD;
  load.p_vaddr = kElfAddress;
  load.p_filesz = load.p_memsz = strings_at + strings.size();
  Elf64_Phdr dynamic = {};
  dynamic.p_type = PT_DYNAMIC;
  dynamic.p_offset = kDynamicAt;
  dynamic.p_vaddr = kElfAddress + kDynamicAt;
  dynamic.p_filesz = dynamic.p_memsz = entries.size() * sizeof(Elf64_Dyn);

  std::string file = BytesOf(header) + BytesOf(load) + BytesOf(dynamic);
  for (const Elf64_Dyn& entry : entries) file += BytesOf(entry);
  return file + strings;
}

std::string SectionsBytes(const std::vector<SectionText>& sections) {
  std::string names(1, '\0'), contents, table = BytesOf(Elf64_Shdr{});
  const auto add = [&](const SectionText& section) {
    Elf64_Shdr header = {};
    header.sh_name = static_cast<uint32_t>(names.size());
    names += section.name + '\0';
    // The names are the contents of the last one, so that its own name is among them.
    const std::string& bytes =
        section.type == SHT_STRTAB && section.name == ".shstrtab" ? names : section.contents;
    header.sh_type = section.type;
    header.sh_link = section.link;
    header.sh_offset = sizeof(Elf64_Ehdr) + contents.size();
    header.sh_size = section.type == SHT_NOBITS ? section.size : bytes.size();
    contents += bytes;
    table += BytesOf(header);
  };
  for (const SectionText& section : sections) add(section);
  add({.name = ".shstrtab", .type = SHT_STRTAB});
  Elf64_Ehdr header = Header();
  header.e_shoff = sizeof(header) + contents.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(table.size() / sizeof(Elf64_Shdr));
  header.e_shstrndx = static_cast<uint16_t>(header.e_shnum - 1);
  return BytesOf(header) + contents + table;
}

}  // namespace warpline::elf
