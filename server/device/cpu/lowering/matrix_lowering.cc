#include "server/device/cpu/lowering/matrix_lowering.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "ptx/types.h"
#include "server/device/cpu/execution/matrix_elements.h"
#include "server/device/cpu/execution/matrix_ops.h"

namespace warpline::cpu {
namespace {

constexpr int kMaxMatrixElements = 512;

struct Shape {
  int m = 0, n = 0, k = 0;
};

// "m16n8k16"
bool ParseShape(const std::string& text, Shape* shape) {
  const size_t n = text.find('n'), k = text.find('k');
  if (text.empty() || text[0] != 'm' || n == std::string::npos || k == std::string::npos ||
      text.size() > 12) {
    return false;
  }
  shape->m = std::atoi(text.c_str() + 1);
  shape->n = std::atoi(text.c_str() + n + 1);
  shape->k = std::atoi(text.c_str() + k + 1);
  return shape->m > 0 && shape->n > 0 && shape->k > 0 && shape->m <= 64 && shape->n <= 64 &&
         shape->k <= 64;
}

struct MatrixName {
  Shape shape;
  std::vector<std::string> layouts;
  std::vector<MatrixType> types;
  bool saturate = false;
};

// Parses the modifiers from `first` on; returns false for an unknown one.
bool ParseName(const ptx::Instruction& in, size_t first, MatrixName* name) {
  for (size_t i = first; i < in.modifiers.size(); ++i) {
    const std::string& modifier = in.modifiers[i];
    MatrixType type;
    ptx::StateSpace space;
    if (modifier == "sync" || modifier == "aligned" || modifier == "rn" ||
        ptx::FindStateSpace(modifier, &space)) {
      continue;
    }
    if (modifier == "row" || modifier == "col") {
      name->layouts.push_back(modifier);
    } else if (modifier == "satfinite") {
      name->saturate = true;
    } else if (FindMatrixType(modifier, &type)) {
      name->types.push_back(type);
    } else if (!ParseShape(modifier, &name->shape)) {
      return false;
    }
  }
  return true;
}

// Whether the types go together: A and B must match, and results must be as wide as on hardware.
bool TypesFit(MatrixType d, MatrixType a, MatrixType b, MatrixType c) {
  if (a == MatrixType::kS8 || a == MatrixType::kU8) {
    return (b == MatrixType::kS8 || b == MatrixType::kU8) && c == MatrixType::kS32 && d == c;
  }
  if (a != b) return false;
  switch (a) {
    case MatrixType::kF16:
      return (c == MatrixType::kF16 || c == MatrixType::kF32) &&
             (d == MatrixType::kF16 || d == MatrixType::kF32);
    case MatrixType::kBf16:
    case MatrixType::kTf32:
      return c == MatrixType::kF32 && d == c;
    case MatrixType::kF64:
      return c == MatrixType::kF64 && d == c;
    default:
      return false;
  }
}

}  // namespace

bool MatrixLowering::Registers(const Operand& operand, bool destination, bool exact,
                               Matrix* matrix) {
  const bool is_list = operand.kind == Operand::Kind::kVector;
  const size_t count = is_list ? operand.elements.size() : 1;
  const char code = matrix->type == MatrixType::kF64   ? 'd'
                    : matrix->type == MatrixType::kF32 ? 'f'
                                                       : 'i';
  for (size_t i = 0; i < count; ++i) {
    const Operand& element = is_list ? operand.elements[i] : operand;
    uint32_t slot;
    if (destination ? !Destination(element, code, &slot) : !Source(element, code, &slot)) {
      return false;
    }
    matrix->slots.push_back(slot);
  }
  // Every place that the handlers compute must lie inside.
  const int elements = matrix->rows * matrix->columns;
  const int held = static_cast<int>(count) * ElementsPerRegister(matrix->type) * kLanes;
  if (count > 16 || elements % kLanes != 0 || elements > kMaxMatrixElements || held < elements ||
      (exact && held != elements)) {
    return Invalid("wrong number of matrix registers");
  }
  return true;
}

bool MatrixLowering::EmitSite(MatrixSite site, MemoryFn fn) {
  MeetWholeWarp();
  EmitHandler(fn).target = static_cast<uint32_t>(kernel_->matrices.size());
  kernel_->matrices.push_back(std::move(site));
  return true;
}

bool MatrixLowering::Multiply(const Instruction& in) {
  MatrixName name;
  if (!ParseName(in, 0, &name) || name.types.size() != 4 || in.operands.size() != 4 ||
      name.layouts != std::vector<std::string>{"row", "col"}) {
    return Unsupported(in);
  }
  const Shape& shape = name.shape;
  MatrixSite site;
  site.saturate = name.saturate;
  site.d = {name.types[0], shape.m, shape.n, {}};
  site.a = {name.types[1], shape.m, shape.k, {}};
  site.b = {name.types[2], shape.k, shape.n, {}};
  site.c = {name.types[3], shape.m, shape.n, {}};
  const int step = 4 * ElementsPerRegister(site.a.type);
  if ((shape.m != 8 && shape.m != 16) || shape.n != 8 || shape.k % step != 0 ||
      !TypesFit(site.d.type, site.a.type, site.b.type, site.c.type)) {
    return Unsupported(in);
  }
  return Registers(in.operands[1], false, true, &site.a) &&
         Registers(in.operands[2], false, true, &site.b) &&
         Registers(in.operands[3], false, true, &site.c) &&
         Registers(in.operands[0], true, true, &site.d) &&
         EmitSite(std::move(site), MatrixMultiply);
}

bool MatrixLowering::MultiplyWmma(const Instruction& in) {
  MatrixName name;
  if (!ParseName(in, 1, &name)) return Unsupported(in);
  // With f16, only the types of D and C are named.
  if (name.types.size() == 2) {
    name.types = {name.types[0], MatrixType::kF16, MatrixType::kF16, name.types[1]};
  }
  if (name.types.size() != 4 ||
      !TypesFit(name.types[0], name.types[1], name.types[2], name.types[3])) {
    return Unsupported(in);
  }
  const Shape& shape = name.shape;
  MatrixSite site;
  site.wmma = true;
  site.saturate = name.saturate;
  site.d = {name.types[0], shape.m, shape.n, {}};
  site.a = {name.types[1], shape.m, shape.k, {}};
  site.b = {name.types[2], shape.k, shape.n, {}};
  site.c = {name.types[3], shape.m, shape.n, {}};
  return Registers(in.operands[1], false, false, &site.a) &&
         Registers(in.operands[2], false, false, &site.b) &&
         Registers(in.operands[3], false, false, &site.c) &&
         Registers(in.operands[0], true, false, &site.d) &&
         EmitSite(std::move(site), MatrixMultiply);
}

bool MatrixLowering::AccessWmma(const Instruction& in, const ptx::MemoryAccess& access) {
  MatrixName name;
  if (in.modifiers.size() < 2) return Invalid("malformed wmma");
  if (!ParseName(in, 2, &name) || name.types.size() != 1 || name.layouts.size() != 1) {
    return Unsupported(in);
  }
  const bool stores = access.kind == ptx::AccessKind::kWrite;
  const std::string& which = in.modifiers[1];
  MatrixSite site;
  site.wmma = true;
  site.d.type = name.types[0];
  site.d.rows = which == "b" ? name.shape.k : name.shape.m;
  site.d.columns = which == "a" ? name.shape.k : name.shape.n;
  site.column_major = name.layouts[0] == "col";
  if (!GenericAddress(in, access, &site.address)) return false;
  if (!Registers(in.operands[stores ? 1 : 0], !stores, stores, &site.d)) return false;
  const int lead = site.column_major ? site.d.rows : site.d.columns;
  site.stride = Constant(Width::k32, static_cast<uint64_t>(lead));
  if (in.operands.size() == 3 && !Source(in.operands[2], 'i', &site.stride)) return false;
  return EmitSite(std::move(site), stores ? MatrixStore : MatrixLoad);
}

bool MatrixLowering::AccessTiles(const Instruction& in, const ptx::MemoryAccess& access) {
  const bool stores = access.kind == ptx::AccessKind::kWrite;
  MatrixSite site;
  for (const std::string& modifier : in.modifiers) site.column_major |= modifier == "trans";
  const Operand& registers = in.operands[stores ? 1 : 0];
  const int count = static_cast<int>(registers.elements.size());
  if (count != 1 && count != 2 && count != 4) return Invalid("malformed matrix access");
  site.d = {MatrixType::kF16, 8, 8 * count, {}};
  return GenericAddress(in, access, &site.address) &&
         Registers(registers, !stores, true, &site.d) &&
         EmitSite(std::move(site), stores ? TileStore : TileLoad);
}

}  // namespace warpline::cpu
