#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/adapters/blas_types.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/library_call.h"
#include "proto/adapters/library_call_testing.h"
#include "proto/adapters/lt_types.h"

namespace warpline {
namespace {

// A product of 3 x 7 and 7 x 5 matrices in half precision, two of them.
std::vector<uint64_t> LtMatmul() {
  std::vector<uint64_t> values(kLtMatmulValues);
  values[kLtMatmulM] = 3;
  values[kLtMatmulN] = 5;
  values[kLtMatmulK] = 7;
  values[kLtMatmulA] = 0x1000;
  values[kLtMatmulB] = 0x2000;
  values[kLtMatmulC] = 0x3000;
  values[kLtMatmulD] = 0x4000;
  values[kLtMatmulAtype] = values[kLtMatmulBtype] = kReal16;
  values[kLtMatmulCtype] = values[kLtMatmulDtype] = kReal16;
  values[kLtMatmulLda] = 10;
  values[kLtMatmulLdb] = values[kLtMatmulLdc] = values[kLtMatmulLdd] = 20;
  values[kLtMatmulStrideA] = 1000;
  values[kLtMatmulStrideB] = 2000;
  values[kLtMatmulStrideC] = values[kLtMatmulStrideD] = 4000;
  values[kLtMatmulBatchCount] = 2;
  values[kLtMatmulComputeType] = kIn32;
  values[kLtMatmulStrideBias] = 100;
  values[kLtMatmulLdaux] = 4;  // Units.
  values[kLtMatmulStrideAux] = 500;
  return values;
}

using Slots = std::map<uint32_t, uint64_t>;

// The operands of a call that are not empty, as bytes by slot.
Slots OperandsOf(const std::vector<uint64_t>& values, uint32_t modes = 0) {
  LibraryCall call;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call, modes), CudaResult::kSuccess);
  Slots operands;
  for (const LibraryOperand& operand : call.operands) {
    const bool writes = operand.use != OperandUse::kRead;
    const bool is_result = operand.slot == kLtMatmulD || operand.slot == kLtMatmulGradient ||
                           operand.slot == kLtMatmulMaskWritten ||
                           operand.slot == kLtMatmulAuxWritten || operand.slot == kLtMatmulImagD ||
                           operand.slot == kLtMatmulLargestD;
    EXPECT_EQ(writes, is_result) << operand.slot;
    if (operand.bytes != 0) operands[operand.slot] = operand.bytes;
  }
  return operands;
}

TEST(LtMatmulTest, MatricesSpanWhatTheirOrderAndOperationSay) {
  std::vector<uint64_t> values = LtMatmul();
  EXPECT_EQ(OperandsOf(values), (Slots{{kLtMatmulA, 2 * (1000 + 6 * 10 + 3)},
                                       {kLtMatmulB, 2 * (2000 + 4 * 20 + 7)},
                                       {kLtMatmulC, 2 * (4000 + 4 * 20 + 3)},
                                       {kLtMatmulD, 2 * (4000 + 4 * 20 + 3)}}));
  values[kLtMatmulTransa] = values[kLtMatmulTransb] = 1;
  values[kLtMatmulOrderC] = values[kLtMatmulOrderD] = 1;
  EXPECT_EQ(OperandsOf(values), (Slots{{kLtMatmulA, 2 * (1000 + 2 * 10 + 7)},
                                       {kLtMatmulB, 2 * (2000 + 6 * 20 + 5)},
                                       {kLtMatmulC, 2 * (4000 + 2 * 20 + 5)},
                                       {kLtMatmulD, 2 * (4000 + 2 * 20 + 5)}}));
  values[kLtMatmulOrderA] = values[kLtMatmulOrderB] = 1;
  EXPECT_EQ(OperandsOf(values)[kLtMatmulA], 2 * (1000 + 6 * 10 + 3));
  EXPECT_EQ(OperandsOf(values)[kLtMatmulB], 2 * (2000 + 4 * 20 + 7));
}

