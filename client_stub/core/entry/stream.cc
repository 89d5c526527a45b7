// Streams. Creating and destroying them is one-way; queries read the completion board.
#include "client_stub/core/graph/capture.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

CUresult Create(CUstream* out, unsigned int flags, int priority) {
  WARPLINE_TRY(Enter());
  if (out == nullptr || (flags & ~static_cast<unsigned int>(CU_STREAM_NON_BLOCKING)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Stream* stream;
  WARPLINE_TRY(CreateStream(t_thread.current->device, t_thread.current, flags, priority, &stream));
  *out = stream->handle;
  return CUDA_SUCCESS;
}

CUresult Synchronize(CUstream handle, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return SynchronizeStream(stream);
}

CUresult Query(CUstream handle, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  if (!SeemsComplete(stream)) return CUDA_ERROR_NOT_READY;
  return FoundComplete();
}

CUresult WaitEvent(CUstream handle, CUevent event_handle, unsigned int flags,
                   DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  const Event* event = FindEvent(event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags == CU_EVENT_WAIT_DEFAULT) return WaitForEvent(stream, event);
  if (flags != CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  // This flag asks for a node of a graph that is being captured.
  return Captured(*stream) ? CaptureExternalWait(stream, event) : CUDA_ERROR_ILLEGAL_STATE;
}

CUresult GetFlags(CUstream handle, unsigned int* flags, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult GetPriority(CUstream handle, int* priority, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult GetId(CUstream handle, unsigned long long* id, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->wire;
  return CUDA_SUCCESS;
}

CUresult GetDevice(CUstream handle, CUdevice* device, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = static_cast<CUdevice>(stream->device->number);
  return CUDA_SUCCESS;
}

// Finds the context to which a stream belongs.
CUresult FindOwner(CUstream handle, DefaultStream null_means, const Context** owner) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  // A default stream belongs to the current context; without one, only a guessed number names a
  // stream.
  *owner = stream->context != nullptr ? static_cast<Context*>(stream->context) : t_thread.current;
  return *owner == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult GetContext(CUstream handle, CUcontext* context, DefaultStream null_means) {
  const Context* owner;
  WARPLINE_TRY(FindOwner(handle, null_means, &owner));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = owner->handle;
  return CUDA_SUCCESS;
}

CUresult GetContexts(CUstream handle, CUcontext* context, CUgreenCtx* green,
                     DefaultStream null_means) {
  const Context* owner;
  WARPLINE_TRY(FindOwner(handle, null_means, &owner));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = owner->green == nullptr ? owner->handle : owner->device->primary->handle;
  if (green != nullptr) *green = owner->green == nullptr ? nullptr : owner->green->handle;
  return CUDA_SUCCESS;
}

CUresult Attach(CUstream handle, CUdeviceptr address, size_t bytes, unsigned int flags,
                DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  const bool known =
      flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE;
  // The legacy stream does not count as a single stream.
  if (!known || (flags == CU_MEM_ATTACH_SINGLE && stream->legacy())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (AnyCapture()) WARPLINE_TRY(CheckUncaptured(stream));
  return runtime().mirrored->Attach(address, bytes, flags, stream->wire);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  return Create(phStream, Flags, 0);
}
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  return Create(phStream, flags, priority);
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream hStream) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterObject());
  return DestroyStream(hStream);
}
CUresult CUDAAPI cuStreamDestroy(CUstream hStream) { return cuStreamDestroy_v2(hStream); }

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream) { return Synchronize(hStream, kLegacy); }
CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream hStream) {
  return Synchronize(hStream, kPerThread);
}
CUresult CUDAAPI cuStreamQuery(CUstream hStream) { return Query(hStream, kLegacy); }
CUresult CUDAAPI cuStreamQuery_ptsz(CUstream hStream) { return Query(hStream, kPerThread); }

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  return WaitEvent(hStream, hEvent, Flags, kLegacy);
}
CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  return WaitEvent(hStream, hEvent, Flags, kPerThread);
}

CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  return GetFlags(hStream, flags, kLegacy);
}
CUresult CUDAAPI cuStreamGetFlags_ptsz(CUstream hStream, unsigned int* flags) {
  return GetFlags(hStream, flags, kPerThread);
}
CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int* priority) {
  return GetPriority(hStream, priority, kLegacy);
}
CUresult CUDAAPI cuStreamGetPriority_ptsz(CUstream hStream, int* priority) {
  return GetPriority(hStream, priority, kPerThread);
}
CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  return GetId(hStream, streamId, kLegacy);
}
CUresult CUDAAPI cuStreamGetId_ptsz(CUstream hStream, unsigned long long* streamId) {
  return GetId(hStream, streamId, kPerThread);
}
CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  return GetDevice(hStream, device, kLegacy);
}
CUresult CUDAAPI cuStreamGetDevice_ptsz(CUstream hStream, CUdevice* device) {
  return GetDevice(hStream, device, kPerThread);
}
CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  return GetContext(hStream, pctx, kLegacy);
}
CUresult CUDAAPI cuStreamGetCtx_ptsz(CUstream hStream, CUcontext* pctx) {
  return GetContext(hStream, pctx, kPerThread);
}

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  return GetContexts(hStream, pCtx, pGreenCtx, kLegacy);
}
CUresult CUDAAPI cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  return GetContexts(hStream, pCtx, pGreenCtx, kPerThread);
}
CUresult CUDAAPI cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx* phCtx) {
  const Context* owner;
  WARPLINE_TRY(FindOwner(hStream, kLegacy, &owner));
  if (phCtx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *phCtx = owner->green == nullptr ? nullptr : owner->green->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                        unsigned int flags) {
  return Attach(hStream, dptr, length, flags, kLegacy);
}
CUresult CUDAAPI cuStreamAttachMemAsync_ptsz(CUstream hStream, CUdeviceptr dptr, size_t length,
                                             unsigned int flags) {
  return Attach(hStream, dptr, length, flags, kPerThread);
}

}  // extern "C"
