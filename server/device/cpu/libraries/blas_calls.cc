#include "server/device/cpu/libraries/blas_calls.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "common/log/log.h"
#include "proto/adapters/blas_types.h"
#include "proto/adapters/cublas_numbers.h"
#include "proto/adapters/library_call.h"
#include "server/device/cpu/alu/half_float.h"
#include "server/device/cpu/libraries/cblas_functions.h"
#include "server/device/cpu/libraries/lt_calls.h"

namespace warpline::cpu {
namespace {

using namespace cublas;  // NOLINT(google-build-using-namespace): the numbers of functions.

// A call's memory for operands in other formats is not on anybody's bill, so it is bounded.
constexpr uint64_t kMostConverted = uint64_t{64} << 20;

struct AllCblas {
  Cblas<float> s;
  Cblas<double> d;
  Cblas<std::complex<float>> c;
  Cblas<std::complex<double>> z;
};

// Written once, before any call.
AllCblas all;

template <typename T>
const Cblas<T>& Of() {
  if constexpr (std::is_same_v<T, float>)
    return all.s;
  else if constexpr (std::is_same_v<T, double>)
    return all.d;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return all.c;
  else
    return all.z;
}

template <typename F>
bool Find(void* library, const std::string& name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name.c_str()));
  return *function != nullptr;
}

template <typename T>
bool FindAll(void* library, char letter, Cblas<T>* to) {
  const std::string p = std::string("cblas_") + letter;
  bool found = Find(library, p + "gemm", &to->gemm) && Find(library, p + "gemv", &to->gemv) &&
               Find(library, p + "axpy", &to->axpy) && Find(library, p + "scal", &to->scal) &&
               Find(library, p + "copy", &to->copy) && Find(library, p + "swap", &to->swap) &&
               Find(library, std::string("cblas_i") + letter + "amax", &to->amax) &&
               Find(library, p + "symm", &to->symm) && Find(library, p + "syrk", &to->syrk) &&
               Find(library, p + "trsm", &to->trsm) && Find(library, p + "trmm", &to->trmm) &&
               Find(library, p + "syr2k", &to->syr2k) && Find(library, p + "trmv", &to->trmv) &&
               Find(library, p + "trsv", &to->trsv);
  if constexpr (kIsComplex<T>) {
    found = found && Find(library, p + "geru", &to->geru) && Find(library, p + "gerc", &to->gerc) &&
            Find(library, p + "dotu_sub", &to->dotu_sub) &&
            Find(library, p + "dotc_sub", &to->dotc_sub) && Find(library, p + "hemm", &to->hemm) &&
            Find(library, p + "herk", &to->herk) && Find(library, p + "her2k", &to->her2k);
  } else {
    found = found && Find(library, p + "ger", &to->ger) && Find(library, p + "dot", &to->dot) &&
            Find(library, p + "nrm2", &to->nrm2) && Find(library, p + "asum", &to->asum);
  }
  return found;
}

bool Load() {
  for (const char* name : {"libopenblas.so.0", "libblas.so.3"}) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    if (FindAll(library, 's', &all.s) && FindAll(library, 'd', &all.d) &&
        FindAll(library, 'c', &all.c) && FindAll(library, 'z', &all.z)) {
      return true;
    }
  }
  LogInfo("no BLAS (Debian's libopenblas0-serial): the CPU device has no libraries");
  return false;
}

// Reads a call's values.
class Values {
 public:
  explicit Values(const BlasCall& call) : call_(call) {}

  int Int(uint32_t slot) const { return static_cast<int>(call_.values[slot]); }
  int64_t Long(uint32_t slot) const { return static_cast<int64_t>(call_.values[slot]); }
  template <typename T>
  T* At(uint32_t slot) const {
    return reinterpret_cast<T*>(call_.values[slot]);
  }
  template <typename T>
  T Scalar(uint32_t slot) const {
    T value;
    const bool on_device = (call_.modes & LibraryModes::kPointersToDevice) != 0;
    std::memcpy(&value, on_device ? At<void>(slot) : &call_.values[slot], sizeof(value));
    return value;
  }
  float Half(uint32_t slot) const {
    return static_cast<float>(HalfFormat<10>::Widen(Scalar<uint16_t>(slot)));
  }
  template <typename T>
  int Transposed(uint32_t slot) const {
    const int op = Int(slot);
    return kPlain + (kIsComplex<T> ? op : std::min(op, 1));
  }
  int Side(uint32_t slot) const { return Int(slot) == 0 ? kLeft : kRight; }
  int Triangle(uint32_t slot) const { return Int(slot) == 0 ? kLower : kUpper; }
  int Diagonal(uint32_t slot) const { return Int(slot) == 0 ? kNonUnit : kUnit; }

