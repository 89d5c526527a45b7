// An executable graph of a session: what its image said, checked and bound to kernels.
#ifndef WARPLINE_SERVER_WORKER_LANES_GRAPH_H_
#define WARPLINE_SERVER_WORKER_LANES_GRAPH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/crypto/content_hash.h"
#include "server/device/device.h"
#include "server/worker/lanes/task.h"

namespace warpline::worker {

// A graph that has conditional handles, whose nodes come later. Control lane only but for the first
// two, which are the decoder's. Shared: graphs that are made of it keep it.
struct Frame {
  uint32_t device = 0;   // Its handle's.
  uint64_t counted = 0;  // Handles, nodes and bodies that count for the session.
  uint64_t nodes = 0;    // And how many of those are nodes and bodies.
  bool created = false;
  bool filled = false;
  CudaResult result = CudaResult::kSuccess;  // Of filling it.
  device::FrameId id{};
  ContentHash definition{};  // Of the nodes that it was filled with.
  // Theirs; kept, so that no other gets the place of one.
  std::vector<std::shared_ptr<Module>> modules;
  std::set<uint64_t> conditionals;
};

// Written by the decoder and then the control lane; others read it after they saw the control
// lane's `issued` pass `ticket`. Shared: tasks keep it.
struct Graph {
  uint64_t ticket = 0;
  uint32_t device = 0;  // Its handle's; kernels may be of others.
  CudaResult result = CudaResult::kNotReady;
  // The device's own graph; otherwise a launch issues the nodes one by one, in their order.
  bool native = false;
  device::GraphId id{};
  bool prints = false;  // Its kernels may.
  std::vector<device::GraphNode> nodes;
  std::vector<std::shared_ptr<Kernel>> kernels;  // Of each node; null where it is no launch.
  std::shared_ptr<const Image> image;            // The nodes' parameters lie in it.
  std::shared_ptr<Frame> frame;                  // Of graphs with conditional nodes.
};

using FindKernel = std::function<std::shared_ptr<Kernel>(uint64_t handle)>;

// Reads a complete image. kInvalidValue for what is no definition of a graph, kInvalidHandle for a
// kernel that there is none of, kOutOfMemory for more than `max_nodes` nodes and bodies. Only a
// graph with a frame has conditional nodes.
CudaResult ParseGraph(std::shared_ptr<const Image> image, const FindKernel& find, size_t max_nodes,
                      Graph* graph);

// Binds the kernels, which are known by now, and makes the device's graph, if all is of one device.
// On the control lane.
CudaResult MakeGraph(device::Context* context, LaunchGate* gate, Graph* graph);

// Gives a stream of a device that comes after everything that was issued so far, wherever.
using EnterDevice =
    std::function<CudaResult(uint32_t device, device::Context** context, device::StreamId* stream)>;

// Issues a launch, to streams that `enter` gives.
CudaResult LaunchGraph(const Graph& graph, LaunchGate* gate, const EnterDevice& enter);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_GRAPH_H_
