#include "proto/adapters/library_call.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/adapters/blas_types.h"
#include "proto/adapters/library_call_testing.h"
#include "proto/adapters/wide.h"

namespace warpline {
namespace {

// The bytes of the operand in a slot.
uint64_t BytesAt(const LibraryCall& call, uint32_t slot) {
  for (const LibraryOperand& operand : call.operands) {
    if (operand.slot == slot) return operand.bytes;
  }
  ADD_FAILURE() << "no operand " << slot;
  return 0;
}

std::vector<uint64_t> Gemm(int op_a, int op_b, int64_t m, int64_t n, int64_t k, int64_t lda,
                           int64_t ldb, int64_t ldc, uint64_t a = 0x1000, uint64_t b = 0x2000,
                           uint64_t c = 0x3000) {
  return {static_cast<uint64_t>(op_a),
          static_cast<uint64_t>(op_b),
          static_cast<uint64_t>(m),
          static_cast<uint64_t>(n),
          static_cast<uint64_t>(k),
          1,
          0,
          a,
          static_cast<uint64_t>(lda),
          b,
          static_cast<uint64_t>(ldb),
          1,
          0,
          c,
          static_cast<uint64_t>(ldc)};
}

TEST(LibraryCallTest, NumbersAreThePlacesInTheTable) {
  uint32_t number = 0;
  for (const LibraryFunction& function : AllLibraryFunctions()) {
    EXPECT_EQ(function.number, ++number);
    EXPECT_EQ(FindLibraryFunction(number), &function);
    EXPECT_LE(function.values, kMostLibraryValues) << function.name;
  }
  EXPECT_EQ(FindLibraryFunction(0), nullptr);
  EXPECT_EQ(FindLibraryFunction(number + 1), nullptr);
  EXPECT_EQ(FindLibraryFunction(~0u), nullptr);
}

TEST(LibraryCallTest, MatricesSpanTheirColumnsWithTheLeadingDimensionBetween) {
  LibraryCall plain;
  ASSERT_EQ(Read("cublasSgemm_v2", Gemm(0, 0, 3, 5, 7, 10, 20, 30), &plain), CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(plain, 7), 4 * (6 * 10 + 3));
  EXPECT_EQ(BytesAt(plain, 9), 4 * (4 * 20 + 7));
  EXPECT_EQ(BytesAt(plain, 13), 4 * (4 * 30 + 3));
  EXPECT_EQ(plain.work, 2 * 3 * 5 * 7);
  LibraryCall transposed;
  ASSERT_EQ(Read("cublasZgemm_v2", Gemm(1, 2, 3, 5, 7, 10, 20, 30), &transposed),
            CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(transposed, 7), 16 * (2 * 10 + 7));
  EXPECT_EQ(BytesAt(transposed, 9), 16 * (6 * 20 + 5));
}

TEST(LibraryCallTest, OnlyWhatIsWrittenIsWritten) {
  LibraryCall call;
  ASSERT_EQ(Read("cublasSgemm_v2", Gemm(0, 0, 3, 5, 7, 10, 20, 30), &call), CudaResult::kSuccess);
  std::map<uint32_t, OperandUse> uses;
  for (const LibraryOperand& operand : call.operands) uses[operand.slot] = operand.use;
  EXPECT_EQ(uses,
            (std::map<uint32_t, OperandUse>{
                {7, OperandUse::kRead}, {9, OperandUse::kRead}, {13, OperandUse::kReadWrite}}));
}

TEST(LibraryCallTest, EmptyMatricesAreNotTouched) {
  LibraryCall call;
  ASSERT_EQ(Read("cublasSgemm_v2", Gemm(0, 0, 3, 5, 0, 10, 20, 30, 0, 0), &call),
            CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(call, 7), 0u);
  EXPECT_EQ(BytesAt(call, 9), 0u);
  EXPECT_EQ(BytesAt(call, 13), 4 * (4 * 30 + 3u));
}

TEST(LibraryCallTest, ArgumentsOutOfTheirRangesAreInvalid) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  const std::vector<uint64_t> wrong[] = {
      Gemm(3, 0, 3, 5, 7, 10, 20, 30), Gemm(0, -1, 3, 5, 7, 10, 20, 30),
      Gemm(0, 0, -1, 5, 7, 10, 20, 30), Gemm(0, 0, 3, -5, 7, 10, 20, 30),
      Gemm(0, 0, 3, 5, -7, 10, 20, 30), Gemm(0, 0, 11, 5, 7, 10, 20, 30),
      Gemm(0, 0, 3, 5, 21, 10, 20, 30), Gemm(0, 0, 3, 5, 7, 10, 20, 2),
      Gemm(0, 0, 3, 5, 7, 0, 20, 30), Gemm(1, 0, 3, 5, 7, 6, 20, 30),
      Gemm(0, 0, 3, 5, 7, 10, 20, -30), Gemm(0, 0, most + 1, 5, 7, most + 1, 20, most + 1),
      // Addresses between two elements.
      Gemm(0, 0, 3, 5, 7, 10, 20, 30, 0x1001), Gemm(0, 0, 3, 5, 7, 10, 20, 30, 0x1000, 0x2002),
      Gemm(0, 0, 3, 5, 7, 10, 20, 30, 0x1000, 0x2000, 0x3003)};
  for (const std::vector<uint64_t>& values : wrong) {
    LibraryCall call;
    EXPECT_EQ(Read("cublasSgemm_v2", values, &call), CudaResult::kInvalidValue)
        << testing::PrintToString(values);
  }
  // A call has as many values as its function.
  std::vector<uint64_t> values = Gemm(0, 0, 3, 5, 7, 10, 20, 30);
  values.push_back(0);
  LibraryCall call;
  EXPECT_EQ(Read("cublasSgemm_v2", values, &call), CudaResult::kInvalidValue);
  EXPECT_EQ(Read("cublasSgemm_v2", {}, &call), CudaResult::kInvalidValue);
}

TEST(LibraryCallTest, LargeMatricesHaveTheirWholeExtent) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  LibraryCall call;
  ASSERT_EQ(Read("cublasZgemm_v2",
                 Gemm(0, 0, most / 1000, 1000, 1000, most / 1000, 1000, most / 1000), &call),
            CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(call, 7), uint64_t{16} * (most / 1000) * 1000);
  // Kernels count elements in 32 bits.
  LibraryCall larger;
  EXPECT_EQ(Read("cublasZgemm_v2", Gemm(0, 0, most, 1000, 1000, most, 1000, most), &larger),
            CudaResult::kNotSupported);
  EXPECT_EQ(Read("cublasZgemm_v2", Gemm(0, 0, most, most, most, most, most, most), &larger),
            CudaResult::kNotSupported);
}

