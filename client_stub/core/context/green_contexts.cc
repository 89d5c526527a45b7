#include "client_stub/core/context/green_contexts.h"

#include <string_view>
#include <vector>

#include "client_stub/core/context/sm_resources.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"
#include "client_stub/private_tables/export_tables.h"
#include "common/cuda/sm_path.h"

namespace warpline::stub {
namespace {

bool Ended(const Context& context) {
  return context.green != nullptr && !context.alive() && context.holders.load() == 0;
}

// Removes the contexts of destroyed green contexts that no thread's stack holds any more.
void RemoveEnded() {
  ContextTable& contexts = runtime().contexts;
  contexts.ForEach([&](const Context& context, uint64_t handle) {
    if (Ended(context)) contexts.Remove(handle, [](const Context&) {});
    return true;
  });
}

// Adds a context, which may have the slot of one that is gone.
Context* AddContext(Device* device) {
  Runtime& r = runtime();
  Context* context = nullptr;
  r.contexts.Add([&](Context& added, uint64_t number) {
    added.handle = HandleOf<CUcontext>(number);
    added.device = device;
    added.id = r.next_context_id.fetch_add(1);
    added.references.store(1);
    context = &added;
  });
  return context;
}

// Adds a green context with its context. Returns 0 when there are too many.
uint64_t Add(Device* device, uint64_t partition, const std::vector<SmStep>* path,
             uint32_t multiprocessors) {
  RemoveEnded();
  Context* const context = AddContext(device);
  if (context == nullptr) return 0;
  const auto init = [&](GreenContext& green, uint64_t number) {
    green.handle = HandleOf<CUgreenCtx>(number);
    green.partition = partition;
    green.context = context;
    green.path = path;
    green.multiprocessors = multiprocessors;
    green.held.store(false);
    green.default_stream.store(nullptr);
    // The application has not been given the context's handle yet.
    context->green = &green;
  };
  const uint64_t handle = runtime().green_contexts.Add(init);
  if (handle == 0) runtime().contexts.Remove(NumberOf(context->handle), [](const Context&) {});
  return handle;
}

// Ends what the green context has; its handle is invalid already.
void End(const GreenContext& green) {
  Context* const context = green.context;
  context->references.store(0);
  ForgetContext(context->handle);
  DestroyStreamsOf(context);
  runtime().commands->Send(cmd::PartitionDestroy{green.partition});
}

}  // namespace

GreenContext* FindGreenContext(CUgreenCtx handle) {
  return runtime().green_contexts.Find(NumberOf(handle));
}

CUresult CreateGreenContext(CUdevResourceDesc descriptor, CUdevice device, CUgreenCtx* green) {
  Runtime& r = runtime();
  Device* owner;
  const std::vector<SmStep>* path;
  if (!FindDescriptor(descriptor, &owner, &path)) return CUDA_ERROR_INVALID_VALUE;
  if (owner->number != static_cast<uint32_t>(device)) return CUDA_ERROR_INVALID_DEVICE;
  CUdevResource resource;
  WARPLINE_TRY(DescribeResource(owner, *path, &resource));
  const uint64_t partition = r.NewNumber(*owner);
  const std::string_view bytes(reinterpret_cast<const char*>(path->data()),
                               path->size() * sizeof(SmStep));
  CUresult result =
      ToCu(r.commands->Call(WaitKind::kRoundTrip, cmd::PartitionCreate{partition}, bytes));
  uint64_t handle = 0;
  if (result == CUDA_SUCCESS) {
    handle = Add(owner, partition, path, resource.sm.smCount);
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

CUresult NoGreenContext(CUgreenCtx handle) {
  return runtime().green_contexts.Gave(NumberOf(handle)) ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                         : CUDA_ERROR_INVALID_CONTEXT;
}

const Device* DestroyGreenContext(CUgreenCtx handle) {
  const Device* device = nullptr;
  runtime().green_contexts.Remove(NumberOf(handle), [&](const GreenContext& green) {
    device = green.context->device;
    End(green);
  });
  RemoveEnded();
  return device;
}

void DestroyGreenContextsOf(const Device& device) {
  runtime().green_contexts.ForEach([&](const GreenContext& green, uint64_t handle) {
    if (green.context->device == &device && DestroyGreenContext(HandleOf<CUgreenCtx>(handle))) {
      device.primary->references.fetch_sub(1);
    }
    return true;
  });
}

}  // namespace warpline::stub
