// Calls cublasLtMatmul() with matrices of many shapes, types and orders and with every epilogue,
// and compares with loops.
//
//   lt_program [ROUNDS] [--edges|--anywhere] [SEED]
//
// The libraries are found as a program finds them: libcuda.so.1 and libcublasLt.so.13. Runs
// natively as well. With --edges nothing is mapped behind operands (native runs only); --anywhere
// is the default, and stands before a seed. Exits with 0 when everything is right, 2 when there is
// no cuBLASLt, else 1.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/libraries/blas_checks.h"

namespace warpline::blas_checks {
namespace {

// Numbers of cudaDataType and cublasComputeType_t.
enum Type : int {
  kFloat = 0,
  kDouble = 1,
  kHalf = 2,
  kByte = 3,
  kComplexFloat = 4,
  kComplexDouble = 5,
  kInteger = 10,
  kBrain = 14
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
// Bits of cublasLtEpilogue_t.
enum Epilogue : unsigned {
  kDefault = 1,
  kRelu = 2,
  kBias = 4,
  kReluGradient = 8,
  kBiasGradient = 16,
  kGelu = 32,
  kGeluGradient = 64,
  kAux = 128,
  kSumsOfA = 256,
  kSumsOfB = 512
};
constexpr unsigned kEpilogues[] = {kDefault,
                                   kRelu,
                                   kRelu | kAux,
                                   kBias,
                                   kRelu | kBias,
                                   kRelu | kAux | kBias,
                                   kReluGradient | kAux,
                                   kReluGradient | kAux | kBiasGradient,
                                   kGelu,
                                   kGelu | kAux,
                                   kGelu | kBias,
                                   kGelu | kAux | kBias,
                                   kGeluGradient | kAux,
                                   kGeluGradient | kAux | kBiasGradient,
                                   kSumsOfA,
                                   kSumsOfB};

using Number = std::complex<double>;

size_t BytesOf(int type) {
  switch (type) {
    case kByte:
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
bool IsComplex(int type) { return type == kComplexFloat || type == kComplexDouble; }
bool IsInteger(int type) { return type == kByte || type == kInteger; }

// The number that the bits of a half or bfloat16 are.
double Widen(int type, uint16_t bits) {
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

void Encode(int type, Number value, uint8_t* to) {
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
    default:
      return Put(Encoded(type, value.real()), to);
  }
}
Number Decode(int type, const uint8_t* from) {
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
    default:
      return Widen(type, Get<uint16_t>(from));
  }
}

// Memory of the device, with its elements on the host. They are multiples of a quarter, so that
// sums of products are exact in every type. They begin `offset` elements behind an address that is
// aligned to 16 bytes.
class Elements {
 public:
  Elements(int type, size_t count, int offset = 0)
      : host(count),
        type_(type),
        offset_(offset * BytesOf(type)),
        bytes_(offset_ + count * BytesOf(type)) {
    const double unit = IsInteger(type) ? 1 : 4;
    for (Number& value : host) {
      const double real = (Below(9) - 4) / unit;
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
  // The leading dimension and the stride are so many `more` than they need to be.
  struct More {
    int leading, stride;
  };
  Matrix(int type, int rows, int columns, int batches, bool by_rows, const More& more, int offset)
      : rows(rows), columns(columns), batches(batches), by_rows(by_rows) {
    leading = (by_rows ? columns : rows) + more.leading;
    stride = static_cast<int64_t>(leading) * (by_rows ? rows : columns) + more.stride;
    const size_t last = Extent(by_rows ? columns : rows, by_rows ? rows : columns, leading);
    elements = std::make_unique<Elements>(type, stride * (batches - 1) + last, offset);
    Must(LT("MatrixLayoutInit_internal", Descriptor*, size_t, int, uint64_t, uint64_t, int64_t)(
             &layout, 64, type, rows, columns, leading),
         "layout");
    constexpr char kSet[] = "cublasLtMatrixLayoutSetAttribute";
    if (by_rows) Set(kSet, &layout, 1, int32_t{1});
    if (batches > 1) {
      Set(kSet, &layout, 5, static_cast<int32_t>(batches));
      Set(kSet, &layout, 6, stride);
    }
  }
  size_t Index(int batch, int row, int column) const {
    return batch * stride + (by_rows ? static_cast<int64_t>(row) * leading + column
                                     : static_cast<int64_t>(column) * leading + row);
  }
  Number At(int op, int batch, int row, int column) const {
    const Number value =
        elements->host[op == 0 ? Index(batch, row, column) : Index(batch, column, row)];
    return op == 2 ? std::conj(value) : value;
  }

  int rows, columns, batches;
  bool by_rows;
  int leading;
  int64_t stride;
  std::unique_ptr<Elements> elements;
  Descriptor layout{};
};

// cublasLtMatmulHeuristicResult_t
struct Heuristic {
  std::array<uint64_t, 8> algorithm;
  size_t workspace;
  int state;
  float waves;
  std::array<int, 4> reserved;
};

int refused = 0;

void CompareNumbers(const std::string& what, const std::vector<Number>& got,
                    const std::vector<Number>& want, double relative) {
  ++checks;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::abs(got[i] - want[i]) <= relative * (1 + std::abs(want[i]))) continue;
    std::printf("%s: element %zu is %g, not %g\n", what.c_str(), i, got[i].real(), want[i].real());
    ++wrong;
    return;
  }
}

double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
double GeluGradient(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

struct Types {
  int compute, in, out, scale;
};
constexpr Types kTypes[] = {{kIn32, kFloat, kFloat, kFloat},
                            {kTf32, kFloat, kFloat, kFloat},
                            {kIn32, kHalf, kHalf, kFloat},
                            {kIn32, kBrain, kBrain, kFloat},
                            {kIn32, kHalf, kFloat, kFloat},
                            {kIn32, kBrain, kFloat, kFloat},
                            {kIn16, kHalf, kHalf, kHalf},
                            {kIn64, kDouble, kDouble, kDouble},
                            {kIn32Pedantic, kFloat, kFloat, kFloat},
                            {kFast16, kFloat, kFloat, kFloat},
                            {kFastBrain, kFloat, kFloat, kFloat},
                            {kInInteger, kByte, kInteger, kInteger},
                            {kIn64, kComplexDouble, kComplexDouble, kComplexDouble},
                            {kIn32, kComplexFloat, kComplexFloat, kComplexFloat}};

// The relative error of a type.
double Epsilon(int type) {
  switch (type) {
    case kHalf:
      return 1e-3;
    case kBrain:
      return 2e-2;  // The library may sum parts in this type.
    case kInteger:
    case kDouble:
    case kComplexDouble:
      return 1e-12;
    default:
      return 1e-6;
  }
}

// One product, all of whose parameters are random but for the types and the epilogue.
class Product {
 public:
  Product(const Types& types, unsigned epilogue)
      : types_(types),
        epilogue_(epilogue),
        plain_(IsInteger(types.in)),
        unit_(!plain_ && Below(3) == 0 ? 1 : 8),
        m_(unit_ * (1 + Below((Below(8) == 0 ? 320 : 64) / unit_))),
        n_(unit_ * (1 + Below(64 / unit_))),
        k_(unit_ * (1 + Below(64 / unit_))),
        batches_(Below(3) == 0 ? 1 + Below(3) : 1),
        ta_(Below(IsComplex(types.in) ? 3 : 2)),
        tb_(Below(IsComplex(types.in) ? 3 : 2)),
        by_rows_(!plain_ && epilogue == kDefault && Below(4) == 0),
        offset_(!plain_ && Below(3) == 0 ? 1 : 0),
        more_(More()),
        a_(types.in, ta_ != 0 ? k_ : m_, ta_ != 0 ? m_ : k_, batches_, Rows(), More(), Off()),
        b_(types.in, tb_ != 0 ? n_ : k_, tb_ != 0 ? k_ : n_, batches_, Rows(), More(), Off()),
        c_(types.out, m_, n_, batches_, by_rows_, more_, Off()),
        d_(types.out, m_, n_, batches_, by_rows_, more_, Off()),
        bias_count_(epilogue == kSumsOfB ? n_ : m_),
        bias_stride_(bias_count_ + Off()),
        bias_(types.out, static_cast<size_t>(bias_stride_) * (batches_ - 1) + bias_count_, Off()),
        mask_leading_((m_ + 127) / 128 * 128),
        mask_(kFloat, static_cast<size_t>(mask_leading_) / 32 * n_ * batches_),
        aux_leading_((m_ + 7) / 8 * 8),
        aux_(types.out, static_cast<size_t>(aux_leading_) * n_ * batches_) {}

  void Check() {
    Describe();
    const bool on_device = Below(4) == 0;
    const Number alpha = 2, beta = Below(2);
    Elements scalars(types_.scale, 2);
    std::array<std::array<uint8_t, 16>, 2> host{};
    Encode(types_.scale, alpha, host[0].data());
    Encode(types_.scale, beta, host[1].data());
    const auto* const device = static_cast<char*>(scalars.at());
    const void* alpha_at = host[0].data();
    const void* beta_at = host[1].data();
    Number used_alpha = alpha, used_beta = beta;
    if (on_device) {
      Set(kSetDescription, &description_, 2, int32_t{1});
      alpha_at = device;
      beta_at = device + BytesOf(types_.scale);
      used_alpha = scalars.host[0];
      used_beta = scalars.host[1];
    }
    const Heuristic* chosen = nullptr;
    std::array<Heuristic, 4> found{};
    int count = 0;
    const int asked = Ask(&found, &count);
    if (asked != 0 || count == 0) {
      // NVIDIA's library has no kernel for every combination.
      Expect(asked == 0 || asked == 15 || asked == 7, "heuristics: ", asked);
      ++refused;
      return;
    }
    // By itself the native library takes kernels that need more alignment than D may have.
    if (offset_ != 0 || Below(4) != 0) chosen = &found[Below(count)];
    Matrix* const c = Below(3) == 0 ? &d_ : &c_;  // In place.
    const Allocation workspace(kWorkspace);
    const int done = LT("Matmul", void*, Descriptor*, const void*, const void*, Descriptor*,
                        const void*, Descriptor*, const void*, const void*, Descriptor*, void*,
                        Descriptor*, const void*, void*, size_t, CUstream)(
        handle, &description_, alpha_at, a_.elements->at(), &a_.layout, b_.elements->at(),
        &b_.layout, beta_at, c->elements->at(), &c->layout, d_.elements->at(), &d_.layout,
        chosen == nullptr ? nullptr : chosen->algorithm.data(),
        reinterpret_cast<void*>(workspace.address()), kWorkspace, nullptr);
    Expect(done == 0, What() + ": status ", done);
    if (done == 0) Judge(*c, used_alpha, used_beta);
  }

 private:
  static constexpr char kSetDescription[] = "cublasLtMatmulDescSetAttribute";
  static constexpr size_t kWorkspace = size_t{1} << 20;

  Matrix::More More() const { return {unit_ * Below(3), unit_ * Below(3) + Off()}; }
  bool Rows() const { return !plain_ && Below(4) == 0; }
  int Off() const { return offset_ * Below(8); }
  bool Has(unsigned bits) const { return (epilogue_ & bits) != 0; }
  std::string What() const {
    char text[160];
    std::snprintf(text, sizeof(text),
                  "compute %d, types %d and %d, epilogue %u, ops %d %d, %d x %d x %d, %d times%s",
                  types_.compute, types_.in, types_.out, epilogue_, ta_, tb_, m_, n_, k_, batches_,
                  by_rows_       ? ", by rows"
                  : offset_ != 0 ? ", anywhere"
                                 : "");
    return text;
  }
  static void Expect(bool holds, const std::string& what, int number) {
    ++checks;
    if (holds) return;
    std::printf("%s%d\n", what.c_str(), number);
    ++wrong;
  }

  void Describe() {
    Must(LT("MatmulDescInit_internal", Descriptor*, size_t, int, int)(
             &description_, sizeof(description_), types_.compute, types_.scale),
         "description");
    Set(kSetDescription, &description_, 3, static_cast<int32_t>(ta_));
    Set(kSetDescription, &description_, 4, static_cast<int32_t>(tb_));
    Set(kSetDescription, &description_, 7, static_cast<uint32_t>(epilogue_));
    if (Has(kBias | kBiasGradient | kSumsOfA | kSumsOfB)) {
      Set(kSetDescription, &description_, 8, bias_.at());
      Set(kSetDescription, &description_, 10, static_cast<int64_t>(bias_stride_));
    }
    if (!Has(kAux)) return;
    const bool mask = Has(kRelu | kReluGradient);
    const auto leading = static_cast<int64_t>(mask ? mask_leading_ : aux_leading_);
    Set(kSetDescription, &description_, 11, mask ? mask_.at() : aux_.at());
    Set(kSetDescription, &description_, 12, leading);
    Set(kSetDescription, &description_, 13, leading * n_);
  }

  int Ask(std::array<Heuristic, 4>* found, int* count) {
    Descriptor preference{};
    Must(LT("MatmulPreferenceInit_internal", Descriptor*, size_t)(&preference, 64), "preference");
    constexpr char kSet[] = "cublasLtMatmulPreferenceSetAttribute";
    Set(kSet, &preference, 1, static_cast<uint64_t>(kWorkspace));
    if (Below(4) == 0) Set(kSet, &preference, 3, uint32_t{0});  // No sums of parts.
    const std::pair<int, const Matrix*> matrices[] = {{5, &a_}, {6, &b_}, {7, &c_}, {8, &d_}};
    for (const auto& [attribute, matrix] : matrices) {
      const auto address = reinterpret_cast<uintptr_t>(matrix->elements->at());
      Set(kSet, &preference, attribute,
          static_cast<uint32_t>(std::min<uintptr_t>(address & (~address + 1), 256)));
    }
    return LT("MatmulAlgoGetHeuristic", void*, Descriptor*, Descriptor*, Descriptor*, Descriptor*,
              Descriptor*, Descriptor*, int, Heuristic*,
              int*)(handle, &description_, &a_.layout, &b_.layout, &c_.layout, &d_.layout,
                    &preference, static_cast<int>(found->size()), found->data(), count);
  }

  bool MaskBit(const std::vector<uint8_t>& bytes, int batch, int i, int j) const {
    const size_t bit =
        static_cast<size_t>(mask_leading_) * (static_cast<size_t>(batch) * n_ + j) + i;
    return (bytes[bit / 8] >> (bit % 8) & 1) != 0;
  }
  size_t AuxIndex(int batch, int i, int j) const {
    return static_cast<size_t>(aux_leading_) * (static_cast<size_t>(batch) * n_ + j) + i;
  }

  void Judge(const Matrix& c, Number alpha, Number beta) {
    std::vector<Number> want = d_.elements->host, bias = bias_.host, aux = aux_.host;
    const std::vector<uint8_t> mask = mask_.ReadBytes();
    bool mask_is_right = true;
    for (int batch = 0; batch < batches_; ++batch) {
      for (int j = 0; j < n_; ++j) {
        for (int i = 0; i < m_; ++i) {
          Number sum = 0;
          for (int l = 0; l < k_; ++l) {
            sum += a_.At(ta_, batch, i, l) * b_.At(tb_, batch, l, j);
          }
          Number x = alpha * sum + beta * c.At(0, batch, i, j);
          if (Has(kBias)) x += bias_.host[static_cast<size_t>(batch) * bias_stride_ + i];
          if (Has(kRelu)) {
            if (Has(kAux) && MaskBit(mask, batch, i, j) != (x.real() >= 0)) mask_is_right = false;
            x = std::max(x.real(), 0.0);
          } else if (Has(kGelu)) {
            if (Has(kAux)) aux[AuxIndex(batch, i, j)] = x;
            x = Gelu(x.real());
          } else if (Has(kReluGradient)) {
            if (!MaskBit(mask_.bytes(), batch, i, j)) x = 0;
          } else if (Has(kGeluGradient)) {
            x *= GeluGradient(aux_.host[AuxIndex(batch, i, j)].real());
          }
          want[d_.Index(batch, i, j)] = x;
        }
      }
      for (int i = 0; i < bias_count_ && Has(kBiasGradient | kSumsOfA | kSumsOfB); ++i) {
        Number all = 0;
        for (int j = 0; j < (Has(kBiasGradient) ? n_ : k_); ++j) {
          all += Has(kSumsOfA)   ? a_.At(ta_, batch, i, j)
                 : Has(kSumsOfB) ? b_.At(tb_, batch, j, i)
                                 : want[d_.Index(batch, i, j)];
        }
        bias[static_cast<size_t>(batch) * bias_stride_ + i] = all;
      }
    }
    const double error = Epsilon(types_.out);
    // NVIDIA's own GELU is an approximation.
    const bool smooth = Has(kGelu | kGeluGradient);
    const std::string what = What();
    CompareNumbers(what, d_.elements->Read(), want, smooth ? std::max(2 * error, 2e-3) : error);
    CompareNumbers(what + ", bias", bias_.Read(), bias, (smooth ? 4e-3 : error) * n_);
    CompareNumbers(what + ", auxiliary memory", aux_.Read(), aux, error);
    Expect(mask_is_right, what + ", mask ", 0);
  }

  const Types types_;
  const unsigned epilogue_;
  // Without rows and odd sizes: NVIDIA's heuristics name algorithms for integers then that the
  // library does not have.
  const bool plain_;
  const int unit_, m_, n_, k_, batches_, ta_, tb_;
  const bool by_rows_;
  const int offset_;         // 1 where operands begin at any element.
  const Matrix::More more_;  // C and D have one layout.
  Matrix a_, b_, c_, d_;
  const int bias_count_, bias_stride_;
  Elements bias_;
  const int mask_leading_;
  Elements mask_;
  const int aux_leading_;
  Elements aux_;
  Descriptor description_{};
};

// Attributes can be read again, and what is wrong is refused.
void Attributes() {
  const auto expect = [&](bool holds, const char* what) {
    ++checks;
    if (holds) return;
    std::printf("attributes: %s\n", what);
    ++wrong;
  };
  void* layout = nullptr;
  Must(LT("MatrixLayoutCreate", void**, int, uint64_t, uint64_t, int64_t)(&layout, kHalf, 3, 5, 7),
       "layout");
  const auto get = LT("MatrixLayoutGetAttribute", void*, int, void*, size_t, size_t*);
  uint64_t columns = 0;
  size_t written = 0;
  expect(get(layout, 3, &columns, sizeof(columns), &written) == 0 && columns == 5 && written == 8,
         "columns");
  expect(get(layout, 3, nullptr, 0, &written) == 0 && written == 8, "the size of an attribute");
  expect(get(layout, 3, &columns, 4, &written) == 7, "another size");
  expect(get(layout, 99, &columns, sizeof(columns), &written) == 7, "no such attribute");
  Must(LT("MatrixLayoutDestroy", void*)(layout), "end of the layout");
  Descriptor small{};
  expect(
      LT("MatmulDescInit_internal", Descriptor*, size_t, int, int)(&small, 8, kIn32, kFloat) == 3,
      "too small a descriptor");
  expect(Find<size_t (*)()>(blas, "cublasLtGetVersion")() >= 130000, "the version");
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  Allocation::edges = argc > 2 && std::string(argv[2]) == "--edges";
  if (argc > 3) random_bits.seed(static_cast<unsigned>(std::atoi(argv[3])));
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  blas = dlopen("libcublasLt.so.13", RTLD_NOW);
  if (driver == nullptr || blas == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  CUcontext context;
  Must(DRIVER(cuInit)(0), "cuInit");
  Must(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0), "context");
  Must(DRIVER(cuCtxSetCurrent)(context), "context");
  const int made = LT("Create", void**)(&handle);
  if (made != 0) {
    std::printf("cublasLtCreate: %d\n", made);
    return 2;
  }
  Attributes();
  for (int i = 0; i < rounds; ++i) {
    for (const Types& types : kTypes) {
      for (const unsigned epilogue : kEpilogues) {
        if ((IsComplex(types.in) || IsInteger(types.in)) && epilogue != kDefault) continue;
        Product(types, epilogue).Check();
      }
    }
  }
  Must(LT("Destroy", void*)(handle), "destroy");
  std::printf("lt_program: %d checks, %d wrong, %d combinations that the library lacks\n", checks,
              wrong, refused);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace warpline::blas_checks

int main(int argc, char** argv) { return warpline::blas_checks::Main(argc, argv); }
