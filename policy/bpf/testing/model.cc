#include "policy/bpf/testing/model.h"

#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::policy::bpf::testing {
namespace {

Model::Entries ArrayOf(const MapShape& shape) {
  Model::Entries entries;
  if (shape.kind == MapKind::kHash) return entries;
  for (uint32_t i = 0; i < shape.capacity; ++i) {
    entries[std::string(reinterpret_cast<const char*>(&i), 4)].resize(shape.value_cells);
  }
  return entries;
}

// Two's complement, by arithmetic and not by casts.
__int128 AsSigned(uint64_t value, bool is_wide) {
  const __int128 span = static_cast<__int128>(1) << (is_wide ? 64 : 32);
  const __int128 positive = value;
  return positive >= span / 2 ? positive - span : positive;
}

}  // namespace

Model::Model(std::vector<MapShape> shapes) : shapes_(std::move(shapes)) {
  for (const MapShape& shape : shapes_) maps_.push_back(ArrayOf(shape));
}

void Model::Fail(const std::string& reason) {
  if (fault_.empty()) fault_ = reason;
}

uint64_t Model::NumberIn(int reg) {
  if (registers_[reg].of != Of::kNumber) Fail(absl::StrCat("r", reg, " is no number"));
  return registers_[reg].number;
}

Model::Word Model::Load(const Word& address, int64_t offset, int bytes) {
  offset += address.offset;
  if (offset % bytes != 0) Fail("not aligned");
  Word result{.of = Of::kNumber};
  std::string memory;
  if (address.of == Of::kContext) {
    if (offset < 0 || offset + bytes > 32) return Fail("outside of the context"), result;
    if (offset < 20 && offset + bytes > 18) return Fail("reads the hidden field"), result;
    memory.assign(reinterpret_cast<const char*>(&context_) + offset, bytes);
  } else if (address.of == Of::kCells) {
    const std::vector<uint64_t>& cells = maps_[address.map].at(address.key);
    if (offset < 0 || offset + bytes > static_cast<int64_t>(cells.size() * 8)) {
      return Fail("outside of the value"), result;
    }
    memory.assign(reinterpret_cast<const char*>(cells.data()) + offset, bytes);
  } else if (address.of == Of::kStack) {
    if (offset < -512 || offset + bytes > 0) return Fail("outside of the stack"), result;
    const Byte& first = stack_[offset + 512];
    for (int i = 0; i < bytes; ++i) {
      const Byte& byte = stack_[offset + 512 + i];
      if (byte.part < 0) return Fail("reads what was not written"), result;
      if (byte.word.of == Of::kNumber) {
        memory.push_back(static_cast<char>(byte.word.number >> (8 * byte.part)));
      } else if (bytes != 8 || byte.part != i || byte.word != first.word) {
        return Fail("reads a part of an address"), result;
      }
    }
    if (first.word.of != Of::kNumber) return first.word;
  } else {
    return Fail("loads from no address"), result;
  }
  if (memory.size() != static_cast<size_t>(bytes)) return Fail("reads a mixture"), result;
  std::memcpy(&result.number, memory.data(), memory.size());
  return result;
}

void Model::Store(const Word& address, int64_t offset, int bytes, const Word& value) {
  offset += address.offset;
  if (offset % bytes != 0) Fail("not aligned");
  if (value.of == Of::kNothing) return Fail("stores nothing");
  if (address.of == Of::kStack) {
    if (offset < -512 || offset + bytes > 0) return Fail("outside of the stack");
    if (value.of != Of::kNumber && bytes != 8) return Fail("stores a part of an address");
    for (int i = 0; i < bytes; ++i) stack_[offset + 512 + i] = {value, i};
  } else if (address.of == Of::kCells) {
    std::vector<uint64_t>& cells = maps_[address.map].at(address.key);
    if (offset < 0 || offset + bytes > static_cast<int64_t>(cells.size() * 8)) {
      return Fail("outside of the value");
    }
    if (value.of != Of::kNumber) return Fail("stores an address in a map");
    if (bytes != 8) return Fail("stores a part of a cell");
    cells[offset / 8] = value.number;
  } else {
    Fail("stores to no memory");
  }
}