 private:
  const BlasCall& call_;
};

template <typename T>
ScalarOf<T> Pass(const T& value) {
  if constexpr (kIsComplex<T>)
    return &value;
  else
    return value;
}

template <typename T>
T Conjugate(const T& value) {
  if constexpr (kIsComplex<T>)
    return std::conj(value);
  else
    return value;
}

// --- Functions of CBLAS

struct GemmSlots {
  uint32_t a, lda, b, ldb, beta, c, ldc;
};

// The matrices of one product, of the type that its call says.
struct GemmPlaces {
  const void* a;
  const void* b;
  void* c;
};

template <typename T>
void Gemm(const Values& v, const GemmSlots& at, const GemmPlaces& places) {
  const T alpha = v.Scalar<T>(5), beta = v.Scalar<T>(at.beta);
  Of<T>().gemm(kColumnMajor, v.Transposed<T>(0), v.Transposed<T>(1), v.Int(2), v.Int(3), v.Int(4),
               Pass(alpha), static_cast<const T*>(places.a), v.Int(at.lda),
               static_cast<const T*>(places.b), v.Int(at.ldb), Pass(beta),
               static_cast<T*>(places.c), v.Int(at.ldc));
}

struct BatchSlots {
  uint32_t a, b, c, count;
};

GemmPlaces WholePlaces(const Values& v, const GemmSlots& at) {
  return {v.At<void>(at.a), v.At<void>(at.b), v.At<void>(at.c)};
}

// Calls `gemm` with the places of each product, whose elements have so many bytes.
template <typename F>
void ForEachStride(const Values& v, const GemmSlots& at, const BatchSlots& stride,
                   int64_t bytes_of_inner, int64_t bytes_of_c, F gemm) {
  if (v.Int(2) == 0 || v.Int(3) == 0) return;  // The strides may be anything.
  for (int i = 0; i < v.Int(stride.count); ++i) {
    // Without A and B their strides may be anything.
    const int64_t inner = v.Int(4) == 0 ? 0 : i * bytes_of_inner;
    gemm({v.At<char>(at.a) + v.Long(stride.a) * inner, v.At<char>(at.b) + v.Long(stride.b) * inner,
          v.At<char>(at.c) + v.Long(stride.c) * i * bytes_of_c});
  }
}

// Calls `gemm` with the places of each product, which are in arrays of addresses.
template <typename F>
void ForEachAddress(const Values& v, const GemmSlots& at, uint32_t count, F gemm) {
  for (int i = 0; i < v.Int(count); ++i) {
    gemm({v.At<void*>(at.a)[i], v.At<void*>(at.b)[i], v.At<void*>(at.c)[i]});
  }
}

template <typename Format>
std::vector<float> Widened(const uint16_t* from, int rows, int columns, int leading) {
  std::vector<float> to(static_cast<size_t>(rows) * columns);
  for (int j = 0; j < columns; ++j) {
    for (int i = 0; i < rows; ++i) {
      to[static_cast<size_t>(j) * rows + i] =
          static_cast<float>(Format::Widen(from[static_cast<int64_t>(j) * leading + i]));
    }
  }
  return to;
}

