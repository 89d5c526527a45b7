#include "server/device/cpu/libraries/lt_calls.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "proto/adapters/blas_types.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/library_call.h"
#include "proto/adapters/lt_operands.h"
#include "proto/adapters/lt_types.h"
#include "server/device/cpu/alu/half_float.h"
#include "server/device/cpu/libraries/float8.h"

namespace warpline::cpu {
namespace {

// A call's memory for operands in other formats is not on anybody's bill, so it is bounded.
constexpr uint64_t kMostConverted = uint64_t{4} << 20;  // Elements.

template <typename T>
struct Matrix {
  T& At(int64_t row, int64_t column) { return elements[column * rows + row]; }
  const T& At(int64_t row, int64_t column) const { return elements[column * rows + row]; }

  int64_t rows;
  int64_t columns;
  std::vector<T> elements;  // By columns.
};

// Where elements of some type lie in memory. The imaginary parts are elsewhere if `imaginary` is
// not null; the type is then that of the parts.
struct Place {
  char* at;
  char* imaginary;
  int64_t type;
  bool by_rows;
  int64_t leading;

  int64_t Index(int64_t row, int64_t column) const {
    return by_rows ? row * leading + column : column * leading + row;
  }
};

template <typename T>
T Get(const void* from, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(from) + index * sizeof(T), sizeof(T));
  return value;
}
template <typename T>
void Put(void* to, int64_t index, T value) {
  std::memcpy(static_cast<char*>(to) + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
T Load(const void* from, int64_t type, int64_t index) {
  if constexpr (std::is_same_v<T, double>) {
    switch (type) {
      case kReal16:
        return HalfFormat<10>::Widen(Get<uint16_t>(from, index));
      case kBrain16:
        return HalfFormat<7>::Widen(Get<uint16_t>(from, index));
      case kE4m3:
        return Float8<3>::Widen(Get<uint8_t>(from, index));
      case kE5m2:
        return Float8<2>::Widen(Get<uint8_t>(from, index));
      case kReal32:
        return Get<float>(from, index);
      default:
        return Get<double>(from, index);
    }
  } else {
    if (type == kComplex32) return T(Get<std::complex<float>>(from, index));
    return Get<T>(from, index);
  }
}

template <typename T>
void Store(void* to, int64_t type, int64_t index, T value) {
  if constexpr (std::is_same_v<T, double>) {
    switch (type) {
      case kReal16:
        return Put(to, index, HalfFormat<10>::Narrow(value));
      case kBrain16:
        return Put(to, index, HalfFormat<7>::Narrow(value));
      case kE4m3:
        return Put(to, index, Float8<3>::Narrow(value));
      case kE5m2:
        return Put(to, index, Float8<2>::Narrow(value));
      case kReal32:
        return Put(to, index, static_cast<float>(value));
      default:
        return Put(to, index, value);
    }
  } else {
    if (type == kComplex32) return Put(to, index, std::complex<float>(value));
    Put(to, index, value);
  }
}

// Loads and stores the element with this index of a place.
template <typename T>
T Load(const Place& place, int64_t index) {
  if constexpr (kIsComplex<T>) {
    if (place.imaginary != nullptr) {
      return T(Load<double>(place.at, place.type, index),
               Load<double>(place.imaginary, place.type, index));
    }
  }
  return Load<T>(place.at, place.type, index);
}
template <typename T>
void Store(const Place& place, int64_t index, T value) {
  if constexpr (kIsComplex<T>) {
    if (place.imaginary != nullptr) {
      Store(place.at, place.type, index, value.real());
      return Store(place.imaginary, place.type, index, value.imag());
    }
  }
  Store(place.at, place.type, index, value);
}

// Reads a matrix of rows times columns after `op`, which is a cublasOperation_t.
template <typename T>
Matrix<T> Read(const Place& place, int64_t rows, int64_t columns, int64_t op) {
  Matrix<T> matrix{rows, columns, std::vector<T>(static_cast<size_t>(rows * columns))};
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      T value = Load<T>(place, op == 0 ? place.Index(i, j) : place.Index(j, i));
      if constexpr (kIsComplex<T>) {
        if (op == 2) value = std::conj(value);
      }
      matrix.At(i, j) = value;
    }
  }
  return matrix;
}

// The approximation of GELU that cuBLASLt has, and its derivative.
constexpr double kRoot = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double kCubic = 0.044715;
double Gelu(double x) { return 0.5 * x * (1 + std::tanh(kRoot * (x + kCubic * x * x * x))); }
double GeluGradient(double x) {
  const double t = std::tanh(kRoot * (x + kCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRoot * (1 + 3 * kCubic * x * x);
}

class Call {
 public:
  Call(absl::Span<const uint64_t> values, uint32_t modes) : values_(values), modes_(modes) {}

  int64_t At(uint32_t slot) const { return static_cast<int64_t>(values_[slot]); }
  bool Has(int64_t bits) const { return (At(kLtMatmulEpilogue) & bits) != 0; }

  template <typename T>
  void RunFor(decltype(Cblas<T>::gemm) gemm) const {
    for (int64_t batch = 0; batch < At(kLtMatmulBatchCount); ++batch) RunOne<T>(gemm, batch);
  }

 private:
  template <typename T>
  T* Memory(uint32_t slot) const {
    return reinterpret_cast<T*>(values_[slot]);
  }
  Place PlaceOf(const LtOperand& operand, int64_t batch) const {
    const int64_t type = At(operand.type);
    const bool by_rows = At(operand.order) == 1;
    const int64_t leading = At(operand.order + 1);
    if (At(kLtMatmulArrays) != 0) {
      const auto address = Get<uint64_t>(Memory<void>(operand.array), batch);
      return {reinterpret_cast<char*>(address), nullptr, type, by_rows, leading};
    }
    const int64_t offset = At(operand.order + 2) * batch * BlasTypeBytes(type);
    char* const imaginary =
        At(kLtMatmulPlanes) != 0 ? Memory<char>(operand.plane) + offset : nullptr;
    return {Memory<char>(operand.address) + offset, imaginary, type, by_rows, leading};
  }
  template <typename T>
  T Scalar(uint32_t slot) const {
    const bool on_device = (modes_ & LibraryModes::kPointersToDevice) != 0;
    const void* const at = on_device ? Memory<void>(slot) : &values_[slot];
    const int64_t type = At(kLtMatmulCtype);
    if (At(kLtMatmulPlanes) != 0) return Load<T>(at, kComplex32, 0);
    switch (BlasScalarBytes(At(kLtMatmulComputeType), type)) {
      case 2:
        return Load<T>(at, kReal16, 0);
      case 4:
        return Load<T>(at, kReal32, 0);
      case 8:
        return Load<T>(at, type == kComplex32 ? kComplex32 : kReal64, 0);
      default:
        return Load<T>(at, kComplex64, 0);
    }
  }

  template <typename T>
  void RunOne(decltype(Cblas<T>::gemm) gemm, int64_t batch) const {
    const int64_t m = At(kLtMatmulM), n = At(kLtMatmulN), k = At(kLtMatmulK);
    Matrix<T> a = Read<T>(PlaceOf(kLtOperands[kLtA], batch), m, k, At(kLtMatmulTransa));
    Matrix<T> b = Read<T>(PlaceOf(kLtOperands[kLtB], batch), k, n, At(kLtMatmulTransb));
    Scale(kLtMatmulScalingA, &a, [](int64_t i, int64_t j) { return Term{i, j}; });
    Scale(kLtMatmulScalingB, &b, [](int64_t i, int64_t j) { return Term{j, i}; });
    const T alpha = Scalar<T>(kLtMatmulAlpha), beta = Scalar<T>(kLtMatmulBeta);
    // The library does not look at C then.
    Matrix<T> d{m, n, std::vector<T>(static_cast<size_t>(m * n))};
    if (beta != T{}) {
      d = Read<T>(PlaceOf(kLtOperands[kLtC], batch), m, n, 0);
    }
    const auto mi = static_cast<int>(m), ni = static_cast<int>(n), ki = static_cast<int>(k);
    if constexpr (kIsComplex<T>) {
      gemm(kColumnMajor, kPlain, kPlain, mi, ni, ki, &alpha, a.elements.data(), mi,
           b.elements.data(), ki, &beta, d.elements.data(), mi);
    } else {
      gemm(kColumnMajor, kPlain, kPlain, mi, ni, ki, alpha, a.elements.data(), mi,
           b.elements.data(), ki, beta, d.elements.data(), mi);
      Finish(a, b, batch, &d);
    }
    NoteLargest(d, batch);
    Scale(kLtMatmulScalingD, &d, [](int64_t i, int64_t j) { return Term{i, j}; });
    const Place to = PlaceOf(kLtOperands[kLtD], batch);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) Store(to, to.Index(i, j), d.At(i, j));
    }
  }

  // Which row or column of the result an element belongs to, and which term of its sum it is in.
  struct Term {
    int64_t outer;
    int64_t inner;
  };
  // Multiplies the elements by their scales. The address of these follows on `scaling`.
  template <typename T, typename TermOf>
  void Scale(uint32_t scaling, Matrix<T>* matrix, TermOf term_of) const {
    constexpr int64_t kBlock = 128;
    const int64_t kind = At(scaling);
    if (kind == kLtScaleNone) return;
    const Term ends = term_of(matrix->rows - 1, matrix->columns - 1);
    const int64_t column = (ends.inner / kBlock + 4) / 4 * 4;
    for (int64_t j = 0; j < matrix->columns; ++j) {
      for (int64_t i = 0; i < matrix->rows; ++i) {
        const Term term = term_of(i, j);
        const int64_t index = kind == kLtScaleOne     ? 0
                              : kind == kLtScaleOuter ? term.outer
                              : kind == kLtScaleBlocks
                                  ? term.outer + term.inner / kBlock * (ends.outer + 1)
                                  : term.inner / kBlock + term.outer / kBlock * column;
        matrix->At(i, j) *= Load<double>(Memory<void>(scaling + 1), kReal32, index);
      }
    }
  }
  template <typename T>
  void NoteLargest(const Matrix<T>& d, int64_t batch) const {
    if (At(kLtMatmulLargest) == 0) return;
    double largest = batch == 0 ? 0 : Load<double>(Memory<void>(kLtMatmulLargestD), kReal32, 0);
    for (const T& element : d.elements) largest = std::max(largest, std::abs(element));
    Store(Memory<void>(kLtMatmulLargestD), kReal32, 0, largest);
  }

  // Reads or writes the bit of an element in ReLU's auxiliary memory.
  bool Mask(uint32_t slot, int64_t batch, int64_t i, int64_t j) const {
    return (MaskByte(slot, batch, i, j) >> (i % 8) & 1) != 0;
  }
  void SetMask(int64_t batch, int64_t i, int64_t j, bool positive) const {
    uint8_t& byte = MaskByte(kLtMatmulMaskWritten, batch, i, j);
    const auto bit = static_cast<uint8_t>(1u << (i % 8));
    byte = static_cast<uint8_t>(positive ? byte | bit : byte & ~bit);
  }
  uint8_t& MaskByte(uint32_t slot, int64_t batch, int64_t i, int64_t j) const {
    constexpr int64_t kBytes = kLtMaskBits / 8;
    return Memory<uint8_t>(
        slot)[(At(kLtMatmulStrideAux) * batch + At(kLtMatmulLdaux) * j) * kBytes + i / 8];
  }
  int64_t AuxIndex(int64_t batch, int64_t i, int64_t j) const {
    return (At(kLtMatmulStrideAux) * batch + At(kLtMatmulLdaux) * j) * kLtAuxElements + i;
  }

  // Applies the epilogue.
  void Finish(const Matrix<double>& a, const Matrix<double>& b, int64_t batch,
              Matrix<double>* d) const {
    const int64_t type = At(kLtMatmulCtype);
    for (int64_t j = 0; j < d->columns; ++j) {
      for (int64_t i = 0; i < d->rows; ++i) {
        double& x = d->At(i, j);
        if (Has(kLtBias)) {
          x += Load<double>(Memory<char>(kLtMatmulBias), type, At(kLtMatmulStrideBias) * batch + i);
        }
        if (Has(kLtRelu)) {
          if (Has(kLtAuxiliary)) SetMask(batch, i, j, x >= 0);  // Zero counts, in cuBLASLt as well.
          x = x > 0 ? x : 0;
        } else if (Has(kLtGelu)) {
          if (Has(kLtAuxiliary)) {
            Store(Memory<char>(kLtMatmulAuxWritten), type, AuxIndex(batch, i, j), x);
          }
          x = Gelu(x);
        } else if (Has(kLtReluGradient)) {
          if (!Mask(kLtMatmulMaskRead, batch, i, j)) x = 0;
        } else if (Has(kLtGeluGradient)) {
          x *= GeluGradient(
              Load<double>(Memory<char>(kLtMatmulAuxRead), type, AuxIndex(batch, i, j)));
        }
      }
    }
    if (!Has(kLtBiasGradient | kLtSumsOfA | kLtSumsOfB)) return;
    const auto sum = [&](int64_t place, int64_t count, auto term) {
      double all = 0;
      for (int64_t i = 0; i < count; ++i) all += term(i);
      Store(Memory<char>(kLtMatmulGradient), type, At(kLtMatmulStrideBias) * batch + place, all);
    };
    if (Has(kLtSumsOfB)) {
      for (int64_t j = 0; j < b.columns; ++j) {
        sum(j, b.rows, [&](int64_t i) { return b.At(i, j); });
      }
      return;
    }
    const Matrix<double>& of = Has(kLtSumsOfA) ? a : *d;
    for (int64_t i = 0; i < of.rows; ++i) {
      sum(i, of.columns, [&](int64_t j) { return of.At(i, j); });
    }
  }

  const absl::Span<const uint64_t> values_;
  const uint32_t modes_;
};

}  // namespace

bool HasLtMatmul(absl::Span<const uint64_t> values) {
  const Call call(values, 0);
  const int64_t type = call.At(kLtMatmulAtype);
  // There is one algorithm, without a configuration.
  const LtKind kind = {};
  if (type == kInteger8 || !IsLtConfig(&kind, values[kLtMatmulAlgorithm], &values[kLtMatmulOwn])) {
    return false;
  }
  if (IsBlasComplex(type) && call.At(kLtMatmulEpilogue) != 0) return false;
  const uint64_t m = values[kLtMatmulM], n = values[kLtMatmulN], k = values[kLtMatmulK];
  // Each of them is below 2^31.
  return m * k <= kMostConverted && k * n <= kMostConverted && m * n <= kMostConverted;
}

void RunLtMatmul(absl::Span<const uint64_t> values, uint32_t modes, const LtProducts& products) {
  const Call call(values, modes);
  if (IsBlasComplex(call.At(kLtMatmulAtype)) || call.At(kLtMatmulPlanes) != 0) {
    call.RunFor<std::complex<double>>(products.complex);
  } else {
    call.RunFor<double>(products.real);
  }
}

}  // namespace warpline::cpu
