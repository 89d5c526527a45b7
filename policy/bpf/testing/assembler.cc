#include "policy/bpf/testing/assembler.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace warpline::policy::bpf::testing {
namespace {

const std::map<std::string, int, std::less<>>& Arithmetic() {
  static const auto* const kTable = new std::map<std::string, int, std::less<>>{
      {"+=", kAdd}, {"-=", kSub}, {"*=", kMul}, {"/=", kDiv},  {"%=", kMod},  {"|=", kOr},
      {"&=", kAnd}, {"^=", kXor}, {"=", kMov},  {"<<=", kLsh}, {">>=", kRsh}, {"s>>=", kArsh},
  };
  return *kTable;
}

const std::map<std::string, int, std::less<>>& Comparisons() {
  static const auto* const kTable = new std::map<std::string, int, std::less<>>{
      {"==", kJeq}, {"!=", kJne},  {">", kJgt},    {">=", kJge},  {"<", kJlt},    {"<=", kJle},
      {"&", kJset}, {"s>", kJsgt}, {"s>=", kJsge}, {"s<", kJslt}, {"s<=", kJsle},
  };
  return *kTable;
}

const std::map<std::string, int, std::less<>>& Sizes() {
  static const auto* const kTable = new std::map<std::string, int, std::less<>>{
      {"u8", kWord1}, {"u16", kWord2}, {"u32", kWord4}, {"u64", kWord8}};
  return *kTable;
}

using Tokens = std::vector<std::string>;

[[noreturn]] void Fail(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token + " ";
  throw std::invalid_argument("not understood: " + text);
}

bool IsRegister(const std::string& token) {
  return token.size() > 1 && (token[0] == 'r' || token[0] == 'w') && token[1] >= '0' &&
         token[1] <= '9';
}

int Register(const std::string& token) { return std::stoi(token.substr(1)); }

int64_t Number(const std::string& token) {
  // Unsigned numbers of 64 bits are taken, too.
  if (token[0] == '-') return std::stoll(token, nullptr, 0);
  return static_cast<int64_t>(std::stoull(token, nullptr, 0));
}

class Assembler {
 public:
  void Line(const Tokens& t) {
    if (t[0].back() == ':') {
      labels_[t[0].substr(0, t[0].size() - 1)] = code_.size();
      if (t.size() > 1) Line(Tokens(t.begin() + 1, t.end()));
    } else if (t[0] == "exit") {
      Emit(kExit, 0, 0, 0, 0);
    } else if (t[0] == "call") {
      Emit(kCall, 0, 0, 0, Number(t.at(1)));
    } else if (t[0] == "raw") {
      code_.push_back({static_cast<uint8_t>(Number(t.at(1))), static_cast<uint8_t>(Number(t.at(2))),
                       static_cast<int16_t>(Number(t.at(3))),
                       static_cast<int32_t>(Number(t.at(4)))});
    } else if (t[0] == "goto") {
      Emit(kJumpAlways, 0, 0, Target(t.at(1)), 0);
    } else if (t[0] == "if") {
      Branch(t);
    } else if (Sizes().count(t[0]) != 0) {
      Store(t);
    } else if (IsRegister(t[0])) {
      Set(t);
    } else {
      Fail(t);
    }
  }

  std::vector<Instruction> Finish() {
    for (const auto& [pc, label] : jumps_) {
      if (labels_.count(label) == 0) throw std::invalid_argument("no label " + label);
      code_[pc].offset = static_cast<int16_t>(labels_[label] - pc - 1);
    }
    return std::move(code_);
  }

 private:
  void Emit(int opcode, int dst, int src, int64_t offset, int64_t immediate) {
    code_.push_back({static_cast<uint8_t>(opcode), static_cast<uint8_t>(dst | src << 4),
                     static_cast<int16_t>(offset), static_cast<int32_t>(immediate)});
  }

  int64_t Target(const std::string& token) {
    if (token[0] == '+') return Number(token.substr(1));
    if (token[0] == '-') return Number(token);
    jumps_[code_.size()] = token;
    return 0;
  }

  void Branch(const Tokens& t) {
    const int wide = t.at(1)[0] == 'w' ? kJmp32 : kJmp;
    const auto comparison = Comparisons().find(t.at(2));
    if (comparison == Comparisons().end() || t.at(4) != "goto") Fail(t);
    const int64_t target = Target(t.at(5));
    if (IsRegister(t.at(3))) {
      Emit(comparison->second | wide | kRegisterOperand, Register(t[1]), Register(t[3]), target, 0);
    } else {
      Emit(comparison->second | wide, Register(t[1]), 0, target, Number(t[3]));
    }
  }

  // The offset in `[ r1 + 8 ]` whose bracket is at `at`.
  static int64_t Offset(const Tokens& t, size_t at) {
    return t.at(at + 2) == "-" ? -Number(t.at(at + 3)) : Number(t.at(at + 3));
  }

  void Store(const Tokens& t) {
    const int size = Sizes().find(t[0])->second | kMemory;
    const std::string& value = t.at(7);
    if (IsRegister(value)) {
      Emit(size | kStx, Register(t.at(2)), Register(value), Offset(t, 1), 0);
    } else {
      Emit(size | kSt, Register(t.at(2)), 0, Offset(t, 1), Number(value));
    }
  }

