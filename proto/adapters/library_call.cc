#include "proto/adapters/library_call.h"

#include <algorithm>
#include <limits>

#include "proto/adapters/blas_types.h"
#include "proto/adapters/wide.h"

namespace warpline {
namespace {

uint32_t BytesOfType(int64_t type) {
  switch (type) {
    case kInteger8:
      return 1;
    case kReal16:
    case kBrain16:
      return 2;
    case kReal32:
    case kInteger32:
      return 4;
    case kReal64:
    case kComplex32:
      return 8;
    case kComplex64:
      return 16;
    default:
      return 0;
  }
}

// The combinations that cublasGemmEx documents, for types that are passed on. A and B have one
// type.
bool Combine(int64_t compute, int64_t in, int64_t out) {
  switch (compute) {
    case kIn16:
    case kIn16Pedantic:
      return in == kReal16 && out == kReal16;
    case kIn32:
    case kIn32Pedantic:
      return (in == out && in != kInteger8 && in != kInteger32 && in != kReal64 &&
              in != kComplex64) ||
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
  }

  CudaResult result() const { return result_; }

  uint32_t element_bytes() const {
    return function_.letter == 'S' ? 4 : function_.letter == 'Z' ? 16 : 8;
  }

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
  Wide Size(uint32_t slot) { return Number(slot, 0, std::numeric_limits<int32_t>::max()); }
  // The least number is left out: it has no absolute value.
  Wide Signed(uint32_t slot) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    return Number(slot, -kMost, kMost);
  }
  Wide Long(uint32_t slot) { return Number(slot, 0, std::numeric_limits<int64_t>::max()); }

  void Types(Wide compute, Wide a, Wide b, Wide c) {
    if (result_ != CudaResult::kSuccess) return;
    const int64_t type = a.signed_value();
    complex_ = type == kComplex32 || type == kComplex64;
    const int64_t how = compute.signed_value();
    // Pedantic arithmetic does without the units for small numbers.
    const bool pedantic = how == kIn16Pedantic || how == kIn32Pedantic;
    call_.numbers = pedantic                                ? LibraryNumbers::kSingle
                    : BytesOfType(type) <= 2                ? LibraryNumbers::kHalf
                    : type == kReal64 || type == kComplex64 ? LibraryNumbers::kDouble
                                                            : LibraryNumbers::kSingle;
    if (a != b || !Combine(compute.signed_value(), a.signed_value(), c.signed_value())) {
      Fail(CudaResult::kNotSupported);
    }
  }
  uint32_t BytesOf(Wide type) const { return BytesOfType(type.signed_value()); }
  uint32_t ScalarBytes(Wide compute, Wide type) const {
    return BlasScalarBytes(compute.signed_value(), type.signed_value());
  }
  void Require(bool holds) {
    if (!holds) Fail(CudaResult::kInvalidValue);
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
  void Vector(uint32_t slot, OperandUse use, uint32_t bytes, Wide count, Wide increment) {
    Require(increment != Wide(0));
    const Wide step = increment < Wide(0) ? Wide(0) - increment : increment;
    const Wide span = count > Wide(0) ? (count - Wide(1)) * step + Wide(1) : Wide(0);
    Limit(span);
    Add(slot, use, bytes, span);
    Touch(count * Wide(bytes));
  }
  void Matrix(uint32_t slot, OperandUse use, uint32_t bytes, Wide rows, Wide columns,
              Wide leading) {
    Matrices(slot, use, bytes, rows, columns, leading, Wide(0), Wide(1));
  }
  void Matrices(uint32_t slot, OperandUse use, uint32_t bytes, Wide rows, Wide columns,
                Wide leading, Wide stride, Wide count) {
    Require(leading >= Wide(1) && leading >= rows);
    const bool none = rows == Wide(0) || columns == Wide(0) || count == Wide(0);
    const Wide one = leading * (columns - Wide(1)) + rows;
    if (!none) Limit(one);
    if (!none && count > Wide(kMostBatches)) Fail(CudaResult::kNotSupported);
    if (result_ == CudaResult::kSuccess) call_.batches = std::max(call_.batches, count.value());
    Touch(rows * columns * count * Wide(bytes));
    Add(slot, use, bytes, none ? Wide(0) : stride * (count - Wide(1)) + one);
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

  // Kernels compute places within a vector or matrix in 32 bits, in which larger ones would wrap
  // around to other memory.
  void Limit(Wide elements) {
    if (!elements.IsWithin(std::numeric_limits<int32_t>::max())) Fail(CudaResult::kNotSupported);
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
  call->advances.clear();
  call->work = 0;
  call->traffic = 0;
  call->batches = 1;
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
