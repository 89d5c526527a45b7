#include "server/device/cpu/testing/arithmetic_cases.h"

#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::cpu {
namespace {

class Builder {
 public:
  void Add(std::string_view mnemonic, std::string_view operands, std::string_view tail = "",
           bool approximate = false) {
    ArithmeticCase test;
    test.result = operands[0];
    test.sources = std::string(operands.substr(1));
    test.approximate = approximate;
    test.instruction = absl::StrCat(std::string(mnemonic), " ", ArithmeticRegister(test.result, 0));
    for (size_t i = 0; i < test.sources.size(); ++i) {
      absl::StrAppend(&test.instruction, ", ", ArithmeticRegister(test.sources[i], i + 1));
    }
    absl::StrAppend(&test.instruction, std::string(tail));
    cases.push_back(std::move(test));
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

// ptxas refuses .sat when it could not matter.
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
  // These are narrow types, and registers wider than the type.
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

// Adds cases of several instructions that belong together, in braces.
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
  add("elect.sync %r7|%p7, 0xffffffff; selp.b32 %r6, 64, 0, %p7; or.b32 %r0, %r7, %r6", "ii");
  add("movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1", "ii");
  add("activemask.b32 %r0", "ii");
  add("@%p1 activemask.b32 %r0; @!%p1 mov.u32 %r0, 7", "ip");
}
}  // namespace

std::string ArithmeticRegister(char code, size_t index) {
  const char* const prefix = code == 'h'   ? "%h"
                             : code == 'l' ? "%l"
                             : code == 'f' ? "%f"
                             : code == 'd' ? "%d"
                             : code == 'p' ? "%p"
                                           : "%r";
  return absl::StrCat(prefix, index);
}

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

}  // namespace warpline::cpu
