#include "server/worker/module_variables.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/fatbin/fatbin.h"

namespace warpline::worker {
namespace {

// Of strings in calls of printf and assert; nobody writes them.
bool IsCompilersOwn(std::string_view name) {
  for (const std::string_view own : {"$str", "__unnamed_", "__func__", "__PRETTY_FUNCTION__"}) {
    if (name.substr(0, own.size()) == own) return true;
  }
  return name.find("E8__func__") != std::string_view::npos ||
         name.find("E19__PRETTY_FUNCTION__") != std::string_view::npos;
}

template <typename T>
bool LoadAt(std::string_view bytes, uint64_t offset, T* value) {
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) return false;
  std::memcpy(value, bytes.data() + offset, sizeof(T));
  return true;
}

std::string_view NameAt(std::string_view elf, const Elf64_Shdr& strings, uint64_t offset) {
  if (strings.sh_offset > elf.size() || offset > elf.size() - strings.sh_offset) return {};
  const std::string_view rest = elf.substr(strings.sh_offset + offset);
  return rest.substr(0, rest.find('\0'));
}

// The last name before a declaration's brackets or initialiser.
std::string_view DeclaredName(std::string_view statement) {
  statement = statement.substr(0, statement.find_first_of("[="));
  const size_t end = statement.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return {};
  statement = statement.substr(0, end + 1);
  const size_t space = statement.find_last_of(" \t\r\n");
  return space == std::string_view::npos ? statement : statement.substr(space + 1);
}

bool IsVariable(std::string_view statement) {
  const size_t at = statement.find(".global");
  if (at == std::string_view::npos || statement.find(".func") != std::string_view::npos ||
      statement.find(".entry") != std::string_view::npos) {
    return false;
  }
  return !IsCompilersOwn(DeclaredName(statement));
}

bool PtxHasVariables(std::string_view ptx) {
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < ptx.size(); ++i) {
    if (ptx.compare(i, 2, "//") == 0) {
      i = std::min(ptx.find('\n', i), ptx.size() - 1);
      if (depth == 0 &&
          ptx.substr(start, i - start).find_first_not_of(" \t\r\n/") == std::string_view::npos) {
        start = i + 1;
      }
      continue;
    }
    if (ptx[i] == '{') {
      if (depth++ == 0 && IsVariable(ptx.substr(start, i - start))) return true;
    } else if (ptx[i] == '}') {
      if (--depth <= 0) {
        depth = 0;
        start = i + 1;
      }
    } else if (ptx[i] == ';' && depth == 0) {
      if (IsVariable(ptx.substr(start, i - start))) return true;
      start = i + 1;
    }
  }
  return false;
}

bool CubinHasVariables(std::string_view elf) {
  Elf64_Ehdr header;
  if (!LoadAt(elf, 0, &header) || header.e_shentsize != sizeof(Elf64_Shdr)) return true;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i) {
    if (!LoadAt(elf, header.e_shoff + i * sizeof(Elf64_Shdr), &sections[i])) return true;
  }
  if (header.e_shstrndx >= sections.size()) return true;
  std::vector<bool> global(sections.size());
  bool any = false;
  for (size_t i = 0; i < sections.size(); ++i) {
    const std::string_view name = NameAt(elf, sections[header.e_shstrndx], sections[i].sh_name);
    global[i] = name.substr(0, 10) == ".nv.global" && sections[i].sh_size > 0;
    any |= global[i];
  }
  if (!any) return false;
  bool named = false;
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!LoadAt(elf, table.sh_offset + at, &symbol)) return true;
      if (ELF64_ST_TYPE(symbol.st_info) == STT_SECTION || symbol.st_shndx >= sections.size() ||
          !global[symbol.st_shndx]) {
        continue;
      }
      named = true;
      if (!IsCompilersOwn(NameAt(elf, sections[table.sh_link], symbol.st_name))) return true;
    }
  }
  // Without names nothing can be told.
  return !named;
}

}  // namespace

bool HasWritableVariables(std::string_view image, int sm) {
  const auto entries = fatbin::ParseImage(image);
  if (!entries.ok()) return true;
  const fatbin::ImageEntry* best = nullptr;
  for (const fatbin::ImageEntry& entry : *entries) {
    const int target = static_cast<int>(entry.sm);
    if (entry.kind != fatbin::ImageKind::kElf || target > sm || target / 10 != sm / 10) continue;
    if (best == nullptr || entry.sm > best->sm) best = &entry;
  }
  if (best != nullptr) {
    const auto elf = fatbin::EntryPayload(*best);
    return !elf.ok() || CubinHasVariables(*elf);
  }
  for (const fatbin::ImageEntry& entry : *entries) {
    if (entry.kind != fatbin::ImageKind::kPtx) continue;
    const auto ptx = fatbin::EntryPayload(entry);
    if (!ptx.ok() || PtxHasVariables(*ptx)) return true;
  }
  return false;
}

}  // namespace warpline::worker
