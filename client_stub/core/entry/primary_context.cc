// The devices' primary contexts, which the runtime library uses. A handle stays the same for the
// process's life. The last release and a reset end everything that was created in the context.
#include "client_stub/core/context/context_end.h"
#include "client_stub/core/context/context_limits.h"
#include "client_stub/core/runtime/contexts.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

CUresult EnterPrimary(CUdevice device) {
  WARPLINE_TRY(EnterInitialized());
  return CheckDevice(device);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  WARPLINE_TRY(EnterPrimary(dev));
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = runtime().devices[dev].primary;
  if (!context->alive()) WARPLINE_TRY(SessionError());
  context->Retain();
  *pctx = context->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterPrimary(dev));
  return ReleasePrimary(runtime().devices[dev]) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev) {
  return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterPrimary(dev));
  Context* context = runtime().devices[dev].primary;
  context->was_reset = true;
  ReleaseContents(context);
  context->flags.store(0);
  InitializeLimits(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev) { return cuDevicePrimaryCtxReset_v2(dev); }

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  WARPLINE_TRY(EnterPrimary(dev));
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Context* context = runtime().devices[dev].primary;
  *flags = context->flags;
  *active = context->alive() ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  WARPLINE_TRY(EnterPrimary(dev));
  if (!ValidContextFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  runtime().devices[dev].primary->flags = flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

}  // extern "C"
