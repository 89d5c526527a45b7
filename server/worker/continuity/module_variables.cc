#include "server/worker/continuity/module_variables.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/fatbin/fatbin.h"
#include "server/worker/continuity/variable_bytes.h"

namespace warpline::worker {
namespace {

// How often each byte of a cubin is read at most, on average.
constexpr uint64_t kMostReadings = 4;

template <typename T>
bool LoadAt(std::string_view bytes, uint64_t offset, T* value) {
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) return false;
  std::memcpy(value, bytes.data() + offset, sizeof(T));
  return true;
}

std::string_view NameAt(std::string_view elf, const Elf64_Shdr& strings, uint64_t offset) {
  if (strings.sh_offset > elf.size() || offset > elf.size() - strings.sh_offset) return {};
  // A longer name is not valid.
  const std::string_view rest = elf.substr(strings.sh_offset + offset, kMaxVariableName + 1);
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

// Gathers names within the bounds; beyond them the result is incomplete.
class Names {
 public:
  explicit Names(ModuleVariables* variables) : variables_(variables) {}

  void Add(std::string_view name) {
    bytes_ += name.size();
    if (name.empty() || name.size() > kMaxVariableName || bytes_ > kMaxVariableNameBytes ||
        variables_->names.size() >= kMaxVariableNames) {
      variables_->complete = false;
    } else {
      variables_->names.emplace_back(name);
    }
  }
  void Doubt() { variables_->complete = false; }
  void Allocates() { variables_->allocates = true; }

 private:
  ModuleVariables* const variables_;
  size_t bytes_ = 0;
};

bool IsFunction(std::string_view statement) {
  return statement.find(".func") != std::string_view::npos ||
         statement.find(".entry") != std::string_view::npos;
}

// Reads a declaration at the outermost level of a PTX module, up to its initialiser.
void ReadStatement(std::string_view statement, Names* names) {
  if (IsFunction(statement)) {
    const size_t at = statement.find(" malloc");
    const size_t end = at + std::string_view(" malloc").size();
    if (at != std::string_view::npos && statement.find(".extern") != std::string_view::npos &&
        (end == statement.size() ||
         std::string_view(" \t\r\n(").find(statement[end]) != std::string_view::npos)) {
      names->Allocates();
    }
    return;
  }
  if (statement.find(".global") == std::string_view::npos) return;
  // It declares several variables.
  if (statement.find(',') != std::string_view::npos) return names->Doubt();
  const std::string_view name = DeclaredName(statement);
  if (!IsCompilersOwn(name)) names->Add(name);
}

void ReadPtx(std::string_view ptx, Names* names) {
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < ptx.size(); ++i) {
    if (ptx.compare(i, 2, "//") == 0) {
      i = std::min(ptx.find('\n', i), ptx.size() - 1);
      if (depth == 0) {
        const size_t text = ptx.substr(start, i - start).find_first_not_of(" \t\r\n/");
        // Blanks are passed over once, however many comments follow.
        start = text == std::string_view::npos ? i + 1 : start + text;
      }
      continue;
    }
    if (ptx[i] == '{') {
      if (depth++ == 0) ReadStatement(ptx.substr(start, i - start), names);
    } else if (ptx[i] == '}') {
      if (--depth <= 0) {
        depth = 0;
        start = i + 1;
      }
    } else if (ptx[i] == ';' && depth == 0) {
      ReadStatement(ptx.substr(start, i - start), names);
      start = i + 1;
    }
  }
}

// Bounds what is read of a file whose parts may overlap.
class Reading {
 public:
  explicit Reading(uint64_t bytes) : left_(bytes) {}
  // Returns false when that is too much.
  bool Take(uint64_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  uint64_t left_;
};

void ReadCubin(std::string_view elf, Names* names) {
  // Tables of a real file do not overlap, and only a few names share their bytes.
  Reading reading(kMostReadings * elf.size());
  Elf64_Ehdr header;
  if (!LoadAt(elf, 0, &header) || header.e_shentsize != sizeof(Elf64_Shdr)) return names->Doubt();
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i) {
    if (!LoadAt(elf, header.e_shoff + i * sizeof(Elf64_Shdr), &sections[i])) return names->Doubt();
  }
  if (header.e_shstrndx >= sections.size()) return names->Doubt();
  std::vector<bool> global(sections.size());
  bool any = false;
  for (size_t i = 0; i < sections.size(); ++i) {
    const std::string_view name = NameAt(elf, sections[header.e_shstrndx], sections[i].sh_name);
    if (!reading.Take(sizeof(Elf64_Shdr) + name.size())) return names->Doubt();
    global[i] = name.substr(0, 10) == ".nv.global" && sections[i].sh_size > 0;
    any |= global[i];
  }
  bool named = false;
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!LoadAt(elf, table.sh_offset + at, &symbol)) return names->Doubt();
      const std::string_view name = NameAt(elf, sections[table.sh_link], symbol.st_name);
      if (!reading.Take(sizeof(symbol) + name.size())) return names->Doubt();
      if (symbol.st_shndx == SHN_UNDEF && name == "malloc") names->Allocates();
      if (ELF64_ST_TYPE(symbol.st_info) == STT_SECTION || symbol.st_shndx >= sections.size() ||
          !global[symbol.st_shndx]) {
        continue;
      }
      named = true;
      if (!IsCompilersOwn(name)) names->Add(name);
    }
  }
  // Without names nothing can be told.
  if (any && !named) names->Doubt();
}