TEST(LibraryCallTest, StridesThatOverflowAreInvalid) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  const auto values = [&](int64_t stride, int64_t count) {
    return std::vector<uint64_t>{0,
                                 0,
                                 2,
                                 2,
                                 2,
                                 1,
                                 0,
                                 0x1000,
                                 2,
                                 static_cast<uint64_t>(stride),
                                 0x2000,
                                 2,
                                 static_cast<uint64_t>(stride),
                                 1,
                                 0,
                                 0x3000,
                                 2,
                                 static_cast<uint64_t>(stride),
                                 static_cast<uint64_t>(count)};
  };
  LibraryCall call;
  EXPECT_EQ(Read("cublasSgemmStridedBatched", values(4, 3), &call), CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(call, 7), 4 * (2 * 4 + 4u));
  for (const auto& wrong : {values(most, 3), values(most / 8, 1 << 30), values(-4, 3),
                            // Blocks of several products would write the same elements.
                            values(3, 3)}) {
    LibraryCall refused;
    EXPECT_NE(Read("cublasSgemmStridedBatched", wrong, &refused), CudaResult::kSuccess);
  }
}

TEST(LibraryCallTest, VectorsSpanTheirIncrementsInBothDirections) {
  const auto values = [](int64_t n, int64_t incx) {
    return std::vector<uint64_t>{static_cast<uint64_t>(n), 0x1000, static_cast<uint64_t>(incx),
                                 0x2000, 1};
  };
  LibraryCall forward, backward, none, refused;
  ASSERT_EQ(Read("cublasDcopy_v2", values(10, 3), &forward), CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(forward, 1), 8 * (9 * 3 + 1u));
  ASSERT_EQ(Read("cublasDcopy_v2", values(10, -3), &backward), CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(backward, 1), 8 * (9 * 3 + 1u));
  ASSERT_EQ(Read("cublasDcopy_v2", values(0, 3), &none), CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(none, 1), 0u);
  EXPECT_EQ(Read("cublasDcopy_v2", values(10, 0), &refused), CudaResult::kInvalidValue);
  const int64_t least = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(Read("cublasDcopy_v2", values(10, least), &refused), CudaResult::kInvalidValue);
}