// Multiplies matrices of 16-bit elements in binary32.
template <typename Format>
void GemmOf16(const Values& v, const GemmSlots& at, bool c_is_float, float alpha, float beta,
              const GemmPlaces& places) {
  const int m = v.Int(2), n = v.Int(3), k = v.Int(4);
  const bool ta = v.Int(0) != 0, tb = v.Int(1) != 0;
  const int a_rows = ta ? k : m, b_rows = tb ? n : k, ldc = v.Int(at.ldc);
  const auto a =
      Widened<Format>(static_cast<const uint16_t*>(places.a), a_rows, ta ? m : k, v.Int(at.lda));
  const auto b =
      Widened<Format>(static_cast<const uint16_t*>(places.b), b_rows, tb ? k : n, v.Int(at.ldb));
  std::vector<float> narrow;
  if (!c_is_float) narrow.resize(static_cast<size_t>(m) * n);
  auto* const c16 = static_cast<uint16_t*>(places.c);
  const int leading = c_is_float ? ldc : std::max(m, 1);
  if (!c_is_float && beta != 0) narrow = Widened<Format>(c16, m, n, ldc);
  all.s.gemm(kColumnMajor, v.Transposed<float>(0), v.Transposed<float>(1), m, n, k, alpha, a.data(),
             std::max(a_rows, 1), b.data(), std::max(b_rows, 1), beta,
             c_is_float ? static_cast<float*>(places.c) : narrow.data(), leading);
  for (int64_t j = 0; j < n && !c_is_float; ++j) {
    for (int64_t i = 0; i < m; ++i) c16[j * ldc + i] = Format::Narrow(narrow[j * m + i]);
  }
}

uint64_t ConvertedBytes(const Values& v) {
  const auto m = static_cast<uint64_t>(v.Int(2)), n = static_cast<uint64_t>(v.Int(3)),
             k = static_cast<uint64_t>(v.Int(4));
  return 4 * (m * k + k * n + m * n);
}

struct ExSlots {
  GemmSlots gemm;
  uint32_t a_type, c_type, compute;
};
constexpr ExSlots kExSlots = {{7, 9, 10, 12, 13, 15, 17}, 8, 16, 18};
constexpr ExSlots kStridedExSlots = {{7, 9, 11, 13, 15, 17, 19}, 8, 18, 22};
constexpr BatchSlots kStridedExStrides = {10, 14, 20, 21};
constexpr ExSlots kBatchedExSlots = {{7, 9, 10, 12, 13, 15, 17}, 8, 16, 19};
constexpr uint32_t kBatchedExCount = 18;
constexpr GemmSlots kGemmSlots = {7, 8, 9, 10, 11, 13, 14};
constexpr GemmSlots kStridedSlots = {7, 8, 10, 11, 13, 15, 16};
constexpr BatchSlots kStridedStrides = {9, 12, 17, 18};
constexpr uint32_t kBatchedCount = 15;

bool HasEx(const Values& v, const ExSlots& at) {
  const auto type = static_cast<uint64_t>(v.Int(at.a_type));
  const bool is16 = type == kReal16 || type == kBrain16;
  if (is16) return ConvertedBytes(v) <= kMostConverted;
  return type == kReal32 || type == kReal64 || type == kComplex32 || type == kComplex64;
}

void GemmEx(const Values& v, const ExSlots& at, const GemmPlaces& places) {
  const auto type = static_cast<uint64_t>(v.Int(at.a_type));
  switch (type) {
    case kReal32:
      return Gemm<float>(v, at.gemm, places);
    case kReal64:
      return Gemm<double>(v, at.gemm, places);
    case kComplex32:
      return Gemm<std::complex<float>>(v, at.gemm, places);
    case kComplex64:
      return Gemm<std::complex<double>>(v, at.gemm, places);
    default:
      break;
  }
  const bool c_is_float = v.Int(at.c_type) == static_cast<int>(kReal32);
  float alpha, beta;
  if (BlasScalarBytes(v.Int(at.compute), v.Int(at.c_type)) == 2) {
    alpha = v.Half(5);
    beta = v.Half(at.gemm.beta);
  } else {
    alpha = v.Scalar<float>(5);
    beta = v.Scalar<float>(at.gemm.beta);
  }
  if (type == kReal16) return GemmOf16<HalfFormat<10>>(v, at.gemm, c_is_float, alpha, beta, places);
  GemmOf16<HalfFormat<7>>(v, at.gemm, c_is_float, alpha, beta, places);
}

