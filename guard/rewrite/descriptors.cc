#include "guard/rewrite/descriptors.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <variant>

#include "guard/rewrite/families.h"
#include "guard/rewrite/statements.h"

namespace warpline::guard {
namespace {

using ptx::Instruction;
using ptx::Operand;

// The ways in which rows are swizzled, as the uppermost two bits of a descriptor have them: the
// bytes of a row in each.
constexpr int64_t kPitches[] = {16, 128, 64, 32};
constexpr int64_t kTileRows = 8;  // A matrix consists of tiles of so many rows of a pitch.
constexpr int64_t kUnit = 16;     // Bytes; of all numbers in a descriptor
constexpr int64_t kUnitLine = 8;  // Units of a line, within which swizzling moves what is read
constexpr int64_t kFields = 14;   // Bits of a number in a descriptor
constexpr int64_t kRowsOfA = 64;
constexpr int64_t kSummedBytes = 32;  // In each row

// One number for each way of swizzling, in one register.
struct ByPitch {
  int64_t packed = 0;

  void Set(size_t way, int64_t number) { packed |= number << (8 * way); }
};

// The last tile's place: so many leading and stride offsets from the first. What is read ends
// `end` units behind it, where swizzling may move it to the end of the line.
struct LastTile {
  ByPitch leading, stride, end;
};

LastTile FindLastTile(const DescribedMatrix& matrix) {
  LastTile last;
  for (size_t way = 0; way < std::size(kPitches); ++way) {
    const int64_t pitch = kPitches[way];
    const bool is_swizzled = way != 0;
    const bool has_rows_in_pitch = matrix.is_transposed && is_swizzled;
    const int64_t rows_of_tile = has_rows_in_pitch ? pitch / 2 : kTileRows;
    const int64_t along = (matrix.rows + rows_of_tile - 1) / rows_of_tile - 1;
    // A swizzled row has all that is summed.
    const int64_t across = matrix.is_transposed || !is_swizzled ? 1 : 0;
    last.leading.Set(way, has_rows_in_pitch ? along : across);
    last.stride.Set(way, has_rows_in_pitch ? across : along);
    const int64_t last_row = matrix.is_transposed ? matrix.rows * 2 : kSummedBytes;
    const int64_t bytes = (kTileRows - 1) * pitch + std::min(last_row, pitch);
    last.end.Set(way, bytes / kUnit + kUnitLine - 1);
  }
  return last;
}

bool IsOneOf(const std::string& type, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

}  // namespace

bool FindDescribedMatrices(const Instruction& multiply, DescribedMatrices* matrices) {
  // wgmma.mma_async.sync.aligned.m64nNkK.dtype.atype.btype
  const auto& words = multiply.modifiers;
  const auto& operands = multiply.operands;
  if (words.size() < 7 || words[0] != "mma_async" || operands.size() < 4) return false;
  const std::string& shape = words[3];
  if (shape.rfind("m64n", 0) != 0) return false;
  const auto [end, error] =
      std::from_chars(shape.data() + 4, shape.data() + shape.size(), matrices->b.rows);
  if (error != std::errc() || *end != 'k' || matrices->b.rows < 8 || matrices->b.rows > 256 ||
      matrices->b.rows % 8 != 0) {
    return false;
  }
  matrices->a.rows = kRowsOfA;
  matrices->has_a = operands[DescribedMatrices::kA].kind == Operand::Kind::kName;
  const bool is_half = IsOneOf(words[5], {"f16", "bf16"}) && IsOneOf(words[6], {"f16", "bf16"});
  if (!is_half) {
    const bool is_integer = IsOneOf(words[5], {"s8", "u8", "b1"});
    return operands.size() == (is_integer ? 4 : 6);
  }
  if (operands.size() != (matrices->has_a ? 8 : 7)) return false;
  for (size_t i = 6; i < operands.size(); ++i) {
    if (operands[i].kind != Operand::Kind::kInteger || operands[i].value > 1) return false;
  }
  matrices->a.is_transposed = matrices->has_a && operands[6].value == 1;
  matrices->b.is_transposed = operands.back().value == 1;
  return true;
}

bool UsesDescriptors(const std::vector<ptx::Statement>& code) {
  return std::any_of(code.begin(), code.end(), [](const ptx::Statement& statement) {
    const auto* const instruction = std::get_if<Instruction>(&statement.node);
    return instruction != nullptr && instruction->opcode == "wgmma" &&
           Has(*instruction, "mma_async");
  });
}

void ConfineDescriptor(std::string_view x, const DescribedMatrix& matrix,
                       std::string_view destination, FenceWriter* code) {
  const LastTile last = FindLastTile(matrix);
  constexpr int64_t kField = (1 << kFields) - 1;
  const auto add = [code](std::string_view mnemonic, std::vector<Operand> operands) {
    code->Add(Make(mnemonic, std::move(operands)));
  };
  code->Use("wlg_smem");
  const Operand lo = Name(code->Use("wlg_lo")), hi = Name(code->Use("wlg_hi"));
  const Operand way = Name(code->Use("wlg_s")), count = Name(code->Use("wlg_t"));
  const Operand end = Name(code->Use("wlg_e")), field = Name(code->Use("wlg_f"));
  const Operand fits = Name(code->Use("wlg_ps"));
  add("mov.b64", {Halves("wlg_lo", "wlg_hi"), Name(x)});
  // The start and the leading offset; the stride offset, the base offset, and the way of swizzling.
  add("and.b32", {lo, lo, Number(kField << 16 | kField)});
  add("and.b32", {hi, hi, Number(static_cast<int32_t>(uint32_t{3} << 30 | 7 << 17 | kField))});
  add("shr.u32", {way, hi, Number(27)});  // Times 8
  add("bfe.u32", {end, Number(last.end.packed), way, Number(8)});
  add("and.b32", {field, lo, Number(kField)});
  add("add.s32", {end, end, field});
  add("shr.u32", {field, lo, Number(16)});
  add("bfe.u32", {count, Number(last.leading.packed), way, Number(8)});
  add("mad.lo.s32", {end, field, count, end});
  add("and.b32", {field, hi, Number(kField)});
  add("bfe.u32", {count, Number(last.stride.packed), way, Number(8)});
  add("mad.lo.s32", {end, field, count, end});
  // Both in lines, of which the last begun one is the block's.
  add("shr.u32", {end, end, Number(3)});
  add("add.s32", {count, Name("wlg_smem"), Number(kUnit * kUnitLine - 1)});
  add("shr.u32", {count, count, Number(7)});
  add("setp.le.u32", {fits, end, count});
  add("selp.b32", {lo, lo, Number(0), fits});
  add("selp.b32", {hi, hi, Number(0), fits});
  add("mov.b64", {Name(code->Use(destination)), Halves("wlg_lo", "wlg_hi")});
}

}  // namespace warpline::guard