TEST(LibraryCallTest, ScalarsOnTheDeviceAreOperands) {
  std::vector<uint64_t> values = Gemm(0, 0, 3, 5, 7, 10, 20, 30);
  values[5] = 0x4000;
  values[11] = 0x4010;
  LibraryCall call;
  ASSERT_EQ(Read("cublasZgemm_v2", values, &call, LibraryModes::kPointersToDevice),
            CudaResult::kSuccess);
  EXPECT_EQ(call.operands.size(), 5u);
  EXPECT_EQ(BytesAt(call, 5), 16u);
  EXPECT_EQ(BytesAt(call, 11), 16u);
}

// The values of cublasGemmBatchedEx, for 3 products.
std::vector<uint64_t> BatchedEx(uint64_t m, uint64_t n, uint64_t k, uint64_t in, uint64_t out,
                                uint64_t compute, uint64_t count = 3) {
  return {0,  0, m, n, k,      1,   0, 0x1000, in,      m,           0x2000,
          in, k, 1, 0, 0x3000, out, m, count,  compute, ~uint64_t{0}};
}

TEST(LibraryCallTest, ArraysOfAddressesAreOperandsAndSayWhatTheirAddressesLeadTo) {
  LibraryCall call;
  ASSERT_EQ(Read("cublasGemmBatchedEx", BatchedEx(4, 5, 6, 2, 0, 68), &call), CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(call, 7), 3 * 8u);
  EXPECT_EQ(BytesAt(call, 15), 3 * 8u);
  ASSERT_EQ(call.addresses.size(), 3u);
  const LibraryAddresses& a = call.addresses[0];
  const LibraryAddresses& c = call.addresses[2];
  EXPECT_EQ(a.slot, 7u);
  EXPECT_EQ(a.count, 3u);
  EXPECT_EQ(a.bytes, 2 * 4 * 6u);
  EXPECT_EQ(a.use, OperandUse::kRead);
  EXPECT_EQ(c.bytes, 4 * 4 * 5u);
  EXPECT_EQ(c.use, OperandUse::kReadWrite);
  EXPECT_EQ(call.batches, 3u);
  // The array itself is only read.
  for (const LibraryOperand& operand : call.operands) EXPECT_EQ(operand.use, OperandUse::kRead);
  // Parts of the call have parts of the arrays.
  std::vector<uint64_t> part(21);
  DivideLibraryCall(call, BatchedEx(4, 5, 6, 2, 0, 68), 2, 1, absl::MakeSpan(part));
  EXPECT_EQ(part[18], 1u);
  EXPECT_EQ(part[7], 0x1000 + 2 * 8u);
}

TEST(LibraryCallTest, AddressesAreAsAlignedAsKernelsForMatrixUnitsLoad) {
  const auto align = [](uint64_t k, uint64_t in, uint64_t compute, uint32_t math = 0) {
    LibraryCall call;
    EXPECT_EQ(Read("cublasGemmBatchedEx", BatchedEx(4, 5, k, in, in, compute), &call,
                   math << LibraryModes::kMathShift),
              CudaResult::kSuccess);
    return call.addresses.empty() ? 0 : call.addresses[0].align;
  };
  EXPECT_EQ(align(8, 2, 68), 16u);
  EXPECT_EQ(align(5, 2, 68), 16u);
  EXPECT_EQ(align(8, 0, 68), 4u);
  EXPECT_EQ(align(8, 0, 77), 16u);
  EXPECT_EQ(align(8, 0, 68, 3), 16u);
  EXPECT_EQ(align(5, 5, 70), 16u);
}

