#include "client_stub/core/context/green_contexts.h"

#include <string_view>
#include <utility>
#include <vector>

#include "client_stub/core/context/sm_resources.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"
#include "client_stub/private_tables/export_tables.h"
#include "common/cuda/sm_path.h"

namespace warpline::stub {
namespace {

// Adds a green context with its context. Returns 0 when there are too many.
uint64_t Add(Device* device, uint64_t partition, std::vector<SmStep> path,
             uint32_t multiprocessors) {
  Runtime& r = runtime();
  Context* context = nullptr;
  r.contexts.Add([&](Context& added, uint64_t number) {
    added.handle = HandleOf<CUcontext>(number);
    added.device = device;
    added.id = r.next_context_id.fetch_add(1);
    context = &added;
  });
  if (context == nullptr) return 0;
  const uint64_t handle = r.green_contexts.Add([&](GreenContext& green, uint64_t number) {
    green.handle = HandleOf<CUgreenCtx>(number);
    green.partition = partition;
    green.context = context;
    green.path = std::move(path);
    green.multiprocessors = multiprocessors;
    // The application has not been given the context's handle yet.
    context->green = &green;
  });
  if (handle == 0) context->references.store(0);
  return handle;
}

}  // namespace

GreenContext* FindGreenContext(CUgreenCtx handle) {
  return runtime().green_contexts.Find(NumberOf(handle));
}

CUresult CreateGreenContext(CUdevResourceDesc descriptor, CUdevice device, CUgreenCtx* green) {
  Runtime& r = runtime();
  Device* owner;
  std::vector<SmStep> path;
  if (!FindDescriptor(descriptor, &owner, &path)) return CUDA_ERROR_INVALID_VALUE;
  if (owner->number != static_cast<uint32_t>(device)) return CUDA_ERROR_INVALID_DEVICE;
  CUdevResource resource;
  WARPLINE_TRY(DescribeResource(owner, path, &resource));
  const uint64_t partition = r.NewNumber(*owner);
  const std::string_view bytes(reinterpret_cast<const char*>(path.data()),
                               path.size() * sizeof(SmStep));
  CUresult result =
      ToCu(r.commands->Call(WaitKind::kRoundTrip, cmd::PartitionCreate{partition}, bytes));
  uint64_t handle = 0;
  if (result == CUDA_SUCCESS) {
    handle = Add(owner, partition, std::move(path), resource.sm.smCount);
    if (handle == 0) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    r.commands->Send(cmd::PartitionDestroy{partition});
    return result;
  }
  owner->primary->Retain();
  *green = HandleOf<CUgreenCtx>(handle);
  return CUDA_SUCCESS;
}

bool DestroyGreenContext(GreenContext* green) {
  if (green->context->references.exchange(0) == 0) return false;
  ForgetContext(green->context->handle);
  DestroyStreamsOf(green->context);
  runtime().commands->Send(cmd::PartitionDestroy{green->partition});
  return true;
}

void DestroyGreenContextsOf(const Device& device) {
  runtime().green_contexts.ForEach([&](GreenContext& green, uint64_t) {
    if (green.context->device == &device && DestroyGreenContext(&green)) {
      device.primary->references.fetch_sub(1);
    }
    return true;
  });
}

}  // namespace warpline::stub
