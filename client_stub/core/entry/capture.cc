// Stream capture (graph/capture.h): everything is answered here.
#include "client_stub/core/graph/capture.h"

#include <utility>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

CUresult Begin(CUstream handle, CUstreamCaptureMode mode, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return BeginCapture(stream, mode, nullptr, nullptr, nullptr, 0);
}

CUresult BeginTo(CUstream handle, CUgraph graph, const CUgraphNode* dependencies,
                 const CUgraphEdgeData* data, size_t count, CUstreamCaptureMode mode,
                 DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return BeginCapture(stream, mode, graph, dependencies, data, count);
}

CUresult End(CUstream handle, CUgraph* graph, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return EndCapture(stream, graph);
}

CUresult GetStatus(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                   DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CaptureInfo info;
  WARPLINE_TRY(GetCaptureInfo(stream, &info));
  *status = info.status;
  if (id != nullptr && info.status != CU_STREAM_CAPTURE_STATUS_NONE) *id = info.id;
  return CUDA_SUCCESS;
}

// The outputs other than the status are set only while a stream captures.
CUresult GetInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                 const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count,
                 DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  if (status == nullptr || (edges != nullptr && dependencies == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CaptureInfo info;
  WARPLINE_TRY(GetCaptureInfo(stream, &info));
  if (dependencies != nullptr && edges == nullptr && info.has_edge_data) {
    return CUDA_ERROR_LOSSY_QUERY;
  }
  *status = info.status;
  if (info.status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_SUCCESS;
  if (id != nullptr) *id = info.id;
  if (graph != nullptr) *graph = info.graph;
  if (dependencies != nullptr) *dependencies = info.dependencies;
  if (edges != nullptr) *edges = info.edges;
  if (count != nullptr) *count = info.count;
  return CUDA_SUCCESS;
}

CUresult Update(CUstream handle, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                size_t count, unsigned int flags, DefaultStream null_means) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, null_means, &stream));
  return UpdateCaptureDependencies(stream, nodes, data, count, flags);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamBeginCapture(CUstream hStream) {
  return Begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, kLegacy);
}
CUresult CUDAAPI cuStreamBeginCapture_ptsz(CUstream hStream) {
  return Begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, kPerThread);
}
CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  return Begin(hStream, mode, kLegacy);
}
CUresult CUDAAPI cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode) {
  return Begin(hStream, mode, kPerThread);
}
CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                             const CUgraphNode* dependencies,
                                             const CUgraphEdgeData* dependencyData,
                                             size_t numDependencies, CUstreamCaptureMode mode) {
  return BeginTo(hStream, hGraph, dependencies, dependencyData, numDependencies, mode, kLegacy);
}
CUresult CUDAAPI cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
                                                  const CUgraphNode* dependencies,
                                                  const CUgraphEdgeData* dependencyData,
                                                  size_t numDependencies,
                                                  CUstreamCaptureMode mode) {
  return BeginTo(hStream, hGraph, dependencies, dependencyData, numDependencies, mode, kPerThread);
}
CUresult CUDAAPI cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  return End(hStream, phGraph, kLegacy);
}
CUresult CUDAAPI cuStreamEndCapture_ptsz(CUstream hStream, CUgraph* phGraph) {
  return End(hStream, phGraph, kPerThread);
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return GetStatus(hStream, captureStatus, nullptr, kLegacy);
}
CUresult CUDAAPI cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return GetStatus(hStream, captureStatus, nullptr, kPerThread);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out) {
  return GetStatus(hStream, captureStatus_out, id_out, kLegacy);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_ptsz(CUstream hStream,
                                             CUstreamCaptureStatus* captureStatus_out,
                                             cuuint64_t* id_out) {
  return GetStatus(hStream, captureStatus_out, id_out, kPerThread);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream hStream,
                                           CUstreamCaptureStatus* captureStatus_out,
                                           cuuint64_t* id_out, CUgraph* graph_out,
                                           const CUgraphNode** dependencies_out,
                                           size_t* numDependencies_out) {
  return GetInfo(hStream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr,
                 numDependencies_out, kLegacy);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream,
                                                CUstreamCaptureStatus* captureStatus_out,
                                                cuuint64_t* id_out, CUgraph* graph_out,
                                                const CUgraphNode** dependencies_out,
                                                size_t* numDependencies_out) {
  return GetInfo(hStream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr,
                 numDependencies_out, kPerThread);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream hStream,
                                           CUstreamCaptureStatus* captureStatus_out,
                                           cuuint64_t* id_out, CUgraph* graph_out,
                                           const CUgraphNode** dependencies_out,
                                           const CUgraphEdgeData** edgeData_out,
                                           size_t* numDependencies_out) {
  return GetInfo(hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                 numDependencies_out, kLegacy);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream,
                                                CUstreamCaptureStatus* captureStatus_out,
                                                cuuint64_t* id_out, CUgraph* graph_out,
                                                const CUgraphNode** dependencies_out,
                                                const CUgraphEdgeData** edgeData_out,
                                                size_t* numDependencies_out) {
  return GetInfo(hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                 numDependencies_out, kPerThread);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies,
                                                   size_t numDependencies, unsigned int flags) {
  return Update(hStream, dependencies, nullptr, numDependencies, flags, kLegacy);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_ptsz(CUstream hStream, CUgraphNode* dependencies,
                                                        size_t numDependencies,
                                                        unsigned int flags) {
  return Update(hStream, dependencies, nullptr, numDependencies, flags, kPerThread);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies,
                                                      const CUgraphEdgeData* dependencyData,
                                                      size_t numDependencies, unsigned int flags) {
  return Update(hStream, dependencies, dependencyData, numDependencies, flags, kLegacy);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream hStream,
                                                           CUgraphNode* dependencies,
                                                           const CUgraphEdgeData* dependencyData,
                                                           size_t numDependencies,
                                                           unsigned int flags) {
  return Update(hStream, dependencies, dependencyData, numDependencies, flags, kPerThread);
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  WARPLINE_TRY(EnterInitialized());
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, t_thread.capture_mode);
  return CUDA_SUCCESS;
}

}  // extern "C"
