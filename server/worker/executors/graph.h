// An executable graph of a session: the content of its image, checked and bound to kernels.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_GRAPH_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_GRAPH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/crypto/content_hash.h"
#include "server/device/device.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/task.h"

namespace warpline::worker {

// A graph that has conditional handles, and whose nodes come later. The control executor
// writes what is not the decoder's. It is shared because graphs that are made of it
// keep it.
struct Frame {
  uint32_t device = 0;  // The device of its handle; constant.
  uint64_t counted ABSL_GUARDED_BY(decoder_thread) =
      0;  // Handles, nodes and bodies that count for the session.
  uint64_t nodes ABSL_GUARDED_BY(decoder_thread) = 0;  // How many of those are nodes and bodies.
  bool created = false;
  bool filled = false;
  CudaResult result = CudaResult::kSuccess;  // The result of filling it.
  device::FrameId id{};
  ContentHash definition{};  // Hash of the nodes that it was filled with.
  // The modules of its nodes, which are kept so that no other module gets the place of one.
  std::vector<std::shared_ptr<Module>> modules;
  std::set<uint64_t> conditionals;
  ModuleHold hold;  // Of all graphs that were made in it.
};

// Written by the decoder and then by the control executor; others read it after they saw the
// control executor's `issued` pass `ticket`. It is shared because tasks keep it.
struct Graph {
  uint64_t ticket = 0;
  uint32_t device = 0;  // The device of its handle; kernels may belong to others.
  CudaResult result = CudaResult::kNotReady;
  // True when the device has a graph for it. Otherwise a launch issues the nodes one by one, in
  // their order.
  bool native = false;
  device::GraphId id{};
  bool prints = false;         // Whether its kernels may print.
  uint64_t outside_bytes = 0;  // What is taken for it of the device outside the arena.
  std::vector<device::GraphNode> nodes;
  // The kernel of each node; null where the node is no launch.
  std::vector<std::shared_ptr<Kernel>> kernels;
  // The partition of each node, in which it runs; null for none. It is one of their users.
  std::vector<std::shared_ptr<Partition>> partitions;
  std::shared_ptr<const Image> image;  // Holds the nodes' parameters.
  // Those of kernels with an added parameter instead.
  std::deque<std::string> params_with_added;
  std::shared_ptr<Frame> frame;  // For graphs with conditional nodes.
  ModuleHold hold;
};

using FindKernel = std::function<std::shared_ptr<Kernel>(uint64_t handle)>;
using FindPartition = std::function<std::shared_ptr<Partition>(uint64_t handle)>;

// Reads a complete image. kInvalidValue for an image that defines no graph, kInvalidHandle for a
// kernel or a partition that does not exist, kOutOfMemory for more than `max_nodes` nodes and
// bodies. Only a graph with a frame may have conditional nodes.
CudaResult ParseGraph(std::shared_ptr<const Image> image, const FindKernel& find,
                      const FindPartition& find_partition, size_t max_nodes, Graph* graph);

// Binds the kernels, which are known by now, and makes the device's graph if all of it is on one
// device. Called on the control executor.
CudaResult MakeGraph(device::Context* context, LaunchGate* gate, Graph* graph);

// Gives a stream of a device that comes after everything that was issued so far on any device.
using EnterDevice =
    std::function<CudaResult(uint32_t device, device::Context** context, device::StreamId* stream)>;

// Issues a launch to streams that `enter` gives.
CudaResult LaunchGraph(const Graph& graph, LaunchGate* gate, const EnterDevice& enter);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_GRAPH_H_