struct GemvSlots {
  uint32_t a, lda, x, incx, beta, y, incy;
};
constexpr GemvSlots kGemvSlots = {5, 6, 7, 8, 9, 11, 12};
constexpr GemvSlots kStridedGemvSlots = {5, 6, 8, 9, 11, 13, 14};

template <typename T>
void Gemv(const Values& v, const GemvSlots& at, const T* a, const T* x, T* y) {
  const T alpha = v.Scalar<T>(3), beta = v.Scalar<T>(at.beta);
  Of<T>().gemv(kColumnMajor, v.Transposed<T>(0), v.Int(1), v.Int(2), Pass(alpha), a, v.Int(at.lda),
               x, v.Int(at.incx), Pass(beta), y, v.Int(at.incy));
}

template <typename T>
void GemvBatched(const Values& v) {
  const GemvSlots& at = kGemvSlots;
  for (int i = 0; i < v.Int(13); ++i) {
    Gemv<T>(v, at, v.At<const T*>(at.a)[i], v.At<const T*>(at.x)[i], v.At<T*>(at.y)[i]);
  }
}

template <typename T>
void GemvStridedBatched(const Values& v) {
  const GemvSlots& at = kStridedGemvSlots;
  if (v.Int(1) == 0 || v.Int(2) == 0) return;  // The strides may be anything.
  for (int64_t i = 0; i < v.Int(16); ++i) {
    Gemv<T>(v, at, v.At<T>(at.a) + v.Long(7) * i, v.At<T>(at.x) + v.Long(10) * i,
            v.At<T>(at.y) + v.Long(15) * i);
  }
}

template <typename T, typename F>
void Ger(const Values& v, F function) {
  const T alpha = v.Scalar<T>(2);
  function(kColumnMajor, v.Int(0), v.Int(1), Pass(alpha), v.At<T>(4), v.Int(5), v.At<T>(6),
           v.Int(7), v.At<T>(8), v.Int(9));
}

template <typename T>
void Axpy(const Values& v) {
  const T alpha = v.Scalar<T>(1);
  Of<T>().axpy(v.Int(0), Pass(alpha), v.At<T>(3), v.Int(4), v.At<T>(5), v.Int(6));
}

template <typename T>
void Scal(const Values& v) {
  const T alpha = v.Scalar<T>(1);
  if (v.Int(4) > 0) Of<T>().scal(v.Int(0), Pass(alpha), v.At<T>(3), v.Int(4));
}

// By symm or hemm.
template <typename T, typename F>
void Symm(const Values& v, F function) {
  const T alpha = v.Scalar<T>(4), beta = v.Scalar<T>(10);
  function(kColumnMajor, v.Side(0), v.Triangle(1), v.Int(2), v.Int(3), Pass(alpha), v.At<T>(6),
           v.Int(7), v.At<T>(8), v.Int(9), Pass(beta), v.At<T>(12), v.Int(13));
}

template <typename T>
void Syrk(const Values& v) {
  const T alpha = v.Scalar<T>(4), beta = v.Scalar<T>(8);
  Of<T>().syrk(kColumnMajor, v.Triangle(0), v.Transposed<T>(1), v.Int(2), v.Int(3), Pass(alpha),
               v.At<T>(6), v.Int(7), Pass(beta), v.At<T>(10), v.Int(11));
}

template <typename T>
void Trsm(const Values& v, const T* a, T* b) {
  const T alpha = v.Scalar<T>(6);
  Of<T>().trsm(kColumnMajor, v.Side(0), v.Triangle(1), v.Transposed<T>(2), v.Diagonal(3), v.Int(4),
               v.Int(5), Pass(alpha), a, v.Int(9), b, v.Int(11));
}

template <typename T>
void Syr2k(const Values& v) {
  const T alpha = v.Scalar<T>(4), beta = v.Scalar<T>(10);
  Of<T>().syr2k(kColumnMajor, v.Triangle(0), v.Transposed<T>(1), v.Int(2), v.Int(3), Pass(alpha),
                v.At<T>(6), v.Int(7), v.At<T>(8), v.Int(9), Pass(beta), v.At<T>(12), v.Int(13));
}

