// An edge of a graph, as seen from one of its nodes: the node at the other end, and the edge's
// data.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_GRAPH_EDGE_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_GRAPH_EDGE_H_

#include "client_stub/core/base/cuda_api.h"

namespace warpline::stub {

struct GraphNode;

struct GraphEdge {
  GraphNode* node = nullptr;
  CUgraphEdgeData data = {};
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_GRAPH_EDGE_H_
