#include "proto/adapters/library_call.h"

#include <algorithm>
#include <limits>

#include "proto/adapters/blas_types.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/lt_types.h"
#include "proto/adapters/wide.h"

namespace warpline {
namespace {

// The combinations that cublasGemmEx documents, for types that are passed on. A and B have one
// type.
bool Combine(int64_t compute, int64_t in, int64_t out) {
  switch (compute) {
    case kIn16:
    case kIn16Pedantic:
      return in == kReal16 && out == kReal16;
    case kIn32:
    case kIn32Pedantic:
      return (in == out &&
              (in == kReal16 || in == kBrain16 || in == kReal32 || in == kComplex32)) ||
             (out == kReal32 && (in == kReal16 || in == kBrain16));
    case kFast16:
    case kFastBrain16:
    case kFastTf32:
      return in == out && (in == kReal32 || in == kComplex32);
    case kIn64:
    case kIn64Pedantic:
      return in == out && (in == kReal64 || in == kComplex64);
    case kInInteger:
    case kInIntegerPedantic:
      return in == kInteger8 && out == kInteger32;
    default:
      return false;
  }
}

// The combinations that cublasLtMatmul documents for operands of 8-bit floating point.
bool CombineFloat8(int64_t compute, int64_t a, int64_t b, int64_t c, int64_t d) {
  if (compute != kIn32 || !IsBlasFloat8(a) || !IsBlasFloat8(b) || (a == kE5m2 && b == kE5m2)) {
    return false;
  }
  if (c == kReal32) return d == kReal32;
  if (c != kReal16 && c != kBrain16) return false;
  return d == c || d == kE4m3 || (d == kE5m2 && a != b);
}

// cublasMath_t: a mode, and a flag that forbids sums of reduced precision.
bool IsMathMode(uint32_t math) {
  constexpr uint32_t kNoReducedSums = 16, kMostMode = 3;
  return (math & ~kNoReducedSums) <= kMostMode;
}

}  // namespace

// Reads one call. After the first argument that is refused, the rest counts no more.
class LibraryCallReader {
 public:
  LibraryCallReader(const LibraryFunction& function, uint32_t modes,
                    absl::Span<const uint64_t> values, LibraryCall* call)
      : function_(function), modes_(modes), values_(values), call_(*call) {
    complex_ = function.letter == 'C' || function.letter == 'Z';
    if (function.letter == 'D' || function.letter == 'Z') call->numbers = LibraryNumbers::kDouble;
    if (function.letter == 'H') call->numbers = LibraryNumbers::kHalf;
    fast_ = function.letter == 'H' ||
            (MathIsFast() && (function.letter == 'S' || function.letter == 'C'));
  }

  CudaResult result() const { return result_; }

  uint32_t element_bytes() const {
    switch (function_.letter) {
      case 'H':
        return 2;
      case 'S':
        return 4;
      case 'Z':
        return 16;
      default:
        return 8;
    }
  }
  // The bytes of the real type of complex elements.
  uint32_t real_bytes() const { return element_bytes() / 2; }

  // --- Numbers
  Wide Operation(uint32_t slot) { return Number(slot, 0, 2); }
  Wide Side(uint32_t slot) { return Number(slot, 0, 1); }
  Wide Fill(uint32_t slot) { return Number(slot, 0, 1); }
  Wide Diagonal(uint32_t slot) { return Number(slot, 0, 1); }
  Wide Compute(uint32_t slot) { return Number(slot, 0, kMostOption); }
  Wide Type(uint32_t slot) { return Number(slot, 0, kMostOption); }
  // A cublasGemmAlgo_t: the default, or one of those for older devices, which all mean the default.
  Wide Algorithm(uint32_t slot) {
    const Wide algorithm = Number(slot, -1, 115);
    Require(algorithm <= Wide(23) || algorithm >= Wide(99));
    return algorithm;
  }
  // 0 for a matrix that lies in memory column by column, 1 for row by row.
  Wide Order(uint32_t slot) { return Number(slot, 0, 1); }
  Wide Choice(uint32_t slot) { return Number(slot, 0, kMostOption); }
  Wide Epilogue(uint32_t slot) {
    const Wide epilogue = Number(slot, 0, kMostOption);
    Support(epilogue.IsWithin(kMostOption) && IsLtEpilogue(epilogue.value()));
    return epilogue;
  }
  // 1 for complex matrices whose parts lie in two planes. Called before the types are read.
  Wide Planes(uint32_t slot) {
    const Wide planes = Number(slot, 0, 1);
    planar_ = planes == Wide(1);
    return planes;
  }
  Wide Scaling(uint32_t slot) { return Number(slot, 0, kLtMostScaling); }
  Wide Size(uint32_t slot) { return Number(slot, 0, std::numeric_limits<int32_t>::max()); }
  // The least number is left out: it has no absolute value.
  Wide Signed(uint32_t slot) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    return Number(slot, -kMost, kMost);
  }
  Wide Long(uint32_t slot) { return Number(slot, 0, std::numeric_limits<int64_t>::max()); }

