// Checks of functions that make many products in one call.
#include <cuda.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/libraries/blas_checks.h"

namespace warpline::blas_checks {
namespace {

// An array of addresses in device memory.
class Addresses {
 public:
  explicit Addresses(const std::vector<const void*>& addresses) {
    const size_t bytes = addresses.size() * sizeof(addresses[0]);
    Must(DRIVER(cuMemAlloc_v2)(&memory_, std::max<size_t>(bytes, 1)), "cuMemAlloc");
    if (bytes == 0) return;
    Must(DRIVER(cuMemcpyHtoD_v2)(memory_, addresses.data(), bytes), "write");
  }
  ~Addresses() { DRIVER(cuMemFree_v2)(memory_); }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  const void* at() const { return reinterpret_cast<const void*>(memory_); }

 private:
  CUdeviceptr memory_ = 0;
};

// The addresses of `count` pieces that lie `apart` elements from each other, the last one first.
template <typename T>
std::vector<const void*> Backwards(const T* first, size_t apart, int count) {
  std::vector<const void*> addresses;
  for (int i = count - 1; i >= 0; --i) addresses.push_back(first + apart * i);
  return addresses;
}

// Products by arrays of addresses: C is the other way round, A has one matrix for all.
template <typename T>
void GemmBatched() {
  const int ta = Below(3), tb = Below(3), m = 1 + Below(40), n = 1 + Below(40), k = Below(40);
  const int lda = std::max(1, ta == 0 ? m : k) + Below(4);
  const int ldb = std::max(1, tb == 0 ? k : n) + Below(4), ldc = m + Below(4);
  const int batch = Below(6);
  const size_t sb = Extent(tb == 0 ? k : n, tb == 0 ? n : k, ldb) + 1, sc = Extent(m, n, ldc) + 1;
  Memory<T> a(Extent(ta == 0 ? m : k, ta == 0 ? k : m, lda) + 1), b(sb * batch), c(sc * batch);
  const Addresses as(std::vector<const void*>(batch, a.at()));
  const Addresses bs(Backwards<T>(b.at(), sb, batch)), cs(Backwards<T>(c.at(), sc, batch));
  const bool device = Below(2) == 1;
  const Scalar<T> alpha(T(2), device), beta(T(1), device);
  SetPointerMode(device);
  Must(
      BLAS(Name<T>("gemmBatched"), int, int, int, int, int, const T*, const void*, int, const void*,
           int, const T*, const void*, int, int)(handle, ta, tb, m, n, k, alpha.at(), as.at(), lda,
                                                 bs.at(), ldb, beta.at(), cs.at(), ldc, batch),
      "gemmBatched");
  SetPointerMode(false);
  std::vector<T> want = c.host;
  for (int i = 0; i < batch; ++i) {
    Multiply(ta, tb, m, n, k, T(2), a.host, lda, 0, b.host, ldb, sb * i, T(1), &want, ldc, sc * i);
  }
  Compare(Name<T>("gemmBatched"), c.Read(), want, 4 * (k + 1));
}

// Groups of products, each with its own sizes, by the typed function and by
// cublasGemmGroupedBatchedEx.
template <typename T>
void GemmGrouped(int type, int compute) {
  constexpr int kGroups = 3;
  std::vector<int> ta, tb, m, n, k, lda, ldb, ldc, sizes;
  std::vector<T> alpha, beta;
  std::vector<std::unique_ptr<Memory<T>>> a, b, c;
  std::vector<const void*> as, bs, cs;
  for (int group = 0; group < kGroups; ++group) {
    ta.push_back(Below(2));
    tb.push_back(Below(2));
    m.push_back(1 + Below(30));
    n.push_back(1 + Below(30));
    k.push_back(1 + Below(30));
    lda.push_back((ta.back() == 0 ? m.back() : k.back()) + Below(3));
    ldb.push_back((tb.back() == 0 ? k.back() : n.back()) + Below(3));
    ldc.push_back(m.back() + Below(3));
    sizes.push_back(Below(4));
    alpha.push_back(static_cast<T>(1 + Below(3)));
    beta.push_back(static_cast<T>(Below(2)));
    for (int i = 0; i < sizes.back(); ++i) {
      a.push_back(std::make_unique<Memory<T>>(Extent(
          ta.back() == 0 ? m.back() : k.back(), ta.back() == 0 ? k.back() : m.back(), lda.back())));
      b.push_back(std::make_unique<Memory<T>>(Extent(
          tb.back() == 0 ? k.back() : n.back(), tb.back() == 0 ? n.back() : k.back(), ldb.back())));
      c.push_back(std::make_unique<Memory<T>>(Extent(m.back(), n.back(), ldc.back())));
      as.push_back(a.back()->at());
      bs.push_back(b.back()->at());
      cs.push_back(c.back()->at());
    }
  }
  const Addresses a_at(as), b_at(bs), c_at(cs);
  const auto check = [&](const std::string& what) {
    for (int group = 0, at = 0; group < kGroups; ++group) {
      for (int i = 0; i < sizes[group]; ++i, ++at) {
        std::vector<T> want = c[at]->host;
        Multiply(ta[group], tb[group], m[group], n[group], k[group], alpha[group], a[at]->host,
                 lda[group], 0, b[at]->host, ldb[group], 0, beta[group], &want, ldc[group], 0);
        Compare(what, c[at]->Read(), want, 8 * (k[group] + 1));
        c[at]->Write();
      }
    }
  };
  using Ints = const int*;
  Must(BLAS(Name<T>("gemmGroupedBatched"), Ints, Ints, Ints, Ints, Ints, const T*, const void*,
            Ints, const void*, Ints, const T*, const void*, Ints, int,
            Ints)(handle, ta.data(), tb.data(), m.data(), n.data(), k.data(), alpha.data(),
                  a_at.at(), lda.data(), b_at.at(), ldb.data(), beta.data(), c_at.at(), ldc.data(),
                  kGroups, sizes.data()),
       "gemmGroupedBatched");
  check(Name<T>("gemmGroupedBatched"));
  Must(BLAS("cublasGemmGroupedBatchedEx", Ints, Ints, Ints, Ints, Ints, const void*, const void*,
            int, Ints, const void*, int, Ints, const void*, const void*, int, Ints, int, Ints,
            int)(handle, ta.data(), tb.data(), m.data(), n.data(), k.data(), alpha.data(),
                 a_at.at(), type, lda.data(), b_at.at(), type, ldb.data(), beta.data(), c_at.at(),
                 type, ldc.data(), kGroups, sizes.data(), compute),
       "cublasGemmGroupedBatchedEx");
  check("cublasGemmGroupedBatchedEx");
}

template <typename T>
void TrsmBatched() {
  const int side = Below(2), upper = Below(2), op = Below(3);
  // Some triangles are larger than those that a kernel solves at once.
  const int most = Below(4) == 0 ? 200 : 30, m = 1 + Below(most), n = 1 + Below(most);
  const int order = side == 0 ? m : n, lda = order + Below(3), ldb = m + Below(3), batch = Below(4);
  const size_t sa = Extent(order, order, lda), sb = Extent(m, n, ldb);
  Memory<T> a(sa * batch), b(sb * batch);
  const auto stored = [&](int i, int j) { return upper == 1 ? i <= j : i >= j; };
  for (int l = 0; l < batch; ++l) {
    for (int j = 0; j < order; ++j) {
      for (int i = 0; i < order; ++i) {
        T& element = a.host[sa * l + static_cast<size_t>(j) * lda + i];
        if (i == j) element += T(order + 2);
      }
    }
  }
  a.Write();
  const Addresses as(Backwards<T>(a.at(), sa, batch)), bs(Backwards<T>(b.at(), sb, batch));
  const T two = T(2);
  Must(BLAS(Name<T>("trsmBatched"), int, int, int, int, int, int, const T*, const void*, int,
            const void*, int,
            int)(handle, side, upper, op, 0, m, n, &two, as.at(), lda, bs.at(), ldb, batch),
       "trsmBatched");
  // The product of the solution and the triangle again.
  std::vector<T> triangle = a.host;
  for (int l = 0; l < batch; ++l) {
    for (int j = 0; j < order; ++j) {
      for (int i = 0; i < order; ++i) {
        if (!stored(i, j)) triangle[sa * l + static_cast<size_t>(j) * lda + i] = T{};
      }
    }
  }
  const std::vector<T> solved = b.Read();
  std::vector<T> product = solved, want = b.host;
  for (int l = 0; l < batch; ++l) {
    if (side == 0) {
      Multiply(op, 0, m, n, order, T(1), triangle, lda, sa * l, solved, ldb, sb * l, T{}, &product,
               ldb, sb * l);
    } else {
      Multiply(0, op, m, n, order, T(1), solved, ldb, sb * l, triangle, lda, sa * l, T{}, &product,
               ldb, sb * l);
    }
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < m; ++i) want[sb * l + static_cast<size_t>(j) * ldb + i] *= T(2);
    }
  }
  Compare(Name<T>("trsmBatched"), product, want, 64.0 * order);
}

