// What an executable graph does, in order, and its copy on the server.
#ifndef WARPLINE_CLIENT_STUB_CORE_REMOTE_GRAPH_H_
#define WARPLINE_CLIENT_STUB_CORE_REMOTE_GRAPH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client_stub/core/cuda_api.h"
#include "client_stub/core/graph_params.h"
#include "client_stub/core/objects.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe; `steps` is constant. Its end gives the server's copy up.
class GraphPlan {
 public:
  struct Step {
    SharedNodeParams params;      // nullptr for nothing.
    std::vector<uint32_t> after;  // Of the steps before it.
  };

  explicit GraphPlan(std::vector<Step> steps) : steps_(std::move(steps)) {}
  ~GraphPlan();
  GraphPlan(const GraphPlan&) = delete;
  GraphPlan& operator=(const GraphPlan&) = delete;

  const std::vector<Step>& steps() const { return steps_; }

  // Gives `stream` one launch.
  CUresult Launch(Stream* stream);
  // Has the server make its copy now, if it can.
  void Upload();

 private:
  // The server's number for its copy, which is made if `make`; 0 without one.
  uint64_t Remote(bool make);
  bool Define(std::string* definition) const;
  uint64_t Create() const;

  const std::vector<Step> steps_;

  Mutex mu_;
  bool launched_ ABSL_GUARDED_BY(mu_) = false;
  bool tried_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t wire_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_REMOTE_GRAPH_H_
