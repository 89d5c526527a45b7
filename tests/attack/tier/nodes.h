// Nodes of graphs: what each does with bytes at device addresses.
#ifndef WARPLINE_TESTS_ATTACK_TIER_NODES_H_
#define WARPLINE_TESTS_ATTACK_TIER_NODES_H_

#include "tests/attack/tier/home.h"

namespace warpline::attack {

CUresult AddCopy(CUgraphNode* node, CUgraph graph, CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult AddSet(CUgraphNode* node, CUgraph graph, CUdeviceptr to, size_t bytes);
// Home's kernel `copy`.
CUresult AddKernel(CUgraphNode* node, CUgraph graph, const Home& home, CUdeviceptr to,
                   CUdeviceptr from, size_t bytes);

// The same for the node of an executable graph.
CUresult ChangeCopy(CUgraphExec exec, CUgraphNode node, CUdeviceptr to, CUdeviceptr from,
                    size_t bytes);
CUresult ChangeSet(CUgraphExec exec, CUgraphNode node, CUdeviceptr to, size_t bytes);
CUresult ChangeKernel(CUgraphExec exec, CUgraphNode node, const Home& home, CUdeviceptr to,
                      CUdeviceptr from, size_t bytes);

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_TIER_NODES_H_