template <typename T>
void GemvBatched() {
  const int op = Below(3), m = 1 + Below(40), n = 1 + Below(40), lda = m + Below(3);
  const int incx = (1 + Below(3)) * (Below(2) == 0 ? 1 : -1), incy = 1 + Below(3), batch = Below(5);
  const int x_count = op == 0 ? n : m, y_count = op == 0 ? m : n;
  const size_t sa = Extent(m, n, lda) + 1, sx = (x_count - 1) * std::abs(incx) + 2,
               sy = (y_count - 1) * incy + 2;
  Memory<T> a(sa * batch), x(sx * batch), y(sy * batch);
  const Addresses as(Backwards<T>(a.at(), sa, batch)), xs(Backwards<T>(x.at(), sx, batch)),
      ys(Backwards<T>(y.at(), sy, batch));
  const T alpha = T(2), beta = T(1);
  std::vector<T> want = y.host;
  const auto add = [&] {
    for (int l = 0; l < batch; ++l) {
      for (int i = 0; i < y_count; ++i) {
        T sum{};
        for (int j = 0; j < x_count; ++j) {
          const int place = incx > 0 ? j * incx : (j - x_count + 1) * incx;
          sum += Element(a.host, lda, op, i, j, sa * l) * x.host[sx * l + place];
        }
        want[sy * l + i * incy] += alpha * sum;
      }
    }
  };
  Must(BLAS(Name<T>("gemvBatched"), int, int, int, const T*, const void*, int, const void*, int,
            const T*, const void*, int, int)(handle, op, m, n, &alpha, as.at(), lda, xs.at(), incx,
                                             &beta, ys.at(), incy, batch),
       "gemvBatched");
  add();
  Compare(Name<T>("gemvBatched"), y.Read(), want, 4 * (x_count + 1));
  Must(BLAS(Name<T>("gemvStridedBatched"), int, int, int, const T*, const T*, int, long long,
            const T*, int, long long, const T*, T*, int, long long, int)(
           handle, op, m, n, &alpha, a.at(), lda, static_cast<long long>(sa), x.at(), incx,
           static_cast<long long>(sx), &beta, y.at(), incy, static_cast<long long>(sy), batch),
       "gemvStridedBatched");
  add();
  Compare(Name<T>("gemvStridedBatched"), y.Read(), want, 8 * (x_count + 1));
}