TEST(LtMatmulTest, AnEpilogueTouchesItsMemoryAndNoOther) {
  const uint64_t bias = 2 * (100 + 3), sums_of_b = 2 * (100 + 5);
  const uint64_t mask = 16 * (500 + 5 * 4), aux = 2 * 8 * (500 + 5 * 4);
  const std::map<uint64_t, Slots> epilogues = {
      {0, {}},
      {kLtRelu, {}},
      {kLtBias, {{kLtMatmulBias, bias}}},
      {kLtRelu | kLtBias, {{kLtMatmulBias, bias}}},
      {kLtRelu | kLtAuxiliary, {{kLtMatmulMaskWritten, mask}}},
      {kLtRelu | kLtAuxiliary | kLtBias, {{kLtMatmulMaskWritten, mask}, {kLtMatmulBias, bias}}},
      {kLtReluGradient | kLtAuxiliary, {{kLtMatmulMaskRead, mask}}},
      {kLtReluGradient | kLtAuxiliary | kLtBiasGradient,
       {{kLtMatmulMaskRead, mask}, {kLtMatmulGradient, bias}}},
      {kLtGelu, {}},
      {kLtGelu | kLtBias, {{kLtMatmulBias, bias}}},
      {kLtGelu | kLtAuxiliary, {{kLtMatmulAuxWritten, aux}}},
      {kLtGelu | kLtAuxiliary | kLtBias, {{kLtMatmulAuxWritten, aux}, {kLtMatmulBias, bias}}},
      {kLtGeluGradient | kLtAuxiliary, {{kLtMatmulAuxRead, aux}}},
      {kLtGeluGradient | kLtAuxiliary | kLtBiasGradient,
       {{kLtMatmulAuxRead, aux}, {kLtMatmulGradient, bias}}},
      {kLtSumsOfA, {{kLtMatmulGradient, bias}}},
      {kLtSumsOfB, {{kLtMatmulGradient, sums_of_b}}}};
  for (const auto& [epilogue, wanted] : epilogues) {
    std::vector<uint64_t> values = LtMatmul();
    values[kLtMatmulEpilogue] = epilogue;
    Slots operands = OperandsOf(values);
    for (const uint32_t slot : {kLtMatmulA, kLtMatmulB, kLtMatmulC, kLtMatmulD}) {
      EXPECT_EQ(operands.erase(slot), 1u);
    }
    EXPECT_EQ(operands, wanted) << epilogue;
  }
  // Every other number is none.
  LibraryCall call;
  for (uint64_t epilogue = 0; epilogue <= 1000; ++epilogue) {
    std::vector<uint64_t> values = LtMatmul();
    values[kLtMatmulEpilogue] = epilogue;
    EXPECT_EQ(Read("cublasLtMatmul", values, &call),
              epilogues.contains(epilogue) ? CudaResult::kSuccess : CudaResult::kNotSupported);
  }
}

TEST(LtMatmulTest, ScalarsHaveTheComputeTypesSize) {
  std::vector<uint64_t> values = LtMatmul();
  Slots operands = OperandsOf(values, LibraryModes::kPointersToDevice);
  EXPECT_EQ(operands[kLtMatmulAlpha], 4u);
  values[kLtMatmulComputeType] = kIn16;
  operands = OperandsOf(values, LibraryModes::kPointersToDevice);
  EXPECT_EQ(operands[kLtMatmulBeta], 2u);
}

