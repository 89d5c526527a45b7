#include "server/device/cpu/lowering/conversion_lowering.h"

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "ptx/types.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {
namespace {

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> list) {
  for (const std::string_view item : list) {
    if (item == text) return true;
  }
  return false;
}

}  // namespace

bool ConversionLowering::Convert(const Instruction& in) {
  if (IsOfHalves(in)) return ConvertHalf(in);
  if (in.operands.size() != 2 || in.modifiers.size() < 2) return Invalid("malformed cvt");
  std::string to = in.modifiers[in.modifiers.size() - 2];
  std::string from = in.modifiers.back();
  std::string rounding;
  bool ftz = false, sat = false;
  for (size_t i = 0; i + 2 < in.modifiers.size(); ++i) {
    const std::string& modifier = in.modifiers[i];
    if (modifier == "ftz") {
      ftz = true;
    } else if (modifier == "sat") {
      sat = true;
    } else if (IsOneOf(modifier, {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"})) {
      rounding = modifier;
    } else {
      return Unsupported(in);
    }
  }
  const bool to_float = ptx::IsFloatType(to), from_float = ptx::IsFloatType(from);
  if (ptx::TypeBytes(to) == 0 || ptx::TypeBytes(to) > 8 || ptx::TypeBytes(from) == 0 ||
      ptx::TypeBytes(from) > 8 || (to[0] == 'f' && !to_float) || (from[0] == 'f' && !from_float) ||
      to[0] == 'b' || from[0] == 'b') {
    return Unsupported(in);
  }

  // The source is cut to its type, because registers may be wider.
  uint32_t a;
  Symbol symbol;
  if (!from_float && RegisterOf(in.operands[1], &symbol)) {
    const std::string sign(1, from[0]);
    const int bits = 8 * static_cast<int>(symbol.width);
    a = symbol.slot;
    if (symbol.width == Width::kPred || ptx::TypeBytes(from) * 8 > bits) {
      return Invalid("source register too narrow");
    }
    if (ptx::TypeBytes(from) == 1) {
      const uint32_t cut = NewSlot(symbol.width);
      if (!EmitNamed(absl::StrCat("extend.", from, ".b", bits), cut, a)) return false;
      a = cut;
      from = absl::StrCat(sign, bits);
    } else if (ptx::TypeBytes(from) * 8 < bits) {
      Width width;
      TypeWidth(from, &width);
      const uint32_t cut = NewSlot(width);
      if (!EmitNamed(absl::StrCat("cvt.", from, ".u", bits), cut, a)) return false;
      a = cut;
    }
  } else {
    if (ptx::TypeBytes(from) == 1) from = absl::StrCat(std::string(1, from[0]), 16);
    if (!Source(in.operands[1], CodeOf(from), &a)) return false;
  }

  // The conversion goes to a register of the destination's type, which is then widened.
  const Operand& target = in.operands[0];
  Width type_width;
  TypeWidth(to, &type_width);
  Width width = type_width;
  uint32_t d;
  if (RegisterOf(target, &symbol)) {
    width = symbol.width;
    d = symbol.slot;
    if (width == Width::kPred || width < type_width || (to_float && width != type_width)) {
      return Invalid("destination register has the wrong size");
    }
  } else if (!Destination(target, CodeOf(to == "u8" || to == "s8" ? "u16" : to), &d)) {
    return false;
  }
  const bool narrow = ptx::TypeBytes(to) == 1;
  const uint32_t result = narrow || width != type_width ? NewSlot(type_width) : d;

  if (!to_float && !from_float) {
    const std::string plain = narrow ? absl::StrCat(std::string(1, to[0]), 16) : to;
    const std::string key =
        sat ? absl::StrCat("cvt.sat.", to, ".", from) : absl::StrCat("cvt.", plain, ".", from);
    if (!EmitNamed(key, result, a)) return false;
  } else if (to_float && !from_float) {
    if (rounding.empty()) return Invalid("cvt to a float needs a rounding");
    if (sat) return Unsupported(in);
    if (!EmitNamed(absl::StrCat("cvt.", rounding, ".", to, ".", from), result, a)) return false;
  } else if (!to_float) {
    if (rounding.size() != 3) return Invalid("cvt to an integer needs an integer rounding");
    const std::string flush = ftz && from == "f32" ? ".ftz" : "";
    if (narrow) {
      const uint32_t wide = NewSlot(Width::k32);
      if (!EmitNamed(absl::StrCat("cvt.", rounding, flush, ".s32.", from), wide, a) ||
          !EmitNamed(absl::StrCat("cvt.sat.", to, ".s32"), result, wide)) {
        return false;
      }
    } else if (!EmitNamed(absl::StrCat("cvt.", rounding, flush, ".", to, ".", from), result, a)) {
      return false;
    }
  } else {
    const bool directed = rounding == "rz" || rounding == "rm" || rounding == "rp";
    if (to == from && rounding.size() == 2) rounding.clear();
    const bool flush = ftz && !(to == "f64" && from == "f64");
    std::string key = "cvt";
    if (!rounding.empty()) absl::StrAppend(&key, ".", rounding);
    if (flush) absl::StrAppend(&key, ".ftz");
    if (sat && !directed) absl::StrAppend(&key, ".sat");
    absl::StrAppend(&key, ".", to, ".", from);
    if (!EmitNamed(key, result, a)) return false;
    if (directed && sat && !EmitNamed("cvt.sat.f32.f32", result, result)) return false;
  }

  if (narrow && !EmitNamed(absl::StrCat("extend.", to, ".b16"), result, result)) return false;
  if (result == d) return true;
  const std::string sign(1, to[0]);
  return EmitNamed(absl::StrCat("cvt.", sign, 8 * static_cast<int>(width), ".", sign,
                                8 * static_cast<int>(type_width)),
                   d, result);
}

}  // namespace warpline::cpu
