#include "policy/bpf/object.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/elf/elf_header.h"
#include "common/elf/sections.h"
#include "common/text.h"

namespace warpline::policy::bpf {
namespace {

constexpr uint32_t kRelocation64 = 1;  // R_BPF_64_64: the address in a wide load.

absl::Status Refused(absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat("object: ", reason));
}

// A name that may be shown and compared.
bool IsPlain(std::string_view name) {
  return IsPlainName(std::string(name), kMostNameBytes, "_./-");
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<Object> Read() {
    for (const auto part : {&Reader::ReadSections, &Reader::ReadVersion, &Reader::ReadWishes,
                            &Reader::ReadMaps, &Reader::ReadPrograms, &Reader::ReadRelocations}) {
      if (const absl::Status read = (this->*part)(); !read.ok()) return read;
    }
    return std::move(object_);
  }

 private:
  static constexpr size_t kNone = kMostSections;

  struct Section {
    Elf64_Shdr header = {};
    std::string name;        // Empty for one without a name.
    std::string_view bytes;  // Of one that has bytes in the file.
    size_t program = kNone;  // Its place in object_.programs.
  };

  absl::Status ReadSections() {
    if (bytes_.size() > kMostObjectBytes) {
      return Refused(absl::StrCat("it has more than ", kMostObjectBytes, " bytes"));
    }
    const elf::ReadAt read = elf::InMemory(bytes_);
    const std::optional<Elf64_Ehdr> header = elf::ReadHeader(read);
    if (!header.has_value() || !elf::Is64Bit(*header) || header->e_type != ET_REL ||
        header->e_machine != EM_BPF) {
      return Refused("this is not what clang -target bpf -c writes");
    }
    const auto sections =
        elf::ReadSections(*header, read, bytes_.size(), {.most_sections = kMostSections});
    if (!sections.ok()) return Refused(sections.status().message());
    for (const elf::Section& section : *sections) {
      const auto contents = elf::ContentsOf(section, bytes_);
      if (!contents.has_value()) {
        return Refused(absl::StrCat("section ", sections_.size(), " is outside of it"));
      }
      sections_.push_back(
          {.header = section.header, .name = section.name.value_or(""), .bytes = *contents});
    }
    return absl::OkStatus();
  }

  // The number of the only section of that name; kNone where there is none or more than one.
  size_t Find(std::string_view name) const {
    size_t found = kNone;
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (sections_[i].name != name) continue;
      if (found != kNone) return kNone;
      found = i;
    }
    return found;
  }

  absl::Status ReadVersion() {
    const size_t version = Find("version");
    if (version == kNone || sections_[version].bytes.size() != sizeof(object_.abi_version)) {
      return Refused("it does not say its version: WARPLINE_POLICY() is missing");
    }
    object_.abi_version = elf::LoadAt<uint32_t>(sections_[version].bytes, 0);
    return absl::OkStatus();
  }

  // The number in the only section of that name, which may be missing; 0 if it is not one number.
  std::optional<uint32_t> WishOf(std::string_view name) const {
    const auto is_it = [name](const Section& section) { return section.name == name; };
    if (std::none_of(sections_.begin(), sections_.end(), is_it)) return std::nullopt;
    const size_t section = Find(name);
    if (section == kNone || sections_[section].bytes.size() != sizeof(uint32_t)) return 0;
    return elf::LoadAt<uint32_t>(sections_[section].bytes, 0);
  }

  absl::Status ReadWishes() {
    if (const std::optional<uint32_t> expects = WishOf("expects")) {
      if (*expects != 1) return Refused("WARPLINE_EXPECT_ARRIVALS() stands there once");
      object_.expects_arrivals = true;
    }
    const std::optional<uint32_t> always = WishOf("always");
    if (!always.has_value()) return absl::OkStatus();
    const uint32_t ms = object_.ask_always_ms = *always;
    if (ms >= 1 && ms <= kMostAskAlwaysMs) return absl::OkStatus();
    return Refused(absl::StrCat("WARPLINE_ASK_ALWAYS() stands there once, with 1 to ",
                                kMostAskAlwaysMs, " milliseconds"));
  }