  void Types(Wide compute, Wide a, Wide b, Wide c) { Types(compute, a, b, c, c); }
  void Types(Wide compute, Wide a, Wide b, Wide c, Wide d) {
    if (result_ != CudaResult::kSuccess) return;
    const int64_t type = a.signed_value();
    complex_ = planar_ || IsBlasComplex(type);
    const int64_t how = compute.signed_value();
    fast_ = BlasTypeBytes(type) <= 2 || how == kFast16 || how == kFastBrain16 || how == kFastTf32 ||
            (MathIsFast() && (type == kReal32 || type == kComplex32));
    // Pedantic arithmetic does without the units for small numbers.
    const bool pedantic = how == kIn16Pedantic || how == kIn32Pedantic;
    call_.numbers = pedantic                                ? LibraryNumbers::kSingle
                    : BlasTypeBytes(type) <= 2              ? LibraryNumbers::kHalf
                    : type == kReal64 || type == kComplex64 ? LibraryNumbers::kDouble
                                                            : LibraryNumbers::kSingle;
    float8_ = IsBlasFloat8(type) != 0;
    const bool combine =
        float8_ ? function_.number == kLtMatmulNumber &&
                      CombineFloat8(how, type, b.signed_value(), c.signed_value(), d.signed_value())
                : a == b && c == d && Combine(how, type, c.signed_value());
    if (!combine) Fail(CudaResult::kNotSupported);
  }
  uint32_t BytesOf(Wide type) const { return BlasTypeBytes(type.signed_value()); }
  uint32_t ScalarBytes(Wide compute, Wide type) const {
    const int64_t real = type.signed_value();
    return BlasScalarBytes(compute.signed_value(),
                           planar_ ? LtComplexOf(static_cast<int>(real)) : real);
  }
  void Require(bool holds) {
    if (!holds) Fail(CudaResult::kInvalidValue);
  }
  void Support(bool holds) {
    if (!holds) Fail(CudaResult::kNotSupported);
  }

