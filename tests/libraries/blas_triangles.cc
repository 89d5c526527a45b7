// Checks of functions of symmetric, Hermitian and triangular matrices.
#include <algorithm>
#include <complex>
#include <string>
#include <vector>

#include "tests/libraries/blas_checks.h"

namespace warpline::blas_checks {
namespace {

template <typename T>
using RealOf = typename Traits<T>::Real;

// The elements of a vector whose increment may be negative.
size_t Place(int count, int increment, int i) {
  return static_cast<size_t>(increment > 0 ? i * increment : (i - count + 1) * increment);
}

int Increment() { return (1 + Below(3)) * (Below(2) == 0 ? 1 : -1); }

size_t Spread(int count, int increment) {
  return static_cast<size_t>(count - 1) * std::abs(increment) + 1;
}

template <typename T>
T Mirrored(T value, bool hermitian) {
  return hermitian ? Conjugate(value) : value;
}

// Adds element(i, j) to a triangle of C, whose former content is multiplied by beta.
template <typename T, typename F>
void UpdateTriangle(std::vector<T>* c, int ldc, int n, bool upper, bool hermitian, T beta,
                    F element) {
  for (int j = 0; j < n; ++j) {
    for (int i = upper ? 0 : j; i < (upper ? j + 1 : n); ++i) {
      T& to = (*c)[static_cast<size_t>(j) * ldc + i];
      if (hermitian && i == j) to = T(std::real(to));
      to = beta * to + element(i, j);
      if (hermitian && i == j) to = T(std::real(to));
    }
  }
}

// A matrix with real numbers on its diagonal if `hermitian`: libraries differ in what they make of
// others.
template <typename T>
void RealDiagonal(Memory<T>* matrix, int order, int leading, bool hermitian) {
  for (int i = 0; i < order && hermitian; ++i) {
    T& to = matrix->host[static_cast<size_t>(i) * leading + i];
    to = T(std::real(to));
  }
  matrix->Write();
}

// syrk, syr2k and syrkx, or herk, her2k and herkx.
template <typename T>
void RankUpdates(bool hermitian) {
  const int upper = Below(2), n = 1 + Below(40), k = 1 + Below(40);
  const int op = Below(2) == 0 ? 0 : hermitian ? 2 : 1;
  const int rows = op == 0 ? n : k, columns = op == 0 ? k : n;
  const int lda = rows + Below(3), ldb = rows + Below(3), ldc = n + Below(3);
  Memory<T> a(Extent(rows, columns, lda)), b(Extent(rows, columns, ldb)), c(Extent(n, n, ldc));
  RealDiagonal(&c, n, ldc, hermitian);
  const T alpha = T(2), beta = T(3);
  const bool device = Below(2) == 1;
  const Scalar<T> whole_alpha(alpha, device), whole_beta(beta, device);
  const Scalar<RealOf<T>> real_alpha(2, device), real_beta(3, device);
  const std::string prefix = hermitian ? "her" : "syr";
  const auto at = [&](const Scalar<T>& whole, const Scalar<RealOf<T>>& real) -> const void* {
    if (hermitian) return real.at();
    return whole.at();
  };
  const void* const beta_at = at(whole_beta, real_beta);
  const void* const alpha_at = at(whole_alpha, real_alpha);
  SetPointerMode(device);
  std::vector<T> want = c.host;
  const auto dot = [&](const std::vector<T>& x, int ldx, const std::vector<T>& y, int ldy, int i,
                       int j) {
    T sum{};
    for (int l = 0; l < k; ++l) {
      sum += Element(x, ldx, op, i, l) * Mirrored(Element(y, ldy, op, j, l), hermitian);
    }
    return sum;
  };
  Must(BLAS(Name<T>((prefix + "k_v2").c_str()), int, int, int, int, const void*, const T*, int,
            const void*, T*,
            int)(handle, upper, op, n, k, alpha_at, a.at(), lda, beta_at, c.at(), ldc),
       "syrk");
  UpdateTriangle(&want, ldc, n, upper == 1, hermitian, beta,
                 [&](int i, int j) { return alpha * dot(a.host, lda, a.host, lda, i, j); });
  Compare(Name<T>((prefix + "k").c_str()), c.Read(), want, 8 * (k + 1));
  Must(BLAS(Name<T>((prefix + "2k_v2").c_str()), int, int, int, int, const T*, const T*, int,
            const T*, int, const void*, T*, int)(handle, upper, op, n, k, whole_alpha.at(), a.at(),
                                                 lda, b.at(), ldb, beta_at, c.at(), ldc),
       "syr2k");
  UpdateTriangle(&want, ldc, n, upper == 1, hermitian, beta, [&](int i, int j) {
    return alpha * dot(a.host, lda, b.host, ldb, i, j) +
           Mirrored(alpha, hermitian) * dot(b.host, ldb, a.host, lda, i, j);
  });
  Compare(Name<T>((prefix + "2k").c_str()), c.Read(), want, 64 * (k + 1));
  Must(BLAS(Name<T>((prefix + "kx").c_str()), int, int, int, int, const T*, const T*, int, const T*,
            int, const void*, T*, int)(handle, upper, op, n, k, whole_alpha.at(), a.at(), lda,
                                       a.at(), lda, beta_at, c.at(), ldc),
       "syrkx");
  UpdateTriangle(&want, ldc, n, upper == 1, hermitian, beta,
                 [&](int i, int j) { return alpha * dot(a.host, lda, a.host, lda, i, j); });
  Compare(Name<T>((prefix + "kx").c_str()), c.Read(), want, 256 * (k + 1));
  SetPointerMode(false);
}

// symv, syr and syr2, or hemv, her and her2.
template <typename T>
void WithVectors(bool hermitian) {
  const int upper = Below(2), n = 1 + Below(60), lda = n + Below(3);
  const int incx = Increment(), incy = Increment();
  Memory<T> a(Extent(n, n, lda)), x(Spread(n, incx)), y(Spread(n, incy));
  RealDiagonal(&a, n, lda, hermitian);
  const T alpha = T(2), beta = T(3);
  const RealOf<T> real_alpha = 2;
  const auto x_at = [&](int i) { return x.host[Place(n, incx, i)]; };
  const std::string multiply = Name<T>(hermitian ? "hemv_v2" : "symv_v2");
  const std::string once = Name<T>(hermitian ? "her_v2" : "syr_v2");
  const std::string twice = Name<T>(hermitian ? "her2_v2" : "syr2_v2");
  Must(BLAS(multiply, int, int, const T*, const T*, int, const T*, int, const T*, T*, int)(
           handle, upper, n, &alpha, a.at(), lda, x.at(), incx, &beta, y.at(), incy),
       "symv");
  std::vector<T> product = y.host;
  for (int i = 0; i < n; ++i) {
    T sum{};
    for (int j = 0; j < n; ++j) {
      sum += Symmetric(a.host, lda, upper == 1, hermitian, i, j) * x_at(j);
    }
    T& to = product[Place(n, incy, i)];
    to = alpha * sum + beta * to;
  }
  Compare(multiply, y.Read(), product, 8 * (n + 1));
  y.Write();
  const auto y_at = [&](int i) { return y.host[Place(n, incy, i)]; };
  std::vector<T> want = a.host;
  Must(BLAS(once, int, int, const void*, const T*, int, T*, int)(
           handle, upper, n, hermitian ? static_cast<const void*>(&real_alpha) : &alpha, x.at(),
           incx, a.at(), lda),
       "syr");
  UpdateTriangle(&want, lda, n, upper == 1, hermitian, T(1),
                 [&](int i, int j) { return alpha * x_at(i) * Mirrored(x_at(j), hermitian); });
  Compare(once, a.Read(), want, 32);
  Must(BLAS(twice, int, int, const T*, const T*, int, const T*, int, T*, int)(
           handle, upper, n, &alpha, x.at(), incx, y.at(), incy, a.at(), lda),
       "syr2");
  UpdateTriangle(&want, lda, n, upper == 1, hermitian, T(1), [&](int i, int j) {
    return alpha * x_at(i) * Mirrored(y_at(j), hermitian) +
           Mirrored(alpha, hermitian) * y_at(i) * Mirrored(x_at(j), hermitian);
  });
  Compare(twice, a.Read(), want, 64);
}

// trsv, and trmv back again.
template <typename T>
void TrianglesOfVectors() {
  const int upper = Below(2), op = Below(3), unit = Below(2), n = 1 + Below(60), lda = n + Below(3);
  const int incx = Increment();
  Memory<T> a(Extent(n, n, lda)), x(Spread(n, incx));
  for (T& element : a.host) element /= T(n);  // A unit triangle's solution stays small.
  for (int i = 0; i < n; ++i) a.host[static_cast<size_t>(i) * lda + i] += T(3);
  a.Write();
  for (const char* const name : {"trsv_v2", "trmv_v2"}) {
    Must(BLAS(Name<T>(name), int, int, int, int, const T*, int, T*, int)(handle, upper, op, unit, n,
                                                                         a.at(), lda, x.at(), incx),
         name);
  }
  Compare(Name<T>("trsv and trmv"), x.Read(), x.host, 64.0 * n);
  // The product by itself.
  std::vector<T> want = x.Read();
  const std::vector<T> before = want;
  Must(BLAS(Name<T>("trmv_v2"), int, int, int, int, const T*, int, T*, int)(
           handle, upper, op, unit, n, a.at(), lda, x.at(), incx),
       "trmv");
  for (int i = 0; i < n; ++i) {
    T sum{};
    for (int j = 0; j < n; ++j) {
      const int row = op == 0 ? i : j, column = op == 0 ? j : i;
      if (row != column && (upper == 1) != (row < column)) continue;
      const T element = i == j && unit == 1 ? T(1) : Element(a.host, lda, op, i, j);
      sum += element * before[Place(n, incx, j)];
    }
    want[Place(n, incx, i)] = sum;
  }
  Compare(Name<T>("trmv"), x.Read(), want, 16.0 * n);
}

// hemm, by the whole matrix, and the product with three multiplications.
template <typename T>
void ComplexProducts() {
  const int side = Below(2), upper = Below(2), m = 1 + Below(40), n = 1 + Below(40);
  const int order = side == 0 ? m : n, lda = order + Below(3), ldb = m + Below(3), ldc = m;
  Memory<T> a(Extent(order, order, lda)), b(Extent(m, n, ldb)), c(Extent(m, n, ldc)),
      d(static_cast<size_t>(n) * n);
  RealDiagonal(&a, order, lda, true);
  const T alpha = T(1, 2), beta = T(2, 1);
  Must(BLAS(Name<T>("hemm_v2"), int, int, int, int, const T*, const T*, int, const T*, int,
            const T*, T*,
            int)(handle, side, upper, m, n, &alpha, a.at(), lda, b.at(), ldb, &beta, c.at(), ldc),
       "hemm");
  std::vector<T> full(static_cast<size_t>(order) * order), want = c.host;
  for (int j = 0; j < order; ++j) {
    for (int i = 0; i < order; ++i) {
      full[static_cast<size_t>(j) * order + i] = Symmetric(a.host, lda, upper == 1, true, i, j);
    }
  }
  if (side == 0) {
    Multiply(0, 0, m, n, order, alpha, full, order, 0, b.host, ldb, 0, beta, &want, ldc, 0);
  } else {
    Multiply(0, 0, m, n, order, alpha, b.host, ldb, 0, full, order, 0, beta, &want, ldc, 0);
  }
  Compare(Name<T>("hemm"), c.Read(), want, 8 * (order + 1));
  Must(BLAS(Name<T>("gemm3m"), int, int, int, int, int, const T*, const T*, int, const T*, int,
            const T*, T*,
            int)(handle, 2, 0, n, n, m, &alpha, b.at(), ldb, b.at(), ldb, &beta, d.at(), n),
       "gemm3m");
  want = d.host;
  Multiply(2, 0, n, n, m, alpha, b.host, ldb, 0, b.host, ldb, 0, beta, &want, n, 0);
  Compare(Name<T>("gemm3m"), d.Read(), want, 32 * (m + 1));
}

template <typename T>
void All() {
  RankUpdates<T>(false);
  WithVectors<T>(false);
  TrianglesOfVectors<T>();
  if constexpr (kComplex<T>) {
    RankUpdates<T>(true);
    WithVectors<T>(true);
    ComplexProducts<T>();
  }
}

}  // namespace

void CheckTriangles() {
  All<float>();
  All<double>();
  All<std::complex<float>>();
  All<std::complex<double>>();
}

}  // namespace warpline::blas_checks