TEST(LtMatmulTest, WhatDoesNotFitIsRefused) {
  struct Change {
    uint32_t slot;
    uint64_t value;
    uint64_t epilogue;
  };
  const Change changes[] = {
      {kLtMatmulM, 0, 0},
      {kLtMatmulN, 0, 0},
      {kLtMatmulK, 0, 0},
      {kLtMatmulBatchCount, 0, 0},
      {kLtMatmulLda, 2, 0},
      {kLtMatmulLdd, 2, 0},
      // C and D have one layout.
      {kLtMatmulLdc, 21, 0},
      {kLtMatmulLdd, 19, 0},
      {kLtMatmulStrideC, 4001, 0},
      {kLtMatmulStrideD, 3999, 0},
      {kLtMatmulLdaux, 0, kLtRelu | kLtAuxiliary},
      {kLtMatmulLdaux, 0, kLtGelu | kLtAuxiliary},
      {kLtMatmulAuxWritten, 8, kLtGelu | kLtAuxiliary},
      {kLtMatmulAlgorithm, 1, 0},
      {kLtMatmulOrderD, 1, 0},
      // Places beyond 32 bits.
      {kLtMatmulStrideBias, uint64_t{1} << 31, kLtBias},
      {kLtMatmulStrideAux, uint64_t{1} << 24, kLtRelu | kLtAuxiliary},
      {kLtMatmulStrideAux, uint64_t{1} << 28, kLtGelu | kLtAuxiliary},
      {kLtMatmulLdaux, uint64_t{1} << 23, kLtReluGradient | kLtAuxiliary},
      {kLtMatmulA, 0x1001, 0},
      {kLtMatmulMaskWritten, 8, kLtRelu | kLtAuxiliary},
      {kLtMatmulBias, 1, kLtBias},
      {kLtMatmulRequested, 17, 0},
      {kLtMatmulAlgorithm, 16, 0},
      {kLtMatmulReductions, 8, 0},
      {kLtMatmulPlanes, 2, 0},
      // There is no epilogue for planes, and none for arrays.
      {kLtMatmulPlanes, 1, kLtBias},
      {kLtMatmulArrays, 1, kLtBias},
      {kLtMatmulArrays, 2, 0},
      {kLtMatmulOwn, 2, 0},
      {kLtMatmulTile, 1001, 0},
      // Only 8-bit floating point has scales, fast sums, and another C than D.
      {kLtMatmulFast, 1, 0},
      {kLtMatmulScalingA, kLtScaleOne, 0},
      {kLtMatmulScalingB, kLtScaleOuter, 0},
      {kLtMatmulScalingD, kLtScaleOne, 0},
      {kLtMatmulLargest, 1, 0},
      {kLtMatmulDtype, kReal32, 0},
      {kLtMatmulOrderA, 2, 0}};
  for (const Change& change : changes) {
    std::vector<uint64_t> values = LtMatmul();
    values[kLtMatmulEpilogue] = change.epilogue;
    LibraryCall call;
    EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
    values[change.slot] = change.value;
    EXPECT_NE(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess)
        << change.slot << " of " << change.value;
  }
  // Several blocks would write the same element.
  std::vector<uint64_t> values = LtMatmul();
  LibraryCall call;
  values[kLtMatmulStrideC] = values[kLtMatmulStrideD] = 4 * 20 + 2;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kInvalidValue);
  // Epilogues go with matrices by columns.
  values = LtMatmul();
  values[kLtMatmulOrderC] = values[kLtMatmulOrderD] = 1;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  values[kLtMatmulEpilogue] = kLtBias;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kNotSupported);
}

// A mask has a bit for each row, and a unit of the leading dimension is 128 of them.
TEST(LtMatmulTest, AuxiliaryMemoryHasAllRows) {
  std::vector<uint64_t> values = LtMatmul();
  values[kLtMatmulM] = values[kLtMatmulLda] = values[kLtMatmulLdc] = values[kLtMatmulLdd] = 1025;
  values[kLtMatmulStrideC] = values[kLtMatmulStrideD] = 100'000;
  LibraryCall call;
  const auto least = [&](uint64_t epilogue) {
    values[kLtMatmulEpilogue] = epilogue;
    for (values[kLtMatmulLdaux] = 1; values[kLtMatmulLdaux] < 1000; ++values[kLtMatmulLdaux]) {
      if (Read("cublasLtMatmul", values, &call) == CudaResult::kSuccess) break;
    }
    return values[kLtMatmulLdaux];
  };
  EXPECT_EQ(least(kLtRelu | kLtAuxiliary), 9u);
  EXPECT_EQ(least(kLtReluGradient | kLtAuxiliary | kLtBiasGradient), 9u);
  EXPECT_EQ(least(kLtGelu | kLtAuxiliary | kLtBias), 129u);
  EXPECT_EQ(least(kLtGeluGradient | kLtAuxiliary), 129u);
  // Without auxiliary memory its leading dimension says nothing.
  for (const uint64_t epilogue : {0, +kLtRelu, kLtRelu | kLtBias, +kLtGelu, kLtGelu | kLtBias}) {
    EXPECT_EQ(least(epilogue), 1u) << epilogue;
  }
}

