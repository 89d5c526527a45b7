#include "guard/verify/descriptors.h"

#include <algorithm>
#include <iterator>

#include "absl/algorithm/container.h"

namespace warpline::guard {
namespace {

constexpr std::string_view kSplit = "\tmov.b64 {wlg_lo, wlg_hi}, ";
// What follows the split. <E>, <L> and <S> are of the extent, <D> is the register for A or for B.
constexpr std::string_view kCheck[] = {
    "\tand.b32 wlg_lo, wlg_lo, 1073692671;",
    "\tand.b32 wlg_hi, wlg_hi, -1072807937;",
    "\tshr.u32 wlg_s, wlg_hi, 27;",
    "\tbfe.u32 wlg_e, <E>, wlg_s, 8;",
    "\tand.b32 wlg_f, wlg_lo, 16383;",
    "\tadd.s32 wlg_e, wlg_e, wlg_f;",
    "\tshr.u32 wlg_f, wlg_lo, 16;",
    "\tbfe.u32 wlg_t, <L>, wlg_s, 8;",
    "\tmad.lo.s32 wlg_e, wlg_f, wlg_t, wlg_e;",
    "\tand.b32 wlg_f, wlg_hi, 16383;",
    "\tbfe.u32 wlg_t, <S>, wlg_s, 8;",
    "\tmad.lo.s32 wlg_e, wlg_f, wlg_t, wlg_e;",
    "\tshr.u32 wlg_e, wlg_e, 3;",
    "\tadd.s32 wlg_t, wlg_smem, 127;",
    "\tshr.u32 wlg_t, wlg_t, 7;",
    "\tsetp.le.u32 wlg_ps, wlg_e, wlg_t;",
    "\tselp.b32 wlg_lo, wlg_lo, 0, wlg_ps;",
    "\tselp.b32 wlg_hi, wlg_hi, 0, wlg_ps;",
    "\tmov.b64 <D>, {wlg_lo, wlg_hi};",
};
constexpr std::string_view kRegisters[] = {"wlg_da", "wlg_db"};

constexpr int64_t kRowsOfA = 64;
constexpr int64_t kMostColumns = 256;

constexpr Refusal kBroken = "a statement among those that check a descriptor";
constexpr Refusal kUnknown = "a multiplication whose matrices' extents are not known";

// A number for each way of swizzling: none, 128, 64 and 32 bytes.
constexpr int64_t Packed(int64_t none, int64_t by_128, int64_t by_64, int64_t by_32) {
  return none | by_128 << 8 | by_64 << 16 | by_32 << 24;
}

// A matrix of `rows` rows, or columns in B's case. Of what is summed up there are 32 bytes in each.
Extent ExtentOf(int64_t rows) {
  const int64_t groups = rows / 8 - 1;
  return {.leading = Packed(1, 0, 0, 0),
          .stride = Packed(groups, groups, groups, groups),
          .end = Packed(8 + 7, 58 + 7, 30 + 7, 16 + 7)};
}

// Such a matrix, but what lies side by side in memory are elements of 16 bits of different rows.
Extent ExtentAlongRows(int64_t rows) {
  const int64_t bytes = rows * 2;
  const auto others = [bytes](int64_t pitch) { return (bytes + pitch - 1) / pitch - 1; };
  const auto end = [bytes](int64_t pitch) { return (7 * pitch + std::min(bytes, pitch)) / 16 + 7; };
  return {.leading = Packed(1, others(128), others(64), others(32)),
          .stride = Packed(rows / 8 - 1, 1, 1, 1),
          .end = Packed(8 + 7, end(128), end(64), end(32))};
}

// m64nNkK
bool ReadColumns(std::string_view shape, int64_t* columns) {
  Cursor cursor(shape);
  int64_t depth = 0;
  return cursor.Skip("m64n") && cursor.Count(columns) && cursor.Skip("k") && cursor.Count(&depth) &&
         cursor.AtEnd() && *columns >= 8 && *columns <= kMostColumns && *columns % 8 == 0;
}

// A literal 0 or 1 that says whether a matrix lies along its rows.
bool ReadWay(const Operand& operand, bool* along_rows) {
  *along_rows = operand.value == 1;
  return operand.kind == Operand::Kind::kInteger && (operand.value == 0 || operand.value == 1);
}

}  // namespace

Refusal ReadMultiplication(const Instruction& instruction, Multiplication* multiplication) {
  constexpr std::string_view kWays[] = {"mma_async", "sync", "aligned"};
  constexpr std::string_view kHalves[] = {"f16", "bf16"};
  constexpr std::string_view kFloats[] = {"tf32", "e4m3", "e5m2"};
  constexpr std::string_view kIntegers[] = {"s8", "u8", "b1"};
  const auto& words = instruction.modifiers;
  const auto& operands = instruction.operands;
  int64_t columns = 0;
  if (words.size() < 7 || !absl::c_equal(absl::MakeConstSpan(words).first(3), kWays) ||
      !ReadColumns(words[3], &columns) || operands.size() < 4) {
    return kUnknown;
  }
  const auto are_of = [&words](absl::Span<const std::string_view> types) {
    return absl::c_linear_search(types, words[5]) && absl::c_linear_search(types, words[6]);
  };
  multiplication->has_a = operands[1].kind == Operand::Kind::kName;
  const bool is_half = are_of(kHalves);
  bool a_along = false;
  bool b_along = false;
  const size_t count = is_half ? (multiplication->has_a ? 8 : 7) : are_of(kFloats) ? 6 : 4;
  if (operands.size() != count || (count == 4 && !are_of(kIntegers))) return kUnknown;
  if (is_half && !ReadWay(operands[count - 1], &b_along)) return kUnknown;
  if (count == 8 && !ReadWay(operands[6], &a_along)) return kUnknown;
  multiplication->a = a_along ? ExtentAlongRows(kRowsOfA) : ExtentOf(kRowsOfA);
  multiplication->b = b_along ? ExtentAlongRows(columns) : ExtentOf(columns);
  return {};
}

bool DescriptorChecks::Follow(std::string_view line, Refusal* refusal) {
  is_complete_ = false;
  const bool begins = is_split_ && line == kCheck[0];
  is_split_ = line.starts_with(kSplit);
  if (done_ == 0 && !begins) return false;
  *refusal = FollowNext(line);
  return true;
}

Refusal DescriptorChecks::FollowNext(std::string_view line) {
  const std::string_view form = kCheck[done_];
  const size_t hole = form.find('<');
  Cursor cursor(line);
  if (!cursor.Skip(form.substr(0, hole))) return kBroken;
  if (hole == std::string_view::npos) {
    ++done_;
    return cursor.AtEnd() ? Refusal() : kBroken;
  }
  size_t matrix = 0;
  const char what = form[hole + 1];
  if (what == 'D') {
    while (matrix < std::size(kRegisters) && !cursor.Skip(kRegisters[matrix])) ++matrix;
    if (matrix == std::size(kRegisters)) return kBroken;
  } else {
    int64_t& number = what == 'E' ? extent_.end : what == 'L' ? extent_.leading : extent_.stride;
    if (!cursor.Count(&number)) return kBroken;
  }
  if (cursor.rest() != form.substr(hole + 3)) return kBroken;
  if (++done_ < std::size(kCheck)) return {};
  done_ = 0;
  is_complete_ = true;
  last_ = kRegisters[matrix];
  matrices_[matrix] = {.is_set = true, .extent = extent_};
  return {};
}

bool DescriptorChecks::Confines(const Operand& descriptor, const Extent& extent) const {
  if (descriptor.kind != Operand::Kind::kName || descriptor.negated || descriptor.value != 0 ||
      !descriptor.component.empty()) {
    return false;
  }
  for (size_t i = 0; i < matrices_.size(); ++i) {
    if (descriptor.name == kRegisters[i])
      return matrices_[i].is_set && matrices_[i].extent == extent;
  }
  return false;
}

}  // namespace warpline::guard
