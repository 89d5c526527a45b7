// Green contexts (green_contexts.h), their events and streams.
#include "client_stub/core/context/context_end.h"
#include "client_stub/core/context/context_events.h"
#include "client_stub/core/context/green_contexts.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

// Enters a call about a green context and finds it.
CUresult EnterGreen(CUgreenCtx handle, GreenContext** green) {
  WARPLINE_TRY(EnterInitialized());
  *green = FindGreenContext(handle);
  return *green == nullptr ? NoGreenContext(handle) : SessionError();
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev,
                                  unsigned int flags) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(dev));
  if (phCtx == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(SessionError());
  return CreateGreenContext(desc, dev, phCtx);
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx hCtx) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  const Device* const device = DestroyGreenContext(hCtx);
  if (device == nullptr) return NoGreenContext(hCtx);
  ReleasePrimary(*device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) {
  GreenContext* green;
  WARPLINE_TRY(EnterGreen(hCtx, &green));
  if (pContext == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pContext = green->context->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long* greenCtxId) {
  WARPLINE_TRY(EnterInitialized());
  const Context* context = t_thread.current;
  if (greenCtx != nullptr) {
    const GreenContext* const green = FindGreenContext(greenCtx);
    if (green == nullptr) return NoGreenContext(greenCtx);
    context = green->context;
  }
  if (context == nullptr || context->green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (greenCtxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *greenCtxId = context->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
  GreenContext* green;
  WARPLINE_TRY(EnterGreen(hCtx, &green));
  Event* const event = FindEvent(hEvent);
  if (event == nullptr || event->context != OwnerOf(green->context)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return RecordContext(green->context, event);
}

CUresult CUDAAPI cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
  GreenContext* green;
  WARPLINE_TRY(EnterGreen(hCtx, &green));
  Event* const event = FindEvent(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return HoldContext(green->context, event);
}

CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags,
                                        int priority) {
  GreenContext* green;
  WARPLINE_TRY(EnterGreen(greenCtx, &green));
  if (phStream == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream;
  WARPLINE_TRY(CreateStream(green->context->device, green->context, flags, priority, &stream));
  *phStream = stream->handle;
  return CUDA_SUCCESS;
}

}  // extern "C"