// Matrices of small whole numbers, which half precision holds exactly, and so their products.
class Halves {
 public:
  explicit Halves(size_t count) : values(count), memory_(count / 2 + 1) {
    for (float& value : values) value = static_cast<float>(Below(5) - 2);
    auto* const halves = reinterpret_cast<uint16_t*>(memory_.host.data());
    for (size_t i = 0; i < count; ++i) halves[i] = Encoded(2, static_cast<int>(values[i]));
    memory_.Write();
  }
  const uint16_t* at() const { return reinterpret_cast<const uint16_t*>(memory_.at()); }
  std::vector<float> Read() const {
    const std::vector<float> raw = memory_.Read();
    const auto* const halves = reinterpret_cast<const uint16_t*>(raw.data());
    std::vector<float> read(values.size());
    for (size_t i = 0; i < read.size(); ++i) {
      const int exponent = halves[i] >> 10 & 31;
      const float size =
          exponent == 0 ? 0.f
                        : std::ldexp(static_cast<float>((halves[i] & 1023) | 1024), exponent - 25);
      read[i] = (halves[i] & 0x8000) != 0 ? -size : size;
    }
    return read;
  }

  std::vector<float> values;

 private:
  Memory<float> memory_;
};

void HalfPrecision() {
  const int m = 8 * (1 + Below(6)), n = 8 * (1 + Below(6)), k = 8 * (1 + Below(4));
  const int batch = 1 + Below(3);
  const int sa = m * k, sb = k * n, sc = m * n;
  const Halves a(static_cast<size_t>(sa) * batch), b(static_cast<size_t>(sb) * batch),
      c(static_cast<size_t>(sc) * batch);
  const uint16_t one = Encoded(2, 1), none = 0;
  std::vector<float> want = c.values;
  const auto multiply = [&](int i) {
    Multiply(0, 0, m, n, k, 1.f, a.values, m, static_cast<size_t>(sa) * i, b.values, k,
             static_cast<size_t>(sb) * i, 0.f, &want, m, static_cast<size_t>(sc) * i);
  };
  Must(BLAS("cublasHgemm", int, int, int, int, int, const void*, const void*, int, const void*, int,
            const void*, const void*,
            int)(handle, 0, 0, m, n, k, &one, a.at(), m, b.at(), k, &none, c.at(), m),
       "cublasHgemm");
  multiply(0);
  Compare("cublasHgemm", c.Read(), want, 1);
  Must(BLAS("cublasHgemmStridedBatched", int, int, int, int, int, const void*, const void*, int,
            long long, const void*, int, long long, const void*, const void*, int, long long, int)(
           handle, 0, 0, m, n, k, &one, a.at(), m, sa, b.at(), k, sb, &none, c.at(), m, sc, batch),
       "cublasHgemmStridedBatched");
  for (int i = 0; i < batch; ++i) multiply(i);
  Compare("cublasHgemmStridedBatched", c.Read(), want, 1);
  const Halves d(static_cast<size_t>(sc) * batch);
  const Addresses as(Backwards(a.at(), sa, batch)), bs(Backwards(b.at(), sb, batch)),
      ds(Backwards(d.at(), sc, batch));
  Must(BLAS("cublasHgemmBatched", int, int, int, int, int, const void*, const void*, int,
            const void*, int, const void*, const void*, int,
            int)(handle, 0, 0, m, n, k, &one, as.at(), m, bs.at(), k, &none, ds.at(), m, batch),
       "cublasHgemmBatched");
  Compare("cublasHgemmBatched", d.Read(), want, 1);
  // In single precision, with sums in it.
  Memory<float> e(static_cast<size_t>(sc) * batch);
  const Addresses es(Backwards<float>(e.at(), sc, batch));
  const float alpha = 1, beta = 0;
  Must(BLAS("cublasGemmBatchedEx", int, int, int, int, int, const void*, const void*, int, int,
            const void*, int, int, const void*, const void*, int, int, int, int,
            int)(handle, 0, 0, m, n, k, &alpha, as.at(), 2, m, bs.at(), 2, k, &beta, es.at(), 0, m,
                 batch, 68, -1),
       "cublasGemmBatchedEx");
  Compare("cublasGemmBatchedEx", e.Read(), want, 1);
}

template <typename T>
void Batches() {
  GemmBatched<T>();
  TrsmBatched<T>();
  GemvBatched<T>();
}

}  // namespace

void CheckBatches() {
  Batches<float>();
  Batches<double>();
  Batches<std::complex<float>>();
  Batches<std::complex<double>>();
  HalfPrecision();
  GemmGrouped<float>(0, 68);
  GemmGrouped<double>(1, 70);
}

}  // namespace warpline::blas_checks
