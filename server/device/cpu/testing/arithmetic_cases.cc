#include "server/device/cpu/testing/arithmetic_cases.h"

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::cpu {
namespace {

using device::EventId;
using device::KernelId;
using device::kLegacyStream;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kArenaBytes = 4096 * kMiB;
constexpr uint64_t kBases[] = {0x300000000000, 0x340000000000, 0x7e9000000000};
constexpr size_t kWords = 4;

constexpr uint64_t kIntegers[] = {
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    17,
    24,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    129,
    200,
    255,
    256,
    257,
    0x7fff,
    0x8000,
    0x8001,
    0xffff,
    0x10000,
    0xdeadbeef,
    0x12345678,
    0x7fffffff,
    0x80000000,
    0x80000001,
    0xffffffff,
    0x100000000,
    0x123456789abcdef0,
    0x7fffffffffffffff,
    0x8000000000000000,
    0x8000000000000001,
    0xfffffffffffffffe,
    0xffffffffffffffff,
    0x1f04,
    0xffffff80,
    0xffffffffffffff80,
    0xffff8000,
};
constexpr uint32_t kFloats[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0xbf000000, 0x3fc00000, 0xbfc00000,
    0x40200000, 0xc0200000, 0x40490fdb, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000,
    0x80800000, 0x00800001, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7fc12345,
    0x7f800001, 0xffc00000, 0x7fffffff, 0x501502f9, 0x4f000000, 0xcf000000, 0x4f800000, 0x477fff80,
    0x46ffff00, 0x437f8000, 0xc3008000, 0x5f000000, 0x5f800000, 0xdf000000, 0x4b800001, 0x1e3ce508,
    0x3f7fffff, 0x33800000, 0x34000001, 0x4effffff, 0x3dcccccd, 0x42c80000,
};
constexpr uint64_t kDoubles[] = {
    0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
    0x3fe0000000000000, 0xbfe0000000000000, 0x3ff8000000000000, 0xbff8000000000000,
    0x4004000000000000, 0xc004000000000000, 0x400921fb54442d18, 0x0000000000000001,
    0x8000000000000001, 0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff,
    0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
    0x7ff8000012345678, 0x7ff0000000000001, 0xfff8000000000000, 0x41dfffffffc00000,
    0x41e0000000000000, 0xc1e0000000000000, 0xc1e0000000200000, 0x41f0000000000000,
    0x43e0000000000000, 0xc3e0000000000000, 0x43f0000000000000, 0x40effff000000000,
    0x40dfffe000000000, 0x406ff00000000000, 0xc060100000000000, 0x36a0000000000000,
    0x3690000000000000, 0x380fffffe0000000, 0x3810000000000000, 0x47efffffe0000000,
    0x47effffff0000000, 0x3ff0000010000000, 0x3ff0000030000000, 0x4340000000000001,
    0x3fb999999999999a, 0x4059000000000000,
};

template <typename T, size_t kCount>
T Pick(const T (&values)[kCount], uint64_t index) {
  return values[index % kCount];
}

// Deterministic, well mixed.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

uint64_t Value(char code, size_t thread, size_t position) {
  constexpr size_t kEdges = 46;
  static_assert(std::size(kIntegers) == kEdges && std::size(kFloats) == kEdges &&
                std::size(kDoubles) == kEdges);
  // Every pair of edge cases for the first two operands, then random values.
  const uint64_t random = Mix(thread * kWords + position);
  const bool edges = thread < kEdges * kEdges;
  const uint64_t index = position == 0 ? thread : position == 1 ? thread / kEdges : random >> 8;
  if (edges || (random & 3) == 0) {
    if (code == 'f') return Pick(kFloats, index);
    if (code == 'd') return Pick(kDoubles, index);
    return Pick(kIntegers, index);
  }
  if (code == 'f' || code == 'd') {
    // Moderate magnitudes, so that sums and products are not all infinite.
    const double value = (static_cast<double>(random >> 11) / 9007199254740992.0 - 0.5) *
                         static_cast<double>(uint64_t{1} << (random & 40));
    uint64_t bits = 0;
    if (code == 'd') {
      std::memcpy(&bits, &value, sizeof(value));
    } else {
      const auto narrow = static_cast<float>(value);
      std::memcpy(&bits, &narrow, sizeof(narrow));
    }
    return bits;
  }
  return (random & 4) != 0 ? random >> (random & 63) : random;
}

class Builder {
 public:
  void Add(std::string_view mnemonic, std::string_view operands, std::string_view tail = "",
           bool approximate = false) {
    ArithmeticCase test;
    test.result = operands[0];
    test.sources = std::string(operands.substr(1));
    test.approximate = approximate;
    test.instruction = absl::StrCat(std::string(mnemonic), " ", Register(test.result, 0));
    for (size_t i = 0; i < test.sources.size(); ++i) {
      absl::StrAppend(&test.instruction, ", ", Register(test.sources[i], i + 1));
    }
    absl::StrAppend(&test.instruction, std::string(tail));
    cases.push_back(std::move(test));
  }

  static std::string Register(char code, size_t index) {
    const char* const prefix = code == 'h'   ? "%h"
                               : code == 'l' ? "%l"
                               : code == 'f' ? "%f"
                               : code == 'd' ? "%d"
                               : code == 'p' ? "%p"
                                             : "%r";
    return absl::StrCat(prefix, index);
  }

  std::vector<ArithmeticCase> cases;
};

struct Type {
  const char* name;
  char code;
};
constexpr Type kInts[] = {{"u16", 'h'}, {"s16", 'h'}, {"u32", 'i'},
                          {"s32", 'i'}, {"u64", 'l'}, {"s64", 'l'}};
constexpr Type kBits[] = {{"b16", 'h'}, {"b32", 'i'}, {"b64", 'l'}};

std::string Codes(std::initializer_list<char> codes) { return std::string(codes); }

void AddIntegers(Builder* b) {
  for (const Type& t : kInts) {
    const std::string n = absl::StrCat(".", t.name);
    const char c = t.code;
    for (const char* op : {"add", "sub", "mul.lo", "mul.hi", "min", "max", "div", "rem"}) {
      b->Add(op + n, Codes({c, c, c}));
    }
    for (const char* op : {"mad.lo", "mad.hi", "sad"}) b->Add(op + n, Codes({c, c, c, c}));
    b->Add("shr" + n, Codes({c, c, 'i'}));
    if (n[1] == 's') {
      b->Add("neg" + n, Codes({c, c}));
      b->Add("abs" + n, Codes({c, c}));
    }
    if (c == 'h') {
      b->Add("mul.wide" + n, Codes({'i', c, c}));
      b->Add("mad.wide" + n, Codes({'i', c, c, 'i'}));
      continue;
    }
    if (c == 'i') {
      b->Add("mul.wide" + n, Codes({'l', c, c}));
      b->Add("mad.wide" + n, Codes({'l', c, c, 'l'}));
      b->Add("mul24.lo" + n, Codes({c, c, c}));
      b->Add("mul24.hi" + n, Codes({c, c, c}));
      b->Add("mad24.lo" + n, Codes({c, c, c, c}));
      b->Add("mad24.hi" + n, Codes({c, c, c, c}));
    }
    b->Add("bfe" + n, Codes({c, c, 'i', 'i'}));
    b->Add("bfind" + n, Codes({'i', c}));
    b->Add("bfind.shiftamt" + n, Codes({'i', c}));
  }
  b->Add("add.sat.s32", "iii");
  b->Add("sub.sat.s32", "iii");
  b->Add("mad.hi.sat.s32", "iiii");
  for (const char* types : {"u32.u32", "s32.s32", "u32.s32", "s32.u32"}) {
    b->Add(absl::StrCat("dp4a.", types), "iiii");
    b->Add(absl::StrCat("dp2a.lo.", types), "iiii");
    b->Add(absl::StrCat("dp2a.hi.", types), "iiii");
  }
}

void AddBits(Builder* b) {
  for (const Type& t : kBits) {
    const std::string n = absl::StrCat(".", t.name);
    const char c = t.code;
    for (const char* op : {"and", "or", "xor"}) b->Add(op + n, Codes({c, c, c}));
    b->Add("not" + n, Codes({c, c}));
    b->Add("cnot" + n, Codes({c, c}));
    b->Add("shl" + n, Codes({c, c, 'i'}));
    b->Add("shr" + n, Codes({c, c, 'i'}));
    b->Add("selp" + n, Codes({c, c, c, 'p'}));
    if (c == 'h') continue;
    b->Add("popc" + n, Codes({'i', c}));
    b->Add("clz" + n, Codes({'i', c}));
    b->Add("brev" + n, Codes({c, c}));
    b->Add("bfi" + n, Codes({c, c, c, 'i'}), ", 5");
    b->Add("bfi" + n, Codes({c, c, c, 'i'}), ", 40");
    b->Add("slct" + n + ".s32", Codes({c, c, c, 'i'}));
    b->Add("slct" + n + ".f32", Codes({c, c, c, 'f'}));
  }
  for (const char* mode : {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"}) {
    b->Add(absl::StrCat("prmt.b32", mode), "iiii");
  }
  for (const char* mode : {"l.wrap", "l.clamp", "r.wrap", "r.clamp"}) {
    b->Add(absl::StrCat("shf.", mode, ".b32"), "iiii");
  }
  for (const char* table : {", 0x96", ", 0xE8", ", 0x1B", ", 0xCA"}) {
    b->Add("lop3.b32", "iiii", table);
  }
  b->Add("bmsk.clamp.b32", "iii");
  b->Add("bmsk.wrap.b32", "iii");
  b->Add("and.pred", "ppp");
  b->Add("or.pred", "ppp");
  b->Add("xor.pred", "ppp");
  b->Add("not.pred", "pp");
}

void AddFloats(Builder* b) {
  for (const char* mode : {"f32", "ftz.f32", "f64"}) {
    const std::string n = mode;
    const char c = n == "f64" ? 'd' : 'f';
    for (const char* round : {"rn", "rz", "rm", "rp"}) {
      for (const char* op : {"add", "sub", "mul", "div"}) {
        b->Add(absl::StrCat(op, ".", round, ".", n), Codes({c, c, c}));
      }
      b->Add(absl::StrCat("fma.", round, ".", n), Codes({c, c, c, c}));
      b->Add(absl::StrCat("rcp.", round, ".", n), Codes({c, c}));
      b->Add(absl::StrCat("sqrt.", round, ".", n), Codes({c, c}));
    }
    for (const char* op : {"min", "max"}) b->Add(absl::StrCat(op, ".", n), Codes({c, c, c}));
    for (const char* op : {"neg", "abs"}) b->Add(absl::StrCat(op, ".", n), Codes({c, c}));
    if (c == 'd') continue;
    for (const char* op : {"add", "sub", "mul"}) {
      const bool flush = n != "f32";
      b->Add(absl::StrCat(op, flush ? ".ftz" : "", ".sat.f32"), "fff");
    }
    b->Add(absl::StrCat("fma.rn", n == "f32" ? "" : ".ftz", ".sat.f32"), "ffff");
    b->Add(absl::StrCat("min", n == "f32" ? "" : ".ftz", ".NaN.f32"), "fff");
    b->Add(absl::StrCat("max", n == "f32" ? "" : ".ftz", ".NaN.f32"), "fff");
    for (const char* op : {"rcp", "sqrt", "rsqrt", "sin", "cos", "ex2", "lg2"}) {
      b->Add(absl::StrCat(op, ".approx.", n), "ff", "", true);
    }
    b->Add(absl::StrCat("div.approx.", n), "fff", "", true);
    b->Add(absl::StrCat("div.full.", n), "fff", "", true);
  }
  b->Add("tanh.approx.f32", "ff", "", true);
  b->Add("copysign.f32", "fff");
  b->Add("copysign.f64", "ddd");
  for (const char* test : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}) {
    b->Add(absl::StrCat("testp.", test, ".f32"), "pf");
    b->Add(absl::StrCat("testp.", test, ".f64"), "pd");
  }
}

void AddCompares(Builder* b) {
  for (const Type& t : kInts) {
    for (const char* cmp : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      b->Add(absl::StrCat("setp.", cmp, ".", t.name), Codes({'p', t.code, t.code}));
    }
    if (t.name[0] == 'u') {
      for (const char* cmp : {"lo", "ls", "hi", "hs"}) {
        b->Add(absl::StrCat("setp.", cmp, ".", t.name), Codes({'p', t.code, t.code}));
      }
    }
  }
  for (const char* type : {"f32", "ftz.f32", "f64"}) {
    const char c = type[1] == '6' ? 'd' : 'f';
    for (const char* cmp : {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu",
                            "geu", "num", "nan"}) {
      b->Add(absl::StrCat("setp.", cmp, ".", type), Codes({'p', c, c}));
    }
  }
  b->Add("setp.lt.and.s32", "piip");
  b->Add("setp.lt.or.s32", "piip");
  b->Add("setp.lt.xor.f32", "pffp");
  b->Add("set.lt.u32.s32", "iii");
  b->Add("set.ge.f32.f32", "fff");
  b->Add("set.gtu.and.u32.f32", "iffp");
}

// ptxas refuses .sat where it could not matter.
bool AlwaysFits(std::string_view to, std::string_view from) {
  const int to_bits = std::atoi(to.data() + 1), from_bits = std::atoi(from.data() + 1);
  if (from[0] == 's') return to[0] == 's' && to_bits >= from_bits;
  return to_bits > from_bits || (to[0] == 'u' && to_bits == from_bits);
}

void AddConversions(Builder* b) {
  for (const Type& to : kInts) {
    for (const Type& from : kInts) {
      b->Add(absl::StrCat("cvt.", to.name, ".", from.name), Codes({to.code, from.code}));
      if (!AlwaysFits(to.name, from.name)) {
        b->Add(absl::StrCat("cvt.sat.", to.name, ".", from.name), Codes({to.code, from.code}));
      }
    }
    for (const char* round : {"rn", "rz", "rm", "rp"}) {
      b->Add(absl::StrCat("cvt.", round, ".f32.", to.name), Codes({'f', to.code}));
      b->Add(absl::StrCat("cvt.", round, ".f64.", to.name), Codes({'d', to.code}));
    }
    for (const char* round : {"rni", "rzi", "rmi", "rpi"}) {
      b->Add(absl::StrCat("cvt.", round, ".", to.name, ".f32"), Codes({to.code, 'f'}));
      b->Add(absl::StrCat("cvt.", round, ".ftz.", to.name, ".f32"), Codes({to.code, 'f'}));
      b->Add(absl::StrCat("cvt.", round, ".", to.name, ".f64"), Codes({to.code, 'd'}));
    }
  }
  // Narrow types, and registers wider than the type.
  for (const char* narrow : {"u8", "s8"}) {
    for (const char* wide : {"u16", "s32", "u64", "s64"}) {
      const char c = wide[1] == '1' ? 'h' : wide[1] == '3' ? 'i' : 'l';
      b->Add(absl::StrCat("cvt.", narrow, ".", wide), Codes({'i', c}));
      b->Add(absl::StrCat("cvt.sat.", narrow, ".", wide), Codes({'i', c}));
      b->Add(absl::StrCat("cvt.", wide, ".", narrow), Codes({c, 'i'}));
    }
    b->Add(absl::StrCat("cvt.rn.f32.", narrow), "fi");
    b->Add(absl::StrCat("cvt.rzi.", narrow, ".f32"), "if");
    if (narrow[0] == 's') b->Add("cvt.rni.s8.f64", "id");
  }
  for (const char* round : {"rn", "rz", "rm", "rp"}) {
    b->Add(absl::StrCat("cvt.", round, ".f32.f64"), "fd");
    b->Add(absl::StrCat("cvt.", round, ".ftz.f32.f64"), "fd");
    b->Add(absl::StrCat("cvt.", round, ".sat.f32.f64"), "fd");
  }
  for (const char* round : {"rni", "rzi", "rmi", "rpi"}) {
    b->Add(absl::StrCat("cvt.", round, ".f32.f32"), "ff");
    b->Add(absl::StrCat("cvt.", round, ".ftz.f32.f32"), "ff");
    b->Add(absl::StrCat("cvt.", round, ".sat.f32.f32"), "ff");
    b->Add(absl::StrCat("cvt.", round, ".f64.f64"), "dd");
  }
  b->Add("cvt.sat.f32.f32", "ff");
  b->Add("cvt.ftz.sat.f32.f32", "ff");
  b->Add("cvt.f64.f32", "df");
  b->Add("cvt.ftz.f64.f32", "df");
}

// Several instructions that belong together: `{...}` holds them.
void AddSequences(Builder* b) {
  const auto add = [b](std::string_view text, std::string_view operands) {
    ArithmeticCase test;
    test.instruction = std::string(text);
    test.result = operands[0];
    test.sources = std::string(operands.substr(1));
    b->cases.push_back(std::move(test));
  };
  for (const char* type : {"u32", "s64"}) {
    const bool wide = type[1] == '6';
    const std::string r = wide ? "%l" : "%r";
    const std::string codes = wide ? "llll" : "iiii";
    for (const char* pair : {"add.cc addc", "sub.cc subc"}) {
      const std::string both = pair;
      const std::string first = both.substr(0, both.find(' '));
      const std::string second = both.substr(both.find(' ') + 1);
      add(absl::StrCat(first, ".", type, " ", r, "7, ", r, "1, ", r, "2; ", second, ".cc.", type,
                       " ", r, "6, ", r, "2, ", r, "3; ", second, ".", type, " ", r, "0, ", r,
                       "7, ", r, "6"),
          codes);
    }
    add(absl::StrCat("mad.lo.cc.", type, " ", r, "7, ", r, "1, ", r, "2, ", r, "3; madc.hi.", type,
                     " ", r, "0, ", r, "1, ", r, "2, ", r, "7"),
        codes);
    add(absl::StrCat("mad.hi.cc.", type, " ", r, "7, ", r, "1, ", r, "2, ", r, "3; madc.lo.cc.",
                     type, " ", r, "6, ", r, "1, ", r, "7, ", r, "3; addc.", type, " ", r, "0, ", r,
                     "6, ", r, "1"),
        codes);
  }
  add("mov.b64 {%r7, %r6}, %l1; mov.b64 %l0, {%r6, %r7}", "ll");
  add("mov.b32 {%h7, %h6}, %r1; mov.b32 %r0, {%h6, %h7}", "ii");
  add("mov.b64 {%h7, %h6, %h5, %h4}, %l1; mov.b64 %l0, {%h4, %h7, %h6, %h5}", "ll");
  add("setp.lt.s32 %p7|%p6, %r1, %r2; selp.b32 %r0, 5, 9, !%p6", "iii");
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    for (const char* clamp : {"0", "31", "0x0c1f", "0x181f", "0x1c03"}) {
      add(absl::StrCat("shfl.sync.", mode, ".b32 %r7|%p7, %r1, %r2, ", clamp,
                       ", 0xffffffff; selp.b32 %r6, 0, 7, %p7; xor.b32 %r0, %r7, %r6"),
          "iii");
    }
  }
  add("shfl.sync.idx.b32 %r0, %r1, %r2, %r3, 0xffffffff", "iiii");
  add("and.b32 %r7, %r1, 31; shfl.sync.up.b32 %r0, %r2, 3, 0, -1", "iii");
  for (const char* mode : {"all", "any", "uni"}) {
    add(absl::StrCat("setp.lt.u32 %p7, %r1, 0x80000000; vote.sync.", mode,
                     ".pred %p0, !%p7, 0xffffffff"),
        "pi");
  }
  add("setp.lt.u32 %p7, %r1, %r2; vote.sync.ballot.b32 %r0, %p7, 0xffffffff", "iii");
  add("and.b32 %r7, %r1, 3; match.any.sync.b32 %r0, %r7, 0xffffffff", "ii");
  add("and.b64 %l7, %l1, 1; match.all.sync.b64 %r0|%p7, %l7, 0xffffffff", "il");
  for (const char* op : {"add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32"}) {
    add(absl::StrCat("redux.sync.", op, " %r0, %r1, 0xffffffff"), "ii");
  }
  add("activemask.b32 %r0", "ii");
  add("@%p1 activemask.b32 %r0; @!%p1 mov.u32 %r0, 7", "ip");
}

std::string Kernel(const ArithmeticCase& test, size_t index) {
  std::string text = absl::StrCat(
      ".visible .entry k", index,
      "(.param .u64 in, .param .u64 out)\n{\n"
      ".reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .b64 %l<8>;\n.reg .f32 %f<8>;\n.reg .f64 %d<8>;\n"
      ".reg .pred %p<8>;\n.reg .b32 %t<8>;\n.reg .b64 %w<12>;\n"
      "ld.param.u64 %w5, [in];\nld.param.u64 %w6, [out];\n"
      "cvta.to.global.u64 %w5, %w5;\ncvta.to.global.u64 %w6, %w6;\n"
      "mov.u32 %t1, %ctaid.x;\nmov.u32 %t2, %ntid.x;\nmov.u32 %t3, %tid.x;\n"
      "mad.lo.u32 %t4, %t1, %t2, %t3;\n"
      "mul.wide.u32 %w7, %t4, 32;\nadd.u64 %w5, %w5, %w7;\n"
      "mul.wide.u32 %w8, %t4, 8;\nadd.u64 %w6, %w6, %w8;\n"
      "ld.global.v2.b64 {%w1, %w2}, [%w5];\nld.global.v2.b64 {%w3, %w4}, [%w5+16];\n");
  for (size_t i = 0; i < test.sources.size(); ++i) {
    const char code = test.sources[i];
    const std::string to = Builder::Register(code, i + 1);
    const std::string from = absl::StrCat("%w", i + 1);
    switch (code) {
      case 'h':
        absl::StrAppend(&text, "cvt.u16.u64 ", to, ", ", from, ";\n");
        break;
      case 'i':
        absl::StrAppend(&text, "cvt.u32.u64 ", to, ", ", from, ";\n");
        break;
      case 'f':
        absl::StrAppend(&text, "cvt.u32.u64 %t5, ", from, ";\nmov.b32 ", to, ", %t5;\n");
        break;
      case 'p':
        absl::StrAppend(&text, "and.b64 %w9, ", from, ", 1;\nsetp.ne.u64 ", to, ", %w9, 0;\n");
        break;
      default:
        absl::StrAppend(&text, "mov.b64 ", to, ", ", from, ";\n");
        break;
    }
  }
  absl::StrAppend(&text, test.instruction, ";\n");
  switch (test.result) {
    case 'h':
      absl::StrAppend(&text, "cvt.u64.u16 %w9, %h0;\n");
      break;
    case 'i':
      absl::StrAppend(&text, "cvt.u64.u32 %w9, %r0;\n");
      break;
    case 'f':
      absl::StrAppend(&text, "mov.b32 %t6, %f0;\ncvt.u64.u32 %w9, %t6;\n");
      break;
    case 'd':
      absl::StrAppend(&text, "mov.b64 %w9, %d0;\n");
      break;
    case 'p':
      absl::StrAppend(&text, "selp.b64 %w9, 1, 0, %p0;\n");
      break;
    default:
      absl::StrAppend(&text, "mov.b64 %w9, %l0;\n");
      break;
  }
  absl::StrAppend(&text, "st.global.b64 [%w6], %w9;\nret;\n}\n");
  return text;
}

}  // namespace