  absl::Status ReadMaps() {
    maps_ = Find("maps");
    if (maps_ == kNone) return absl::OkStatus();
    const std::string_view definitions = sections_[maps_].bytes;
    if (definitions.size() % sizeof(MapDefinition) != 0 ||
        definitions.size() / sizeof(MapDefinition) > kMostMaps) {
      return Refused(
          absl::StrCat("section maps holds other things than maps, or more than ", kMostMaps));
    }
    object_.maps.resize(definitions.size() / sizeof(MapDefinition));
    for (size_t i = 0; i < object_.maps.size(); ++i) {
      const auto definition = elf::LoadAt<MapDefinition>(definitions, i * sizeof(MapDefinition));
      if (definition.flags != 0) return Refused("a map has flags, and there are none yet");
      MapShape& shape = object_.maps[i];
      shape.kind = static_cast<MapKind>(definition.kind);
      shape.key_bytes = definition.key_bytes;
      shape.value_cells = definition.value_cells;
      shape.capacity = definition.capacity;
    }
    return NameMaps();
  }

  absl::Status NameMaps() {
    for (const Section& section : sections_) {
      if (section.header.sh_type != SHT_SYMTAB) continue;
      // clang writes one table; two could name maps twice.
      if (symbols_ != nullptr) return Refused("it has two tables of symbols");
      symbols_ = &section;
    }
    if (symbols_ == nullptr || symbols_->header.sh_link >= sections_.size()) {
      return Refused("its maps have no names");
    }
    const std::string_view strings = sections_[symbols_->header.sh_link].bytes;
    for (size_t i = 0; const auto symbol = elf::ElementAt<Elf64_Sym>(symbols_->bytes, i); ++i) {
      const size_t map = MapOf(*symbol);
      if (map == kMostMaps) continue;
      const std::string_view name =
          elf::TextAt(strings, symbol->st_name, kMostNameBytes).value_or("");
      if (!IsPlain(name)) return Refused("a map has no plain name");
      if (!object_.maps[map].name.empty()) return Refused("a map has two names");
      object_.maps[map].name = name;
    }
    return CheckMapNames();
  }

