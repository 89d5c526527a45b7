// Lowers conversions and comparisons of f16, bf16 and tf32, by way of f32.
#include <string>

#include "absl/strings/str_cat.h"
#include "ptx/types.h"
#include "server/device/cpu/lowering/function_lowering.h"

namespace warpline::cpu {
namespace {

bool IsHalf(std::string_view type) { return type == "f16" || type == "bf16"; }
bool IsPair(std::string_view type) { return type == "f16x2" || type == "bf16x2"; }

struct Qualifiers {
  std::string rounding;
  bool integral = false;  // For rni and similar modifiers.
  bool sat = false;
  bool relu = false;
};

bool ParseQualifiers(const ptx::Instruction& in, Qualifiers* q) {
  for (size_t i = 0; i + 2 < in.modifiers.size(); ++i) {
    const std::string& modifier = in.modifiers[i];
    if (modifier == "sat") {
      q->sat = true;
    } else if (modifier == "relu") {
      q->relu = true;
    } else if (modifier == "ftz") {
      continue;  // f16 subnormals are normal in f32
    } else if (modifier.size() >= 2 && modifier[0] == 'r' && modifier.size() <= 3) {
      q->integral = modifier.size() == 3 && modifier[2] == 'i';
      q->rounding = modifier;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

bool FunctionLowering::IsHalfCvt(const Instruction& in) {
  if (in.modifiers.size() < 2) return false;
  const std::string& to = in.modifiers[in.modifiers.size() - 2];
  const std::string& from = in.modifiers.back();
  return IsHalf(to) || IsHalf(from) || IsPair(to) || to == "tf32";
}

bool FunctionLowering::LowerHalfCvt(const Instruction& in) {
  const std::string& to = in.modifiers[in.modifiers.size() - 2];
  const std::string& from = in.modifiers.back();
  Qualifiers q;
  if (!ParseQualifiers(in, &q)) return Unsupported(in);
  if (IsPair(to)) return LowerPairCvt(in, q.rounding, q.relu);
  if (in.operands.size() != 2) return Invalid("malformed cvt");
  uint32_t a, d;
  if (to == "tf32") {
    if (from != "f32" || q.relu || q.sat) return Unsupported(in);
    if (!Source(in.operands[1], 'f', &a) || !Destination(in.operands[0], 'i', &d)) return false;
    return EmitNamed(absl::StrCat("cvt.", q.rounding, ".tf32.f32"), d, a);
  }
  // A source that is not a float of 32 or 64 bits goes through one: f64 holds every integer that
  // rounds to a finite f16, and f32 holds every f16.
  const auto temporary = [&](const char* space, std::string_view type, Width width) {
    Operand operand;
    operand.name = absl::StrCat("%warpline_", space, "_", std::string(type));
    Symbol symbol;
    symbol.width = width;
    symbol.slot = NewSlot(width);
    scopes_.back().names[operand.name] = symbol;
    return operand;
  };
  Operand source = in.operands[1];
  std::string source_type = from;
  if (IsHalf(from)) {
    if (!Source(source, 'h', &a)) return false;
    source = temporary("from", from, Width::k32);
    if (!EmitNamed(absl::StrCat("cvt.f32.", from), Find(source.name)->slot, a)) return false;
    source_type = "f32";
    if (!IsHalf(to)) {
      Instruction rest = in;
      rest.modifiers.back() = "f32";
      rest.operands[1] = source;
      return LowerCvt(rest);
    }
    if (q.integral) {
      Instruction rest;
      rest.opcode = "cvt";
      rest.modifiers = {q.rounding, "f32", "f32"};
      rest.operands = {source, source};
      if (!LowerCvt(rest)) return false;
      q.rounding = "rn";
    } else if (q.rounding.empty()) {
      q.rounding = "rn";
    }
  } else if (from != "f32" && from != "f64") {
    source = temporary("wide", from, Width::k64);
    Instruction widen;
    widen.opcode = "cvt";
    widen.modifiers = {"rn", "f64", from};
    widen.operands = {source, in.operands[1]};
    if (!LowerCvt(widen)) return false;
    source_type = "f64";
  }
  if (q.rounding.size() != 2) return Invalid("cvt to a half needs a rounding");
  if (!Source(source, source_type == "f64" ? 'd' : 'f', &a)) return false;
  if (!Destination(in.operands[0], 'h', &d)) return false;
  return EmitNamed(absl::StrCat("cvt.", q.rounding, ".", to, ".", source_type), d, a) &&
         (!q.sat || EmitNamed(absl::StrCat("sat.", to), d, d)) &&
         (!q.relu || EmitNamed(absl::StrCat("relu.", to), d, d));
}

// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half.
bool FunctionLowering::LowerPairCvt(const Instruction& in, const std::string& rounding, bool relu) {
  if (in.modifiers.back() != "f32" || in.operands.size() != 3) return Unsupported(in);
  const std::string type = in.modifiers[in.modifiers.size() - 2].substr(
      0, in.modifiers[in.modifiers.size() - 2].size() - 2);
  uint32_t high, low, d;
  if (!Source(in.operands[1], 'f', &high) || !Source(in.operands[2], 'f', &low)) return false;
  if (!Destination(in.operands[0], 'i', &d)) return false;
  const uint32_t a = NewSlot(Width::k16), b = NewSlot(Width::k16);
  const std::string key = absl::StrCat("cvt.", rounding, ".", type, ".f32");
  return EmitNamed(key, a, high) && EmitNamed(key, b, low) &&
         (!relu || (EmitNamed(absl::StrCat("relu.", type), a, a) &&
                    EmitNamed(absl::StrCat("relu.", type), b, b))) &&
         EmitNamed("pack.b32", d, b, a);
}

// Widens an operand to f32, or both halves of one.
bool FunctionLowering::WidenHalf(const Operand& operand, const std::string& type, uint32_t out[2]) {
  const bool pair = IsPair(type);
  const std::string half = pair ? type.substr(0, type.size() - 2) : type;
  uint32_t a;
  if (!Source(operand, pair ? 'i' : 'h', &a)) return false;
  uint32_t parts[2] = {a, a};
  if (pair) {
    parts[0] = NewSlot(Width::k16);
    parts[1] = NewSlot(Width::k16);
    if (!EmitNamed("unpack.b32", parts[0], parts[1], a)) return false;
  }
  for (int i = 0; i < (pair ? 2 : 1); ++i) {
    out[i] = NewSlot(Width::k32);
    if (!EmitNamed(absl::StrCat("cvt.f32.", half), out[i], parts[i])) return false;
  }
  return true;
}

bool FunctionLowering::IsHalfCompare(const Instruction& in) {
  if (in.modifiers.empty()) return false;
  const std::string& type = in.modifiers.back();
  if (IsHalf(type) || IsPair(type)) return true;
  return in.opcode == "set" && in.modifiers.size() > 1 &&
         IsHalf(in.modifiers[in.modifiers.size() - 2]);
}

bool FunctionLowering::EmitCompare(const std::string& key, uint32_t p, uint32_t a, uint32_t b,
                                   uint32_t c, uint64_t combine, bool negated) {
  const AluRow* const row = FindAlu(key);
  if (row == nullptr) return Unsupported(key);
  Op& op = EmitAlu(*row);
  op.r[0] = p;
  op.r[2] = a;
  op.r[3] = b;
  op.r[4] = c;
  op.imm = combine;
  op.negated = negated;
  return true;
}

bool FunctionLowering::LowerHalfSetp(const Instruction& in) {
  const std::string type = in.modifiers.back();
  Instruction wide = in;
  wide.modifiers.back() = "f32";
  std::string key;
  uint64_t combine;
  if (!ParseCompare(wide, 1, &key, &combine)) return false;
  if (in.operands.size() != (combine != 0 ? 4u : 3u)) return Invalid("wrong number of operands");
  const Operand& first = in.operands[0];
  const bool two = first.kind == Operand::Kind::kPair;
  uint32_t p, q = kNoSlot, c = kNoSlot, a[2], b[2];
  bool negated = false;
  if (!WidenHalf(in.operands[1], type, a) || !WidenHalf(in.operands[2], type, b)) return false;
  if (combine != 0 && !Source(in.operands[3], 'p', &c, &negated)) return false;
  if (!Destination(two ? first.elements[0] : first, 'p', &p)) return false;
  if (two && !Destination(first.elements[1], 'p', &q)) return false;
  if (!EmitCompare(key, p, a[0], b[0], c, combine, negated)) return false;
  if (IsPair(type)) {
    return two ? EmitCompare(key, q, a[1], b[1], c, combine, negated)
               : Invalid("setp of a pair needs two predicates");
  }
  ops.back().r[1] = q;
  return true;
}

bool FunctionLowering::LowerHalfSet(const Instruction& in) {
  if (in.modifiers.size() < 3) return Invalid("malformed comparison");
  const std::string to = in.modifiers[in.modifiers.size() - 2];
  const std::string type = in.modifiers.back();
  const bool half_source = IsHalf(type) || IsPair(type);
  Instruction wide = in;
  if (half_source) wide.modifiers.back() = "f32";
  std::string key;
  uint64_t combine;
  if (!ParseCompare(wide, 2, &key, &combine)) return false;
  if (in.operands.size() != (combine != 0 ? 4u : 3u)) return Invalid("wrong number of operands");
  const AluRow* const row = FindAlu(key);
  if (row == nullptr) return Unsupported(in);
  const bool pair = IsPair(type);
  uint32_t a[2], b[2], c = kNoSlot;
  bool negated = false;
  if (half_source) {
    if (!WidenHalf(in.operands[1], type, a) || !WidenHalf(in.operands[2], type, b)) return false;
  } else if (!Source(in.operands[1], row->operands[1], &a[0]) ||
             !Source(in.operands[2], row->operands[2], &b[0])) {
    return false;
  }
  if (combine != 0 && !Source(in.operands[3], 'p', &c, &negated)) return false;
  const int bytes = ptx::TypeBytes(to);
  if (bytes != (pair ? 4 : bytes) || (bytes != 2 && bytes != 4)) return Unsupported(in);
  // True is one for floats, and all ones for integers.
  const uint64_t one = to == "f16" || to == "f16x2"     ? 0x3c00
                       : to == "bf16" || to == "bf16x2" ? 0x3f80
                       : to == "f32"                    ? 0x3f800000
                                                        : 0xffffffff;
  uint32_t d;
  if (!Destination(in.operands[0], bytes == 2 ? 'h' : 'i', &d)) return false;
  const Width width = pair || bytes == 2 ? Width::k16 : Width::k32;
  const uint32_t yes = Constant(width, one), no = Constant(width, 0);
  const char* const select = width == Width::k16 ? "selp.b16" : "selp.b32";
  uint32_t parts[2] = {d, d};
  for (int i = 0; i < (pair ? 2 : 1); ++i) {
    const uint32_t p = NewSlot(Width::kPred);
    if (pair) parts[i] = NewSlot(Width::k16);
    if (!EmitCompare(key, p, a[i], b[i], c, combine, negated)) return false;
    if (!EmitNamed(select, parts[i], yes, no, p)) return false;
  }
  return !pair || EmitNamed("pack.b32", d, parts[0], parts[1]);
}

}  // namespace warpline::cpu
