// Calls functions of cuBLAS with matrices of many shapes, and compares with loops.
//
//   cublas_program [ROUNDS] [--edges]
//
// The libraries are found as a program finds them: libcuda.so.1 and libcublas.so.13. Runs natively
// as well, also with what follows each operand not mapped (--edges). Exits with 0 when everything
// is right, 2 when there is no cuBLAS, else 1.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/libraries/blas_checks.h"

namespace warpline::blas_checks {
namespace {

template <typename T>
void Gemm() {
  const int ta = Below(3), tb = Below(3), m = Below(70), n = Below(70), k = Below(70);
  const int lda = std::max(1, ta == 0 ? m : k) + Below(4),
            ldb = std::max(1, tb == 0 ? k : n) + Below(4);
  const int ldc = std::max(1, m) + Below(4);
  const int batch = 1 + Below(3);
  const long long sa = Extent(ta == 0 ? m : k, ta == 0 ? k : m, lda) + Below(3),
                  sb = Extent(tb == 0 ? k : n, tb == 0 ? n : k, ldb) + Below(3),
                  sc = Extent(m, n, ldc) + Below(3);
  Memory<T> a(sa * batch), b(sb * batch), c(sc * batch);
  const bool device = Below(2) == 1;
  const Scalar<T> alpha(T(2), device), beta(T(Below(2)), device);
  SetPointerMode(device);
  const T beta_value = beta.at() != nullptr && !device ? *beta.at() : T{};
  std::vector<T> want = c.host;
  const T used_beta = device ? T{} : beta_value;
  const Scalar<T> zero(T{}, device);
  const T* const beta_at = device ? zero.at() : beta.at();
  const char* const where = device ? " (scalars on the device)" : "";
  Must(BLAS(Name<T>("gemm_v2"), int, int, int, int, int, const T*, const T*, int, const T*, int,
            const T*, T*, int)(handle, ta, tb, m, n, k, alpha.at(), a.at(), lda, b.at(), ldb,
                               beta_at, c.at(), ldc),
       "gemm");
  Multiply(ta, tb, m, n, k, T(2), a.host, lda, 0, b.host, ldb, 0, used_beta, &want, ldc, 0);
  Compare(Name<T>("gemm") + where, c.Read(), want, 4 * (k + 1));
  c.host = want;
  c.Write();
  Must(BLAS(Name<T>("gemmStridedBatched"), int, int, int, int, int, const T*, const T*, int,
            long long, const T*, int, long long, const T*, T*, int, long long,
            int)(handle, ta, tb, m, n, k, alpha.at(), a.at(), lda, sa, b.at(), ldb, sb, beta_at,
                 c.at(), ldc, sc, batch),
       "gemmStridedBatched");
  for (int i = 0; i < batch; ++i) {
    Multiply(ta, tb, m, n, k, T(2), a.host, lda, sa * i, b.host, ldb, sb * i, used_beta, &want, ldc,
             sc * i);
  }
  Compare(Name<T>("gemmStridedBatched") + where, c.Read(), want, 8 * (k + 1) + 4);
  SetPointerMode(false);
}

template <typename T>
void Gemv() {
  const int op = Below(3), m = 1 + Below(90), n = 1 + Below(90), lda = m + Below(3);
  const int incx = (1 + Below(3)) * (Below(2) == 0 ? 1 : -1), incy = 1 + Below(3);
  const int x_count = op == 0 ? n : m, y_count = op == 0 ? m : n;
  Memory<T> a(Extent(m, n, lda)), x((x_count - 1) * std::abs(incx) + 1),
      y((y_count - 1) * incy + 1);
  const T alpha = T(2), beta = T(1);
  Must(BLAS(Name<T>("gemv_v2"), int, int, int, const T*, const T*, int, const T*, int, const T*, T*,
            int)(handle, op, m, n, &alpha, a.at(), lda, x.at(), incx, &beta, y.at(), incy),
       "gemv");
  std::vector<T> want = y.host;
  for (int i = 0; i < y_count; ++i) {
    T sum{};
    for (int j = 0; j < x_count; ++j) {
      const int place = incx > 0 ? j * incx : (j - x_count + 1) * incx;
      sum += Element(a.host, lda, op, i, j) * x.host[place];
    }
    want[i * incy] += alpha * sum;
  }
  Compare(Name<T>("gemv"), y.Read(), want, 4 * (x_count + 1));
}

template <typename T>
void Vectors() {
  const int n = 1 + Below(300), inc = 1 + Below(3);
  Memory<T> x((n - 1) * inc + 1), y((n - 1) * inc + 1);
  const T alpha = T(3);
  std::vector<T> want_x = x.host, want_y = y.host;
  const auto each = [&](auto function) {
    for (int i = 0; i < n; ++i) function(want_x[i * inc], want_y[i * inc]);
  };
  Must(BLAS(Name<T>("axpy_v2"), int, const T*, const T*, int, T*, int)(handle, n, &alpha, x.at(),
                                                                       inc, y.at(), inc),
       "axpy");
  each([&](T& a, T& b) { b += alpha * a; });
  Compare(Name<T>("axpy"), y.Read(), want_y, 8);
  Must(BLAS(Name<T>("scal_v2"), int, const T*, T*, int)(handle, n, &alpha, x.at(), inc), "scal");
  each([&](T& a, T&) { a *= alpha; });
  Compare(Name<T>("scal"), x.Read(), want_x, 8);
  Must(BLAS(Name<T>("swap_v2"), int, T*, int, T*, int)(handle, n, x.at(), inc, y.at(), inc),
       "swap");
  each([&](T& a, T& b) { std::swap(a, b); });
  Compare(Name<T>("swap"), x.Read(), want_x, 8);
  Compare(Name<T>("swap"), y.Read(), want_y, 8);
  // Results in host memory, and on the device.
  T sum{}, result{};
  each([&](T& a, T& b) { sum += a * b; });
  const std::string dot = Name<T>(kComplex<T> ? "dotu_v2" : "dot_v2");
  const auto call = BLAS(dot, int, const T*, int, const T*, int, T*);
  Must(call(handle, n, x.at(), inc, y.at(), inc, &result), "dot");
  Compare<T>(dot, {result}, {sum}, 16.0 * n);
  Memory<T> on_device(1);
  SetPointerMode(true);
  Must(call(handle, n, x.at(), inc, y.at(), inc, on_device.at()), "dot");
  SetPointerMode(false);
  Compare<T>(dot + " (on the device)", on_device.Read(), {sum}, 16.0 * n);
  int place = 0;
  std::string amax = "cublasI";
  amax += static_cast<char>(std::tolower(Traits<T>::kLetter));
  Must(BLAS(amax + "amax_v2", int, const T*, int, int*)(handle, n, x.at(), inc, &place), "amax");
  const auto size = [](T value) {
    if constexpr (kComplex<T>)
      return std::abs(value.real()) + std::abs(value.imag());
    else
      return std::abs(value);
  };
  int largest = 0;
  for (int i = 1; i < n; ++i) {
    if (size(want_x[i * inc]) > size(want_x[largest * inc])) largest = i;
  }
  ++checks;
  if (place < 1 || place > n || size(want_x[(place - 1) * inc]) != size(want_x[largest * inc])) {
    std::printf("%samax: %d, not %d\n", amax.c_str(), place, largest + 1);
    ++wrong;
  }
  if constexpr (!kComplex<T>) {
    T norm{}, squares{}, absolute{}, all{};
    each([&](T& a, T&) {
      squares += a * a;
      all += std::abs(a);
    });
    Must(BLAS(Name<T>("nrm2_v2"), int, const T*, int, T*)(handle, n, x.at(), inc, &norm), "nrm2");
    Must(BLAS(Name<T>("asum_v2"), int, const T*, int, T*)(handle, n, x.at(), inc, &absolute),
         "asum");
    Compare<T>(Name<T>("nrm2"), {norm}, {std::sqrt(squares)}, 16.0 * n);
    Compare<T>(Name<T>("asum"), {absolute}, {all}, 16.0 * n);
  }
}

// Functions whose parameters say the types.
template <typename T>
void TypedVectors(int type) {
  const int n = 1 + Below(100);
  Memory<T> x(n), y(n);
  std::vector<T> want_x = x.host, want_y = y.host;
  const T alpha = T(3);
  Must(BLAS("cublasScalEx", int, const void*, int, void*, int, int, int)(handle, n, &alpha, type,
                                                                         x.at(), type, 1, type),
       "ScalEx");
  for (T& value : want_x) value *= alpha;
  Compare("ScalEx", x.Read(), want_x, 8);
  Must(BLAS("cublasAxpyEx", int, const void*, int, const void*, int, int, void*, int, int, int)(
           handle, n, &alpha, type, x.at(), type, 1, y.at(), type, 1, type),
       "AxpyEx");
  for (int i = 0; i < n; ++i) want_y[i] += alpha * want_x[i];
  Compare("AxpyEx", y.Read(), want_y, 16);
  for (const char* const name : {"cublasDotEx", "cublasDotcEx"}) {
    const bool conjugate = name == std::string("cublasDotcEx");
    T result{}, want{};
    Must(BLAS(name, int, const void*, int, int, const void*, int, int, void*, int, int)(
             handle, n, x.at(), type, 1, y.at(), type, 1, &result, type, type),
         name);
    for (int i = 0; i < n; ++i) {
      want += (conjugate ? Conjugate(want_x[i]) : want_x[i]) * want_y[i];
    }
    Compare<T>(name, {result}, {want}, 64.0 * n);
  }
  if constexpr (!kComplex<T>) {
    T norm{}, squares{};
    for (const T value : want_x) squares += value * value;
    Must(BLAS("cublasNrm2Ex", int, const void*, int, int, void*, int, int)(handle, n, x.at(), type,
                                                                           1, &norm, type, type),
         "Nrm2Ex");
    Compare<T>("Nrm2Ex", {norm}, {std::sqrt(squares)}, 16.0 * n);
  }
}

template <typename T>
void Triangles() {
  const int side = Below(2), upper = Below(2), op = Below(3), m = 1 + Below(40), n = 1 + Below(40);
  const int order = side == 0 ? m : n, lda = order + Below(3), ldb = m + Below(3);
  Memory<T> a(Extent(order, order, lda)), b(Extent(m, n, ldb)), c(Extent(m, n, ldb));
  for (int i = 0; i < order; ++i) a.host[static_cast<size_t>(i) * lda + i] += T(order + 2);
  a.Write();
  const T one = T(1), none{};
  // X such that op(A) X = B, then the product again.
  Must(BLAS(Name<T>("trsm_v2"), int, int, int, int, int, int, const T*, const T*, int, T*, int)(
           handle, side, upper, op, 0, m, n, &one, a.at(), lda, b.at(), ldb),
       "trsm");
  Must(
      BLAS(Name<T>("trmm_v2"), int, int, int, int, int, int, const T*, const T*, int, const T*, int,
           T*, int)(handle, side, upper, op, 0, m, n, &one, a.at(), lda, b.at(), ldb, c.at(), ldb),
      "trmm");
  std::vector<T> want = c.host;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      want[static_cast<size_t>(j) * ldb + i] = b.host[static_cast<size_t>(j) * ldb + i];
    }
  }
  Compare(Name<T>("trsm and trmm"), c.Read(), want, 64.0 * order);
  // A symmetric product, by the whole matrix.
  Memory<T> d(Extent(m, n, ldb));
  std::vector<T> full(a.host.size());
  for (int j = 0; j < order; ++j) {
    for (int i = 0; i < order; ++i) {
      const bool stored = upper == 1 ? i <= j : i >= j;
      full[static_cast<size_t>(j) * lda + i] = Element(a.host, lda, stored ? 0 : 1, i, j);
    }
  }
  Must(
      BLAS(Name<T>("symm_v2"), int, int, int, int, const T*, const T*, int, const T*, int, const T*,
           T*, int)(handle, side, upper, m, n, &one, a.at(), lda, c.at(), ldb, &none, d.at(), ldb),
      "symm");
  want = d.host;
  const std::vector<T> factor = c.Read();
  if (side == 0) {
    Multiply(0, 0, m, n, order, one, full, lda, 0, factor, ldb, 0, none, &want, ldb, 0);
  } else {
    Multiply(0, 0, m, n, order, one, factor, ldb, 0, full, lda, 0, none, &want, ldb, 0);
  }
  Compare(Name<T>("symm"), d.Read(), want, 16.0 * order * order);
}