std::string Model::KeyAt(const Word& address, size_t bytes) {
  std::string key;
  if (address.of != Of::kStack) return Fail("a key that is not on the stack"), key;
  for (size_t i = 0; i < bytes; ++i) {
    const int64_t at = address.offset + 512 + static_cast<int64_t>(i);
    if (at < 0 || at >= 512) return Fail("a key outside of the stack"), key;
    const Byte& byte = stack_[at];
    if (byte.part < 0 || byte.word.of != Of::kNumber) return Fail("a key that is not written"), key;
    key.push_back(static_cast<char>(byte.word.number >> (8 * byte.part)));
  }
  return key;
}

Model::Word Model::CallHelper(int32_t number) {
  Word result{.of = Of::kNumber};
  if (number == 1 || number == 2) {
    if (registers_[1].of != Of::kMap) return Fail("no map"), result;
    const size_t map = registers_[1].map;
    const MapShape& shape = shapes_[map];
    const std::string key = KeyAt(registers_[2], shape.key_bytes);
    if (!fault_.empty()) return result;
    if (number == 1) {
      if (maps_[map].count(key) != 0) result = {.of = Of::kCells, .map = map, .key = key};
      return result;
    }
    const uint64_t cell = NumberIn(3);
    const uint64_t delta = NumberIn(4);
    if (!fault_.empty() || cell >= shape.value_cells) return result;
    if (maps_[map].count(key) == 0) {
      if (shape.kind == MapKind::kArray || maps_[map].size() == shape.capacity) return result;
      maps_[map][key].resize(shape.value_cells);
    }
    result.number = maps_[map][key][cell] += delta;
  } else if (number == TestHost::kNowNs) {
    result.number = now_ns++;
  } else if (number == TestHost::kAudit) {
    audited.push_back(NumberIn(1));
  } else if (number == TestHost::kSum) {
    for (int i = 1; i <= 5; ++i) result.number += NumberIn(i);
  } else {
    Fail("no such helper");
  }
  return result;
}

uint64_t Model::Compute(int operation, bool is_wide, uint64_t a, uint64_t b) {
  const uint64_t mask = is_wide ? ~uint64_t{0} : 0xffffffff;
  const int bits = is_wide ? 64 : 32;
  a &= mask;
  b &= mask;
  const uint64_t by = b % bits;
  switch (operation) {
    case 0x0:
      return (a + b) & mask;
    case 0x1:
      return (a + (~b & mask) + 1) & mask;
    case 0x2:
      return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b) & mask;
    case 0x3:
      return b == 0 ? 0 : a / b;
    case 0x4:
      return a | b;
    case 0x5:
      return a & b;
    case 0x6: {
      for (uint64_t i = 0; i < by; ++i) a = (a + a) & mask;
      return a;
    }
    case 0x7: {
      for (uint64_t i = 0; i < by; ++i) a /= 2;
      return a;
    }
    case 0x8:
      return (~a + 1) & mask;
    case 0x9:
      return b == 0 ? a : a - a / b * b;
    case 0xa:
      return (a | b) & ~(a & b);
    case 0xb:
      return b;
    case 0xc: {
      const uint64_t sign = uint64_t{1} << (bits - 1);
      for (uint64_t i = 0; i < by; ++i) a = a / 2 | (a & sign);
      return a;
    }
    default:
      Fail("no such arithmetic");
      return 0;
  }
}

bool Model::Compare(int operation, bool is_wide, uint64_t a, uint64_t b) {
  if (!is_wide) {
    a &= 0xffffffff;
    b &= 0xffffffff;
  }
  const __int128 sa = AsSigned(a, is_wide);
  const __int128 sb = AsSigned(b, is_wide);
  switch (operation) {
    case 0x1:
      return a == b;
    case 0x2:
      return a > b;
    case 0x3:
      return a >= b;
    case 0x4:
      return (a & b) != 0;
    case 0x5:
      return a != b;
    case 0x6:
      return sa > sb;
    case 0x7:
      return sa >= sb;
    case 0xa:
      return a < b;
    case 0xb:
      return a <= b;
    case 0xc:
      return sa < sb;
    case 0xd:
      return sa <= sb;
    default:
      Fail("no such comparison");
      return false;
  }
}

