// f16, bf16 and tf32.
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/lowering/conversion_lowering.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {
namespace {

struct Qualifiers {
  std::string rounding;
  bool integral = false;  // rni and so on
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

bool ConversionLowering::IsOfHalves(const Instruction& in) {
  if (in.modifiers.size() < 2) return false;
  const std::string& to = in.modifiers[in.modifiers.size() - 2];
  const std::string& from = in.modifiers.back();
  return IsHalf(to) || IsHalf(from) || IsPair(to) || to == "tf32";
}

bool ConversionLowering::ConvertHalf(const Instruction& in) {
  const std::string& to = in.modifiers[in.modifiers.size() - 2];
  const std::string& from = in.modifiers.back();
  Qualifiers q;
  if (!ParseQualifiers(in, &q)) return Unsupported(in);
  if (IsPair(to)) return ConvertPair(in, q.rounding, q.relu);
  if (in.operands.size() != 2) return Invalid("malformed cvt");
  uint32_t a, d;
  if (to == "tf32") {
    if (from != "f32" || q.relu || q.sat) return Unsupported(in);
    if (!Source(in.operands[1], 'f', &a) || !Destination(in.operands[0], 'i', &d)) return false;
    return EmitNamed(absl::StrCat("cvt.", q.rounding, ".tf32.f32"), d, a);
  }
  // What is not a float of 32 or 64 bits goes through one: f64 holds every integer that rounds to
  // a finite f16, f32 holds every f16.
  const auto temporary = [&](const char* space, std::string_view type, Width width) {
    Operand operand;
    operand.name = absl::StrCat("%warpline_", space, "_", std::string(type));
    Symbol symbol;
    symbol.width = width;
    symbol.slot = NewSlot(width);
    scopes_.Add(operand.name, symbol);
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
      return Convert(rest);
    }
    if (q.integral) {
      Instruction rest;
      rest.opcode = "cvt";
      rest.modifiers = {q.rounding, "f32", "f32"};
      rest.operands = {source, source};
      if (!Convert(rest)) return false;
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
    if (!Convert(widen)) return false;
    source_type = "f64";
  }
  if (q.rounding.size() != 2) return Invalid("cvt to a half needs a rounding");
  if (!Source(source, source_type == "f64" ? 'd' : 'f', &a)) return false;
  if (!Destination(in.operands[0], 'h', &d)) return false;
  return EmitNamed(absl::StrCat("cvt.", q.rounding, ".", to, ".", source_type), d, a) &&
         (!q.sat || EmitNamed(absl::StrCat("sat.", to), d, d)) &&
         (!q.relu || EmitNamed(absl::StrCat("relu.", to), d, d));
}

// cvt.rn.f16x2.f32 d, a, b: a is the upper half.
bool ConversionLowering::ConvertPair(const Instruction& in, const std::string& rounding,
                                     bool relu) {
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

}  // namespace warpline::cpu