template <typename T>
void Sums() {
  const int ta = Below(3), tb = Below(3), m = 1 + Below(50), n = 1 + Below(50);
  const int lda = (ta == 0 ? m : n) + Below(3), ldb = (tb == 0 ? m : n) + Below(3), ldc = m;
  Memory<T> a(Extent(ta == 0 ? m : n, ta == 0 ? n : m, lda)),
      b(Extent(tb == 0 ? m : n, tb == 0 ? n : m, ldb)), c(Extent(m, n, ldc)), x(std::max(m, n));
  const T alpha = T(2), beta = T(3);
  Must(BLAS(Name<T>("geam"), int, int, int, int, const T*, const T*, int, const T*, const T*, int,
            T*, int)(handle, ta, tb, m, n, &alpha, a.at(), lda, &beta, b.at(), ldb, c.at(), ldc),
       "geam");
  std::vector<T> want = c.host;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      want[static_cast<size_t>(j) * ldc + i] =
          alpha * Element(a.host, lda, ta, i, j) + beta * Element(b.host, ldb, tb, i, j);
    }
  }
  Compare(Name<T>("geam"), c.Read(), want, 8);
  const int side = Below(2);
  Memory<T> d(Extent(m, n, ldc));
  Must(BLAS(Name<T>("dgmm"), int, int, int, const T*, int, const T*, int, T*, int)(
           handle, side, m, n, c.at(), ldc, x.at(), 1, d.at(), ldc),
       "dgmm");
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) want[static_cast<size_t>(j) * ldc + i] *= x.host[side == 0 ? i : j];
  }
  Compare(Name<T>("dgmm"), d.Read(), want, 16);
  const std::string ger = Name<T>(kComplex<T> ? "geru_v2" : "ger_v2");
  Memory<T> y(n);
  Must(BLAS(ger, int, int, const T*, const T*, int, const T*, int, T*, int)(
           handle, m, n, &alpha, x.at(), 1, y.at(), 1, d.at(), ldc),
       "ger");
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      want[static_cast<size_t>(j) * ldc + i] += alpha * x.host[i] * y.host[j];
    }
  }
  Compare(ger, d.Read(), want, 32);
}