template <typename T>
void Herk(const Values& v) {
  using Real = RealOf<T>;
  Of<T>().herk(kColumnMajor, v.Triangle(0), v.Transposed<T>(1), v.Int(2), v.Int(3),
               v.Scalar<Real>(4), v.At<T>(6), v.Int(7), v.Scalar<Real>(8), v.At<T>(10), v.Int(11));
}

template <typename T>
void Her2k(const Values& v) {
  const T alpha = v.Scalar<T>(4);
  Of<T>().her2k(kColumnMajor, v.Triangle(0), v.Transposed<T>(1), v.Int(2), v.Int(3), Pass(alpha),
                v.At<T>(6), v.Int(7), v.At<T>(8), v.Int(9), v.Scalar<RealOf<T>>(10), v.At<T>(12),
                v.Int(13));
}

template <typename T, typename F>
void TriangleTimes(const Values& v, F function) {
  function(kColumnMajor, v.Triangle(0), v.Transposed<T>(1), v.Diagonal(2), v.Int(3), v.At<T>(4),
           v.Int(5), v.At<T>(6), v.Int(7));
}

// CBLAS puts the result into B.
template <typename T>
void Trmm(const Values& v) {
  const T alpha = v.Scalar<T>(6);
  const T* const b = v.At<T>(10);
  T* const c = v.At<T>(12);
  const int64_t m = v.Int(4), ldb = v.Int(11), ldc = v.Int(13);
  if (m == 0) return;
  for (int64_t j = 0; j < v.Int(5); ++j) std::memmove(c + j * ldc, b + j * ldb, m * sizeof(T));
  Of<T>().trmm(kColumnMajor, v.Side(0), v.Triangle(1), v.Transposed<T>(2), v.Diagonal(3), v.Int(4),
               v.Int(5), Pass(alpha), v.At<T>(8), v.Int(9), c, v.Int(13));
}

// --- Functions that CBLAS lacks

template <typename T>
T Element(const T* matrix, int64_t leading, int op, int64_t i, int64_t j) {
  if (op == 0) return matrix[j * leading + i];
  const T element = matrix[i * leading + j];
  return op == 2 ? Conjugate(element) : element;
}

// The elements of a vector.
template <typename T>
class Vector {
 public:
  Vector(T* first, int64_t count, int64_t increment)
      : first_(increment > 0 ? first : first - (count - 1) * increment), increment_(increment) {}
  T& operator[](int64_t i) const { return first_[i * increment_]; }

 private:
  T* const first_;
  const int64_t increment_;
};

// Returns the element on the other side of the diagonal: of a Hermitian matrix it is the conjugate.
template <typename T>
T Mirrored(const T& value, bool hermitian) {
  return hermitian ? Conjugate(value) : value;
}

// y = alpha A x + beta y, where A is symmetric or Hermitian, and a triangle of it is there.
template <typename T>
void SymmetricTimes(const Values& v, bool hermitian) {
  const T alpha = v.Scalar<T>(2), beta = v.Scalar<T>(8);
  const bool upper = v.Int(0) != 0;
  const int64_t n = v.Int(1), lda = v.Int(5);
  const T* const a = v.At<const T>(4);
  const Vector<const T> x(v.At<const T>(6), n, v.Int(7));
  const Vector<T> y(v.At<T>(10), n, v.Int(11));
  for (int64_t i = 0; i < n; ++i) {
    T sum{};
    for (int64_t j = 0; j < n && alpha != T{}; ++j) {
      T element = upper == (i < j) ? a[j * lda + i] : Mirrored(a[i * lda + j], hermitian);
      if constexpr (kIsComplex<T>) {
        if (i == j) element = hermitian ? T(a[i * lda + i].real()) : a[i * lda + i];
      }
      sum += element * x[j];
    }
    y[i] = alpha * sum + (beta == T{} ? T{} : beta * y[i]);
  }
}

