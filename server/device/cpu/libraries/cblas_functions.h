// The functions of CBLAS that are used, for each type of element, as pointers that are filled when
// a library is loaded.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_CBLAS_FUNCTIONS_H_
#define WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_CBLAS_FUNCTIONS_H_

#include <complex>
#include <cstddef>
#include <type_traits>

namespace warpline::cpu {

// Numbers of CBLAS's enumerations.
enum CblasNumber : int {
  kColumnMajor = 102,
  kPlain = 111,  // 112 is transposed, 113 that of the conjugates.
  kUpper = 121,
  kLower = 122,
  kNonUnit = 131,
  kUnit = 132,
  kLeft = 141,
  kRight = 142,
};

template <typename T>
constexpr bool kIsComplex = !std::is_floating_point_v<T>;
template <typename T>
struct RealOfComplex {
  using Type = T;
};
template <typename T>
struct RealOfComplex<std::complex<T>> {
  using Type = T;
};
template <typename T>
using RealOf = typename RealOfComplex<T>::Type;

// Scalars of complex types are passed by their addresses, the others by value.
template <typename T>
using ScalarOf = std::conditional_t<kIsComplex<T>, const T*, T>;

// Their names are "cblas_", the letter of the type, and the member's name.
template <typename T>
struct Cblas {
  using S = ScalarOf<T>;
  void (*gemm)(int, int, int, int, int, int, S, const T*, int, const T*, int, S, T*, int);
  void (*gemv)(int, int, int, int, S, const T*, int, const T*, int, S, T*, int);
  void (*axpy)(int, S, const T*, int, T*, int);
  void (*scal)(int, S, T*, int);
  void (*copy)(int, const T*, int, T*, int);
  void (*swap)(int, T*, int, T*, int);
  size_t (*amax)(int, const T*, int);  // cblas_isamax and so on; counts from 0.
  void (*symm)(int, int, int, int, int, S, const T*, int, const T*, int, S, T*, int);
  void (*syrk)(int, int, int, int, int, S, const T*, int, S, T*, int);
  void (*syr2k)(int, int, int, int, int, S, const T*, int, const T*, int, S, T*, int);
  void (*trmv)(int, int, int, int, int, const T*, int, T*, int);
  void (*trsv)(int, int, int, int, int, const T*, int, T*, int);
  void (*trsm)(int, int, int, int, int, int, int, S, const T*, int, T*, int);
  void (*trmm)(int, int, int, int, int, int, int, S, const T*, int, T*, int);
  // Real types only:
  void (*ger)(int, int, int, S, const T*, int, const T*, int, T*, int);
  T (*dot)(int, const T*, int, const T*, int);
  T (*nrm2)(int, const T*, int);
  T (*asum)(int, const T*, int);
  // Complex types only; the scalars of type R are real:
  using R = RealOf<T>;
  void (*hemm)(int, int, int, int, int, S, const T*, int, const T*, int, S, T*, int);
  void (*herk)(int, int, int, int, int, R, const T*, int, R, T*, int);
  void (*her2k)(int, int, int, int, int, S, const T*, int, const T*, int, R, T*, int);
  void (*geru)(int, int, int, S, const T*, int, const T*, int, T*, int);
  void (*gerc)(int, int, int, S, const T*, int, const T*, int, T*, int);
  void (*dotu_sub)(int, const T*, int, const T*, int, T*);
  void (*dotc_sub)(int, const T*, int, const T*, int, T*);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_CBLAS_FUNCTIONS_H_
