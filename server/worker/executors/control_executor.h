// The session's own executor: loading modules, finding kernels and variables, attributes, arrays,
// textures and tensor maps, partitions.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_CONTROL_EXECUTOR_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_CONTROL_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/loop/loop_affinity.h"
#include "server/worker/executors/executor.h"

namespace warpline::worker {

// It is apart from the streams' executors because these calls take long, and some wait for running
// kernels.
class ControlExecutor : public Executor {
 public:
  explicit ControlExecutor(const ExecutorHost* host) : Executor(host, Kind::kControl, 0) {}
  ~ControlExecutor() override { Stop(); }

 protected:
  Step Issue(Task& task) RUNS_ON(on_executor_) override;

 private:
  // What is taken for a CUlimit of a device.
  struct LimitMemory {
    uint64_t first_value = 0;  // That of a new context, which is part of it.
    uint64_t value = 0;
    uint64_t local_bytes = 0;  // The most that a kernel needs for each of its threads.
    uint64_t taken = 0;
  };

  // Finds the variable of a GlobalFind or VariableFind.
  CudaResult FindVariable(const Task& task, uint64_t* address, uint64_t* bytes)
      RUNS_ON(on_executor_);
  // Declares a function for each command of this executor in the table.
#define WARPLINE_DO(Command) void Do(const cmd::Command& command, Task& task) RUNS_ON(on_executor_);
  WARPLINE_EXECUTOR_CONTROL(WARPLINE_DO)
#undef WARPLINE_DO
  // The decoder sends other commands elsewhere.
  template <typename Command>
  void Do(const Command&, Task&) {
    static_assert(FindCommand(CommandTraits<Command>::kId).executor != ExecutorKind::kControl);
  }

  // Whether the task's module is made of an image that the client has not sent yet. Commands that
  // use the module then say so.
  static bool Missing(const Task& task);
  // Loads the task's image with `load`, and takes the memory of its variables.
  CudaResult Load(const std::function<CudaResult(device::ModuleId*)>& load, Task& task)
      RUNS_ON(on_executor_);
  // Keeps the result of loading the task's image.
  void Loaded(CudaResult result, Task& task) RUNS_ON(on_executor_);
  void Unload(const Task& task, Module* module) RUNS_ON(on_executor_);
  // Unloads the modules that ended with what the task destroyed.
  void UnloadLeaving(const Task& task, ModuleHold* hold) RUNS_ON(on_executor_);
  // Finds the kernel, its layout and attributes.
  CudaResult Find(Kernel* kernel, std::string_view name, std::string* fields, std::string* tail)
      RUNS_ON(on_executor_);
  CudaResult Create(Array* array) RUNS_ON(on_executor_);
  LimitMemory& LimitOf(uint32_t device, int limit) RUNS_ON(on_executor_);
  // Takes what `*next` needs more than it has, and notes what it has then. kOutOfMemory beyond the
  // quota.
  CudaResult TakeFor(uint32_t device, int limit, LimitMemory* next) RUNS_ON(on_executor_);
  CudaResult SetLimit(uint32_t device, int limit, uint64_t value) RUNS_ON(on_executor_);
  CudaResult TakeForKernel(uint32_t device, uint64_t local_bytes) RUNS_ON(on_executor_);
  // Reports whether there is anything that ends with the worker.
  void NoteObjects() RUNS_ON(on_executor_);

  void LookAtParams(const Graph& graph) RUNS_ON(on_executor_);
  void CreateGraph(Task& task) RUNS_ON(on_executor_);

  std::map<std::pair<uint32_t, int>, LimitMemory> limits_ ABSL_GUARDED_BY(on_executor_);

  uint64_t arrays_ ABSL_GUARDED_BY(on_executor_) = 0;  // Number of those that exist.
  // Number of them, with the graphs that are made of them.
  uint64_t frames_ ABSL_GUARDED_BY(on_executor_) = 0;
  // The objects that exist, by device, number, and whether they are surfaces.
  std::set<std::tuple<uint32_t, uint64_t, bool>> textures_ ABSL_GUARDED_BY(on_executor_);
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_CONTROL_EXECUTOR_H_