// Makes each element of a triangle of a symmetric or Hermitian matrix update(i, j, its old value).
template <typename T, typename F>
void UpdateTriangle(bool upper, int64_t n, T* a, int64_t lda, bool hermitian, F update) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = upper ? 0 : j; i < (upper ? j + 1 : n); ++i) {
      T& to = a[j * lda + i];
      to = update(i, j, to);
      // A Hermitian matrix has a real diagonal.
      if constexpr (kIsComplex<T>) {
        if (hermitian && i == j) to = to.real();
      }
    }
  }
}

// Adds element(i, j) to each element of the triangle.
template <typename T, typename F>
void AddToTriangle(const Values& v, T* a, int64_t lda, bool hermitian, F element) {
  UpdateTriangle<T>(v.Int(0) != 0, v.Int(1), a, lda, hermitian,
                    [&](int64_t i, int64_t j, const T& old) { return old + element(i, j); });
}

// A = alpha x x' + A, where S is the scalar's type.
template <typename T, typename S>
void AddSquare(const Values& v, bool hermitian) {
  const S alpha = v.Scalar<S>(2);
  if (alpha == S{}) return;
  const Vector<const T> x(v.At<const T>(4), v.Int(1), v.Int(5));
  AddToTriangle<T>(v, v.At<T>(6), v.Int(7), hermitian,
                   [&](int64_t i, int64_t j) { return alpha * x[i] * Mirrored(x[j], hermitian); });
}

// A = alpha x y' + alpha' y x' + A
template <typename T>
void AddTwoProducts(const Values& v, bool hermitian) {
  const T alpha = v.Scalar<T>(2);
  if (alpha == T{}) return;
  const Vector<const T> x(v.At<const T>(4), v.Int(1), v.Int(5));
  const Vector<const T> y(v.At<const T>(6), v.Int(1), v.Int(7));
  AddToTriangle<T>(v, v.At<T>(8), v.Int(9), hermitian, [&](int64_t i, int64_t j) {
    return alpha * x[i] * Mirrored(y[j], hermitian) +
           Mirrored(alpha, hermitian) * y[i] * Mirrored(x[j], hermitian);
  });
}

// A triangle of C = alpha op(A) op(B)' + beta C, where ' also conjugates if `conjugates`. B is the
// scalar beta's type.
template <typename T, typename B>
void TriangleOfProduct(const Values& v, bool conjugates) {
  const T alpha = v.Scalar<T>(4);
  const B beta = v.Scalar<B>(10);
  const int op = v.Int(1);
  const int64_t k = v.Int(3);
  UpdateTriangle<T>(v.Int(0) != 0, v.Int(2), v.At<T>(12), v.Int(13), conjugates,
                    [&](int64_t i, int64_t j, const T& old) {
                      T sum{};
                      for (int64_t l = 0; l < k && alpha != T{}; ++l) {
                        sum += Element(v.At<const T>(6), v.Int(7), op, i, l) *
                               Mirrored(Element(v.At<const T>(8), v.Int(9), op, j, l), conjugates);
                      }
                      return alpha * sum + (beta == B{} ? T{} : beta * old);
                    });
}

template <typename T>
void Geam(const Values& v) {
  const T alpha = v.Scalar<T>(4), beta = v.Scalar<T>(8);
  const int64_t m = v.Int(2), n = v.Int(3);
  if (m == 0) return;
  T* const c = v.At<T>(12);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) {
      T sum{};
      // BLAS does not read what is multiplied by zero.
      if (alpha != T{}) sum += alpha * Element(v.At<const T>(6), v.Int(7), v.Int(0), i, j);
      if (beta != T{}) sum += beta * Element(v.At<const T>(10), v.Int(11), v.Int(1), i, j);
      c[j * v.Int(13) + i] = sum;
    }
  }
}

template <typename T>
void Dgmm(const Values& v) {
  const bool right = v.Int(0) != 0;
  if (v.Int(1) == 0) return;
  for (int64_t j = 0; j < v.Int(2); ++j) {
    for (int64_t i = 0; i < v.Int(1); ++i) {
      const T factor = v.At<const T>(5)[(right ? j : i) * v.Int(6)];
      v.At<T>(7)[j * v.Int(8) + i] = v.At<const T>(3)[j * v.Int(4) + i] * factor;
    }
  }
}

