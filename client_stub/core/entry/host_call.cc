// Functions of the application in the order of a stream.
#include "client_stub/core/graph/capture.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/host_calls.h"
#include "client_stub/core/stream/stream_commands.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

CUresult Submit(CUstream handle, const HostCalls::Call& call, DefaultStream null_means) {
  Stream* stream = FindStream(handle, null_means);
  return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : SendHostCall(stream, call);
}

CUresult LaunchHost(CUstream stream, CUhostFn function, void* data, DefaultStream null_means) {
  WARPLINE_TRY(EnterStreamCall(stream));
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* const found = FindStream(stream, null_means);
  if (found != nullptr && Captured(*found)) {
    SharedNodeParams params;
    WARPLINE_TRY(ReadHostNode({function, data}, &params));
    return CaptureNode(found, CU_GRAPH_NODE_TYPE_HOST, params);
  }
  return Submit(stream, {.function = function, .data = data}, null_means);
}

CUresult AddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned int flags,
                     DefaultStream null_means) {
  WARPLINE_TRY(EnterStreamCall(stream));
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return Submit(stream, {.callback = callback, .stream = stream, .data = data}, null_means);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  return LaunchHost(hStream, fn, userData, kLegacy);
}
CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void* userData) {
  return LaunchHost(hStream, fn, userData, kPerThread);
}

CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                                     unsigned int flags) {
  return AddCallback(hStream, callback, userData, flags, kLegacy);
}
CUresult CUDAAPI cuStreamAddCallback_ptsz(CUstream hStream, CUstreamCallback callback,
                                          void* userData, unsigned int flags) {
  return AddCallback(hStream, callback, userData, flags, kPerThread);
}

}  // extern "C"