// Matrices of small whole numbers, which 16-bit types hold exactly.
void GemmEx() {
  const int m = 8 * (1 + Below(8)), n = 8 * (1 + Below(8)), k = 8 * (1 + Below(8));
  for (const int type : {2, 14}) {
    std::vector<float> a(static_cast<size_t>(m) * k), b(static_cast<size_t>(k) * n);
    Memory<float> c(static_cast<size_t>(m) * n), a16(a.size() / 2), b16(b.size() / 2);
    const auto fill = [&](std::vector<float>* values, Memory<float>* memory) {
      auto* const halves = reinterpret_cast<uint16_t*>(memory->host.data());
      for (size_t i = 0; i < values->size(); ++i) {
        const int value = Below(9) - 4;
        (*values)[i] = static_cast<float>(value);
        halves[i] = Encoded(type, value);
      }
      memory->Write();
    };
    fill(&a, &a16);
    fill(&b, &b16);
    const float alpha = 1, beta = 0;
    Must(BLAS("cublasGemmEx", int, int, int, int, int, const void*, const void*, int, int,
              const void*, int, int, const void*, void*, int, int, int,
              int)(handle, 0, 0, m, n, k, &alpha, a16.at(), type, m, b16.at(), type, k, &beta,
                   c.at(), 0, m, 68, -1),
         "cublasGemmEx");
    std::vector<float> want = c.host;
    Multiply(0, 0, m, n, k, alpha, a, m, 0, b, k, 0, beta, &want, m, 0);
    Compare(type == 2 ? "cublasGemmEx of half" : "cublasGemmEx of bfloat16", c.Read(), want, 1);
  }
}

