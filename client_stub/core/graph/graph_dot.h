// Graphs as text for Graphviz: cuGraphDebugDotPrint.
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_DOT_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_DOT_H_

#include <string>

#include "client_stub/core/graph/graph.h"

namespace warpline::stub {

// Called with GraphMutex() held. `flags` are CUgraphDebugDot_flags.
std::string GraphToDot(const Graph& graph, unsigned int flags);
// Returns false when the file cannot be written.
bool WriteDot(const char* path, const std::string& text);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_DOT_H_