size_t Model::Step(absl::Span<const Instruction> code, size_t pc) {
  const Instruction& i = code[pc];
  const int dst = i.registers % 16;
  const int src = i.registers / 16;
  const int group = i.opcode % 8;
  const int operation = i.opcode / 16;
  const bool takes_register = (i.opcode & 8) != 0;
  const auto immediate = static_cast<uint64_t>(int64_t{i.immediate});
  const int bytes = std::array{4, 2, 1, 8}[i.opcode / 8 % 4];
  const Word number{.of = Of::kNumber, .number = immediate};
  switch (group) {
    case 0: {
      if (i.opcode != 0x18 || pc + 1 >= code.size()) return Fail("no wide load"), pc;
      const uint64_t high = static_cast<uint32_t>(code[pc + 1].immediate);
      registers_[dst] = {.of = Of::kNumber,
                         .number = high << 32 | static_cast<uint32_t>(i.immediate)};
      if (src == 1) registers_[dst] = {.of = Of::kMap, .map = static_cast<size_t>(i.immediate)};
      return pc + 2;
    }
    case 1:
      registers_[dst] = Load(registers_[src], i.offset, bytes);
      return pc + 1;
    case 2:
      Store(registers_[dst], i.offset, bytes, number);
      return pc + 1;
    case 3:
      Store(registers_[dst], i.offset, bytes, registers_[src]);
      return pc + 1;
    case 4:
    case 7: {
      const bool is_wide = group == 7;
      if (dst == 10) Fail("writes r10");
      if (operation == 0xd) {  // Byte order.
        uint64_t value = NumberIn(dst);
        uint64_t result = 0;
        for (int at = 0; at < i.immediate / 8; ++at) {
          const uint64_t byte = value >> (8 * at) & 0xff;
          result |= byte << (takes_register ? i.immediate - 8 - 8 * at : 8 * at);
        }
        registers_[dst] = {.of = Of::kNumber, .number = result};
        return pc + 1;
      }
      if (operation == 0xb && is_wide && takes_register) {
        if (registers_[src].of == Of::kNothing) Fail("copies nothing");
        registers_[dst] = registers_[src];
        return pc + 1;
      }
      const Of of = registers_[dst].of;
      if (is_wide && !takes_register && operation <= 1 && of != Of::kNumber && of != Of::kNothing) {
        if (of == Of::kMap) Fail("adds to a map");
        registers_[dst].offset += operation == 0 ? i.immediate : -int64_t{i.immediate};
        return pc + 1;
      }
      const uint64_t a = operation == 0xb ? 0 : NumberIn(dst);
      const uint64_t b = takes_register && operation != 8 ? NumberIn(src) : immediate;
      registers_[dst] = {.of = Of::kNumber, .number = Compute(operation, is_wide, a, b)};
      return pc + 1;
    }
    default:
      break;
  }
  if (i.opcode == 0x95) {
    verdict_ = NumberIn(0);
    is_over_ = true;
    return pc;
  }
  if (i.opcode == 0x85) {
    registers_[0] = CallHelper(i.immediate);
    for (int reg = 1; reg <= 5; ++reg) registers_[reg] = {};
    return pc + 1;
  }
  if (i.opcode == 0x05) return pc + 1 + i.offset;
  // An address may be compared with 0, which it is not.
  const bool is_address = registers_[dst].of == Of::kCells && registers_[dst].offset >= 0;
  bool is_taken = false;
  if (is_address && !takes_register && i.immediate == 0 && group == 5 &&
      (operation == 1 || operation == 5)) {
    is_taken = operation == 5;
  } else {
    const uint64_t a = NumberIn(dst);
    is_taken = Compare(operation, group == 5, a, takes_register ? NumberIn(src) : immediate);
  }
  return is_taken ? pc + 1 + i.offset : pc + 1;
}

void Model::Run(absl::Span<const Instruction> code, const TestContext& context) {
  context_ = context;
  registers_.assign(11, {});
  registers_[1] = {.of = Of::kContext};
  registers_[10] = {.of = Of::kStack};
  stack_.assign(512, {});
  fault_.clear();
  is_over_ = false;
  size_t pc = 0;
  for (steps_ = 0; fault_.empty() && !is_over_; ++steps_) {
    if (pc >= code.size()) return Fail("left the program");
    if (steps_ >= code.size()) return Fail("took more steps than there are instructions");
    pc = Step(code, pc);
  }
}

}  // namespace warpline::policy::bpf::testing
