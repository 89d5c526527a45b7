#include "server/device/cpu/lowering/warpgroup_lowering.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/device/cpu/execution/matrix_elements.h"
#include "server/device/cpu/execution/warpgroup_ops.h"

namespace warpline::cpu {
namespace {

constexpr size_t kNamed = 4;  // Operands: D, A, B, and whether D is added
constexpr int kRowsPerWarp = 16;
constexpr int kCostOfColumn = 150;  // As many instructions take about as long.

bool IsHalf(MatrixType type) { return type == MatrixType::kF16 || type == MatrixType::kBf16; }

// Whether a multiply has these types; A and B are as wide as each other.
bool TypesFit(MatrixType d, MatrixType a, MatrixType b) {
  switch (a) {
    case MatrixType::kF16:
      return b == a && (d == MatrixType::kF16 || d == MatrixType::kF32);
    case MatrixType::kBf16:
    case MatrixType::kTf32:
      return b == a && d == MatrixType::kF32;
    case MatrixType::kS8:
    case MatrixType::kU8:
      return (b == MatrixType::kS8 || b == MatrixType::kU8) && d == MatrixType::kS32;
    default:
      return false;
  }
}

// Integers have no odd multiples of eight from 40 on.
bool ColumnsFit(int columns, MatrixType a) {
  const bool coarse = IsInteger(a) && columns > 32;
  return columns >= 8 && columns <= kMaxWarpgroupColumns && columns % (coarse ? 16 : 8) == 0;
}

// "m64n8k16", with the depth that the type of A has. Types must have been read.
bool ReadShape(const std::string& text, WarpgroupSite* site) {
  constexpr std::string_view kStart = "m64n";
  const size_t k = text.find('k');
  int columns = 0;
  if (text.size() > 12 || k == std::string::npos || k < kStart.size() ||
      !absl::SimpleAtoi(text.substr(kStart.size(), k - kStart.size()), &columns)) {
    return false;
  }
  const int depth = kWarpgroupDepthBytes / BytesOf(site->a_type);
  site->d.rows = kRowsPerWarp;
  site->d.columns = columns;
  return ColumnsFit(columns, site->a_type) && text == absl::StrCat("m64n", columns, "k", depth);
}

// wgmma.mma_async.sync.aligned, a shape, the types of D, A and B, and satfinite before or behind
// them.
bool ReadName(const ptx::Instruction& in, WarpgroupSite* site) {
  constexpr size_t kShape = 3;
  const std::vector<std::string>& modifiers = in.modifiers;
  if (modifiers.size() <= kShape || modifiers[kShape - 1] != "aligned") return false;
  std::vector<MatrixType> types;
  for (size_t i = kShape + 1; i < modifiers.size(); ++i) {
    MatrixType type;
    if (modifiers[i] == "satfinite" && !site->saturate) {
      site->saturate = true;
    } else if (FindMatrixType(modifiers[i], &type)) {
      types.push_back(type);
    } else {
      return false;
    }
  }
  if (types.size() != 3 || !TypesFit(types[0], types[1], types[2])) return false;
  site->d.type = types[0];
  site->a_type = types[1];
  site->b_type = types[2];
  return (!site->saturate || IsInteger(site->a_type)) && ReadShape(modifiers[kShape], site);
}

}  // namespace

bool WarpgroupLowering::ReadD(const Operand& operand, WarpgroupSite* site) {
  const char code = site->d.type == MatrixType::kF32 ? 'f' : 'i';
  const int per_lane = kRowsPerWarp * site->d.columns / kLanes;
  const int registers = per_lane / ElementsPerRegister(site->d.type);
  if (operand.kind != Operand::Kind::kVector ||
      operand.elements.size() != static_cast<size_t>(registers)) {
    return Invalid("wrong number of matrix registers");
  }
  for (const Operand& element : operand.elements) {
    uint32_t slot;
    if (element.name == "_") return Invalid("a register of D that is not there");
    if (!Destination(element, code, &slot)) return false;
    site->d.slots.push_back(slot);
  }
  return true;
}

bool WarpgroupLowering::ReadA(const Operand& operand, WarpgroupSite* site) {
  if (operand.kind != Operand::Kind::kVector) return Source(operand, 'l', &site->a_descriptor);
  if (operand.elements.size() != 4) return Invalid("wrong number of matrix registers");
  for (const Operand& element : operand.elements) {
    uint32_t slot;
    if (!Source(element, 'i', &slot)) return false;
    site->a.push_back(slot);
  }
  return true;
}

bool WarpgroupLowering::ReadLiterals(const Instruction& in, WarpgroupSite* site) {
  const bool has_descriptor = site->a.empty();
  const size_t signs = IsInteger(site->a_type) ? 0 : 2;
  const size_t layouts = !IsHalf(site->a_type) ? 0 : has_descriptor ? 2 : 1;
  if (in.operands.size() != kNamed + signs + layouts) {
    return Invalid("wrong number of operands of wgmma");
  }
  for (size_t i = kNamed; i < in.operands.size(); ++i) {
    const auto value = static_cast<int64_t>(in.operands[i].value);
    const bool is_sign = i < kNamed + signs;
    if (is_sign ? value != 1 && value != -1 : value != 0 && value != 1) {
      return Invalid(absl::StrCat("literal ", value, " of wgmma"));
    }
    if (is_sign) {
      site->negate ^= value == -1;
    } else if (i + 1 == in.operands.size()) {
      site->b_transposed = value == 1;
    } else {
      site->a_transposed = value == 1;
    }
  }
  return true;
}

bool WarpgroupLowering::Multiply(const Instruction& in) {
  WarpgroupSite site;
  if (!ReadName(in, &site)) return Unsupported(in);
  if (!ReadD(in.operands[0], &site) || !ReadA(in.operands[1], &site) ||
      !Source(in.operands[2], 'l', &site.b_descriptor) ||
      !Source(in.operands[3], 'p', &site.accumulates, &site.accumulates_negated) ||
      !ReadLiterals(in, &site)) {
    return false;
  }
  MeetWholeWarp();
  Op& op = EmitHandler(WarpgroupMultiply);
  op.target = static_cast<uint32_t>(kernel_->warpgroup_multiplies.size());
  op.cost = static_cast<uint16_t>(kCostOfColumn * site.d.columns);
  kernel_->warpgroup_multiplies.push_back(std::move(site));
  return true;
}

// A multiply is done when its instruction is, so only what the other warps do is waited for.
bool WarpgroupLowering::Order(const Instruction& in) {
  if (in.modifiers.size() != 3 || in.modifiers[1] != "sync" || in.modifiers[2] != "aligned") {
    return Unsupported(in);
  }
  if (in.modifiers[0] == "wait_group") {
    Emit(OpKind::kBarrier).barrier = BarrierKind::kWarpgroup;
  }
  return true;
}

}  // namespace warpline::cpu
