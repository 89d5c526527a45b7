// What an executable graph does, in order, and its copy on the server.
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_LAUNCH_REMOTE_GRAPH_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_LAUNCH_REMOTE_GRAPH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/graph/graph_params.h"
#include "client_stub/core/runtime/device.h"
#include "client_stub/core/runtime/objects.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe; `steps` is constant. Its end gives the server's copy up.
//
// Kernels are given to a stream of their device, and so is the server's copy of a graph with nodes
// of one device. A graph over several devices goes from stream to stream, one node after the other.
class GraphPlan {
 public:
  struct Step {
    SharedNodeParams params;      // nullptr for nothing.
    std::vector<uint32_t> after;  // Of the steps before it.
    uint32_t body = 0;            // proto/graph_definition.h
  };

  // `frame`: the server's graph that has the conditional handles, for graphs with such nodes.
  explicit GraphPlan(std::vector<Step> steps, uint64_t frame = 0);
  ~GraphPlan();
  GraphPlan(const GraphPlan&) = delete;
  GraphPlan& operator=(const GraphPlan&) = delete;

  const std::vector<Step>& steps() const { return steps_; }

  // Has the server make the graph of a frame, which nothing is launched without. Once, before all
  // else. CUDA_ERROR_NOT_SUPPORTED for one with nodes that need this process.
  CUresult Make();
  // Gives `stream` one launch.
  CUresult Launch(Stream* stream);
  // Has the server make its copy now, if it can, for launches in streams of `device`.
  void Upload(Device* device);

 private:
  // The server's number for its copy, which is made if `make`; 0 without one. `device`: whose it
  // becomes where no node says.
  uint64_t Remote(Device* device, bool make);
  bool Define(Device* device, std::string* definition) const;
  uint64_t Create(Device* device) const;

  CUresult Send(const std::string& definition, const Device& device, uint64_t* graph) const;

  const std::vector<Step> steps_;
  const uint64_t frame_;
  Device* device_ = nullptr;  // Of the nodes that have one; constant.
  bool several_ = false;      // They have different ones; constant.

  Mutex mu_;
  bool launched_ ABSL_GUARDED_BY(mu_) = false;
  bool tried_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t wire_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_LAUNCH_REMOTE_GRAPH_H_
