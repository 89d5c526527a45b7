// Contexts: which one a thread uses, and their settings. Everything here is answered in the
// process.
#include <algorithm>

#include "client_stub/core/contexts.h"
#include "client_stub/core/runtime.h"
#include "client_stub/core/streams.h"

using namespace warpline::stub;

namespace {

// Of every context, whichever call made it.
constexpr unsigned int kApiVersion = 3020;

// Bytes of local memory that a thread of any device has.
constexpr size_t kMaxStackBytes = 512 << 10;

// The limits that CUDA knows but this driver, like NVIDIA's on recent devices, does not have.
CUresult CheckLimit(CUlimit limit) {
  if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  const bool unsupported = limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit > CU_LIMIT_CIG_ENABLED;
  return unsupported ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_SUCCESS;
}

CUresult CreateContext(CUcontext* context, unsigned int flags, CUdevice device) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(device));
  if (context == nullptr || !ValidContextFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(SessionError());
  Context* created = nullptr;
  runtime().contexts.Add([&](Context& c, uint64_t handle) {
    c.handle = HandleOf<CUcontext>(handle);
    c.id = runtime().next_context_id.fetch_add(1);
    c.flags = flags;
    InitializeLimits(&c);
    created = &c;
  });
  if (created == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  PushContext(created);
  *context = created->handle;
  return CUDA_SUCCESS;
}

// A context argument; nullptr means the current one where the call allows that.
CUresult EnterWith(CUcontext handle, Context** context) {
  WARPLINE_TRY(EnterInitialized());
  *context = ContextOrCurrent(handle);
  return *context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams,
                                unsigned int flags, CUdevice dev) {
  // Execution affinity and CUDA in graphics need what this driver does not pass on.
  if (ctxCreateParams != nullptr &&
      (ctxCreateParams->numExecAffinityParams != 0 || ctxCreateParams->cigParams != nullptr)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CreateContext(pctx, flags, dev);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam*, int numParams,
                                unsigned int flags, CUdevice dev) {
  if (numParams != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return CreateContext(pctx, flags, dev);
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return CreateContext(pctx, flags, dev);
}

CUresult CUDAAPI cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return CreateContext(pctx, flags, dev);
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext ctx) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  if (ctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = FindContext(ctx);
  if (context == nullptr || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->references.exchange(0) == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  ReleaseContents(context);
  if (t_thread.current == context) PopContext();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx) { return cuCtxDestroy_v2(ctx); }
CUresult CUDAAPI cuCtxDetach(CUcontext ctx) { return cuCtxDestroy_v2(ctx); }

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext ctx) {
  WARPLINE_TRY(EnterInitialized());
  if (ctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = FindContext(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  PushContext(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx) { return cuCtxPushCurrent_v2(ctx); }

CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext* pctx) {
  WARPLINE_TRY(EnterInitialized());
  const Context* context = PopContext();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (pctx != nullptr) *pctx = context->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext* pctx) { return cuCtxPopCurrent_v2(pctx); }

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx) {
  WARPLINE_TRY(EnterInitialized());
  if (ctx == nullptr) {
    PopContext();
    return CUDA_SUCCESS;
  }
  Context* context = FindContext(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  SetContext(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* pctx) {
  WARPLINE_TRY(EnterInitialized());
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pctx = t_thread.current == nullptr ? nullptr : t_thread.current->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  WARPLINE_TRY(EnterInitialized());
  if (t_thread.current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  WARPLINE_TRY(EnterInitialized());
  if (ContextOrCurrent(ctx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int* flags) {
  WARPLINE_TRY(EnterContext());
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = t_thread.current->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags) {
  WARPLINE_TRY(EnterContext());
  if (!ValidContextFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  t_thread.current->flags = flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  Context* context;
  WARPLINE_TRY(EnterWith(ctx, &context));
  if (ctxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  Context* context;
  WARPLINE_TRY(EnterWith(ctx, &context));
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kApiVersion;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize() {
  WARPLINE_TRY(Enter());
  return SynchronizeContext();
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx) {
  Context* context;
  WARPLINE_TRY(EnterWith(ctx, &context));
  if (!context->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  WARPLINE_TRY(SessionError());
  return SynchronizeContext();
}

CUresult CUDAAPI cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  WARPLINE_TRY(Enter());
  if (pvalue == nullptr) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(CheckLimit(limit));
  *pvalue = t_thread.current->limits[limit];
  return CUDA_SUCCESS;
}

// Kept for cuCtxGetLimit. The server sizes stacks and heaps by what kernels need and its own
// bounds.
CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  WARPLINE_TRY(Enter());
  WARPLINE_TRY(CheckLimit(limit));
  if (limit == CU_LIMIT_STACK_SIZE && value > kMaxStackBytes) return CUDA_ERROR_INVALID_VALUE;
  t_thread.current->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  WARPLINE_TRY(EnterContext());
  if (pconfig == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pconfig = static_cast<CUfunc_cache>(t_thread.current->cache_config.load());
  return CUDA_SUCCESS;
}

// A preference, which CUDA lets a driver disregard.
CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
  WARPLINE_TRY(EnterContext());
  t_thread.current->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
  WARPLINE_TRY(EnterContext());
  if (pConfig == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pConfig = static_cast<CUsharedconfig>(t_thread.current->shared_config.load());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config) {
  WARPLINE_TRY(EnterContext());
  t_thread.current->shared_config = config;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  WARPLINE_TRY(EnterContext());
  const RemoteDevice& device = runtime().session->device();
  if (leastPriority != nullptr) *leastPriority = device.least_stream_priority;
  if (greatestPriority != nullptr) *greatestPriority = device.greatest_stream_priority;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache() { return Enter(); }

}  // extern "C"