// A product of 8-bit floating point of 304 by 16 with sums of 608 terms.
std::vector<uint64_t> LtFloat8() {
  std::vector<uint64_t> values = LtMatmul();
  values[kLtMatmulM] = 304;
  values[kLtMatmulN] = 16;
  values[kLtMatmulK] = 608;
  values[kLtMatmulTransa] = 1;
  values[kLtMatmulLda] = values[kLtMatmulLdb] = 608;
  values[kLtMatmulLdc] = values[kLtMatmulLdd] = 304;
  values[kLtMatmulStrideA] = 608 * 304;
  values[kLtMatmulStrideC] = values[kLtMatmulStrideD] = 304 * 16;
  values[kLtMatmulStrideB] = 608 * 16;
  values[kLtMatmulBatchCount] = 1;
  values[kLtMatmulAtype] = values[kLtMatmulDtype] = kE4m3;
  values[kLtMatmulBtype] = kE5m2;
  values[kLtMatmulCtype] = kBrain16;
  for (const uint32_t slot :
       {kLtMatmulScaleA, kLtMatmulScaleB, kLtMatmulScaleD, kLtMatmulLargestD}) {
    values[slot] = 0x10000;
  }
  return values;
}

TEST(LtMatmulTest, ScalesAreAsManyAsTheirKindSays) {
  std::vector<uint64_t> values = LtFloat8();
  const Slots plain = {{kLtMatmulA, 304 * 608},
                       {kLtMatmulB, 16 * 608},
                       {kLtMatmulC, 2 * 16 * 304},
                       {kLtMatmulD, 16 * 304}};
  EXPECT_EQ(OperandsOf(values), plain);
  // Sums of 608 terms have 5 blocks of 128. Squares have 8 places for them.
  const std::map<std::pair<uint64_t, uint64_t>, std::pair<uint64_t, uint64_t>> counts = {
      {{kLtScaleOne, kLtScaleNone}, {1, 0}},
      {{kLtScaleOne, kLtScaleOne}, {1, 1}},
      {{kLtScaleOuter, kLtScaleOuter}, {304, 16}},
      {{kLtScaleBlocks, kLtScaleBlocks}, {304 * 5, 16 * 5}},
      {{kLtScaleBlocks, kLtScaleSquares}, {304 * 5, 8}},
      {{kLtScaleSquares, kLtScaleBlocks}, {3 * 8, 16 * 5}}};
  for (uint64_t a = kLtScaleNone; a <= kLtMostScaling; ++a) {
    for (uint64_t b = kLtScaleNone; b <= kLtMostScaling; ++b) {
      values[kLtMatmulScalingA] = a;
      values[kLtMatmulScalingB] = b;
      const auto found = counts.find({a, b});
      LibraryCall call;
      if (found == counts.end()) {
        EXPECT_EQ(Read("cublasLtMatmul", values, &call) == CudaResult::kSuccess,
                  a == kLtScaleNone && b <= kLtScaleOne)
            << a << " and " << b;
        continue;
      }
      Slots wanted = plain;
      wanted[kLtMatmulScaleA] = 4 * found->second.first;
      if (found->second.second != 0) wanted[kLtMatmulScaleB] = 4 * found->second.second;
      EXPECT_EQ(OperandsOf(values), wanted) << a << " and " << b;
    }
  }
  values = LtFloat8();
  values[kLtMatmulScalingD] = values[kLtMatmulLargest] = 1;
  Slots wanted = plain;
  wanted[kLtMatmulScaleD] = wanted[kLtMatmulLargestD] = 4;
  EXPECT_EQ(OperandsOf(values), wanted);
}