// Vectors that go backwards, and are called on a thread without a context.
void Backwards() {
  constexpr int kCount = 100;
  Memory<float> x(2 * kCount - 1), y(3 * kCount - 2), a(kCount * kCount);
  const float two = 2;
  std::vector<float> want_y = y.host, want_x = x.host, want_a = a.host;
  const auto x_at = [](int i) { return 2 * (kCount - 1 - i); };
  std::thread([&] {
    Must(BLAS("cublasSaxpy_v2", int, const float*, const float*, int, float*, int)(
             handle, kCount, &two, x.at(), -2, y.at(), 3),
         "axpy");
    for (int i = 0; i < kCount; ++i) want_y[3 * i] += two * want_x[x_at(i)];
    Must(BLAS("cublasSger_v2", int, int, const float*, const float*, int, const float*, int, float*,
              int)(handle, kCount, kCount, &two, x.at(), -2, y.at(), -3, a.at(), kCount),
         "ger");
    for (int j = 0; j < kCount; ++j) {
      for (int i = 0; i < kCount; ++i) {
        want_a[j * kCount + i] += two * want_x[x_at(i)] * want_y[3 * (kCount - 1 - j)];
      }
    }
    Must(BLAS("cublasSswap_v2", int, float*, int, float*, int)(handle, kCount, x.at(), -2, y.at(),
                                                               3),
         "swap");
    for (int i = 0; i < kCount; ++i) std::swap(want_x[x_at(i)], want_y[3 * i]);
    float dot = 0, sum = 0;
    Must(BLAS("cublasSdot_v2", int, const float*, int, const float*, int, float*)(
             handle, kCount, x.at(), 2, y.at(), -3, &dot),
         "dot");
    for (int i = 0; i < kCount; ++i) sum += want_x[2 * i] * want_y[3 * (kCount - 1 - i)];
    Compare<float>("dot backwards", {dot}, {sum}, 1000);
  }).join();
  Compare("axpy and swap backwards", y.Read(), want_y, 16);
  Compare("swap backwards", x.Read(), want_x, 16);
  Compare("ger backwards", a.Read(), want_a, 32);
}

