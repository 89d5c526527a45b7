#include "server/device/cuda/shared/green_contexts.h"

namespace warpline::device {
namespace {

// The parts that are made: splits of the whole device. Larger ones are rarely asked for, and the
// whole needs no green context.
struct Split {
  unsigned multiprocessors;  // Of each part, at least.
  unsigned parts;            // At most.
};
constexpr Split kSplits[] = {{8, 16}, {16, 8}, {32, 4}, {64, 2}};

}  // namespace

std::vector<GreenContexts::Part> GreenContexts::Make(const DriverApi* api, CUdevice device) {
  std::vector<Part> parts;
  if (api->p_cuGreenCtxCreate == nullptr) return parts;
  CUdevResource whole = {};
  if (api->p_cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS) {
    return parts;
  }
  for (const Split& split : kSplits) {
    if (split.multiprocessors >= whole.sm.smCount) break;
    std::vector<CUdevResource> groups(split.parts);
    unsigned made = split.parts;
    if (api->p_cuDevSmResourceSplitByCount(groups.data(), &made, &whole, nullptr, 0,
                                           split.multiprocessors) != CUDA_SUCCESS) {
      continue;
    }
    groups.resize(made < split.parts ? made : split.parts);
    for (CUdevResource& group : groups) {
      CUdevResourceDesc description = nullptr;
      CUgreenCtx context = nullptr;
      if (api->p_cuDevResourceGenerateDesc(&description, &group, 1) != CUDA_SUCCESS ||
          api->p_cuGreenCtxCreate(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM) !=
              CUDA_SUCCESS) {
        return parts;  // The device has no room for more.
      }
      parts.push_back({context, static_cast<int>(group.sm.smCount)});
    }
  }
  return parts;
}

std::vector<int> GreenContexts::SizesOf(const std::vector<Part>& parts) {
  std::vector<int> sizes;
  for (const Part& part : parts) sizes.push_back(part.multiprocessors);
  return sizes;
}

GreenContexts::~GreenContexts() {
  for (const Part& part : parts_) api_->p_cuGreenCtxDestroy(part.context);
}

}  // namespace warpline::device
