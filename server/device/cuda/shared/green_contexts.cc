#include "server/device/cuda/shared/green_contexts.h"

#include <algorithm>

namespace warpline::device {
namespace {

// The smallest part into which Hopper divides its multiprocessors.
constexpr unsigned kGroupMultiprocessors = 8;
// This many slots have one group each; the slots behind them have two.
constexpr size_t kSmallSlots = 8;
// Bounds the memory that the contexts take, and the time.
constexpr unsigned kMostGroups = 24;

using Groups = std::vector<CUdevResource>;

int MultiprocessorsOf(const Groups& groups) {
  int sum = 0;
  for (const CUdevResource& group : groups) sum += static_cast<int>(group.sm.smCount);
  return sum;
}

// Returns all of the device's multiprocessors, in groups; none if the device cannot be divided.
Groups Split(const DriverApi* api, CUdevice device) {
  CUdevResource whole = {};
  if (api->p_cuGreenCtxCreate == nullptr ||
      api->p_cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
      whole.sm.smCount < 2 * kGroupMultiprocessors) {
    return {};
  }
  Groups groups(kMostGroups);
  unsigned made = kMostGroups;
  CUdevResource rest = {};
  const unsigned least = std::max(kGroupMultiprocessors, whole.sm.smCount / kMostGroups / 8 * 8);
  if (api->p_cuDevSmResourceSplitByCount(groups.data(), &made, &whole, &rest, 0, least) !=
      CUDA_SUCCESS) {
    return {};
  }
  groups.resize(std::min(made, kMostGroups));
  if (rest.type == CU_DEV_RESOURCE_TYPE_SM && rest.sm.smCount > 0) groups.push_back(rest);
  return groups;
}

std::vector<Groups> IntoSlots(const Groups& groups) {
  std::vector<Groups> slots;
  for (const CUdevResource& group : groups) {
    const bool full = slots.size() <= kSmallSlots || slots.back().size() >= 2;
    if (full) slots.emplace_back();
    slots.back().push_back(group);
  }
  return slots;
}

}  // namespace

GreenContexts::GreenContexts(const DriverApi* api, CUdevice device) : api_(api) {
  Make(device);
  if (slots_.empty()) slots_ = {1};
}

void GreenContexts::Make(CUdevice device) {
  std::vector<Groups> slots = IntoSlots(Split(api_, device));
  const auto count = static_cast<uint16_t>(slots.size());
  if (count < 2) return;
  of_.resize(count);
  for (uint16_t begin = 0; begin < count; ++begin) {
    for (uint16_t end = begin + 1; end <= count; ++end) {
      if (!MakeRange(device, &slots, {begin, end})) {
        // All are needed, because a plan may ask for any range.
        of_.clear();
        DestroyAll();
        return;
      }
    }
  }
  for (const Groups& slot : slots) slots_.push_back(MultiprocessorsOf(slot));
}

bool GreenContexts::MakeRange(CUdevice device, std::vector<Groups>* slots, const SlotRange& range) {
  Green made;
  if (range.begin > 0 || range.end < slots->size()) {
    Groups groups;
    for (size_t i = range.begin; i < range.end; ++i) {
      groups.insert(groups.end(), (*slots)[i].begin(), (*slots)[i].end());
    }
    CUdevResourceDesc description = nullptr;
    if (api_->p_cuDevResourceGenerateDesc(&description, groups.data(),
                                          static_cast<unsigned>(groups.size())) != CUDA_SUCCESS ||
        api_->p_cuGreenCtxCreate(&made.green, description, device, CU_GREEN_CTX_DEFAULT_STREAM) !=
            CUDA_SUCCESS) {
      return false;
    }
    made_.push_back(made.green);
    if (api_->p_cuCtxFromGreenCtx(&made.context, made.green) != CUDA_SUCCESS) return false;
  }
  of_[range.begin].push_back(made);
  return true;
}

GreenContexts::Green GreenContexts::Of(const SlotRange& range) const {
  if (range.begin >= of_.size() || range.end <= range.begin) return {};
  const auto& rows = of_[range.begin];
  const size_t row = range.end - range.begin - 1u;
  return row < rows.size() ? rows[row] : Green{};
}

CUresult GreenContexts::MakeStream(const SlotRange& range, CUstream* stream) const {
  // No session goes before others that share the device. The worker orders the launches of each
  // session by the priorities of its streams (server/hostlink/dispatch_gate/executor_turns.h).
  constexpr int kPriority = 0;
  const CUgreenCtx green = Of(range).green;
  if (green == nullptr) {
    return api_->p_cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, kPriority);
  }
  return api_->p_cuGreenCtxStreamCreate(stream, green, CU_STREAM_NON_BLOCKING, kPriority);
}

void GreenContexts::DestroyAll() {
  for (const CUgreenCtx context : made_) api_->p_cuGreenCtxDestroy(context);
  made_.clear();
}

}  // namespace warpline::device