  // --- Memory
  void Scalar(uint32_t slot, uint32_t bytes) {
    if ((modes_ & LibraryModes::kPointersToDevice) == 0) return;
    Add(slot, OperandUse::kRead, bytes, Wide(1));
  }
  void Result(uint32_t slot, uint32_t bytes) {
    // The client sends an address of the device in both pointer modes.
    Add(slot, OperandUse::kWrite, bytes, Wide(1));
  }
  // A vector or matrix: the elements from the first to the last one, and those that are its own,
  // which are `runs` of `run` elements that begin `step` elements apart.
  struct Shape {
    Wide span;
    Wide runs;
    Wide run;
    Wide step;
  };
  Shape VectorShape(Wide count, Wide increment) {
    Require(increment != Wide(0));
    const Wide step = increment < Wide(0) ? Wide(0) - increment : increment;
    const Wide span = count > Wide(0) ? (count - Wide(1)) * step + Wide(1) : Wide(0);
    Limit(span);
    return {span, count, Wide(1), step};
  }
  Shape MatrixShape(Wide rows, Wide columns, Wide leading) {
    Require(leading >= Wide(1) && leading >= rows);
    if (rows == Wide(0) || columns == Wide(0)) return {Wide(0), Wide(0), Wide(0), leading};
    const Wide span = leading * (columns - Wide(1)) + rows;
    Limit(span);
    return {span, columns, rows, leading};
  }
  void Vector(uint32_t slot, OperandUse use, uint32_t bytes, Wide count, Wide increment) {
    Batch(slot, use, bytes, VectorShape(count, increment), Wide(0), Wide(1));
  }
  void Vectors(uint32_t slot, OperandUse use, uint32_t bytes, Wide count, Wide increment,
               Wide stride, Wide batches) {
    const Shape shape = VectorShape(count, increment);
    Batch(slot, use, bytes, shape, stride, batches);
    if (use != OperandUse::kRead && shape.runs > Wide(0)) CountBlocks(shape, batches);
  }
  void Matrix(uint32_t slot, OperandUse use, uint32_t bytes, Wide rows, Wide columns,
              Wide leading) {
    Batch(slot, use, bytes, MatrixShape(rows, columns, leading), Wide(0), Wide(1));
  }
  void Matrices(uint32_t slot, OperandUse use, uint32_t bytes, Wide rows, Wide columns,
                Wide leading, Wide stride, Wide count) {
    Batch(slot, use, bytes, MatrixShape(rows, columns, leading), stride, count);
  }
  // The scales of a matrix: `outer` are the rows or columns that it gives to the result, `inner`
  // the terms of each sum. Blocks of 128 by 128 lie in columns of a multiple of four.
  void Scales(uint32_t slot, OperandUse use, uint32_t bytes, Wide scaling, Wide outer, Wide inner) {
    if (result_ != CudaResult::kSuccess) return;
    const auto blocks = [](Wide number) {
      return Wide(static_cast<int64_t>((number.value() + (kScaledBlock - 1)) / kScaledBlock));
    };
    Wide count(0);
    switch (scaling.signed_value()) {
      case kLtScaleOne:
        count = Wide(1);
        break;
      case kLtScaleOuter:
        count = outer;
        break;
      case kLtScaleBlocks:
        count = outer * blocks(inner);
        break;
      case kLtScaleSquares:
        count = blocks(outer) * Wide(static_cast<int64_t>((blocks(inner).value() + 3) / 4 * 4));
        break;
      default:
        break;
    }
    Batch(slot, use, bytes, {count, count, Wide(1), Wide(1)}, Wide(0), Wide(1));
  }
  // An array of `count` addresses of vectors or matrices. `multiplies` says that the function may
  // use matrix units.
  void Each(uint32_t slot, OperandUse use, uint32_t bytes, const Shape& shape, Wide count,
            bool multiplies) {
    CountBatches(count);
    if (count > Wide(kMostLibraryAddresses)) Fail(CudaResult::kNotSupported);
    TouchAll(shape, bytes, count);
    Touch(count * Wide(kAddressBytes));
    if (use != OperandUse::kRead) CountBlocks(shape, count);
    Add(slot, OperandUse::kRead, kAddressBytes, count);
    const Wide each = shape.span * Wide(bytes);
    if (!each.IsWithin(kMostElements)) Fail(CudaResult::kInvalidValue);
    if (result_ != CudaResult::kSuccess || count == Wide(0)) return;
    const uint32_t align = multiplies && fast_ ? kFastAlign : bytes;
    call_.addresses.push_back({slot, use, count.value(), each.value(), align});
  }

  // The operand's address is a multiple of `bytes`, if the call touches more of it than one scale;
  // so is each address of an array.
  void Align(uint32_t slot, uint32_t bytes) {
    for (const LibraryOperand& operand : call_.operands) {
      if (operand.slot != slot || operand.bytes <= kOneScale) continue;
      if (function_.kinds[slot] == 'm') Require(operand.address % bytes == 0);
    }
    for (LibraryAddresses& addresses : call_.addresses) {
      if (addresses.slot == slot) addresses.align = std::max(addresses.align, bytes);
    }
  }
  // The operand, if the call touches it, lies before or behind another one that spans as much, and
  // so near to it that the library can compute with the difference in 32 bits.
  void Beside(uint32_t slot, uint32_t other) {
    for (const LibraryOperand& operand : call_.operands) {
      if (operand.slot != slot || operand.bytes == 0) continue;
      const uint64_t apart =
          std::max(values_[slot], values_[other]) - std::min(values_[slot], values_[other]);
      Support(apart >= operand.bytes && apart < kNear && operand.bytes < kNear - apart);
    }
  }
  // If the call touches the second operand, it is as far from the first one as the fourth is from
  // the third.
  void Apart(uint32_t first, uint32_t second, uint32_t third, uint32_t fourth) {
    for (const LibraryOperand& operand : call_.operands) {
      if (operand.slot != second || operand.bytes == 0) continue;
      Support(values_[second] - values_[first] == values_[fourth] - values_[third]);
    }
  }
  // Notes the blocks of results that are computed by blocks alone.
  void Blocks(Wide rows, Wide columns, Wide count) {
    CountBlocks({Wide(0), columns, rows, Wide(0)}, count, kLargeBlockSide);
  }

