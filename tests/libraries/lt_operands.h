// Operands of cublasLtMatmul(): on the device, and as numbers on the host.
#ifndef WARPLINE_TESTS_LIBRARIES_LT_OPERANDS_H_
#define WARPLINE_TESTS_LIBRARIES_LT_OPERANDS_H_

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/libraries/blas_checks.h"

namespace warpline::blas_checks {

// Numbers of cudaDataType and cublasComputeType_t.
enum Type : int {
  kFloat = 0,
  kDouble = 1,
  kHalf = 2,
  kByte = 3,
  kComplexFloat = 4,
  kComplexDouble = 5,
  kComplexHalf = 6,
  kInteger = 10,
  kBrain = 14,
  kComplexBrain = 15,
  kE4m3 = 28,
  kE5m2 = 29
};
enum Compute : int {
  kIn16 = 64,
  kIn32 = 68,
  kIn32Pedantic = 69,
  kIn64 = 70,
  kInInteger = 72,
  kFast16 = 74,
  kFastBrain = 75,
  kTf32 = 77
};
using Number = std::complex<double>;

inline size_t BytesOf(int type) {
  switch (type) {
    case kByte:
    case kE4m3:
    case kE5m2:
      return 1;
    case kHalf:
    case kBrain:
      return 2;
    case kFloat:
    case kInteger:
      return 4;
    case kComplexDouble:
      return 16;
    default:
      return 8;
  }
}
inline bool IsComplex(int type) { return type == kComplexFloat || type == kComplexDouble; }
inline bool IsFloat8(int type) { return type == kE4m3 || type == kE5m2; }
inline bool IsInteger(int type) { return type == kByte || type == kInteger; }

// The number that the bits of a half or bfloat16 are.
inline double Widen(int type, uint16_t bits) {
  if (type == kBrain) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 0x3ff;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

// The number that the bits of 8-bit floating point are.
inline double Widen8(int type, uint8_t bits) {
  const int mantissa = type == kE4m3 ? 3 : 2, bias = type == kE4m3 ? 7 : 15;
  const int exponent = (bits & 0x7f) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  const double size = exponent == 0
                          ? std::ldexp(fraction, 1 - bias - mantissa)
                          : std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
  return (bits & 0x80) != 0 ? -size : size;
}

// The bits of a number that the type has.
inline uint8_t Encoded8(int type, double value) {
  for (int bits = 0; bits < 256; ++bits) {
    if (Widen8(type, static_cast<uint8_t>(bits)) == value) return static_cast<uint8_t>(bits);
  }
  return 0x7f;
}

template <typename T>
void Put(T value, uint8_t* to) {
  std::memcpy(to, &value, sizeof(value));
}
template <typename T>
T Get(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

inline void Encode(int type, Number value, uint8_t* to) {
  switch (type) {
    case kFloat:
      return Put(static_cast<float>(value.real()), to);
    case kDouble:
      return Put(value.real(), to);
    case kByte:
      return Put(static_cast<int8_t>(value.real()), to);
    case kInteger:
      return Put(static_cast<int32_t>(value.real()), to);
    case kComplexFloat:
      return Put(std::complex<float>(value), to);
    case kComplexDouble:
      return Put(value, to);
    case kE4m3:
    case kE5m2:
      return Put(Encoded8(type, value.real()), to);
    default:
      return Put(Encoded(type, value.real()), to);
  }
}
inline Number Decode(int type, const uint8_t* from) {
  switch (type) {
    case kFloat:
      return Get<float>(from);
    case kDouble:
      return Get<double>(from);
    case kByte:
      return Get<int8_t>(from);
    case kInteger:
      return Get<int32_t>(from);
    case kComplexFloat:
      return Number(Get<std::complex<float>>(from));
    case kComplexDouble:
      return Get<Number>(from);
    case kE4m3:
    case kE5m2:
      return Widen8(type, *from);
    default:
      return Widen(type, Get<uint16_t>(from));
  }
}

// Memory of the device, with its elements on the host. They are multiples of a quarter, so that
// sums of products are exact in every type. They begin `offset` elements behind an address that is
// aligned to 16 bytes.
class Elements {
 public:
  // With `choice` they are random ones of these numbers.
  Elements(int type, size_t count, int offset = 0, const std::vector<double>& choice = {})
      : host(count),
        type_(type),
        offset_(offset * BytesOf(type)),
        bytes_(offset_ + count * BytesOf(type)) {
    const double unit = IsInteger(type) ? 1 : 4;
    for (Number& value : host) {
      const double real =
          choice.empty() ? (Below(9) - 4) / unit : choice[Below(static_cast<int>(choice.size()))];
      value = IsComplex(type) ? Number(real, (Below(9) - 4) / unit) : Number(real);
    }
    for (size_t i = 0; i < count; ++i) Encode(type, host[i], At(i));
    bytes_.Write();
  }
  void* at() const { return bytes_.at() + offset_; }
  std::vector<Number> Read() const {
    const std::vector<uint8_t> bytes = bytes_.Read();
    std::vector<Number> read(host.size());
    for (size_t i = 0; i < read.size(); ++i) {
      read[i] = Decode(type_, &bytes[offset_ + i * BytesOf(type_)]);
    }
    return read;
  }
  std::vector<uint8_t> ReadBytes() const { return bytes_.Read(); }
  const std::vector<uint8_t>& bytes() const { return bytes_.host; }

  std::vector<Number> host;

 private:
  uint8_t* At(size_t i) { return &bytes_.host[offset_ + i * BytesOf(type_)]; }

  int type_;
  size_t offset_;
  Memory<uint8_t> bytes_;
};

#define LT(name, ...) Find<int (*)(__VA_ARGS__)>(blas, "cublasLt" name)

// A descriptor, in the program's own memory.
using Descriptor = std::array<uint64_t, 32>;

template <typename T>
void Set(const char* function, Descriptor* descriptor, int attribute, T value) {
  Must(Find<int (*)(Descriptor*, int, const void*, size_t)>(blas, function)(descriptor, attribute,
                                                                            &value, sizeof(value)),
       function);
}

// A matrix: its layout, and where its elements are.
struct Matrix {
  // The leading dimension, the stride and the distance of planes are so many `more` than they need
  // to be.
  struct More {
    int leading, stride, planes;
    bool imaginary_first;
  };
  // How all matrices of a call lie in memory.
  enum class Form { kPlain, kPlanes, kArrays };

  Matrix(Form form, int type, int rows, int columns, int batches, bool by_rows, const More& more,
         int offset)
      : type(type), rows(rows), columns(columns), batches(batches), by_rows(by_rows) {
    leading = (by_rows ? columns : rows) + more.leading;
    stride = static_cast<int64_t>(leading) * (by_rows ? rows : columns) + more.stride;
    const size_t last = Extent(by_rows ? columns : rows, by_rows ? rows : columns, leading);
    const size_t count = stride * (batches - 1) + last;
    if (form == Form::kPlanes) {
      apart = count + more.planes;
      imaginary_first = more.imaginary_first;
    }
    elements = std::make_unique<Elements>(type, count + apart, offset);
    const int whole = form != Form::kPlanes ? type
                      : type == kHalf       ? kComplexHalf
                      : type == kBrain      ? kComplexBrain
                                            : kComplexFloat;
    Must(LT("MatrixLayoutInit_internal", Descriptor*, size_t, int, uint64_t, uint64_t, int64_t)(
             &layout, 64, whole, rows, columns, leading),
         "layout");
    constexpr char kSet[] = "cublasLtMatrixLayoutSetAttribute";
    if (form == Form::kPlanes) {
      const auto distance = static_cast<int64_t>(apart * BytesOf(type));
      Set(kSet, &layout, 7, imaginary_first ? -distance : distance);
    }
    if (form == Form::kArrays) {
      addresses = std::make_unique<Memory<uint8_t>>(batches * sizeof(uint64_t));
      for (int i = 0; i < batches; ++i) {
        Put(reinterpret_cast<uint64_t>(elements->at()) + i * stride * BytesOf(type),
            &addresses->host[i * sizeof(uint64_t)]);
      }
      addresses->Write();
      Set(kSet, &layout, 8, int32_t{1});
    }
    if (by_rows) Set(kSet, &layout, 1, int32_t{1});
    if (batches > 1) {
      Set(kSet, &layout, 5, static_cast<int32_t>(batches));
      if (form != Form::kArrays) Set(kSet, &layout, 6, stride);
    }
  }
  // Returns the argument of cublasLtMatmul().
  void* at() const {
    if (addresses != nullptr) return addresses->at();
    return static_cast<char*>(elements->at()) + (imaginary_first ? apart * BytesOf(type) : 0);
  }
  // Returns the elements whose planes are in `numbers`, one behind the other.
  std::vector<Number> Whole(std::vector<Number> numbers) const {
    if (apart == 0) return numbers;
    for (size_t i = 0; i + apart < numbers.size(); ++i) {
      numbers[i] = Both(numbers[i], numbers[i + apart]);
    }
    numbers.resize(numbers.size() - apart);
    return numbers;
  }
  Number Host(size_t index) const {
    const Number one = elements->host[index];
    return apart == 0 ? one : Both(one, elements->host[index + apart]);
  }
  // Returns the element whose parts have these numbers, the first one of them in memory first.
  Number Both(const Number& first, const Number& second) const {
    return imaginary_first ? Number(second.real(), first.real())
                           : Number(first.real(), second.real());
  }
  std::vector<Number> HostAll() const { return Whole(elements->host); }
  std::vector<Number> Read() const { return Whole(elements->Read()); }
  size_t Index(int batch, int row, int column) const {
    return batch * stride + (by_rows ? static_cast<int64_t>(row) * leading + column
                                     : static_cast<int64_t>(column) * leading + row);
  }
  Number At(int op, int batch, int row, int column) const {
    const Number value = Host(op == 0 ? Index(batch, row, column) : Index(batch, column, row));
    return op == 2 ? std::conj(value) : value;
  }

  int type;  // The elements' type, or the planes'.
  int rows, columns, batches;
  bool by_rows;
  int leading;
  int64_t stride;
  bool imaginary_first = false;
  size_t apart = 0;  // Elements from one plane to the other, if there are two.
  std::unique_ptr<Elements> elements;
  std::unique_ptr<Memory<uint8_t>> addresses;  // The matrices of a batch.
  Descriptor layout{};
};

}  // namespace warpline::blas_checks

#endif  // WARPLINE_TESTS_LIBRARIES_LT_OPERANDS_H_
