#include "server/device/cuda/libraries/lt_matmul.h"

#include <algorithm>
#include <utility>

#include "proto/adapters/blas_types.h"
#include "proto/adapters/library_call.h"
#include "proto/adapters/lt_operands.h"
#include "proto/adapters/lt_types.h"
#include "server/device/cuda/libraries/cublas_status.h"
#include "server/device/cuda/libraries/library_driver.h"
#include "server/device/cuda/libraries/lt_descriptors.h"

namespace warpline::device {

using lt::Descriptors;

namespace {

// Addresses in arrays are multiples of this (proto/adapters/cublas.toml).
constexpr uint64_t kAlignmentInArrays = 16;

}  // namespace

LtMatmul::Key LtMatmul::MakeKey(absl::Span<const uint64_t> values, uint32_t modes,
                                uint64_t workspace_bytes) {
  // Sizes between two multiples of this lead to the same algorithms.
  constexpr uint64_t kWorkspaceUnit = uint64_t{64} << 10;
  Key key;
  std::copy(values.begin(), values.end(), key.begin());
  key.back() = modes & LibraryModes::kPointersToDevice;
  for (const uint32_t slot : kLtOthers) key[slot] = LtAlignment(values[slot]);
  for (const LtOperand& operand : kLtOperands) {
    const uint64_t address = values[operand.address], plane = values[operand.plane];
    uint64_t& alignment = key[operand.address];
    alignment = LtAlignment(address);
    key[operand.plane] = key[operand.array] = 0;
    if (values[kLtMatmulPlanes] != 0) {
      alignment = std::min(alignment, LtAlignment(plane));
      // The planes are apart by a number that is as aligned as it was, in the same direction.
      const uint64_t apart = LtAlignment(plane - address);
      key[operand.plane] = plane > address ? alignment + apart : alignment - apart;
    }
    if (values[kLtMatmulArrays] != 0) alignment = kAlignmentInArrays;
  }
  key[kLtMatmulAlpha] = key[kLtMatmulAlpha + 1] = 0;
  key[kLtMatmulBeta] = key[kLtMatmulBeta + 1] = 0;
  if (values[kLtMatmulOwn] == 0) key[kLtMatmulAlgorithm] = 0;
  const uint64_t workspace = std::min(key[kLtMatmulWorkspace], workspace_bytes);
  key[kLtMatmulWorkspace] = workspace - workspace % kWorkspaceUnit;
  // Values that the call does not use make no difference.
  const uint64_t epilogue = key[kLtMatmulEpilogue];
  if ((epilogue & kLtAuxiliary) == 0) key[kLtMatmulLdaux] = 1;
  if (key[kLtMatmulBatchCount] == 1 || (epilogue & kLtAuxiliary) == 0) key[kLtMatmulStrideAux] = 0;
  if (key[kLtMatmulBatchCount] == 1 || epilogue == 0) key[kLtMatmulStrideBias] = 0;
  if (key[kLtMatmulBatchCount] == 1) {
    key[kLtMatmulStrideA] = key[kLtMatmulStrideB] = 0;
    key[kLtMatmulStrideC] = key[kLtMatmulStrideD] = 0;
  }
  if (values[kLtMatmulOwn] != 0) {
    key[kLtMatmulRequested] = key[kLtMatmulReductions] = 0;
  } else {
    std::fill_n(&key[kLtMatmulOwn], kLtConfigAttributes, 0);
  }
  return key;
}

LtMatmul::PlansPointer LtMatmul::Look(const Key& key) {
  MutexLock lock(&mu_);
  const auto young = young_.find(key);
  if (young != young_.end()) return young->second;
  const auto old = old_.find(key);
  if (old == old_.end()) return nullptr;
  if (young_.size() < kMostKept) young_.emplace(key, old->second);
  return old->second;
}

void LtMatmul::Keep(const Key& key, const PlansPointer& plans) {
  MutexLock lock(&mu_);
  if (young_.size() >= kMostKept) {
    old_ = std::move(young_);
    young_.clear();
  }
  young_.insert_or_assign(key, plans);
}

LtMatmul::PlansPointer LtMatmul::Search(const Key& key, void* searcher) {
  auto found = std::make_shared<LtPlans>();
  const absl::Span<const uint64_t> values(key.data(), kLtMatmulValues);
  const auto modes = static_cast<uint32_t>(key.back());
  std::vector<lt::Result> results;
  if (values[kLtMatmulOwn] != 0) {
    results.resize(1);
    found->status = kinds_.Make(values, modes, searcher, results.data());
  } else {
    found->status = Ask(values, modes, searcher, &results);
  }
  if (found->status != kSuccess) return found;
  for (const lt::Result& result : results) {
    if (result.state != kSuccess || result.workspace > values[kLtMatmulWorkspace]) continue;
    LtPlans::Plan plan = {result.algorithm, {result.workspace, result.waves, {}}};
    for (int i = 0; i < kLtConfigAttributes; ++i) {
      size_t written = 0;
      const size_t bytes = i < kLtFirstShort ? sizeof(uint32_t) : sizeof(uint16_t);
      lt::Lt()->get_config(&result.algorithm, i, &plan.known.config[i], bytes, &written);
    }
    found->plans.push_back(plan);
  }
  if (found->plans.empty()) found->status = kNotSupported;
  return found;
}

int LtMatmul::Ask(absl::Span<const uint64_t> values, uint32_t modes, void* searcher,
                  std::vector<lt::Result>* results) {
  Descriptors descriptors(values, modes);
  lt::Preference preference;
  int status = lt::Lt()->init_preference(&preference, sizeof(preference));
  const auto set = [&](int attribute, auto value) {
    if (status != kSuccess) return;
    status = lt::Lt()->set_preference(&preference, attribute, &value, sizeof(value));
  };
  set(kLtMostWorkspace, values[kLtMatmulWorkspace]);
  set(kLtReductions, static_cast<uint32_t>(values[kLtMatmulReductions]));
  set(kLtAlignmentOfA, static_cast<uint32_t>(values[kLtMatmulA]));
  set(kLtAlignmentOfB, static_cast<uint32_t>(values[kLtMatmulB]));
  set(kLtAlignmentOfC, static_cast<uint32_t>(values[kLtMatmulC]));
  set(kLtAlignmentOfD, static_cast<uint32_t>(values[kLtMatmulD]));
  if (status == kSuccess) status = descriptors.status();
  if (status != kSuccess) return status;
  const auto requested = static_cast<int>(std::max<uint64_t>(values[kLtMatmulRequested], 1));
  results->resize(requested);
  int count = 0;
  status = lt::Lt()->find(searcher, &descriptors.description, &descriptors.a, &descriptors.b,
                          &descriptors.c, &descriptors.d, &preference, requested, results->data(),
                          &count);
  results->resize(std::clamp(count, 0, requested));
  return status;
}

void LtMatmul::TakeTurn() {
  MutexLock lock(&mu_);
  const uint64_t mine = next_turn_++;
  while (turn_ != mine) turned_.Wait(&mu_);
}

void LtMatmul::EndTurn() {
  {
    MutexLock lock(&mu_);
    ++turn_;
  }
  turned_.NotifyAll();
}

std::shared_ptr<const lt::Kinds::List> LtMatmul::FindKinds(absl::Span<const uint64_t> values,
                                                           void* searcher) {
  if (lt::Lt() == nullptr) return std::make_shared<lt::Kinds::List>();
  TakeTurn();
  auto kinds = kinds_.Find(values, searcher);
  EndTurn();
  return kinds;
}

std::shared_ptr<const LtPlans> LtMatmul::Find(absl::Span<const uint64_t> values, uint32_t modes,
                                              uint64_t workspace_bytes, void* searcher) {
  if (lt::Lt() == nullptr) {
    auto none = std::make_shared<LtPlans>();
    none->status = kNotSupported;
    return none;
  }
  const Key key = MakeKey(values, modes, workspace_bytes);
  PlansPointer plans = Look(key);
  if (plans != nullptr) return plans;
  TakeTurn();
  // Another thread may have searched for the same meanwhile.
  plans = Look(key);
  if (plans == nullptr) {
    plans = Search(key, searcher);
    if (lt::IsFinal(plans->status)) Keep(key, plans);
  }
  EndTurn();
  return plans;
}

int LtMatmul::Run(const LtPlans& plans, absl::Span<const uint64_t> values, uint32_t modes,
                  const Scalars& scalars, void* handle, CUstream stream,
                  const Workspace& workspace) {
  const uint64_t wanted = values[kLtMatmulOwn] != 0 ? 0 : values[kLtMatmulAlgorithm];
  const LtPlans::Plan& plan = plans.plans[wanted < plans.plans.size() ? wanted : 0];
  Descriptors descriptors(values, modes);
  if (descriptors.status() != kSuccess) return descriptors.status();
  const auto at = [&](const LtOperand& operand) {
    const bool is_array = values[kLtMatmulArrays] != 0;
    return reinterpret_cast<void*>(values[is_array ? operand.array : operand.address]);
  };
  return lt::Lt()->multiply(handle, &descriptors.description, scalars.alpha, at(kLtOperands[kLtA]),
                            &descriptors.a, at(kLtOperands[kLtB]), &descriptors.b, scalars.beta,
                            at(kLtOperands[kLtC]), &descriptors.c, at(kLtOperands[kLtD]),
                            &descriptors.d, &plan.algorithm,
                            reinterpret_cast<void*>(workspace.address), workspace.bytes, stream);
}

}  // namespace warpline::device
