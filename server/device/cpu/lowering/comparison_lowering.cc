#include "server/device/cpu/lowering/comparison_lowering.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "ptx/types.h"
#include "server/device/cpu/alu/alu.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {

// setp.lt.and.ftz.f32 -> "setp.lt.ftz.f32" and the combination. `types` end the modifiers.
bool ComparisonLowering::ParseCompare(const Instruction& in, size_t types, std::string* key,
                                      uint64_t* combine) {
  if (in.modifiers.size() < 1 + types) return Invalid("malformed comparison");
  *key = absl::StrCat("setp.", in.modifiers[0]);
  *combine = 0;
  for (size_t i = 1; i + types < in.modifiers.size(); ++i) {
    const std::string& modifier = in.modifiers[i];
    if (modifier == "and") {
      *combine = 1;
    } else if (modifier == "or") {
      *combine = 2;
    } else if (modifier == "xor") {
      *combine = 3;
    } else if (modifier == "ftz") {
      absl::StrAppend(key, ".ftz");
    } else {
      return Unsupported(in);
    }
  }
  absl::StrAppend(key, ".", in.modifiers.back());
  return true;
}

bool ComparisonLowering::SetPredicate(const Instruction& in) {
  if (IsOfHalves(in)) return SetHalfPredicate(in);
  std::string key;
  uint64_t combine = 0;
  if (!ParseCompare(in, 1, &key, &combine)) return false;
  const AluRow* const row = FindAlu(key);
  if (row == nullptr) return Unsupported(in);
  if (in.operands.size() != (combine != 0 ? 4u : 3u)) return Invalid("wrong number of operands");
  const Operand& first = in.operands[0];
  const bool pair = first.kind == Operand::Kind::kPair;
  uint32_t p, q = kNoSlot, a, b, c = kNoSlot;
  bool negated = false;
  if (!Source(in.operands[1], row->operands[1], &a)) return false;
  if (!Source(in.operands[2], row->operands[2], &b)) return false;
  if (combine != 0 && !Source(in.operands[3], 'p', &c, &negated)) return false;
  if (!Destination(pair ? first.elements[0] : first, 'p', &p)) return false;
  if (pair && !Destination(first.elements[1], 'p', &q)) return false;
  Op& op = EmitAlu(*row);
  op.r[0] = p;
  op.r[1] = q;
  op.r[2] = a;
  op.r[3] = b;
  op.r[4] = c;
  op.imm = combine;
  op.negated = negated;
  return true;
}

// A setp into a temporary and a selection between true and false.
bool ComparisonLowering::Set(const Instruction& in) {
  if (IsOfHalves(in)) return SetHalf(in);
  std::string key;
  uint64_t combine = 0;
  if (!ParseCompare(in, 2, &key, &combine)) return false;
  const AluRow* const row = FindAlu(key);
  if (row == nullptr) return Unsupported(in);
  if (in.operands.size() != (combine != 0 ? 4u : 3u)) return Invalid("wrong number of operands");
  const std::string& type = in.modifiers[in.modifiers.size() - 2];
  if (ptx::TypeBytes(type) != 4) return Unsupported(in);
  uint32_t a, b, c = kNoSlot, d;
  bool negated = false;
  if (!Source(in.operands[1], row->operands[1], &a)) return false;
  if (!Source(in.operands[2], row->operands[2], &b)) return false;
  if (combine != 0 && !Source(in.operands[3], 'p', &c, &negated)) return false;
  if (!Destination(in.operands[0], 'i', &d)) return false;
  const uint32_t p = NewSlot(Width::kPred);
  const uint32_t yes = Constant(Width::k32, type == "f32" ? 0x3f800000 : 0xffffffff);
  const uint32_t no = Constant(Width::k32, 0);
  Op& op = EmitAlu(*row);
  op.r[0] = p;
  op.r[2] = a;
  op.r[3] = b;
  op.r[4] = c;
  op.imm = combine;
  op.negated = negated;
  return EmitNamed("selp.b32", d, yes, no, p);
}

bool ComparisonLowering::WidenHalf(const Operand& operand, const std::string& type,
                                   uint32_t out[2]) {
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

bool ComparisonLowering::IsOfHalves(const Instruction& in) {
  if (in.modifiers.empty()) return false;
  const std::string& type = in.modifiers.back();
  if (IsHalf(type) || IsPair(type)) return true;
  return in.opcode == "set" && in.modifiers.size() > 1 &&
         IsHalf(in.modifiers[in.modifiers.size() - 2]);
}

bool ComparisonLowering::EmitCompare(const std::string& key, uint32_t p, uint32_t a, uint32_t b,
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

bool ComparisonLowering::SetHalfPredicate(const Instruction& in) {
  const std::string type = in.modifiers.back();
  Instruction wide = in;
  wide.modifiers.back() = "f32";
  std::string key;
  uint64_t combine = 0;
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
  code_.ops().back().r[1] = q;
  return true;
}

bool ComparisonLowering::SetHalf(const Instruction& in) {
  if (in.modifiers.size() < 3) return Invalid("malformed comparison");
  const std::string to = in.modifiers[in.modifiers.size() - 2];
  const std::string type = in.modifiers.back();
  const bool half_source = IsHalf(type) || IsPair(type);
  Instruction wide = in;
  if (half_source) wide.modifiers.back() = "f32";
  std::string key;
  uint64_t combine = 0;
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
  // True is one for floats, all ones for integers.
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