std::vector<ArithmeticCase> ArithmeticCases() {
  Builder builder;
  AddIntegers(&builder);
  AddBits(&builder);
  AddFloats(&builder);
  AddCompares(&builder);
  AddConversions(&builder);
  AddSequences(&builder);
  return std::move(builder.cases);
}

std::string ArithmeticModule(const std::vector<ArithmeticCase>& cases) {
  std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n";
  for (size_t i = 0; i < cases.size(); ++i) text += Kernel(cases[i], i);
  return text;
}

std::vector<uint64_t> ArithmeticInputs(const ArithmeticCase& test) {
  std::vector<uint64_t> words(kArithmeticThreads * kWords);
  for (size_t thread = 0; thread < kArithmeticThreads; ++thread) {
    for (size_t i = 0; i < test.sources.size(); ++i) {
      words[thread * kWords + i] = Value(test.sources[i], thread, i);
    }
  }
  return words;
}

uint64_t HashResults(const std::vector<uint64_t>& results) {
  uint64_t hash = 0;
  for (const uint64_t word : results) hash = Mix(hash ^ word);
  return hash;
}

absl::StatusOr<std::unique_ptr<ArithmeticRunner>> ArithmeticRunner::Create(
    device::Backend* backend, const std::vector<ArithmeticCase>& cases) {
  std::unique_ptr<ArithmeticRunner> runner(new ArithmeticRunner);
  runner->cases_ = cases;
  absl::StatusOr<std::unique_ptr<device::ChunkSource>> chunks = backend->OpenChunkSource(0);
  if (!chunks.ok()) return chunks.status();
  runner->chunks_ = *std::move(chunks);
  absl::StatusOr<std::unique_ptr<device::Context>> context = backend->OpenContext(0);
  if (!context.ok()) return context.status();
  runner->context_ = *std::move(context);
  absl::StatusOr<UniqueFd> chunk = runner->chunks_->CreateChunk(2 * kMiB);
  if (!chunk.ok()) return chunk.status();
  runner->chunk_ = *std::move(chunk);
  CudaResult result = CudaResult::kOutOfMemory;
  for (const uint64_t base : kBases) {
    result = runner->context_->ReserveArena(base, kArenaBytes);
    if (result != CudaResult::kSuccess) continue;
    runner->memory_ = base + 2 * kMiB;
    break;
  }
  if (result == CudaResult::kSuccess) {
    result = runner->context_->MapChunk(runner->memory_, 2 * kMiB, runner->chunk_.get());
  }
  if (result == CudaResult::kSuccess) {
    result = runner->context_->AllocStaging(kArithmeticThreads * 8, &runner->staging_);
  }
  if (result == CudaResult::kSuccess) {
    result = runner->context_->LoadModule(ArithmeticModule(cases), &runner->module_);
  }
  if (result != CudaResult::kSuccess) return StatusFromCudaResult(result, "setting up");
  return runner;
}

