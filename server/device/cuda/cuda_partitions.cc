#include "server/device/cuda/cuda_partitions.h"

#include <algorithm>

#include "server/device/cuda/native.h"

namespace warpline::device {
namespace {

SmPart PartOf(const CUdevResource& resource) {
  if (resource.type != CU_DEV_RESOURCE_TYPE_SM) return {};
  return {resource.sm.smCount, resource.sm.minSmPartitionSize, resource.sm.smCoscheduledAlignment};
}

}  // namespace

class CudaPartitions::Held {
 public:
  explicit Held(const DriverApi* api) : api_(api) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    for (const CUgreenCtx green : greens_) api_->p_cuGreenCtxDestroy(green);
  }
  void Add(CUgreenCtx green) { greens_.push_back(green); }

 private:
  const DriverApi* const api_;
  std::vector<CUgreenCtx> greens_;
};

CudaPartitions::~CudaPartitions() {
  if (limited_.load() == nullptr) return;
  Enter();
  api_->p_cuGreenCtxDestroy(limited_.load());
}

void CudaPartitions::LimitPartitions(uint32_t multiprocessors) { limit_.store(multiprocessors); }

CUresult CudaPartitions::Create(const Resources& resources, CUgreenCtx* green) const {
  Resources copy = resources;  // The driver takes them as not constant.
  CUdevResourceDesc description = nullptr;
  const CUresult result = api_->p_cuDevResourceGenerateDesc(&description, copy.data(),
                                                            static_cast<unsigned>(copy.size()));
  if (result != CUDA_SUCCESS) return result;
  return api_->p_cuGreenCtxCreate(green, description, device_, CU_GREEN_CTX_DEFAULT_STREAM);
}

CUresult CudaPartitions::SplitOf(const CUdevResource& whole, const SmStep& split, Resources* groups,
                                 CUdevResource* rest) const {
  unsigned count = std::min(split.groups, kMaxSmGroups);
  groups->resize(count);
  const CUresult result = api_->p_cuDevSmResourceSplitByCount(groups->data(), &count, &whole, rest,
                                                              split.flags, split.least);
  if (result == CUDA_SUCCESS) groups->resize(std::min<size_t>(count, groups->size()));
  return result;
}

CUresult CudaPartitions::FindLimited(const CUdevResource& whole, CUgreenCtx* green) {
  *green = limited_.load();
  if (*green != nullptr) return CUDA_SUCCESS;
  const uint32_t unit = std::max(whole.sm.smCoscheduledAlignment, 1u);
  SmStep split;
  split.groups = 1;
  split.least = std::min(std::max(limit_.load() / unit * unit, whole.sm.minSmPartitionSize),
                         whole.sm.smCount);
  Resources groups;
  CUdevResource rest = {};
  CUresult result = SplitOf(whole, split, &groups, &rest);
  if (result == CUDA_SUCCESS) result = Create(groups, green);
  if (result != CUDA_SUCCESS) return result;
  CUgreenCtx other = nullptr;
  if (limited_.compare_exchange_strong(other, *green)) return CUDA_SUCCESS;
  // Another thread was first.
  api_->p_cuGreenCtxDestroy(*green);
  *green = other;
  return CUDA_SUCCESS;
}

CUresult CudaPartitions::Start(CUdevResource* start) {
  const CUresult result = api_->p_cuDeviceGetDevResource(device_, start, CU_DEV_RESOURCE_TYPE_SM);
  const uint32_t limit = limit_.load();
  if (result != CUDA_SUCCESS || limit == 0 || limit >= start->sm.smCount) return result;
  CUgreenCtx green = nullptr;
  const CUresult limited = FindLimited(*start, &green);
  if (limited != CUDA_SUCCESS) return limited;
  return api_->p_cuGreenCtxGetDevResource(green, start, CU_DEV_RESOURCE_TYPE_SM);
}

CUresult CudaPartitions::Join(Held* held, Resources* reached) const {
  CUgreenCtx green = nullptr;
  const CUresult result = Create(*reached, &green);
  if (result != CUDA_SUCCESS) return result;
  held->Add(green);
  reached->resize(1);
  return api_->p_cuGreenCtxGetDevResource(green, &reached->front(), CU_DEV_RESOURCE_TYPE_SM);
}

CUresult CudaPartitions::Follow(absl::Span<const SmStep> path, Held* held, Resources* reached) {
  reached->resize(1);
  CUresult result = Start(&reached->front());
  for (size_t i = 0; i < path.size() && result == CUDA_SUCCESS; ++i) {
    if (i > 0) result = Join(held, reached);
    if (result != CUDA_SUCCESS) return result;
    Resources groups;
    CUdevResource rest = {};
    result = SplitOf(reached->front(), path[i], &groups, &rest);
    if (result != CUDA_SUCCESS) return result;
    reached->clear();
    for (uint32_t group = 0; group < kMaxSmGroups; ++group) {
      if (!path[i].Takes(group)) continue;
      if (group >= groups.size()) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
      reached->push_back(groups[group]);
    }
    if (path[i].rest != 0) {
      if (PartOf(rest).count == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
      reached->push_back(rest);
    }
  }
  return result;
}

CudaResult CudaPartitions::Split(absl::Span<const SmStep> path, const SmStep& split,
                                 SmSplitResult* result) {
  if (!has_green_contexts()) return Lacks(Capability::kPartitions);
  Enter();
  Held held(api_);
  Resources reached;
  CUresult found = Follow(path, &held, &reached);
  if (found == CUDA_SUCCESS && !path.empty()) found = Join(&held, &reached);
  if (found != CUDA_SUCCESS) return ToResult(found);
  result->whole = PartOf(reached.front());
  if (split.groups == 0) return CudaResult::kSuccess;
  if (split.groups == kCountSmGroups) {
    unsigned count = 0;
    found = api_->p_cuDevSmResourceSplitByCount(nullptr, &count, &reached.front(), nullptr,
                                                split.flags, split.least);
    result->count = count;
    return ToResult(found);
  }
  Resources groups;
  CUdevResource rest = {};
  found = SplitOf(reached.front(), split, &groups, &rest);
  if (found != CUDA_SUCCESS) return ToResult(found);
  for (const CUdevResource& group : groups) result->groups.push_back(PartOf(group));
  result->count = static_cast<uint32_t>(groups.size());
  result->rest = PartOf(rest);
  return CudaResult::kSuccess;
}

CudaResult CudaPartitions::CreatePartition(absl::Span<const SmStep> path, PartitionId* partition) {
  if (!has_green_contexts()) return Lacks(Capability::kPartitions);
  Enter();
  Held held(api_);
  Resources reached;
  CUresult result = Follow(path, &held, &reached);
  CUgreenCtx green = nullptr;
  if (result == CUDA_SUCCESS) result = Create(reached, &green);
  *partition = ToId<PartitionId>(green);
  return ToResult(result);
}

CudaResult CudaPartitions::DestroyPartition(PartitionId partition) {
  Enter();
  return ToResult(api_->p_cuGreenCtxDestroy(Native(partition)));
}

CudaResult CudaPartitions::CreateStreamIn(PartitionId partition, int priority, StreamId* stream) {
  Enter();
  CUstream native = nullptr;
  const CUresult result =
      api_->p_cuGreenCtxStreamCreate(&native, Native(partition), CU_STREAM_NON_BLOCKING, priority);
  *stream = ToId<StreamId>(native);
  return ToResult(result);
}

}  // namespace warpline::device