TEST(LtMatmulTest, Float8HasItsTypesAndForms) {
  LibraryCall call;
  const std::vector<std::pair<uint32_t, uint64_t>> refused = {
      {kLtMatmulAtype, kE5m2},
      {kLtMatmulBtype, kReal16},
      {kLtMatmulCtype, kE4m3},
      {kLtMatmulDtype, kReal16},
      {kLtMatmulComputeType, kIn16},
      {kLtMatmulEpilogue, kLtRelu | kLtAuxiliary},
      {kLtMatmulEpilogue, kLtSumsOfA},
      {kLtMatmulArrays, 1},
      {kLtMatmulPlanes, 1},
      {kLtMatmulScalingA, kLtMostScaling + 1},
      {kLtMatmulScalingD, kLtScaleOuter},
      // Forms other than the one that was tested.
      {kLtMatmulTransa, 0},
      {kLtMatmulTransa, 2},
      {kLtMatmulTransb, 1},
      {kLtMatmulOrderA, 1},
      {kLtMatmulOrderB, 1},
      {kLtMatmulM, 303},
      {kLtMatmulFast, 2},
      {kLtMatmulK, 600},
      {kLtMatmulLda, 609},
      {kLtMatmulLdb, 609},
      {kLtMatmulA, 0x1008},
      {kLtMatmulB, 0x2008},
      {kLtMatmulC, 0x3008},
      {kLtMatmulD, 0x4008}};
  for (const auto& [slot, value] : refused) {
    std::vector<uint64_t> values = LtFloat8();
    ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
    values[slot] = value;
    EXPECT_NE(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess) << slot;
  }
  std::vector<uint64_t> values = LtFloat8();
  values[kLtMatmulFast] = 1;
  values[kLtMatmulN] = 15;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  values = LtFloat8();
  values[kLtMatmulBatchCount] = 2;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  for (const uint32_t slot : {kLtMatmulStrideA, kLtMatmulStrideB}) {
    std::vector<uint64_t> odd = values;
    odd[slot] += 8;
    EXPECT_EQ(Read("cublasLtMatmul", odd, &call), CudaResult::kNotSupported) << slot;
  }
  // Where the scales of a batch lie is not documented.
  values[kLtMatmulScalingA] = kLtScaleOne;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  values[kLtMatmulScalingA] = values[kLtMatmulScalingB] = kLtScaleOuter;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kNotSupported);
  // Vectors of scales are read in pieces of 16 bytes.
  values[kLtMatmulBatchCount] = 1;
  values[kLtMatmulScaleA] = 0x10004;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kInvalidValue);
  values[kLtMatmulScalingA] = values[kLtMatmulScalingB] = kLtScaleOne;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
}

TEST(LtMatmulTest, PlanesAreTwiceTheMatrix) {
  std::vector<uint64_t> values = LtMatmul();
  LibraryCall call;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  const uint64_t work = call.work;
  values[kLtMatmulPlanes] = 1;
  for (const uint32_t slot : {kLtMatmulImagA, kLtMatmulImagB}) values[slot] = 0x10000;
  values[kLtMatmulImagC] = values[kLtMatmulC] + 0x10000;
  values[kLtMatmulImagD] = values[kLtMatmulD] + 0x10000;
  Slots operands = OperandsOf(values, LibraryModes::kPointersToDevice);
  EXPECT_EQ(operands[kLtMatmulImagA], operands[kLtMatmulA]);
  EXPECT_EQ(operands[kLtMatmulImagB], operands[kLtMatmulB]);
  EXPECT_EQ(operands[kLtMatmulImagC], operands[kLtMatmulC]);
  EXPECT_EQ(operands[kLtMatmulImagD], 2 * (4000 + 4 * 20 + 3));
  EXPECT_EQ(operands[kLtMatmulAlpha], 8u);
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.work, 4 * work);
  // Kernels compute with the difference in 32 bits.
  for (const uint32_t slot : {kLtMatmulImagA, kLtMatmulImagB, kLtMatmulImagC, kLtMatmulImagD}) {
    std::vector<uint64_t> far = values;
    far[slot] += uint64_t{1} << 30;
    EXPECT_EQ(Read("cublasLtMatmul", far, &call), CudaResult::kNotSupported) << slot;
  }
  // A distance of zero means to the library that there is one plane, and planes do not overlap.
  const uint64_t bytes = operands[kLtMatmulA], far = uint64_t{1} << 30;
  values[kLtMatmulA] = far;
  for (const uint64_t apart : {uint64_t{0}, uint64_t{2}, bytes - 2, far - bytes, far}) {
    for (const uint64_t address : {far + apart, far - apart}) {
      std::vector<uint64_t> over = values;
      over[kLtMatmulImagA] = address;
      EXPECT_EQ(Read("cublasLtMatmul", over, &call), CudaResult::kNotSupported) << address;
    }
  }
  for (const uint64_t apart : {bytes, far - bytes - 2}) {
    for (const uint64_t address : {far + apart, far - apart}) {
      values[kLtMatmulImagA] = address;
      EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess) << address;
    }
  }
  // Their distance and what they span have 30 bits together.
  std::vector<uint64_t> wide = values;
  wide[kLtMatmulStrideA] = uint64_t{1} << 29;
  EXPECT_EQ(Read("cublasLtMatmul", wide, &call), CudaResult::kNotSupported);
  // C and D have one layout.
  values[kLtMatmulImagD] += 16;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kNotSupported);
  values[kLtMatmulImagC] += 16;
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
}

