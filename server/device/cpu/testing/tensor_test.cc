// Tests kernels compiled by nvcc for compute capability 8.0: copies that are asynchronous there,
// barriers in shared memory, matrices of a warp.
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "server/device/cpu/testing/kernel_fixture.h"

namespace warpline::cpu {
namespace {

constexpr char kPtxPath[] = "server/device/cpu/testing/tensor_ptx/tensor.ptx";

// Returns the f16 of a small whole number.
uint16_t Half(int value) {
  if (value == 0) return 0;
  const int size = std::abs(value);
  const int exponent = std::ilogb(size);
  const int fraction = (size << 10 >> exponent) & 0x3ff;
  return static_cast<uint16_t>((value < 0 ? 0x8000 : 0) | (exponent + 15) << 10 | fraction);
}

class TensorTest : public KernelFixture {
 protected:
  void SetUp() override {
    KernelFixture::SetUp();
    std::ifstream in(kPtxPath);
    text_.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    if (text_.empty()) GTEST_SKIP() << "built without a CUDA toolkit";
    for (int i = 0; i < 512; ++i) {
      a_.push_back(i * 7 % 23 - 11);
      b_.push_back(i * 5 % 19 - 9);
    }
  }

  template <typename... Args>
  CudaResult Run(const char* name, uint32_t threads, Args... args) {
    const CudaResult launched = Launch(Load(text_, name), {1, 1, 1}, {threads, 1, 1}, 0, args...);
    return launched == CudaResult::kSuccess ? Sync() : launched;
  }

  // Returns an element of a product: A lies by rows, B by columns, and both are k wide.
  int Dot(size_t row, size_t column, size_t k) const {
    int sum = 0;
    for (size_t i = 0; i < k; ++i) sum += a_[row * k + i] * b_[column * k + i];
    return sum;
  }

  template <typename T, typename Make>
  void WriteInputs(Make make) {
    std::vector<T> a, b;
    for (const int v : a_) a.push_back(make(v));
    for (const int v : b_) b.push_back(make(v));
    Write(memory_, a);
    Write(b_at(), b);
  }
  uint64_t b_at() const { return memory_ + 8192; }
  uint64_t c_at() const { return memory_ + 16384; }

  std::string text_;
  std::vector<int> a_, b_;
};

TEST_F(TensorTest, AsynchronousCopiesArrive) {
  std::vector<uint32_t> in(256);
  std::iota(in.begin(), in.end(), 1000u);
  Write(memory_, in);
  ASSERT_EQ(Run("copies", 64, memory_, c_at()), CudaResult::kSuccess);
  const std::vector<uint32_t> out = Read<uint32_t>(c_at(), 256);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(out[i], in[(63 - i / 4) * 4 + i % 4]) << i;
}

TEST_F(TensorTest, BarriersInSharedMemorySeparatePhases) {
  ASSERT_EQ(Run("barriers", 128, memory_, int32_t{9}), CudaResult::kSuccess);
  const std::vector<int32_t> out = Read<int32_t>(memory_, 128);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], (i + 9 * 33) % 128 + 9);
}

TEST_F(TensorTest, WarpMatrixProductOfHalves) {
  WriteInputs<uint16_t>(Half);
  Write(c_at(), std::vector<float>(256, 3.0f));
  ASSERT_EQ(Run("wmma_half", 32, memory_, b_at(), c_at()), CudaResult::kSuccess);
  const std::vector<float> c = Read<float>(c_at(), 256);
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(c[i], 2.0f * static_cast<float>(3 + Dot(i / 16, i % 16, 16))) << i;
  }
}

TEST_F(TensorTest, WarpMatrixProductOfBytes) {
  WriteInputs<int8_t>([](int v) { return static_cast<int8_t>(v); });
  Write(c_at(), std::vector<int32_t>(256, -3));
  ASSERT_EQ(Run("wmma_byte", 32, memory_, b_at(), c_at()), CudaResult::kSuccess);
  const std::vector<int32_t> c = Read<int32_t>(c_at(), 256);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(c[i], 2 * (Dot(i / 16, i % 16, 16) - 3)) << i;
}

TEST_F(TensorTest, LdmatrixAndMmaOfHalves) {
  WriteInputs<uint16_t>(Half);
  ASSERT_EQ(Run("mma_half", 32, memory_, b_at(), c_at()), CudaResult::kSuccess);
  const std::vector<float> c = Read<float>(c_at(), 128);
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(c[i], static_cast<float>(Dot(i / 8, i % 8, 16))) << i;
  }
}

TEST_F(TensorTest, MmaOfSignedAndUnsignedBytes) {
  for (int& v : b_) v = v < 0 ? v + 200 : v;
  WriteInputs<uint8_t>([](int v) { return static_cast<uint8_t>(v); });
  ASSERT_EQ(Run("mma_byte", 32, memory_, b_at(), c_at()), CudaResult::kSuccess);
  const std::vector<int32_t> c = Read<int32_t>(c_at(), 128);
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(c[i], Dot(i / 8, i % 8, 32)) << i;
}

TEST_F(TensorTest, MatrixOutsideMemoryFaults) {
  EXPECT_EQ(Run("wmma_half", 32, uint64_t{64}, b_at(), c_at()), CudaResult::kIllegalAddress);
}

TEST_F(TensorTest, MatrixOfAPartOfAWarpFaults) {
  // Guarded, the threads end where they are not all.
  EXPECT_EQ(Run("half_warp", 16, memory_, c_at()),
            is_guarded() ? CudaResult::kSuccess : CudaResult::kIllegalInstruction);
}

}  // namespace
}  // namespace warpline::cpu
