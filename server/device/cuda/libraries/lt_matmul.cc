#include "server/device/cuda/libraries/lt_matmul.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "proto/adapters/blas_types.h"
#include "proto/adapters/library_call.h"
#include "proto/adapters/lt_types.h"
#include "server/device/cuda/libraries/library_driver.h"

namespace warpline::device {
namespace {

// Numbers of cublasStatus_t.
enum Status : int { kSuccess = 0, kInvalidValue = 7, kNotSupported = 15 };

// The library's opaque structures, by its public sizes.
template <size_t kWords>
struct Opaque {
  std::array<uint64_t, kWords> words{};
};
using Description = Opaque<32>;
using Layout = Opaque<8>;
using Preference = Opaque<8>;
using Algorithm = Opaque<8>;

// cublasLtMatmulHeuristicResult_t
struct Result {
  Algorithm algorithm;
  size_t workspace = 0;
  int state = 0;
  float waves = 0;
  std::array<int, 4> reserved{};
};

// The library's functions. Written by Load(), before any thread calls them.
struct Functions {
  int (*init_description)(Description*, size_t, int compute, int scale) = nullptr;
  int (*set_description)(Description*, int attribute, const void*, size_t) = nullptr;
  int (*init_layout)(Layout*, size_t, int type, uint64_t rows, uint64_t columns,
                     int64_t leading) = nullptr;
  int (*set_layout)(Layout*, int attribute, const void*, size_t) = nullptr;
  int (*init_preference)(Preference*, size_t) = nullptr;
  int (*set_preference)(Preference*, int attribute, const void*, size_t) = nullptr;
  int (*find)(void* handle, Description*, Layout* a, Layout* b, Layout* c, Layout* d, Preference*,
              int requested, Result*, int* found) = nullptr;
  int (*get_config)(const Algorithm*, int attribute, void*, size_t, size_t* written) = nullptr;
  int (*multiply)(void* handle, Description*, const void* alpha, const void* a, Layout*,
                  const void* b, Layout*, const void* beta, const void* c, Layout*, void* d,
                  Layout*, const Algorithm*, void* workspace, size_t workspace_bytes,
                  CUstream) = nullptr;
  bool loaded = false;
};
Functions functions;

template <typename F>
bool FindOne(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

constexpr uint32_t kAddresses[] = {kLtMatmulA,         kLtMatmulB,           kLtMatmulC,
                                   kLtMatmulD,         kLtMatmulBias,        kLtMatmulGradient,
                                   kLtMatmulMaskRead,  kLtMatmulMaskWritten, kLtMatmulAuxRead,
                                   kLtMatmulAuxWritten};

// The descriptors of a call. The library keeps no address of them.
class Descriptors {
 public:
  Descriptors(absl::Span<const uint64_t> values, uint32_t modes) : values_(values) {
    Describe(modes);
    const uint64_t m = values[kLtMatmulM], n = values[kLtMatmulN], k = values[kLtMatmulK];
    const bool ta = values[kLtMatmulTransa] != 0, tb = values[kLtMatmulTransb] != 0;
    Lay(kLtMatmulAtype, kLtMatmulOrderA, ta ? k : m, ta ? m : k, &a);
    Lay(kLtMatmulBtype, kLtMatmulOrderB, tb ? n : k, tb ? k : n, &b);
    Lay(kLtMatmulCtype, kLtMatmulOrderC, m, n, &c);
    Lay(kLtMatmulCtype, kLtMatmulOrderD, m, n, &d);
  }

  // The first error, or kSuccess.
  int status() const { return status_; }

  Description description;
  Layout a, b, c, d;

 private:
  void Note(int status) {
    if (status_ == kSuccess) status_ = status;
  }
  template <typename T>
  void Set(int attribute, T value) {
    Note(functions.set_description(&description, attribute, &value, sizeof(value)));
  }
  bool Has(uint64_t bits) const { return (values_[kLtMatmulEpilogue] & bits) != 0; }

  void Describe(uint32_t modes) {
    const auto compute = static_cast<int64_t>(values_[kLtMatmulComputeType]);
    const int scale = LtScaleType(compute, static_cast<int64_t>(values_[kLtMatmulCtype]));
    Note(functions.init_description(&description, sizeof(description), static_cast<int>(compute),
                                    scale));
    Set(kLtTransA, static_cast<int32_t>(values_[kLtMatmulTransa]));
    Set(kLtTransB, static_cast<int32_t>(values_[kLtMatmulTransb]));
    if ((modes & LibraryModes::kPointersToDevice) != 0) Set(kLtPointerMode, int32_t{1});
    const uint64_t epilogue = values_[kLtMatmulEpilogue];
    if (epilogue == 0) return;
    Set(kLtEpilogueKind, static_cast<uint32_t>(epilogue));
    const bool sums = Has(kLtBiasGradient | kLtSumsOfA | kLtSumsOfB);
    if (sums || Has(kLtBias)) {
      Set(kLtBiasPointer, values_[sums ? kLtMatmulGradient : kLtMatmulBias]);
      Set(kLtBiasStride, static_cast<int64_t>(values_[kLtMatmulStrideBias]));
    }
    if (!Has(kLtAuxiliary)) return;
    const bool mask = Has(kLtRelu | kLtReluGradient);
    const bool reads = Has(kLtReluGradient | kLtGeluGradient);
    const uint32_t slot = mask ? (reads ? kLtMatmulMaskRead : kLtMatmulMaskWritten)
                               : (reads ? kLtMatmulAuxRead : kLtMatmulAuxWritten);
    const int64_t unit = mask ? kLtMaskBits : kLtAuxElements;
    Set(kLtAuxPointer, values_[slot]);
    Set(kLtAuxLeading, static_cast<int64_t>(values_[kLtMatmulLdaux]) * unit);
    Set(kLtAuxStride, static_cast<int64_t>(values_[kLtMatmulStrideAux]) * unit);
  }

  // A matrix's leading dimension and stride follow on its order.
  void Lay(uint32_t type, uint32_t order, uint64_t rows, uint64_t columns, Layout* layout) {
    Note(functions.init_layout(layout, sizeof(*layout), static_cast<int>(values_[type]), rows,
                               columns, static_cast<int64_t>(values_[order + 1])));
    const auto set = [&](int attribute, auto value) {
      Note(functions.set_layout(layout, attribute, &value, sizeof(value)));
    };
    if (values_[order] != 0) set(kLtLayoutOrder, static_cast<int32_t>(values_[order]));
    const auto batches = static_cast<int32_t>(values_[kLtMatmulBatchCount]);
    if (batches == 1) return;
    set(kLtLayoutBatchCount, batches);
    set(kLtLayoutStride, static_cast<int64_t>(values_[order + 2]));
  }

  const absl::Span<const uint64_t> values_;
  int status_ = kSuccess;
};

}  // namespace

bool LtMatmul::Load(void* library) {
  Functions& f = functions;
  f.loaded = FindOne(library, "cublasLtMatmulDescInit_internal", &f.init_description) &&
             FindOne(library, "cublasLtMatmulDescSetAttribute", &f.set_description) &&
             FindOne(library, "cublasLtMatrixLayoutInit_internal", &f.init_layout) &&
             FindOne(library, "cublasLtMatrixLayoutSetAttribute", &f.set_layout) &&
             FindOne(library, "cublasLtMatmulPreferenceInit_internal", &f.init_preference) &&
             FindOne(library, "cublasLtMatmulPreferenceSetAttribute", &f.set_preference) &&
             FindOne(library, "cublasLtMatmulAlgoGetHeuristic", &f.find) &&
             FindOne(library, "cublasLtMatmulAlgoConfigGetAttribute", &f.get_config) &&
             FindOne(library, "cublasLtMatmul", &f.multiply);
  return f.loaded;
}

LtMatmul::Key LtMatmul::MakeKey(absl::Span<const uint64_t> values, uint32_t modes,
                                uint64_t workspace_bytes) {
  // Sizes between two multiples of this lead to the same algorithms.
  constexpr uint64_t kWorkspaceUnit = uint64_t{64} << 10;
  Key key;
  std::copy(values.begin(), values.end(), key.begin());
  key.back() = modes & LibraryModes::kPointersToDevice;
  for (const uint32_t slot : kAddresses) key[slot] = LtAlignment(values[slot]);
  key[kLtMatmulAlpha] = key[kLtMatmulAlpha + 1] = 0;
  key[kLtMatmulBeta] = key[kLtMatmulBeta + 1] = 0;
  key[kLtMatmulAlgorithm] = 0;
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
  Descriptors descriptors(values, static_cast<uint32_t>(key.back()));
  Preference preference;
  found->status = functions.init_preference(&preference, sizeof(preference));
  const auto set = [&](int attribute, auto value) {
    if (found->status != kSuccess) return;
    found->status = functions.set_preference(&preference, attribute, &value, sizeof(value));
  };
  set(kLtMostWorkspace, values[kLtMatmulWorkspace]);
  set(kLtReductions, static_cast<uint32_t>(values[kLtMatmulReductions]));
  set(kLtAlignmentOfA, static_cast<uint32_t>(values[kLtMatmulA]));
  set(kLtAlignmentOfB, static_cast<uint32_t>(values[kLtMatmulB]));
  set(kLtAlignmentOfC, static_cast<uint32_t>(values[kLtMatmulC]));
  set(kLtAlignmentOfD, static_cast<uint32_t>(values[kLtMatmulD]));
  if (found->status == kSuccess) found->status = descriptors.status();
  if (found->status != kSuccess) return found;
  const auto requested = static_cast<int>(std::max<uint64_t>(values[kLtMatmulRequested], 1));
  std::vector<Result> results(requested);
  int count = 0;
  found->status = functions.find(searcher, &descriptors.description, &descriptors.a, &descriptors.b,
                                 &descriptors.c, &descriptors.d, &preference, requested,
                                 results.data(), &count);
  results.resize(found->status == kSuccess ? std::clamp(count, 0, requested) : 0);
  for (const Result& result : results) {
    if (result.state != kSuccess || result.workspace > values[kLtMatmulWorkspace]) continue;
    LtPlans::Plan plan = {result.algorithm.words, {result.workspace, result.waves, {}}};
    for (int i = 0; i < kLtConfigAttributes; ++i) {
      size_t written = 0;
      const size_t bytes = i < kLtFirstShort ? sizeof(uint32_t) : sizeof(uint16_t);
      functions.get_config(&result.algorithm, i, &plan.known.config[i], bytes, &written);
    }
    found->plans.push_back(plan);
  }
  if (found->status == kSuccess && found->plans.empty()) found->status = kNotSupported;
  return found;
}

std::shared_ptr<const LtPlans> LtMatmul::Find(absl::Span<const uint64_t> values, uint32_t modes,
                                              uint64_t workspace_bytes, void* searcher) {
  if (!functions.loaded) {
    auto none = std::make_shared<LtPlans>();
    none->status = kNotSupported;
    return none;
  }
  const Key key = MakeKey(values, modes, workspace_bytes);
  PlansPointer plans = Look(key);
  if (plans != nullptr) return plans;
  {
    MutexLock lock(&mu_);
    const uint64_t mine = next_turn_++;
    while (turn_ != mine) turned_.Wait(&mu_);
  }
  // Another thread may have searched for the same meanwhile.
  plans = Look(key);
  if (plans == nullptr) {
    plans = Search(key, searcher);
    // A search that failed because of the moment may work later.
    const bool is_final = plans->status == kSuccess || plans->status == kNotSupported ||
                          plans->status == kInvalidValue;
    if (is_final && LibraryScope::Current()->error() == CUDA_SUCCESS) Keep(key, plans);
  }
  {
    MutexLock lock(&mu_);
    ++turn_;
  }
  turned_.NotifyAll();
  return plans;
}

int LtMatmul::Run(const LtPlans& plans, absl::Span<const uint64_t> values, uint32_t modes,
                  const Scalars& scalars, void* handle, CUstream stream,
                  const Workspace& workspace) {
  const uint64_t wanted = values[kLtMatmulAlgorithm];
  const LtPlans::Plan& plan = plans.plans[wanted < plans.plans.size() ? wanted : 0];
  Descriptors descriptors(values, modes);
  if (descriptors.status() != kSuccess) return descriptors.status();
  Algorithm algorithm;
  algorithm.words = plan.algorithm;
  const auto at = [&](uint32_t slot) { return reinterpret_cast<void*>(values[slot]); };
  return functions.multiply(handle, &descriptors.description, scalars.alpha, at(kLtMatmulA),
                            &descriptors.a, at(kLtMatmulB), &descriptors.b, scalars.beta,
                            at(kLtMatmulC), &descriptors.c, at(kLtMatmulD), &descriptors.d,
                            &algorithm, reinterpret_cast<void*>(workspace.address), workspace.bytes,
                            stream);
}

}  // namespace warpline::device