  absl::Status CheckMapNames() const {
    std::vector<std::string_view> names;
    for (const MapShape& map : object_.maps) {
      if (map.name.empty()) return Refused("a map has no name");
      names.push_back(map.name);
    }
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) != names.end()) {
      return Refused("two maps have the same name");
    }
    return absl::OkStatus();
  }

  // The map that a symbol stands for; kMostMaps for none.
  size_t MapOf(const Elf64_Sym& symbol) const {
    if (maps_ == kNone || symbol.st_shndx != maps_ || ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT ||
        symbol.st_size != sizeof(MapDefinition) || symbol.st_value % sizeof(MapDefinition) != 0 ||
        symbol.st_value / sizeof(MapDefinition) >= object_.maps.size()) {
      return kMostMaps;
    }
    return symbol.st_value / sizeof(MapDefinition);
  }

  absl::Status ReadPrograms() {
    size_t instructions = 0;
    for (Section& section : sections_) {
      if (section.header.sh_type != SHT_PROGBITS ||
          (section.header.sh_flags & SHF_EXECINSTR) == 0 || section.bytes.empty()) {
        continue;
      }
      if (section.name == ".text") {
        return Refused("a function has no SEC(), and is not inlined either");
      }
      if (!IsPlain(section.name)) return Refused("a program's section has no plain name");
      instructions = section.bytes.size() / sizeof(Instruction);
      if (section.bytes.size() % sizeof(Instruction) != 0 || instructions > kMostInstructions) {
        return Refused(absl::StrCat("program ", section.name, " has more than ", kMostInstructions,
                                    " instructions, or a part of one"));
      }
      if (Find(section.name) == kNone) {
        return Refused(absl::StrCat("there are two sections ", section.name));
      }
      section.program = object_.programs.size();
      Object::Program& program = object_.programs.emplace_back();
      program.section = section.name;
      program.code.resize(instructions);
      std::memcpy(program.code.data(), section.bytes.data(), section.bytes.size());
    }
    return object_.programs.empty() ? Refused("it has no programs") : CheckReferences();
  }

  // Only relocations refer to maps.
  absl::Status CheckReferences() const {
    for (const Object::Program& program : object_.programs) {
      for (size_t pc = 0; pc < program.code.size(); ++pc) {
        if (program.code[pc].opcode != kWideLoad) continue;
        if (program.code[pc].src() != 0) {
          return Refused(
              absl::StrCat("pc ", pc, " of ", program.section, ": a wide load of an unknown kind"));
        }
        ++pc;
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadRelocations() {
    std::vector<bool> is_done(sections_.size());
    for (const Section& section : sections_) {
      const uint64_t about = section.header.sh_info;
      const bool relocates =
          section.header.sh_type == SHT_REL || section.header.sh_type == SHT_RELA;
      if (!relocates || about >= sections_.size() || sections_[about].program == kNone) continue;
      Object::Program& program = object_.programs[sections_[about].program];
      if (is_done[about] || section.header.sh_type == SHT_RELA ||
          section.bytes.size() / sizeof(Elf64_Rel) > program.code.size()) {
        return Refused(
            absl::StrCat("the relocations of ", program.section, " are not what clang writes"));
      }
      is_done[about] = true;
      if (section.header.sh_link >= sections_.size()) return Refused("relocations lack symbols");
      const std::string_view symbols = sections_[section.header.sh_link].bytes;
      for (size_t i = 0; const auto relocation = elf::ElementAt<Elf64_Rel>(section.bytes, i); ++i) {
        const absl::Status done = Relocate(*relocation, symbols, &program);
        if (!done.ok()) return done;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Relocate(const Elf64_Rel& relocation, std::string_view symbols,
                        Object::Program* program) const {
    const uint64_t pc = relocation.r_offset / sizeof(Instruction);
    const auto refused = [&](absl::string_view reason) {
      return Refused(absl::StrCat("pc ", pc, " of ", program->section, ": ", reason));
    };
    if (relocation.r_offset % sizeof(Instruction) != 0 || pc >= program->code.size()) {
      return Refused(absl::StrCat("a relocation is outside of ", program->section));
    }
    Instruction& load = program->code[pc];
    if (load.opcode == kCall) {
      return refused("a function is called that is not inlined");
    }
    if (ELF64_R_TYPE(relocation.r_info) != kRelocation64 || load.opcode != kWideLoad ||
        load.src() != 0 || load.immediate != 0) {
      return refused("a relocation of an unknown kind");
    }
    const auto symbol = elf::ElementAt<Elf64_Sym>(symbols, ELF64_R_SYM(relocation.r_info));
    const size_t map = symbol.has_value() ? MapOf(*symbol) : kMostMaps;
    if (map == kMostMaps) {
      return refused("it refers to something that is no map; policies keep their state in maps");
    }
    load.registers = static_cast<uint8_t>(load.dst() | kMapReference << 4);
    load.immediate = static_cast<int32_t>(map);
    return absl::OkStatus();
  }

  const std::string_view bytes_;
  std::vector<Section> sections_;
  const Section* symbols_ = nullptr;
  size_t maps_ = kNone;  // The number of section "maps".
  Object object_;
};

}  // namespace

absl::StatusOr<Object> ReadObject(std::string_view bytes) { return Reader(bytes).Read(); }

}  // namespace warpline::policy::bpf
