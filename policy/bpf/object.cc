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
#include "common/text.h"

namespace warpline::policy::bpf {
namespace {

constexpr uint32_t kRelocation64 = 1;  // R_BPF_64_64: the address in a wide load.

absl::Status Refused(absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat("object: ", reason));
}

// The `size` bytes at `offset`; false if they do not lie within.
bool Cut(std::string_view bytes, uint64_t offset, uint64_t size, std::string_view* cut) {
  if (offset > bytes.size() || size > bytes.size() - offset) return false;
  *cut = bytes.substr(offset, size);
  return true;
}

// The element of a table; false where the table has no such.
template <typename T>
bool ElementOf(std::string_view table, uint64_t index, T* element) {
  if (index >= table.size() / sizeof(T)) return false;
  std::memcpy(element, table.data() + index * sizeof(T), sizeof(T));
  return true;
}

// The name at `offset` of a table of strings; empty if it does not end in there, or is too long.
std::string_view NameAt(std::string_view strings, uint64_t offset) {
  if (offset >= strings.size()) return {};
  const std::string_view rest = strings.substr(offset, kMostNameBytes + 1);
  const size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
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
    std::string_view name;
    std::string_view bytes;  // Of one that has bytes in the file.
    size_t program = kNone;  // Its place in object_.programs.
  };

  absl::Status ReadSections() {
    Elf64_Ehdr header;
    if (bytes_.size() > kMostObjectBytes) {
      return Refused(absl::StrCat("it has more than ", kMostObjectBytes, " bytes"));
    }
    if (!ElementOf(bytes_, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_type != ET_REL || header.e_machine != EM_BPF) {
      return Refused("this is not what clang -target bpf -c writes");
    }
    std::string_view table;
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > kMostSections ||
        !Cut(bytes_, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr), &table)) {
      return Refused("its table of sections is outside of it, or too large");
    }
    sections_.resize(header.e_shnum);
    for (size_t i = 0; i < sections_.size(); ++i) {
      Section& section = sections_[i];
      ElementOf(table, i, &section.header);
      const bool has_bytes =
          section.header.sh_type != SHT_NOBITS && section.header.sh_type != SHT_NULL;
      if (has_bytes &&
          !Cut(bytes_, section.header.sh_offset, section.header.sh_size, &section.bytes)) {
        return Refused(absl::StrCat("section ", i, " is outside of it"));
      }
    }
    if (header.e_shstrndx >= sections_.size()) return Refused("its sections have no names");
    for (Section& section : sections_) {
      section.name = NameAt(sections_[header.e_shstrndx].bytes, section.header.sh_name);
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
    ElementOf(sections_[version].bytes, 0, &object_.abi_version);
    return absl::OkStatus();
  }

  // The number in the only section of that name, which may be missing; 0 if it is not one number.
  std::optional<uint32_t> WishOf(std::string_view name) const {
    const auto is_it = [name](const Section& section) { return section.name == name; };
    if (std::none_of(sections_.begin(), sections_.end(), is_it)) return std::nullopt;
    const size_t section = Find(name);
    uint32_t number = 0;
    if (section != kNone && sections_[section].bytes.size() == sizeof(number)) {
      ElementOf(sections_[section].bytes, 0, &number);
    }
    return number;
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
      MapDefinition definition;
      ElementOf(definitions, i, &definition);
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
    Elf64_Sym symbol;
    for (size_t i = 0; ElementOf(symbols_->bytes, i, &symbol); ++i) {
      const size_t map = MapOf(symbol);
      if (map == kMostMaps) continue;
      const std::string_view name = NameAt(strings, symbol.st_name);
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
        return Refused(absl::StrCat("program ", std::string(section.name), " has more than ",
                                    kMostInstructions, " instructions, or a part of one"));
      }
      if (Find(section.name) == kNone) {
        return Refused(absl::StrCat("there are two sections ", std::string(section.name)));
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
      Elf64_Rel relocation;
      for (size_t i = 0; ElementOf(section.bytes, i, &relocation); ++i) {
        const absl::Status done = Relocate(relocation, symbols, &program);
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
    Elf64_Sym symbol;
    const bool is_there = ElementOf(symbols, ELF64_R_SYM(relocation.r_info), &symbol);
    const size_t map = is_there ? MapOf(symbol) : kMostMaps;
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
