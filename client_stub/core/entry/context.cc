// Contexts: which one a thread uses, and their settings. All but limits is answered in the process.
#include <algorithm>

#include "client_stub/core/context/context_end.h"
#include "client_stub/core/context/context_events.h"
#include "client_stub/core/context/context_limits.h"
#include "client_stub/core/context/peer_access.h"
#include "client_stub/core/runtime/contexts.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

// The API version of every context, whichever call made it.
constexpr unsigned int kApiVersion = 3020;

CUresult CreateContext(CUcontext* context, unsigned int flags, CUdevice device) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(device));
  if (context == nullptr || !ValidContextFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(SessionError());
  Context* created = nullptr;
  runtime().contexts.Add([&](Context& c, uint64_t handle) {
    c.handle = HandleOf<CUcontext>(handle);
    c.device = &runtime().devices[device];
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

CUresult SynchronizeContext(const Context& context) {
  WARPLINE_TRY(CheckDeviceSynchronize(*context.device));
  return context.green != nullptr ? SynchronizeStreamsOf(context)
                                  : SynchronizeDevice(*context.device);
}

// Enters a call with a context argument; nullptr means the current context where the call allows
// that.
CUresult EnterWith(CUcontext handle, Context** context) {
  WARPLINE_TRY(EnterInitialized());
  *context = ContextOrCurrent(handle);
  return *context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

// Enters a call about peers and finds the peer's context.
CUresult EnterPeer(CUcontext handle, Context** peer) {
  WARPLINE_TRY(Enter());
  *peer = FindContext(handle);
  return *peer == nullptr || !(*peer)->alive() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams,
                                unsigned int flags, CUdevice dev) {
  // Execution affinity and CUDA in graphics need features that this driver does not pass on.
  if (ctxCreateParams != nullptr && ctxCreateParams->cigParams != nullptr) {
    return ctxCreateParams->numExecAffinityParams != 0 ? CUDA_ERROR_INVALID_VALUE
                                                       : CUDA_ERROR_NOT_SUPPORTED;
  }
  if (ctxCreateParams != nullptr && ctxCreateParams->numExecAffinityParams != 0) {
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  }
  return CreateContext(pctx, flags, dev);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam*, int numParams,
                                unsigned int flags, CUdevice dev) {
  if (numParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
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
  // A green context's context ends with that.
  if (context == nullptr || context->primary || context->green != nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (context->references.exchange(0) == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  ReleaseContents(context);
  if (t_thread.current == context) PopContext();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx) { return cuCtxDestroy_v2(ctx); }

// Counts a reference to the context, as cuDevicePrimaryCtxRetain does.
CUresult CUDAAPI cuCtxAttach(CUcontext* pctx, unsigned int flags) {
  WARPLINE_TRY(EnterContext());
  if (pctx == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (t_thread.current->green != nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  t_thread.current->references.fetch_add(1);
  *pctx = t_thread.current->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDetach(CUcontext ctx) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  Context* context = FindContext(ctx);
  if (context == nullptr || context != t_thread.current || context->green != nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!context->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  int references = context->references.load();
  do {
    if (references == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  } while (!context->references.compare_exchange_weak(references, references - 1));
  if (references > 1) return CUDA_SUCCESS;
  ReleaseContents(context);
  if (!context->primary) PopContext();
  return CUDA_SUCCESS;
}

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
  *device = static_cast<CUdevice>(t_thread.current->device->number);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  WARPLINE_TRY(EnterInitialized());
  const Context* context = ContextOrCurrent(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = static_cast<CUdevice>(context->device->number);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int* flags) {
  Context* context;
  WARPLINE_TRY(EnterWith(nullptr, &context));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = CurrentOwner()->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags) {
  WARPLINE_TRY(EnterContext());
  if (!ValidContextFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  CurrentOwner()->flags = flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  Context* context;
  WARPLINE_TRY(EnterWith(ctx, &context));
  if (!context->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (ctxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  Context* context;
  WARPLINE_TRY(EnterWith(ctx, &context));
  // Copies of the CUDA runtime ask this of a context that another copy may have reset, and only an
  // error makes them retain the primary context again.
  if (!context->alive()) {
    return ctx == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
  }
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kApiVersion;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize() {
  WARPLINE_TRY(Enter());
  return SynchronizeContext(*t_thread.current);
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx) {
  Context* context;
  WARPLINE_TRY(EnterWith(ctx, &context));
  if (!context->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  WARPLINE_TRY(SessionError());
  return SynchronizeContext(*context);
}

CUresult CUDAAPI cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  WARPLINE_TRY(Enter());
  if (pvalue == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetLimit(CurrentOwner(), limit, pvalue);
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  WARPLINE_TRY(Enter());
  return SetLimit(CurrentOwner(), limit, value);
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  WARPLINE_TRY(EnterContext());
  if (pconfig == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pconfig = static_cast<CUfunc_cache>(CurrentOwner()->cache_config.load());
  return CUDA_SUCCESS;
}

// This is a preference, which CUDA lets a driver disregard.
CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
  WARPLINE_TRY(EnterContext());
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CurrentOwner()->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
  WARPLINE_TRY(EnterContext());
  if (pConfig == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The banks of every device that is supported have a fixed width.
  *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config) {
  WARPLINE_TRY(EnterContext());
  return config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE ||
                 config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  WARPLINE_TRY(EnterContext());
  const RemoteDevice& device = *CurrentDevice().remote;
  if (leastPriority != nullptr) *leastPriority = device.least_stream_priority;
  if (greatestPriority != nullptr) *greatestPriority = device.greatest_stream_priority;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache() { return Enter(); }

CUresult CUDAAPI cuCtxGetExecAffinity(CUexecAffinityParam* pExecAffinity, CUexecAffinityType type) {
  WARPLINE_TRY(EnterContext());
  if (pExecAffinity == nullptr || type < 0 || type >= CU_EXEC_AFFINITY_TYPE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Contexts with fewer multiprocessors are not made, so this one has them all.
  *pExecAffinity = {};
  pExecAffinity->type = type;
  pExecAffinity->param.smCount.val = static_cast<unsigned int>(
      CurrentDevice().attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  Context* peer;
  WARPLINE_TRY(EnterPeer(peerContext, &peer));
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return EnablePeerAccess(CurrentOwner(), OwnerOf(peer));
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext) {
  Context* peer;
  WARPLINE_TRY(EnterPeer(peerContext, &peer));
  return DisablePeerAccess(CurrentOwner(), OwnerOf(peer));
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(SessionError());
  Context* context = FindContext(hCtx);
  if (context == nullptr || !context->alive()) return CUDA_ERROR_INVALID_CONTEXT;
  Event* event = FindEvent(hEvent);
  if (event == nullptr || event->context != OwnerOf(context)) return CUDA_ERROR_INVALID_HANDLE;
  return RecordContext(context, event);
}

CUresult CUDAAPI cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(SessionError());
  Context* context = FindContext(hCtx);
  if (context == nullptr || !context->alive()) return CUDA_ERROR_INVALID_CONTEXT;
  Event* event = FindEvent(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return HoldContext(context, event);
}

}  // extern "C"