// --- Choosing

template <typename T>
void RunFor(uint32_t row, const Values& v) {
  const Cblas<T>& blas = Of<T>();
  switch (row) {
    case kGemm:
    case kGemm3m:
      return Gemm<T>(v, kGemmSlots, WholePlaces(v, kGemmSlots));
    case kGemmStridedBatched:
      return ForEachStride(v, kStridedSlots, kStridedStrides, sizeof(T), sizeof(T),
                           [&](const GemmPlaces& places) { Gemm<T>(v, kStridedSlots, places); });
    case kGemmBatched:
      return ForEachAddress(v, kGemmSlots, kBatchedCount,
                            [&](const GemmPlaces& places) { Gemm<T>(v, kGemmSlots, places); });
    case kGemv:
      return Gemv<T>(v, kGemvSlots, v.At<T>(kGemvSlots.a), v.At<T>(kGemvSlots.x),
                     v.At<T>(kGemvSlots.y));
    case kGemvBatched:
      return GemvBatched<T>(v);
    case kGemvStridedBatched:
      return GemvStridedBatched<T>(v);
    case kTrsmBatched:
      for (int i = 0; i < v.Int(12); ++i) Trsm<T>(v, v.At<const T*>(8)[i], v.At<T*>(10)[i]);
      return;
    case kSyr2k:
      return Syr2k<T>(v);
    case kSyrkx:
      return TriangleOfProduct<T, T>(v, false);
    case kSymv:
      return SymmetricTimes<T>(v, false);
    case kSyr:
      return AddSquare<T, T>(v, false);
    case kSyr2:
      return AddTwoProducts<T>(v, false);
    case kTrmv:
      return TriangleTimes<T>(v, blas.trmv);
    case kTrsv:
      return TriangleTimes<T>(v, blas.trsv);
    case kAxpy:
      return Axpy<T>(v);
    case kScal:
      return Scal<T>(v);
    case kCopy:
      return blas.copy(v.Int(0), v.At<T>(1), v.Int(2), v.At<T>(3), v.Int(4));
    case kSwap:
      return blas.swap(v.Int(0), v.At<T>(1), v.Int(2), v.At<T>(3), v.Int(4));
    case kIamax: {
      // Without elements the result is 0.
      const bool none = v.Int(0) < 1 || v.Int(2) < 1;
      *v.At<int>(3) = none ? 0 : static_cast<int>(blas.amax(v.Int(0), v.At<T>(1), v.Int(2)) + 1);
      return;
    }
    case kSymm:
      return Symm<T>(v, blas.symm);
    case kSyrk:
      return Syrk<T>(v);
    case kTrsm:
      return Trsm<T>(v, v.At<T>(8), v.At<T>(10));
    case kTrmm:
      return Trmm<T>(v);
    case kGeam:
      return Geam<T>(v);
    case kDgmm:
      return Dgmm<T>(v);
    default:
      break;
  }
  if constexpr (kIsComplex<T>) {
    switch (row) {
      case kGeru:
        return Ger<T>(v, blas.geru);
      case kGerc:
        return Ger<T>(v, blas.gerc);
      case kHemm:
        return Symm<T>(v, blas.hemm);
      case kHerk:
        return Herk<T>(v);
      case kHer2k:
        return Her2k<T>(v);
      case kHerkx:
        return TriangleOfProduct<T, RealOf<T>>(v, true);
      case kHemv:
        return SymmetricTimes<T>(v, true);
      case kHer:
        return AddSquare<T, RealOf<T>>(v, true);
      case kHer2:
        return AddTwoProducts<T>(v, true);
      case kDotu:
        return blas.dotu_sub(v.Int(0), v.At<T>(1), v.Int(2), v.At<T>(3), v.Int(4), v.At<T>(5));
      case kDotc:
        return blas.dotc_sub(v.Int(0), v.At<T>(1), v.Int(2), v.At<T>(3), v.Int(4), v.At<T>(5));
      default:
        return;
    }
  } else {
    switch (row) {
      case kGer:
        return Ger<T>(v, blas.ger);
      case kDot:
        *v.At<T>(5) = blas.dot(v.Int(0), v.At<T>(1), v.Int(2), v.At<T>(3), v.Int(4));
        return;
      case kNrm2:
        *v.At<T>(3) = v.Int(2) < 1 ? T{} : blas.nrm2(v.Int(0), v.At<T>(1), v.Int(2));
        return;
      case kAsum:
        *v.At<T>(3) = v.Int(2) < 1 ? T{} : blas.asum(v.Int(0), v.At<T>(1), v.Int(2));
        return;
      default:
        return;
    }
  }
}

