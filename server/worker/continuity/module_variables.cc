#include "server/worker/continuity/module_variables.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/elf/elf_header.h"
#include "common/elf/sections.h"
#include "common/fatbin/fatbin.h"
#include "server/worker/continuity/variable_bytes.h"

namespace warpline::worker {
namespace {

// How often each byte of a cubin is read at most, on average.
constexpr uint64_t kMostReadings = 4;

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

bool HoldsVariables(const elf::Section& section) {
  return section.name->starts_with(".nv.global") && section.header.sh_size > 0;
}

void ReadCubin(std::string_view cubin, Names* names) {
  // Tables of a real file do not overlap, and only a few names share their bytes.
  Reading reading(kMostReadings * cubin.size());
  const elf::ReadAt read = elf::InMemory(cubin);
  const auto header = elf::ReadHeader(read);
  if (!header.has_value()) return names->Doubt();
  const auto sections = elf::ReadSections(*header, read, cubin.size(), {});
  if (!sections.ok() || sections->empty()) return names->Doubt();
  std::vector<bool> global;
  for (const elf::Section& section : *sections) {
    if (!section.name.has_value()) return names->Doubt();
    global.push_back(HoldsVariables(section));
  }
  bool named = false;
  for (const elf::Section& table : *sections) {
    if (table.header.sh_type != SHT_SYMTAB || table.header.sh_link >= sections->size()) continue;
    const auto symbols = elf::ContentsOf(table, cubin);
    const auto strings = elf::ContentsOf((*sections)[table.header.sh_link], cubin);
    if (!symbols.has_value() || !strings.has_value()) return names->Doubt();
    for (size_t i = 0; const auto symbol = elf::ElementAt<Elf64_Sym>(*symbols, i); ++i) {
      const auto text = elf::TextAt(*strings, symbol->st_name, kMaxVariableName);
      const uint64_t read_bytes = text.has_value() ? text->size() : kMaxVariableName;
      if (!reading.Take(sizeof(*symbol) + read_bytes)) return names->Doubt();
      // Functions may have longer names; variables with such have none that can be used.
      const std::string_view name = text.value_or("");
      if (symbol->st_shndx == SHN_UNDEF && name == "malloc") names->Allocates();
      if (ELF64_ST_TYPE(symbol->st_info) == STT_SECTION || symbol->st_shndx >= global.size() ||
          !global[symbol->st_shndx]) {
        continue;
      }
      named = true;
      if (!IsCompilersOwn(name)) names->Add(name);
    }
  }
  // Without names nothing can be told.
  if (absl::c_linear_search(global, true) && !named) names->Doubt();
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
