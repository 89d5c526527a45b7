// Shared by the checks of cuBLAS: memory with a copy on the host, random numbers, plain loops, and
// the comparison with these.
#ifndef WARPLINE_TESTS_LIBRARIES_BLAS_CHECKS_H_
#define WARPLINE_TESTS_LIBRARIES_BLAS_CHECKS_H_

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace warpline::blas_checks {

// Written by main() before any check.
inline void* blas = nullptr;
inline void* driver = nullptr;
inline void* handle = nullptr;
inline int checks = 0;
inline int wrong = 0;
inline std::mt19937 random_bits(20260101);

template <typename F>
F Find(void* library, const std::string& name) {
  auto* const function = reinterpret_cast<F>(dlsym(library, name.c_str()));
  if (function == nullptr) {
    std::printf("no %s\n", name.c_str());
    std::exit(1);
  }
  return function;
}

#define DRIVER(name) Find<decltype(&name)>(driver, #name)
#define BLAS(name, ...) Find<int (*)(void*, ##__VA_ARGS__)>(blas, name)

// The call that is being made, for which the program may be ended.
inline std::string under_way;

inline void Must(int result, const char* what) {
  if (result == 0) return;
  std::printf("%s: %d, with %s\n", what, result, under_way.c_str());
  std::exit(1);
}

inline int Below(int bound) {
  return static_cast<int>(random_bits() % static_cast<unsigned>(bound));
}

template <typename T>
struct Traits;
template <>
struct Traits<float> {
  static constexpr char kLetter = 'S';
  using Real = float;
};
template <>
struct Traits<double> {
  static constexpr char kLetter = 'D';
  using Real = double;
};
template <>
struct Traits<std::complex<float>> {
  static constexpr char kLetter = 'C';
  using Real = float;
};
template <>
struct Traits<std::complex<double>> {
  static constexpr char kLetter = 'Z';
  using Real = double;
};
template <typename T>
constexpr bool kComplex = !std::is_floating_point_v<T>;

template <typename T>
T Any() {
  const auto real = [] { return static_cast<typename Traits<T>::Real>(Below(2001) - 1000) / 1000; };
  if constexpr (kComplex<T>)
    return T(real(), real());
  else
    return real();
}

template <typename T>
T Conjugate(T value) {
  if constexpr (kComplex<T>)
    return std::conj(value);
  else
    return value;
}

// Memory of the device. With `edges` what follows it is not mapped, but for the rest of 16 bytes,
// so that a kernel faults which touches more than the table says (proto/adapters/cublas.toml). That
// needs virtual memory, which the guarded tier does not have: it is for native runs.
class Allocation {
 public:
  static inline bool edges = false;

  explicit Allocation(size_t bytes) {
    if (!edges) {
      Must(DRIVER(cuMemAlloc_v2)(&address_, std::max<size_t>(bytes, 1)), "cuMemAlloc");
      return;
    }
    constexpr size_t kGranule = size_t{2} << 20, kAlign = 16;
    const size_t used = (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
    mapped_ = (used + kGranule - 1) / kGranule * kGranule;
    CUmemAllocationProp what = {};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    Must(DRIVER(cuMemAddressReserve)(&base_, mapped_ + kGranule, kGranule, 0, 0), "reserve");
    Must(DRIVER(cuMemCreate)(&handle_, mapped_, &what, 0), "create");
    Must(DRIVER(cuMemMap)(base_, mapped_, 0, handle_, 0), "map");
    const CUmemAccessDesc access = {what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    Must(DRIVER(cuMemSetAccess)(base_, mapped_, &access, 1), "access");
    address_ = base_ + mapped_ - used;
  }
  ~Allocation() {
    if (base_ == 0) {
      DRIVER(cuMemFree_v2)(address_);
      return;
    }
    DRIVER(cuCtxSynchronize)();
    DRIVER(cuMemUnmap)(base_, mapped_);
    DRIVER(cuMemRelease)(handle_);
    DRIVER(cuMemAddressFree)(base_, mapped_ + (size_t{2} << 20));
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  CUdeviceptr address() const { return address_; }

 private:
  CUdeviceptr address_ = 0;
  CUdeviceptr base_ = 0;
  size_t mapped_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
};

// Memory of the device with a copy on the host.
template <typename T>
class Memory {
 public:
  explicit Memory(size_t count) : host(count), memory_(count * sizeof(T)) {
    // Bytes come from the caller.
    if constexpr (!std::is_same_v<T, uint8_t>) {
      for (T& value : host) value = Any<T>();
      Write();
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void Write() {
    if (host.empty()) return;
    Must(DRIVER(cuMemcpyHtoD_v2)(memory_.address(), host.data(), host.size() * sizeof(T)), "write");
  }
  std::vector<T> Read() const {
    std::vector<T> read(host.size());
    if (read.empty()) return read;
    Must(DRIVER(cuMemcpyDtoH_v2)(read.data(), memory_.address(), read.size() * sizeof(T)), "read");
    return read;
  }
  T* at() const { return reinterpret_cast<T*>(memory_.address()); }

  std::vector<T> host;

 private:
  Allocation memory_;
};

template <typename T>
void Compare(const std::string& what, const std::vector<T>& got, const std::vector<T>& want,
             double scale) {
  ++checks;
  const double tolerance = (sizeof(typename Traits<T>::Real) == 4 ? 2e-5 : 1e-12) * scale;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::abs(got[i] - want[i]) <= tolerance) continue;
    std::printf("%s: element %zu is %g, not %g\n", what.c_str(), i,
                static_cast<double>(std::abs(got[i])), static_cast<double>(std::abs(want[i])));
    ++wrong;
    return;
  }
}

template <typename T>
std::string Name(const char* rest) {
  return std::string("cublas") + Traits<T>::kLetter + rest;
}

template <typename T>
T Element(const std::vector<T>& a, int lda, int op, int i, int j, size_t from = 0) {
  const T value = op == 0 ? a[from + static_cast<size_t>(j) * lda + i]
                          : a[from + static_cast<size_t>(i) * lda + j];
  return op == 2 ? Conjugate(value) : value;
}

template <typename T>
void Multiply(int ta, int tb, int m, int n, int k, T alpha, const std::vector<T>& a, int lda,
              size_t a_from, const std::vector<T>& b, int ldb, size_t b_from, T beta,
              std::vector<T>* c, int ldc, size_t c_from) {
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      T sum{};
      for (int l = 0; l < k; ++l) {
        sum += Element(a, lda, ta, i, l, a_from) * Element(b, ldb, tb, l, j, b_from);
      }
      T& to = (*c)[c_from + static_cast<size_t>(j) * ldc + i];
      to = alpha * sum + (beta == T{} ? T{} : beta * to);
    }
  }
}

inline size_t Extent(int rows, int columns, int leading) {
  return rows == 0 || columns == 0 ? 0 : static_cast<size_t>(columns - 1) * leading + rows;
}

// A scalar in host or device memory, as the pointer mode says.
template <typename T>
class Scalar {
 public:
  Scalar(T value, bool on_device) : value_(value), memory_(on_device ? 1 : 0), device_(on_device) {
    if (on_device) {
      memory_.host[0] = value;
      memory_.Write();
    }
  }
  const T* at() const { return device_ ? memory_.at() : &value_; }

 private:
  T value_;
  Memory<T> memory_;
  bool device_;
};

inline void SetPointerMode(bool device) {
  Must(BLAS("cublasSetPointerMode_v2", int)(handle, device ? 1 : 0), "pointer mode");
}

// A number that half precision (type 2) or bfloat16 (14) holds exactly, as that.
inline uint16_t Encoded(int type, double value) {
  const auto real = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &real, sizeof(bits));
  if (type == 14) return static_cast<uint16_t>(bits >> 16);
  if (value == 0) return 0;
  const auto exponent = static_cast<uint32_t>((bits >> 23 & 0xff) - 127 + 15);
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3ff));
}

// An element of a symmetric or, if `hermitian`, a Hermitian matrix, whose other triangle is unused.
template <typename T>
T Symmetric(const std::vector<T>& a, int lda, bool upper, bool hermitian, int i, int j) {
  if (i == j && hermitian) {
    const T value = a[static_cast<size_t>(i) * lda + i];
    return T(std::real(value));
  }
  if (i == j || upper == (i < j)) return a[static_cast<size_t>(j) * lda + i];
  const T mirrored = a[static_cast<size_t>(i) * lda + j];
  return hermitian ? Conjugate(mirrored) : mirrored;
}

// Products through arrays of addresses, and of vectors and matrices that lie apart.
void CheckBatches();
// Symmetric and Hermitian matrices, and triangles with vectors.
void CheckTriangles();

}  // namespace warpline::blas_checks

#endif  // WARPLINE_TESTS_LIBRARIES_BLAS_CHECKS_H_