TEST(LtMatmulTest, ArraysHaveAnAddressForEachMatrix) {
  std::vector<uint64_t> values = LtMatmul();
  values[kLtMatmulArrays] = 1;
  EXPECT_EQ(OperandsOf(values), (Slots{{kLtMatmulArrayA, 16},
                                       {kLtMatmulArrayB, 16},
                                       {kLtMatmulArrayC, 16},
                                       {kLtMatmulArrayD, 16}}));
  LibraryCall call;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  ASSERT_EQ(call.addresses.size(), 4u);
  EXPECT_EQ(call.addresses[0].bytes, 2u * (6 * 10 + 3));
  EXPECT_EQ(call.addresses[3].bytes, 2u * (4 * 20 + 3));
  EXPECT_EQ(call.addresses[3].use, OperandUse::kReadWrite);
  for (const LibraryAddresses& addresses : call.addresses) {
    EXPECT_EQ(addresses.count, 2u);
    EXPECT_EQ(addresses.align, 16u);
  }
  // Without arrays no address is read.
  values[kLtMatmulArrays] = 0;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_TRUE(call.addresses.empty());
}

TEST(LtMatmulTest, AConfigurationIsWhatTheLibraryHas) {
  LtKind kind = {};
  kind.id = 10;
  kind.tiles[0] = 1u << 5 | 1u << 31;
  kind.tiles[1] = 1u << 3;
  kind.capabilities[kLtCanSplit] = 1;
  kind.capabilities[kLtCanReduce] = 5;
  kind.capabilities[kLtMostCustom] = 2;
  const auto has = [&](uint64_t id, std::vector<std::pair<int, uint64_t>> config) {
    std::vector<uint64_t> values(kLtConfigAttributes);
    values[kLtConfigTile] = 5;
    for (const auto& [attribute, value] : config) values[attribute] = value;
    return IsLtConfig(&kind, id, values.data()) != 0;
  };
  EXPECT_TRUE(has(10, {}));
  EXPECT_FALSE(has(11, {}));
  EXPECT_TRUE(has(10, {{kLtConfigTile, 31}}));
  EXPECT_TRUE(has(10, {{kLtConfigTile, 35}}));
  EXPECT_TRUE(has(10, {{kLtConfigSplits, 256}, {kLtConfigScheme, 4}, {kLtConfigCustom, 2}}));
  EXPECT_TRUE(has(10, {{kLtConfigSplits, 1}}));
  // Parts are added up by some scheme, and without parts there is nothing to add.
  EXPECT_FALSE(has(10, {{kLtConfigSplits, 2}}));
  EXPECT_FALSE(has(10, {{kLtConfigScheme, 1}}));
  EXPECT_FALSE(has(10, {{kLtConfigSplits, 2}, {kLtConfigScheme, 2}}));
  EXPECT_FALSE(has(10, {{kLtConfigSplits, 2}, {kLtConfigScheme, 5}}));
  EXPECT_FALSE(has(10, {{kLtConfigSplits, kLtMostSplits + 1}, {kLtConfigScheme, 1}}));
  for (const auto& [attribute, value] :
       std::vector<std::pair<int, uint64_t>>{{kLtConfigTile, 0},
                                             {kLtConfigTile, 6},
                                             {kLtConfigTile, 32 * kLtTileWords},
                                             {kLtConfigTile, uint64_t{1} << 40},
                                             {kLtConfigStages, 1},
                                             {kLtConfigSwizzle, 1},
                                             {kLtConfigCustom, 3},
                                             {kLtConfigInner, 1},
                                             {kLtConfigCluster, kLtMostCluster + 1}}) {
    EXPECT_FALSE(has(10, {{attribute, value}})) << attribute << " of " << value;
  }
  kind.capabilities[kLtCanSplit] = 0;
  EXPECT_FALSE(has(10, {{kLtConfigSplits, 2}, {kLtConfigScheme, 1}}));
  EXPECT_TRUE(has(10, {}));
}