// The functions for half precision, and those whose parameters say the types.
void RunForTypes(uint32_t row, const Values& v) {
  const auto half = [&](const GemmSlots& at) {
    return [&v, &at](const GemmPlaces& places) {
      GemmOf16<HalfFormat<10>>(v, at, false, v.Half(5), v.Half(at.beta), places);
    };
  };
  const auto ex = [&](const ExSlots& at) {
    return [&v, &at](const GemmPlaces& places) { GemmEx(v, at, places); };
  };
  switch (row) {
    case kHgemm:
      return half(kGemmSlots)(WholePlaces(v, kGemmSlots));
    case kHgemmStridedBatched:
      return ForEachStride(v, kStridedSlots, kStridedStrides, 2, 2, half(kStridedSlots));
    case kGemmBatched:
      return ForEachAddress(v, kGemmSlots, kBatchedCount, half(kGemmSlots));
    case kGemmEx:
      return ex(kExSlots)(WholePlaces(v, kExSlots.gemm));
    case kGemmStridedBatchedEx:
      return ForEachStride(v, kStridedExSlots.gemm, kStridedExStrides,
                           BlasTypeBytes(v.Int(kStridedExSlots.a_type)),
                           BlasTypeBytes(v.Int(kStridedExSlots.c_type)), ex(kStridedExSlots));
    case kGemmBatchedEx:
      return ForEachAddress(v, kBatchedExSlots.gemm, kBatchedExCount, ex(kBatchedExSlots));
    default:
      return;
  }
}

}  // namespace

const Blas* Blas::Get() {
  static const Blas* const blas = Load() ? new Blas : nullptr;
  return blas;
}

bool Blas::Has(const BlasCall& call) const {
  const Values v(call);
  switch (call.function) {
    case kGemmEx:
      return HasEx(v, kExSlots);
    case kGemmStridedBatchedEx:
      return HasEx(v, kStridedExSlots);
    case kGemmBatchedEx:
      return HasEx(v, kBatchedExSlots);
    case kLtMatmul:
      return HasLtMatmul(call.values);
    default:
      break;
  }
  const LibraryFunction* const function = FindLibraryFunction(call.function);
  if (function == nullptr) return false;
  if (function->letter == 'H') return ConvertedBytes(v) <= kMostConverted;
  const bool complex = function->letter == 'C' || function->letter == 'Z';
  switch (function->row) {
    // Symmetric products have no conjugates, Hermitian ones no transposed matrices without.
    case kSyrk:
    case kSyr2k:
    case kSyrkx:
      return !complex || v.Int(1) < 2;
    case kHerk:
    case kHer2k:
    case kHerkx:
      return v.Int(1) != 1;
    default:
      return true;
  }
}

bool Blas::HasProduct(absl::Span<const uint64_t> values) { return HasLtMatmul(values); }

void Blas::Run(const BlasCall& call) const {
  if (call.function == kLtMatmul) {
    return RunLtMatmul(call.values, call.modes, {all.d.gemm, all.z.gemm});
  }
  const Values v(call);
  const LibraryFunction& function = *FindLibraryFunction(call.function);
  switch (function.letter) {
    case 'S':
      return RunFor<float>(function.row, v);
    case 'D':
      return RunFor<double>(function.row, v);
    case 'C':
      return RunFor<std::complex<float>>(function.row, v);
    case 'Z':
      return RunFor<std::complex<double>>(function.row, v);
    default:
      return RunForTypes(function.row, v);
  }
}

}  // namespace warpline::cpu