  void Work(Wide operations) {
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    // A product of complex numbers takes four.
    const Wide all = complex_ ? operations * Wide(4) : operations;
    call_.work = all.IsWithin(kMost) ? all.value() : kMost;
  }
  void Divide(uint32_t slot) { call_.divide_slot = slot; }
  void Advance(uint32_t slot, uint32_t bytes, Wide elements) {
    const Wide all = elements * Wide(bytes);
    Require(all.IsWithin(kMostElements));
    if (result_ == CudaResult::kSuccess) call_.advances.push_back({slot, all.value()});
  }

 private:
  static constexpr int64_t kMostOption = 1000;
  static constexpr uint64_t kMostElements = uint64_t{1} << 62;
  static constexpr int64_t kMostBatches = int64_t{1} << 20;
  static constexpr uint32_t kAddressBytes = sizeof(uint64_t);
  static constexpr uint64_t kScaledBlock = 128;
  static constexpr uint64_t kNear = uint64_t{1} << 30;
  static constexpr uint64_t kOneScale = sizeof(float);
  // cublasMath_t
  static constexpr uint32_t kModeOfMath = 15, kTensorMath = 1, kTf32Math = 3;
  // Where matrix units may be used, addresses in device memory are multiples of this. The library
  // knows none of them when it chooses a kernel, and such kernels load so many bytes at once. The
  // documentation of cublasGemmBatchedEx() allows less where k is odd, but its kernels fault then
  // if other dimensions are even.
  static constexpr uint32_t kFastAlign = 16;
  // The device reads and writes at least so many bytes at a time.
  static constexpr int64_t kSector = 32;
  // The rows and columns of a result that a block of a kernel computes: at least the first where
  // the library chooses the kernel, and at most twice the second where the program does.
  static constexpr int64_t kBlockSide = 64, kLargeBlockSide = 128;

  bool MathIsFast() const {
    const uint32_t math = (modes_ & LibraryModes::kMathMask) >> LibraryModes::kMathShift;
    return (math & kModeOfMath) == kTensorMath || (math & kModeOfMath) == kTf32Math;
  }

  // Kernels compute places within a vector or matrix in 32 bits, in which larger ones would wrap
  // around to other memory.
  void Limit(Wide elements) {
    if (!elements.IsWithin(std::numeric_limits<int32_t>::max())) Fail(CudaResult::kNotSupported);
  }
  void CountBatches(Wide count) {
    if (count > Wide(kMostBatches)) Fail(CudaResult::kNotSupported);
    if (result_ == CudaResult::kSuccess) call_.batches = std::max(call_.batches, count.value());
  }
  // `count` of the shape, `stride` apart.
  void Batch(uint32_t slot, OperandUse use, uint32_t bytes, const Shape& shape, Wide stride,
             Wide count) {
    const bool none = shape.span == Wide(0) || count == Wide(0);
    if (!none) CountBatches(count);
    TouchAll(shape, bytes, count);
    const Wide all = none ? Wide(0) : stride * (count - Wide(1)) + shape.span;
    // Kernels for 8-bit floating point load all but a single scale in pieces.
    if (float8_ && all * Wide(bytes) > Wide(static_cast<int64_t>(kOneScale))) {
      Require(values_[slot] % kFastAlign == 0);
    }
    Add(slot, use, bytes, all);
  }
  void TouchAll(const Shape& shape, uint32_t bytes, Wide count) {
    const Wide run = shape.run * Wide(bytes), step = shape.step * Wide(bytes);
    const Wide least = step < Wide(kSector) ? step : Wide(kSector);
    Touch(shape.runs * count * (run < least ? least : run));
  }
  // Notes the blocks of a result that is computed by blocks alone.
  void CountBlocks(const Shape& shape, Wide count, int64_t side = kBlockSide) {
    if (result_ != CudaResult::kSuccess) return;
    const uint64_t runs = shape.runs.value(), run = shape.run.value();
    call_.blocks = count.value() * ((runs + side - 1) / side) * ((run + side - 1) / side);
  }
  void Touch(Wide bytes) {
    if (bytes.IsWithin(kMostElements)) call_.traffic += bytes.value();
  }

