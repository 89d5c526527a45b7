#include "server/device/cuda/libraries/lt_descriptors.h"

#include "proto/adapters/blas_types.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/library_call.h"
#include "proto/adapters/lt_types.h"

namespace warpline::device::lt {
namespace {

int TypeOf(absl::Span<const uint64_t> values, uint32_t slot) {
  const auto type = static_cast<int>(values[slot]);
  return values[kLtMatmulPlanes] != 0 ? LtComplexOf(type) : type;
}

}  // namespace

CallTypes::CallTypes(absl::Span<const uint64_t> values)
    : compute(static_cast<int>(values[kLtMatmulComputeType])),
      a(TypeOf(values, kLtMatmulAtype)),
      b(TypeOf(values, kLtMatmulBtype)),
      c(TypeOf(values, kLtMatmulCtype)),
      d(TypeOf(values, kLtMatmulDtype)) {
  scale = LtScaleType(compute, c);
}

Descriptors::Descriptors(absl::Span<const uint64_t> values, uint32_t modes)
    : values_(values), types_(values) {
  Describe(modes);
  const uint64_t m = values[kLtMatmulM], n = values[kLtMatmulN], k = values[kLtMatmulK];
  const bool ta = values[kLtMatmulTransa] != 0, tb = values[kLtMatmulTransb] != 0;
  Lay(types_.a, kLtOperands[kLtA], ta ? k : m, ta ? m : k, &a);
  Lay(types_.b, kLtOperands[kLtB], tb ? n : k, tb ? k : n, &b);
  Lay(types_.c, kLtOperands[kLtC], m, n, &c);
  Lay(types_.d, kLtOperands[kLtD], m, n, &d);
}

void Descriptors::Note(int status) {
  if (status_ == kSuccess) status_ = status;
}

template <typename T>
void Descriptors::Set(int attribute, T value) {
  Note(Lt()->set_description(&description, attribute, &value, sizeof(value)));
}

void Descriptors::Describe(uint32_t modes) {
  Note(Lt()->init_description(&description, sizeof(description), types_.compute, types_.scale));
  Set(kLtTransA, static_cast<int32_t>(values_[kLtMatmulTransa]));
  Set(kLtTransB, static_cast<int32_t>(values_[kLtMatmulTransb]));
  if ((modes & LibraryModes::kPointersToDevice) != 0) Set(kLtPointerMode, int32_t{1});
  const uint64_t epilogue = values_[kLtMatmulEpilogue];
  if (epilogue != 0) DescribeEpilogue(epilogue);
  if (IsBlasFloat8(types_.a)) DescribeScales();
}

void Descriptors::DescribeEpilogue(uint64_t epilogue) {
  const auto has = [&](uint64_t bits) { return (epilogue & bits) != 0; };
  Set(kLtEpilogueKind, static_cast<uint32_t>(epilogue));
  const bool sums = has(kLtBiasGradient | kLtSumsOfA | kLtSumsOfB);
  if (sums || has(kLtBias)) {
    Set(kLtBiasPointer, values_[sums ? kLtMatmulGradient : kLtMatmulBias]);
    Set(kLtBiasStride, static_cast<int64_t>(values_[kLtMatmulStrideBias]));
    if (types_.c != types_.d) Set(kLtBiasType, static_cast<int32_t>(types_.c));
  }
  if (!has(kLtAuxiliary)) return;
  const LtAuxiliaryMemory memory = LtAuxiliaryOf(epilogue);
  Set(kLtAuxPointer, values_[memory.slot]);
  Set(kLtAuxLeading, static_cast<int64_t>(values_[kLtMatmulLdaux]) * memory.unit);
  Set(kLtAuxStride, static_cast<int64_t>(values_[kLtMatmulStrideAux]) * memory.unit);
}

void Descriptors::DescribeScales() {
  const auto scale = [&](uint32_t scaling, int pointer, int mode) {
    const auto kind = static_cast<int>(values_[scaling]);
    if (kind == kLtScaleNone) return;
    Set(pointer, values_[scaling + 1]);
    if (kind != kLtScaleOne) Set(mode, static_cast<int32_t>(LtScaleModeOf(kind)));
  };
  scale(kLtMatmulScalingA, kLtScaleOfA, kLtScaleModeOfA);
  scale(kLtMatmulScalingB, kLtScaleOfB, kLtScaleModeOfB);
  scale(kLtMatmulScalingD, kLtScaleOfD, kLtScaleModeOfD);
  if (values_[kLtMatmulLargest] != 0) Set(kLtLargestOfD, values_[kLtMatmulLargestD]);
  if (values_[kLtMatmulFast] != 0) Set(kLtFastSums, int8_t{1});
}

void Descriptors::Lay(int type, const LtOperand& operand, uint64_t rows, uint64_t columns,
                      Layout* layout) {
  Note(Lt()->init_layout(layout, sizeof(*layout), type, rows, columns,
                         static_cast<int64_t>(values_[operand.order + 1])));
  const auto set = [&](int attribute, auto value) {
    Note(Lt()->set_layout(layout, attribute, &value, sizeof(value)));
  };
  if (values_[operand.order] != 0) {
    set(kLtLayoutOrder, static_cast<int32_t>(values_[operand.order]));
  }
  if (values_[kLtMatmulPlanes] != 0) {
    set(kLtLayoutPlaneOffset,
        static_cast<int64_t>(values_[operand.plane] - values_[operand.address]));
  }
  const bool arrays = values_[kLtMatmulArrays] != 0;
  if (arrays) set(kLtLayoutBatchMode, int32_t{1});
  const auto batches = static_cast<int32_t>(values_[kLtMatmulBatchCount]);
  if (batches == 1) return;
  set(kLtLayoutBatchCount, batches);
  if (!arrays) set(kLtLayoutStride, static_cast<int64_t>(values_[operand.order + 2]));
}

}  // namespace warpline::device::lt