  void Set(const Tokens& t) {
    const int dst = Register(t[0]);
    const int wide = t[0][0] == 'w' ? kAlu32 : kAlu64;
    const auto operation = Arithmetic().find(t.at(1));
    if (operation == Arithmetic().end()) Fail(t);
    const std::string& operand = t.at(2);
    if (const auto size = Sizes().find(operand); size != Sizes().end()) {
      Emit(kLdx | kMemory | size->second, dst, Register(t.at(4)), Offset(t, 3), 0);
    } else if (operand == "map") {
      Wide(dst, kMapReference, Number(t.at(3)));
    } else if (t.size() > 3 && t[3] == "ll") {
      Wide(dst, 0, Number(operand));
    } else if (t.size() > 3 && (operand.substr(0, 2) == "be" || operand.substr(0, 2) == "le")) {
      Emit(operand[0] == 'b' ? kToBig : kToLittle, dst, 0, 0, Number(operand.substr(2)));
    } else if (operand[0] == '-' && IsRegister(operand.substr(1))) {
      Emit(kNeg | wide, dst, 0, 0, 0);
    } else if (IsRegister(operand)) {
      Emit(operation->second | wide | kRegisterOperand, dst, Register(operand), 0, 0);
    } else {
      Emit(operation->second | wide, dst, 0, 0, Number(operand));
    }
  }

  void Wide(int dst, int src, int64_t value) {
    Emit(kWideLoad, dst, src, 0, value);
    Emit(0, 0, 0, 0, value >> 32);
  }

  std::vector<Instruction> code_;
  std::map<std::string, size_t> labels_;
  std::map<size_t, std::string> jumps_;
};

template <typename T>
void Append(const T& value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

std::vector<Instruction> Assemble(std::string_view text) {
  Assembler assembler;
  std::string line;
  Tokens tokens;
  for (const char c : std::string(text) + "\n") {
    if (c != ';' && c != '\n') {
      line += c;
      continue;
    }
    std::istringstream words(line);
    for (std::string word; words >> word;) tokens.push_back(word);
    if (!tokens.empty()) assembler.Line(tokens);
    tokens.clear();
    line.clear();
  }
  return assembler.Finish();
}

std::string MakeObject(std::string_view section, const std::vector<Instruction>& code,
                       std::string_view maps, std::string_view always, std::string_view expects) {
  const size_t map_count = maps.size() / 24;
  std::string strings("\0version\0maps\0.rel\0.symtab\0.strtab\0", 35);
  const auto name_of = [&](std::string_view name) {
    const size_t at = strings.size();
    strings.append(name).push_back('\0');
    return static_cast<uint32_t>(at);
  };
  const uint32_t section_name = name_of(section);
  const uint32_t always_name = name_of("always");
  const uint32_t expects_name = name_of("expects");
  std::string symbols(sizeof(Elf64_Sym), '\0');
  for (size_t i = 0; i < map_count; ++i) {
    Append(Elf64_Sym{name_of("map" + std::to_string(i)), ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 0,
                     3, i * 24, 24},
           &symbols);
  }
  std::string program;
  std::string relocations;
  for (size_t pc = 0; pc < code.size(); ++pc) {
    Instruction instruction = code[pc];
    if (instruction.opcode == kWideLoad && instruction.src() == kMapReference) {
      Append(Elf64_Rel{pc * 8, ELF64_R_INFO(static_cast<uint64_t>(instruction.immediate) + 1, 1)},
             &relocations);
      instruction.registers = instruction.dst();
      instruction.immediate = 0;
    }
    Append(instruction, &program);
  }
  const uint32_t version = 1;
  const std::string version_bytes(reinterpret_cast<const char*>(&version), sizeof(version));
  std::string bytes(sizeof(Elf64_Ehdr), '\0');
  std::string table(sizeof(Elf64_Shdr), '\0');
  const auto add = [&](uint32_t name, uint32_t type, uint64_t flags, std::string_view content,
                       uint32_t link, uint32_t info) {
    bytes.resize((bytes.size() + 7) / 8 * 8);
    Append(Elf64_Shdr{name, type, flags, 0, bytes.size(), content.size(), link, info, 8, 0},
           &table);
    bytes.append(content);
  };
  add(section_name, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, program, 0, 0);
  add(1, SHT_PROGBITS, SHF_ALLOC, version_bytes, 0, 0);
  add(9, SHT_PROGBITS, SHF_ALLOC, maps, 0, 0);
  add(14, SHT_REL, 0, relocations, 5, 1);
  add(19, SHT_SYMTAB, 0, symbols, 6, 1);
  add(27, SHT_STRTAB, 0, strings, 0, 0);
  if (!always.empty()) add(always_name, SHT_PROGBITS, SHF_ALLOC, always, 0, 0);
  if (!expects.empty()) add(expects_name, SHT_PROGBITS, SHF_ALLOC, expects, 0, 0);
  bytes.resize((bytes.size() + 7) / 8 * 8);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = EM_BPF;
  header.e_version = EV_CURRENT;
  header.e_shoff = bytes.size();
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(table.size() / sizeof(Elf64_Shdr));
  header.e_shstrndx = 6;
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes + table;
}

}  // namespace warpline::policy::bpf::testing