// Streams take turns with the library's memory, and each has its own order.
void Streams() {
  constexpr int kStreams = 6, kOrder = 64;
  std::vector<CUstream> streams(kStreams);
  std::vector<std::unique_ptr<Memory<float>>> matrices;
  for (CUstream& stream : streams) {
    Must(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    matrices.push_back(std::make_unique<Memory<float>>(kOrder * kOrder));
  }
  Memory<float> eye(kOrder * kOrder);
  std::fill(eye.host.begin(), eye.host.end(), 0.f);
  for (int i = 0; i < kOrder; ++i) eye.host[i * kOrder + i] = 1;
  eye.Write();
  const float two = 2, none = 0;
  std::vector<std::unique_ptr<Memory<float>>> others;
  for (int i = 0; i < kStreams; ++i)
    others.push_back(std::make_unique<Memory<float>>(kOrder * kOrder));
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kStreams; ++i) {
      Must(BLAS("cublasSetStream_v2", CUstream)(handle, streams[i]), "stream");
      Must(BLAS("cublasSgemm_v2", int, int, int, int, int, const float*, const float*, int,
                const float*, int, const float*, float*,
                int)(handle, 0, 0, kOrder, kOrder, kOrder, &two, matrices[i]->at(), kOrder,
                     eye.at(), kOrder, &none, others[i]->at(), kOrder),
           "sgemm");
      std::swap(matrices[i], others[i]);
    }
  }
  for (int i = 0; i < kStreams; ++i) {
    Must(DRIVER(cuStreamSynchronize)(streams[i]), "wait");
    // After an even number of rounds the first matrix is where it began, times 16.
    std::vector<float> want = matrices[i]->host;
    for (float& value : want) value *= 16;
    Compare("streams", matrices[i]->Read(), want, 64);
    Must(DRIVER(cuStreamDestroy_v2)(streams[i]), "end");
  }
  Must(BLAS("cublasSetStream_v2", CUstream)(handle, nullptr), "stream");
}