ArithmeticRunner::~ArithmeticRunner() {
  if (staging_ != nullptr) context_->FreeStaging(staging_);
}

absl::StatusOr<std::vector<uint64_t>> ArithmeticRunner::Run(size_t index) {
  const uint64_t out = memory_ + kMiB;
  KernelId kernel{};
  CudaResult result = context_->FindKernel(module_, absl::StrCat("k", index), &kernel);
  if (result != CudaResult::kSuccess) {
    return StatusFromCudaResult(result, cases_[index].instruction);
  }
  const std::vector<uint64_t> in = ArithmeticInputs(cases_[index]);
  EventId event{};
  std::byte params[16];
  std::memcpy(params, &memory_, 8);
  std::memcpy(params + 8, &out, 8);
  const auto step = [&](CudaResult next) {
    if (result == CudaResult::kSuccess) result = next;
  };
  step(context_->CopyToDevice(memory_, in.data(), in.size() * 8, kLegacyStream));
  step(context_->Launch(kernel, {{kArithmeticThreads / 128, 1, 1}, {128, 1, 1}, 0}, params,
                        kLegacyStream));
  step(context_->CopyFromDevice(staging_, out, kArithmeticThreads * 8, kLegacyStream));
  step(context_->CreateEvent(2, &event));
  step(context_->RecordEvent(event, kLegacyStream));
  while (result == CudaResult::kSuccess) {
    const CudaResult done = context_->QueryEvent(event);
    if (done == CudaResult::kSuccess) break;
    if (done != CudaResult::kNotReady) result = done;
    std::this_thread::yield();
  }
  if (result != CudaResult::kSuccess) {
    return StatusFromCudaResult(result, cases_[index].instruction);
  }
  const auto* words = static_cast<const uint64_t*>(staging_);
  return std::vector<uint64_t>(words, words + kArithmeticThreads);
}

}  // namespace warpline::cpu
