#include "server/device/cuda/libraries/lt_kinds.h"

#include <algorithm>
#include <cstring>

#include "proto/adapters/blas_types.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/lt_operands.h"
#include "server/device/cuda/libraries/cublas_status.h"
#include "server/device/cuda/libraries/library_driver.h"
#include "server/device/cuda/libraries/lt_descriptors.h"

namespace warpline::device::lt {
namespace {

// Sets the bits of the numbers in an attribute that is a list.
template <size_t kWords>
void GetBits(const Algorithm& algorithm, int attribute, uint32_t (&bits)[kWords]) {
  std::vector<uint32_t> numbers(kWords * 32);
  size_t written = 0;
  const int status = Lt()->get_capability(&algorithm, attribute, numbers.data(),
                                          numbers.size() * sizeof(numbers[0]), &written);
  if (status != kSuccess) return;
  numbers.resize(std::min(written / sizeof(numbers[0]), numbers.size()));
  for (const uint32_t number : numbers) {
    if (number < kWords * 32) bits[number / 32] |= uint32_t{1} << (number % 32);
  }
}

LtKind Describe(const Algorithm& algorithm, int id) {
  LtKind kind = {};
  kind.id = static_cast<uint32_t>(id);
  for (int i = 0; i < kLtCapabilities; ++i) {
    if (i == kLtTiles || i == kLtStages || i == kLtNumericalFlags) continue;
    size_t written = 0;
    const int status =
        Lt()->get_capability(&algorithm, i, &kind.capabilities[i], sizeof(uint32_t), &written);
    if (status == kSuccess) kind.known |= uint32_t{1} << i;
  }
  size_t written = 0;
  Lt()->get_capability(&algorithm, kLtNumericalFlags, &kind.flags, sizeof(kind.flags), &written);
  GetBits(algorithm, kLtTiles, kind.tiles);
  GetBits(algorithm, kLtStages, kind.stages);
  return kind;
}

int InitAlgorithm(const CallTypes& types, int id, void* handle, Algorithm* algorithm) {
  return Lt()->init_algorithm(handle, types.compute, types.scale, types.a, types.b, types.c,
                              types.d, id, algorithm);
}

// Returns whether the operands are aligned as the algorithm needs it: the library's check does not
// know the addresses. `values` has alignments in their place.
bool IsAligned(const LtKind& kind, absl::Span<const uint64_t> values) {
  constexpr uint32_t kLeast = 16;  // Kernels load no more bytes at once.
  const bool one = values[kLtMatmulBatchCount] == 1;
  for (int i = 0; i < kLtMatrices; ++i) {
    const LtOperand& operand = kLtOperands[i];
    const uint32_t needs = std::max(kind.capabilities[kLtLeastAlignmentOfA + i], uint32_t{1});
    const uint32_t bytes = BlasTypeBytes(static_cast<int64_t>(values[operand.type]));
    const uint64_t leading = values[operand.order + 1], stride = values[operand.order + 2];
    const bool aligned = values[operand.address] % std::max(needs, kLeast) == 0 &&
                         leading * bytes % needs == 0 &&
                         (one || stride * bytes % std::max(needs, kLeast) == 0);
    if (!aligned) return false;
  }
  return true;
}

}  // namespace

bool IsFinal(int status) {
  return (status == kSuccess || status == kNotSupported || status == kInvalidValue) &&
         LibraryScope::Current()->error() == CUDA_SUCCESS;
}

std::shared_ptr<const Kinds::List> Kinds::Find(absl::Span<const uint64_t> values, void* handle) {
  const CallTypes types(values);
  const Key key = {types.compute, types.scale, types.a, types.b, types.c, types.d};
  {
    MutexLock lock(&mu_);
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
  }
  std::array<int, kLtMostKinds> ids{};
  int count = 0;
  const int status = Lt()->get_ids(handle, types.compute, types.scale, types.a, types.b, types.c,
                                   types.d, static_cast<int>(ids.size()), ids.data(), &count);
  auto found = std::make_shared<List>();
  bool is_final = IsFinal(status);
  for (int i = 0; status == kSuccess && i < std::min<int>(count, kLtMostKinds); ++i) {
    Algorithm algorithm;
    const int made = InitAlgorithm(types, ids[i], handle, &algorithm);
    if (made == kSuccess) found->push_back(Describe(algorithm, ids[i]));
    is_final = is_final && IsFinal(made);
  }
  if (!is_final) return found;
  MutexLock lock(&mu_);
  return known_.emplace(key, std::move(found)).first->second;
}

int Kinds::Make(absl::Span<const uint64_t> values, uint32_t modes, void* handle, Result* result) {
  const std::shared_ptr<const List> kinds = Find(values, handle);
  const uint64_t* const config = &values[kLtMatmulOwn];
  const auto kind = std::find_if(kinds->begin(), kinds->end(), [&](const LtKind& one) {
    return IsLtConfig(&one, values[kLtMatmulAlgorithm], config) != 0;
  });
  if (kind == kinds->end()) return kInvalidValue;
  if (!IsAligned(*kind, values)) return kNotSupported;
  Descriptors descriptors(values, modes);
  int status = descriptors.status();
  if (status == kSuccess) {
    status =
        InitAlgorithm(CallTypes(values), static_cast<int>(kind->id), handle, &result->algorithm);
  }
  for (int i = kLtConfigId + 1; i < kLtConfigAttributes && status == kSuccess; ++i) {
    // Programs say 0 parts for one.
    const uint64_t least = i == kLtConfigSplits ? 1 : 0;
    const auto value = static_cast<uint32_t>(std::max(config[i], least));
    // The first bytes of a number are its low ones.
    status = Lt()->set_config(&result->algorithm, i, &value,
                              i < kLtFirstShort ? sizeof(uint32_t) : sizeof(uint16_t));
  }
  if (status != kSuccess) return status;
  const Algorithm made = result->algorithm;
  status = Lt()->check(handle, &descriptors.description, &descriptors.a, &descriptors.b,
                       &descriptors.c, &descriptors.d, &made, result);
  result->algorithm = made;
  return status;
}

}  // namespace warpline::device::lt