TEST(LtMatmulTest, ConfiguredAlgorithmsTakeLonger) {
  std::vector<uint64_t> values = LtMatmul();
  LibraryCall call;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  const uint64_t work = call.work;
  values[kLtMatmulOwn] = 1;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.work, 8 * work);
  // Each part of the sums reads and writes the whole result.
  values[kLtMatmulSplits] = 7;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.work, 8 * work + 1000 * 3 * 5 * 2 * 7);
  values[kLtMatmulSplits] = 8;  // More than there are terms.
  EXPECT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kNotSupported);
}

TEST(LtMatmulTest, TheTimeIsThatOfTheBlocksThatComputeTheResult) {
  std::vector<uint64_t> values = LtMatmul();
  LibraryCall call;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.blocks, 2u);  // One for each of the batch.
  values[kLtMatmulM] = values[kLtMatmulLda] = values[kLtMatmulLdc] = values[kLtMatmulLdd] = 1000;
  values[kLtMatmulN] = 129;
  values[kLtMatmulStrideC] = values[kLtMatmulStrideD] = 200'000;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.blocks, 2u * 8 * 2);
  EXPECT_EQ(call.work, 2u * 2 * 1000 * 129 * 7);
}

TEST(LtMatmulTest, ALongCallIsDividedByColumnsWhereTheyAreIndependent) {
  std::vector<uint64_t> values = LtMatmul();
  LibraryCall call;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.divide_slot, LibraryCall::kNoSlot);  // There are two.
  values[kLtMatmulBatchCount] = 1;
  values[kLtMatmulEpilogue] = kLtGelu | kLtAuxiliary | kLtBias;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.divide_slot, +kLtMatmulN);
  Slots advances;
  for (const LibraryCall::Advance& advance : call.advances) advances[advance.slot] = advance.bytes;
  EXPECT_EQ(advances, (Slots{{kLtMatmulB, 2 * 20},
                             {kLtMatmulC, 2 * 20},
                             {kLtMatmulD, 2 * 20},
                             {kLtMatmulMaskRead, 16 * 4},
                             {kLtMatmulMaskWritten, 16 * 4},
                             {kLtMatmulAuxRead, 2 * 8 * 4},
                             {kLtMatmulAuxWritten, 2 * 8 * 4}}));
  // A call with a scale for each column has no parts, nor has one with a number for all.
  values = LtFloat8();
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.divide_slot, +kLtMatmulN);
  values[kLtMatmulScalingA] = values[kLtMatmulScalingB] = kLtScaleOuter;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.divide_slot, LibraryCall::kNoSlot);
  values[kLtMatmulScalingA] = values[kLtMatmulScalingB] = kLtScaleOne;
  values[kLtMatmulLargest] = 1;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.divide_slot, LibraryCall::kNoSlot);
  // A sum over all columns has no parts.
  values = LtMatmul();
  values[kLtMatmulBatchCount] = 1;
  values[kLtMatmulEpilogue] = kLtSumsOfA;
  ASSERT_EQ(Read("cublasLtMatmul", values, &call), CudaResult::kSuccess);
  EXPECT_EQ(call.divide_slot, LibraryCall::kNoSlot);
}

}  // namespace
}  // namespace warpline
