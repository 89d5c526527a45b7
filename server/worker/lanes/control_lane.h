// The session's own lane: loading modules, finding kernels and variables, attributes, arrays,
// textures and tensor maps.
#ifndef WARPLINE_SERVER_WORKER_LANES_CONTROL_LANE_H_
#define WARPLINE_SERVER_WORKER_LANES_CONTROL_LANE_H_

#include <cstdint>
#include <set>
#include <tuple>

#include "server/worker/lanes/lane.h"

namespace warpline::worker {

// Apart from the streams' lanes because these calls take long, and some wait for running kernels.
class ControlLane : public Lane {
 public:
  explicit ControlLane(LaneHost* host) : Lane(host, Kind::kControl, 0) {}
  ~ControlLane() override { Stop(); }

 protected:
  Step Issue(Task& task) override;

 private:
  // Of a GlobalFind or VariableFind.
  CudaResult FindVariable(const Task& task, uint64_t* address, uint64_t* bytes);
  void Do(const cmd::ModuleLoad& command, Task& task);
  void Do(const cmd::ModuleCheck& command, Task& task);
  void Do(const cmd::ModuleUnload& command, Task& task);
  void Do(const cmd::KernelFind& command, Task& task);
  void Do(const cmd::GlobalFind& command, Task& task);
  void Do(const cmd::VariableFind& command, Task& task);
  void Do(const cmd::KernelSetAttribute& command, Task& task);
  void Do(const cmd::MaxActiveBlocks& command, Task& task);
  void Do(const cmd::EventElapsed& command, Task& task);
  void Do(const cmd::ModuleLoadJit& command, Task& task);
  void Do(const cmd::ModuleJitLog& command, Task& task);
  void Do(const cmd::ModuleKernels& command, Task& task);
  void Do(const cmd::ClusterOccupancy& command, Task& task);
  void Do(const cmd::LimitGet& command, Task& task);
  void Do(const cmd::LimitSet& command, Task& task);
  // control_objects.cc
  void Do(const cmd::TensorMapEncode& command, Task& task);
  void Do(const cmd::ArrayCreate& command, Task& task);
  void Do(const cmd::ArrayPart& command, Task& task);
  void Do(const cmd::ArrayDestroy& command, Task& task);
  void Do(const cmd::TextureCreate& command, Task& task);
  void Do(const cmd::TextureDestroy& command, Task& task);
  void Do(const cmd::GraphCreate& command, Task& task);
  void Do(const cmd::GraphDestroy& command, Task& task);
  void Do(const cmd::GraphCreateIn& command, Task& task);
  void Do(const cmd::ConditionalCreate& command, Task& task);
  void Do(const cmd::ConditionalDestroy& command, Task& task);
  template <typename Command>
  void Do(const Command&, Task&) {
    static_assert(FindCommand(CommandTraits<Command>::kId).lane != LaneKind::kControl,
                  "the command has no Do()");
  }

  // Whether the image of the task's module is one that the client has yet to send, as whoever uses
  // the module then hears.
  static bool Missing(const Task& task);
  // Keeps what loading the task's image ended with.
  void Loaded(CudaResult result, Task& task);
  // Finds the kernel, its layout and attributes.
  CudaResult Find(Kernel* kernel, std::string_view name, std::string* fields, std::string* tail);
  CudaResult Create(Array* array);
  // Says whether there is anything that ends with the worker.
  void NoteObjects();

  void CreateGraph(Task& task);

  uint64_t arrays_ = 0;  // That exist.
  uint64_t frames_ = 0;  // With the graphs that are made of them.
  // Objects that exist, by device, number and whether they are surfaces.
  std::set<std::tuple<uint32_t, uint64_t, bool>> textures_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_CONTROL_LANE_H_