  void Fail(CudaResult why) {
    if (result_ == CudaResult::kSuccess) result_ = why;
  }
  Wide Number(uint32_t slot, int64_t least, int64_t most) {
    const auto value = static_cast<int64_t>(values_[slot]);
    if (value < least || value > most) Fail(CudaResult::kInvalidValue);
    return Wide(value);
  }
  void Add(uint32_t slot, OperandUse use, uint32_t bytes, Wide elements) {
    const Wide size = elements * Wide(bytes);
    if (bytes == 0) return Fail(CudaResult::kNotSupported);
    // A kernel that reads an element at an odd address ends the context of everybody.
    if (!size.IsWithin(kMostElements) || values_[slot] % bytes != 0) {
      return Fail(CudaResult::kInvalidValue);
    }
    call_.operands.push_back({slot, use, values_[slot], size.value()});
  }

  const LibraryFunction& function_;
  const uint32_t modes_;
  const absl::Span<const uint64_t> values_;
  LibraryCall& call_;
  bool complex_ = false;
  bool planar_ = false;
  bool float8_ = false;
  bool fast_ = false;  // Matrix units may be used.
  CudaResult result_ = CudaResult::kSuccess;
};

namespace {

using Reader = LibraryCallReader;

#include "proto/adapters/cublas_functions.inc"

}  // namespace

const LibraryFunction* FindLibraryFunction(uint32_t number) {
  // The generator has seen to it that the numbers have no gaps.
  return number >= 1 && number <= std::size(kFunctions) ? &kFunctions[number - 1] : nullptr;
}

absl::Span<const LibraryFunction> AllLibraryFunctions() { return kFunctions; }

CudaResult ReadLibraryCall(const LibraryFunction& function, uint32_t modes,
                           absl::Span<const uint64_t> values, LibraryCall* call) {
  constexpr uint32_t kKnown =
      LibraryModes::kPointersToDevice | LibraryModes::kAtomics | LibraryModes::kMathMask;
  if (values.size() != function.values) return CudaResult::kInvalidValue;
  if ((modes & ~kKnown) != 0 ||
      !IsMathMode((modes & LibraryModes::kMathMask) >> LibraryModes::kMathShift)) {
    return CudaResult::kNotSupported;
  }
  call->operands.clear();
  call->addresses.clear();
  call->advances.clear();
  call->work = 0;
  call->traffic = 0;
  call->batches = 1;
  call->blocks = LibraryCall::kManyBlocks;
  call->numbers = LibraryNumbers::kSingle;
  call->divide_slot = LibraryCall::kNoSlot;
  LibraryCallReader reader(function, modes, values, call);
  function.read(reader);
  constexpr uint32_t kPedantic = 2;
  const uint32_t math = (modes & LibraryModes::kMathMask) >> LibraryModes::kMathShift;
  if ((math & 15) == kPedantic && call->numbers == LibraryNumbers::kHalf) {
    call->numbers = LibraryNumbers::kSingle;
  }
  return reader.result();
}

void DivideLibraryCall(const LibraryCall& call, absl::Span<const uint64_t> values, uint64_t first,
                       uint64_t count, absl::Span<uint64_t> part) {
  std::copy(values.begin(), values.end(), part.begin());
  part[call.divide_slot] = count;
  for (const LibraryCall::Advance& advance : call.advances) {
    part[advance.slot] += first * advance.bytes;
  }
}

}  // namespace warpline