// A cubin of the device's generation is preferred to PTX, and PTX for this device or an older one
// to newer PTX. 0 for what does not run there.
int RankOf(const fatbin::ImageEntry& entry, int sm) {
  const int target = static_cast<int>(entry.sm);
  if (entry.kind == fatbin::ImageKind::kElf) return target <= sm && target / 10 == sm / 10 ? 3 : 0;
  if (entry.kind == fatbin::ImageKind::kPtx) return sm == 0 || target <= sm ? 2 : 1;
  return 0;
}

// Within each group the newest is taken.
const fatbin::ImageEntry* Choose(const std::vector<fatbin::ImageEntry>& entries, int sm) {
  const fatbin::ImageEntry* best = nullptr;
  int best_rank = 0;
  for (const fatbin::ImageEntry& entry : entries) {
    const int rank = RankOf(entry, sm);
    if (rank == 0 || rank < best_rank) continue;
    if (rank == best_rank && entry.sm < best->sm) continue;
    best = &entry;
    best_rank = rank;
  }
  return best;
}

uint64_t BytesOf(fatbin::ImageKind kind, const absl::StatusOr<std::string>& code) {
  if (!code.ok()) return kTooManyBytes;
  return kind == fatbin::ImageKind::kElf ? CubinVariableBytes(*code) : PtxVariableBytes(*code);
}

}  // namespace

bool IsCompilersOwn(std::string_view name) {
  for (const std::string_view own : {"$str", "__unnamed_", "__func__", "__PRETTY_FUNCTION__"}) {
    if (name.substr(0, own.size()) == own) return true;
  }
  return name.find("E8__func__") != std::string_view::npos ||
         name.find("E19__PRETTY_FUNCTION__") != std::string_view::npos;
}

ModuleVariables WritableVariables(std::string_view image, int sm) {
  ModuleVariables variables;
  Names names(&variables);
  const auto entries = fatbin::ParseImage(image);
  const fatbin::ImageEntry* const entry = entries.ok() ? Choose(*entries, sm) : nullptr;
  if (entry == nullptr) {
    // A program without an image for the device does not load.
    if (!entries.ok()) {
      names.Doubt();
      // What the device may still make of it is text.
      variables.bytes = PtxVariableBytes(image);
    }
    return variables;
  }
  const auto code = fatbin::EntryPayload(*entry);
  variables.bytes = BytesOf(entry->kind, code);
  // The device may have its own idea of which is best.
  for (const fatbin::ImageEntry& other : *entries) {
    if (&other == entry || RankOf(other, sm) != RankOf(*entry, sm)) continue;
    variables.bytes = std::max(variables.bytes, BytesOf(other.kind, fatbin::EntryPayload(other)));
  }
  if (!code.ok()) {
    names.Doubt();
  } else if (entry->kind == fatbin::ImageKind::kElf) {
    ReadCubin(*code, &names);
  } else {
    ReadPtx(*code, &names);
  }
  return variables;
}

}  // namespace warpline::worker