TEST(LibraryCallTest, MathModesAskForAlignedAddressesWhereTheyMatter) {
  constexpr uint32_t kTf32 = 3u << LibraryModes::kMathShift;
  const auto align = [](std::string_view name, const std::vector<uint64_t>& values) {
    LibraryCall call;
    EXPECT_EQ(Read(name, values, &call, kTf32), CudaResult::kSuccess) << name;
    return call.addresses.empty() ? 0 : call.addresses[0].align;
  };
  const std::vector<uint64_t> gemm = {0, 0,      4, 4, 4, 1,      0, 0x1000,
                                      4, 0x2000, 4, 1, 0, 0x3000, 4, 2};
  EXPECT_EQ(align("cublasSgemmBatched", gemm), 16u);
  EXPECT_EQ(align("cublasDgemmBatched", gemm), 8u);
  const std::vector<uint64_t> gemv = {0, 4, 4, 1, 0, 0x1000, 4, 0x2000, 1, 1, 0, 0x3000, 1, 2};
  EXPECT_EQ(align("cublasSgemvBatched", gemv), 4u);
  const std::vector<uint64_t> trsm = {0, 0, 0, 0, 4, 4, 1, 0, 0x1000, 4, 0x2000, 4, 2};
  EXPECT_EQ(align("cublasStrsmBatched", trsm), 16u);
}

TEST(LibraryCallTest, BatchesAreComputedByTheBlocksOfTheirResults) {
  LibraryCall call;
  // A product of one element, and 3 of them.
  ASSERT_EQ(Read("cublasGemmBatchedEx", BatchedEx(1, 1, 1 << 20, 2, 0, 68), &call),
            CudaResult::kSuccess);
  EXPECT_EQ(call.blocks, 3u);
  ASSERT_EQ(Read("cublasGemmBatchedEx", BatchedEx(65, 128, 8, 2, 0, 68), &call),
            CudaResult::kSuccess);
  EXPECT_EQ(call.blocks, 3u * 2 * 2);
  ASSERT_EQ(Read("cublasSgemm_v2", Gemm(0, 0, 1, 1, 7, 10, 20, 30), &call), CudaResult::kSuccess);
  EXPECT_EQ(call.blocks, LibraryCall::kManyBlocks);
}

TEST(LibraryCallTest, EveryElementFarFromTheNextOneCostsASector) {
  const auto traffic = [](int64_t incx) {
    LibraryCall call;
    EXPECT_EQ(Read("cublasScopy_v2", {100, 0x1000, static_cast<uint64_t>(incx), 0x2000, 1}, &call),
              CudaResult::kSuccess);
    return call.traffic - 400;
  };
  EXPECT_EQ(traffic(1), 400u);
  EXPECT_EQ(traffic(4), 1600u);
  EXPECT_EQ(traffic(100), 3200u);
  EXPECT_EQ(traffic(-100), 3200u);
  // A row of a matrix.
  LibraryCall row;
  ASSERT_EQ(Read("cublasSgemv_v2", {0, 1, 50, 1, 0, 0x1000, 64, 0x8000, 1, 1, 0, 0x9000, 1}, &row),
            CudaResult::kSuccess);
  EXPECT_EQ(row.traffic, 50 * 32u + 50 * 4 + 4);
}

TEST(LibraryCallTest, TrianglesOfBatchesHaveABound) {
  const auto read = [](uint64_t side, uint64_t m, uint64_t n) {
    LibraryCall call;
    const uint64_t order = side == 0 ? m : n;
    return Read("cublasStrsmBatched", {side, 0, 0, 0, m, n, 1, 0, 0x1000, order, 0x2000, m, 2},
                &call);
  };
  EXPECT_EQ(read(0, 2048, 4000), CudaResult::kSuccess);
  EXPECT_EQ(read(0, 2049, 1), CudaResult::kNotSupported);
  EXPECT_EQ(read(1, 4000, 2048), CudaResult::kSuccess);
  EXPECT_EQ(read(1, 1, 2049), CudaResult::kNotSupported);
}