// A call in a captured stream is made at each launch of the graph.
void Graphs() {
  constexpr int kOrder = 32;
  CUstream stream;
  Must(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  Memory<float> x(kOrder), y(kOrder);
  const float two = 2;
  Must(BLAS("cublasSetStream_v2", CUstream)(handle, stream), "stream");
  Must(DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "capture");
  Must(BLAS("cublasSaxpy_v2", int, const float*, const float*, int, float*, int)(
           handle, kOrder, &two, x.at(), 1, y.at(), 1),
       "axpy in a capture");
  Must(BLAS("cublasSaxpy_v2", int, const float*, const float*, int, float*, int)(
           handle, kOrder, &two, y.at(), 1, x.at(), 1),
       "axpy in a capture");
  CUgraph graph;
  CUgraphExec exec;
  Must(DRIVER(cuStreamEndCapture)(stream, &graph), "end of capture");
  Must(DRIVER(cuGraphInstantiateWithFlags)(&exec, graph, 0), "instantiate");
  std::vector<float> want_x = x.host, want_y = y.host;
  Compare("before a launch", y.Read(), want_y, 0);
  for (int launch = 0; launch < 3; ++launch) {
    Must(DRIVER(cuGraphLaunch)(exec, stream), "launch");
    for (int i = 0; i < kOrder; ++i) {
      want_y[i] += two * want_x[i];
      want_x[i] += two * want_y[i];
    }
  }
  Must(DRIVER(cuStreamSynchronize)(stream), "wait");
  Compare("a graph", x.Read(), want_x, 1000);
  Must(DRIVER(cuGraphExecDestroy)(exec), "end");
  Must(DRIVER(cuGraphDestroy)(graph), "end");
  Must(BLAS("cublasSetStream_v2", CUstream)(handle, nullptr), "stream");
  Must(DRIVER(cuStreamDestroy_v2)(stream), "end");
}

// A wrong call is refused at once, and changes nothing.
void Refusals() {
  const auto gemm = BLAS("cublasSgemm_v2", int, int, int, int, int, const float*, const float*, int,
                         const float*, int, const float*, float*, int);
  Memory<float> a(64), b(64), c(64);
  const float one = 1;
  const std::vector<float> before = c.Read();
  const auto expect = [&](int status, int want, const char* what) {
    ++checks;
    if (status == want) return;
    std::printf("%s: status %d, not %d\n", what, status, want);
    ++wrong;
  };
  expect(gemm(handle, 0, 0, -1, 8, 8, &one, a.at(), 8, b.at(), 8, &one, c.at(), 8), 7, "m < 0");
  expect(gemm(handle, 0, 0, 8, 8, 8, &one, a.at(), 7, b.at(), 8, &one, c.at(), 8), 7, "lda < m");
  expect(gemm(handle, 3, 0, 8, 8, 8, &one, a.at(), 8, b.at(), 8, &one, c.at(), 8), 7, "op 3");
  expect(gemm(handle, 0, 0, 8, 8, 8, nullptr, a.at(), 8, b.at(), 8, &one, c.at(), 8), 7,
         "no alpha");
  expect(gemm(nullptr, 0, 0, 8, 8, 8, &one, a.at(), 8, b.at(), 8, &one, c.at(), 8), 1, "no handle");
  Compare("after refusals", c.Read(), before, 0);
  const auto ex = BLAS("cublasGemmEx", int, int, int, int, int, const void*, const void*, int, int,
                       const void*, int, int, const void*, void*, int, int, int, int);
  expect(ex(handle, 0, 0, 8, 8, 8, &one, a.at(), 0, 8, b.at(), 0, 8, &one, c.at(), 0, 8, 68, 999),
         0, "autotuning");
}

template <typename T>
void Round() {
  Gemm<T>();
  Gemv<T>();
  Vectors<T>();
  Triangles<T>();
  Sums<T>();
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  Allocation::edges = argc > 2 && std::string(argv[2]) == "--edges";
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  blas = dlopen("libcublas.so.13", RTLD_NOW);
  if (driver == nullptr || blas == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  CUcontext context;
  Must(DRIVER(cuInit)(0), "cuInit");
  Must(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0), "context");
  Must(DRIVER(cuCtxSetCurrent)(context), "context");
  const int made = Find<int (*)(void**)>(blas, "cublasCreate_v2")(&handle);
  if (made != 0) {
    std::printf("cublasCreate: %d\n", made);
    return 2;
  }
  int version = 0;
  Must(BLAS("cublasGetVersion_v2", int*)(handle, &version), "version");
  for (int i = 0; i < rounds; ++i) {
    Round<float>();
    Round<double>();
    Round<std::complex<float>>();
    Round<std::complex<double>>();
    TypedVectors<float>(0);
    TypedVectors<double>(1);
    TypedVectors<std::complex<float>>(4);
    TypedVectors<std::complex<double>>(5);
    GemmEx();
    CheckBatches();
    CheckTriangles();
  }
  Backwards();
  Streams();
  Graphs();
  Refusals();
  Must(BLAS("cublasDestroy_v2")(handle), "destroy");
  std::printf("cublas_program: version %d, %d checks, %d wrong\n", version, checks, wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace warpline::blas_checks

int main(int argc, char** argv) { return warpline::blas_checks::Main(argc, argv); }
