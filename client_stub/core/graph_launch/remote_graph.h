// The steps of an executable graph, in order, and its copy on the server.
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_LAUNCH_REMOTE_GRAPH_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_LAUNCH_REMOTE_GRAPH_H_

#include <atomic>
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

class Path;

// Thread-safe; `steps` is constant. The destructor gives up the server's copy.
//
// A kernel is given to a stream of its device, and so is the server's copy of a graph whose nodes
// are on one device. A graph over several devices goes from stream to stream, one node after the
// other.
//
// Only the server can run conditional nodes and kernels of a partition. If such a graph also has
// nodes that need this process, the server's copy has the other nodes, and these run before or
// after it.
class GraphPlan {
 public:
  struct Step {
    SharedNodeParams params;      // nullptr: the step does nothing.
    std::vector<uint32_t> after;  // Indices of steps before this one.
    uint32_t body = 0;            // proto/graph_definition.h
  };

  // `frame` is the server's graph in which the conditional handles were made; 0 for graphs without
  // such nodes.
  explicit GraphPlan(std::vector<Step> steps, uint64_t frame = 0);
  ~GraphPlan();
  GraphPlan(const GraphPlan&) = delete;
  GraphPlan& operator=(const GraphPlan&) = delete;

  const std::vector<Step>& steps() const { return steps_; }

  // Has the server make its copy of a graph with a frame, without which nothing can be launched.
  // Called once, before everything else. CUDA_ERROR_NOT_SUPPORTED for a graph with nodes on another
  // device, with nodes that need this process in a conditional node or between two, or with a
  // kernel that sets a condition and has to run before such a node.
  CUresult Make();
  // Launches the graph once on `stream`.
  CUresult Launch(Stream* stream);
  // Has the server make its copy now, if it can, for launches on streams of `device`.
  void Upload(Device* device);

 private:
  // Where a step runs: as part of the server's copy, or in the launch's stream before or after it.
  enum class Place : uint8_t { kBefore, kCopy, kAfter };

  // Finds the places of all steps. Returns false if a step that needs this process would have to
  // run in the midst of the copy.
  bool Split();
  // Returns true if a kernel that runs before the copy has the handle of a condition as an
  // argument.
  bool SetsConditionBefore() const;
  // Returns the server's number for its copy, 0 without one. Makes the copy if `make`, or if the
  // graph has been launched before. The copy belongs to `device` where no node names a device.
  uint64_t Remote(Device* device, bool make);
  bool Define(Device* device, std::string* definition) const;
  uint64_t Create(Device* device) const;

  // Gives the devices page-locked memory that was allocated since the copy was made, where the
  // nodes name it. Returns false where a node needs another address than the copy has: the copy
  // cannot be launched any more.
  CUresult GiveNamed(bool* launchable);

  CUresult Send(const std::string& definition, const Device& device, uint64_t* graph) const;
  // Runs the steps of a place one after the other.
  CUresult RunSteps(Place place, Path* path) const;

  const std::vector<Step> steps_;
  std::vector<Place> places_;  // By step; constant.
  bool split_ = true;          // What Split() returned; constant.
  const uint64_t frame_;
  Device* device_ = nullptr;  // The device of the nodes that have one; constant.
  bool several_ = false;      // The nodes have different devices; constant.
  // Kernels run in partitions, which no other stream has: only the server's graph does as they say.
  bool partitioned_ = false;  // Constant.

  Mutex mu_;
  bool launched_ ABSL_GUARDED_BY(mu_) = false;
  bool tried_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t wire_ ABSL_GUARDED_BY(mu_) = 0;
  // HostMemory::additions() when the nodes were last searched.
  std::atomic<uint64_t> searched_{0};
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_LAUNCH_REMOTE_GRAPH_H_