TEST(LibraryCallTest, ArraysHaveABoundAndTheirAddressesMayBeUnused) {
  LibraryCall call;
  EXPECT_EQ(Read("cublasGemmBatchedEx", BatchedEx(4, 5, 6, 2, 0, 68, 65537), &call),
            CudaResult::kNotSupported);
  ASSERT_EQ(Read("cublasGemmBatchedEx", BatchedEx(4, 5, 6, 2, 0, 68, 65536), &call),
            CudaResult::kSuccess);
  std::vector<uint64_t> odd = BatchedEx(4, 5, 6, 2, 0, 68);
  odd[7] += 4;
  EXPECT_EQ(Read("cublasGemmBatchedEx", odd, &call), CudaResult::kInvalidValue);
  std::vector<uint64_t> empty = BatchedEx(4, 5, 0, 2, 0, 68);
  empty[12] = 1;
  ASSERT_EQ(Read("cublasGemmBatchedEx", empty, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.addresses[0].bytes, 0u);
  EXPECT_EQ(call.addresses[2].bytes, 4 * 4 * 5u);
  ASSERT_EQ(Read("cublasGemmBatchedEx", BatchedEx(4, 5, 6, 2, 0, 68, 0), &call),
            CudaResult::kSuccess);
  EXPECT_TRUE(call.addresses.empty());
  EXPECT_EQ(BytesAt(call, 7), 0u);
}

TEST(LibraryCallTest, RealScalarsOfComplexFunctionsAreRealOnTheDevice) {
  // cublasZherk_v2: uplo, trans, n, k, alpha, A, lda, beta, C, ldc.
  const std::vector<uint64_t> values = {0, 0, 4, 5, 0x4008, 0, 0x1000, 4, 0x4018, 0, 0x2000, 4};
  LibraryCall call;
  ASSERT_EQ(Read("cublasZherk_v2", values, &call, LibraryModes::kPointersToDevice),
            CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(call, 4), 8u);
  EXPECT_EQ(BytesAt(call, 6), 16 * 4 * 5u);
}

TEST(LibraryCallTest, UnknownModesAndTypesAreNotPassedOn) {
  LibraryCall call;
  const std::vector<uint64_t> values = Gemm(0, 0, 3, 5, 7, 10, 20, 30);
  for (const uint32_t modes : {4u, 1u << 31, 4u << LibraryModes::kMathShift,
                               8u << LibraryModes::kMathShift, 32u << LibraryModes::kMathShift}) {
    EXPECT_EQ(Read("cublasSgemm_v2", values, &call, modes), CudaResult::kNotSupported) << modes;
  }
  const auto ex = [](uint64_t a, uint64_t b, uint64_t c, uint64_t compute) {
    return std::vector<uint64_t>{0,      0, 8, 8, 8, 1,      0, 0x1000, a,       8,
                                 0x2000, b, 8, 1, 0, 0x3000, c, 8,      compute, ~uint64_t{0}};
  };
  LibraryCall half;
  ASSERT_EQ(Read("cublasGemmEx", ex(2, 2, 0, 68), &half), CudaResult::kSuccess);
  EXPECT_EQ(BytesAt(half, 7), 2 * 64u);
  EXPECT_EQ(BytesAt(half, 15), 4 * 64u);
  for (const auto& wrong : {ex(2, 0, 0, 68), ex(2, 2, 2, 70), ex(28, 28, 0, 68), ex(2, 2, 0, 66),
                            ex(3, 3, 10, 68), ex(1, 1, 1, 68)}) {
    EXPECT_EQ(Read("cublasGemmEx", wrong, &call), CudaResult::kNotSupported);
  }
}

TEST(WideTest, WhatOverflowsIsNoNumberFromThenOn) {
  const Wide large(std::numeric_limits<int64_t>::max());
  const Wide larger = large * large;
  EXPECT_TRUE(larger.valid());
  const Wide none = larger * large;
  EXPECT_FALSE(none.valid());
  EXPECT_FALSE((none - none).valid());
  EXPECT_FALSE(none == none);
  EXPECT_FALSE(none < Wide(1));
  EXPECT_FALSE(none >= Wide(1));
  EXPECT_FALSE(larger.IsWithin(std::numeric_limits<uint64_t>::max()));
  EXPECT_FALSE(Wide(-1).IsWithin(10));
  EXPECT_TRUE(Wide(10).IsWithin(10));
}

}  // namespace
}  // namespace warpline
