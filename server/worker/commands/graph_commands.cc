#include <memory>
#include <utility>

#include "proto/devices.h"
#include "server/worker/commands/families.h"
#include "server/worker/executors/partition.h"

namespace warpline::worker {

CudaResult GraphCommands::Count(const std::shared_ptr<Image>& image, Graph* graph) {
  const uint64_t most = parts_.limits->max_graph_nodes;
  if (!tables().leaving_nodes.AtMost(most)) return CudaResult::kOutOfMemory;
  const uint64_t left = most - tables().graph_nodes;
  const CudaResult result = ParseGraph(
      image,
      [this](uint64_t handle) RUNS_ON(decoder_thread) { return FindIn(tables().kernels, handle); },
      [this](uint64_t handle)
          RUNS_ON(decoder_thread) { return FindIn(tables().partitions, handle); },
      left, graph);
  if (result != CudaResult::kSuccess) return result;
  uint64_t more = 0;  // The frame keeps these, however often it is instantiated.
  if (graph->frame != nullptr) {
    uint64_t count = graph->nodes.size();
    for (const device::GraphNode& node : graph->nodes) count += node.bodies;
    more = count > graph->frame->nodes ? count - graph->frame->nodes : 0;
  }
  if (graph->nodes.size() + more > left) return CudaResult::kOutOfMemory;
  tables().graph_nodes += graph->nodes.size() + more;
  if (graph->frame != nullptr) {
    graph->frame->nodes += more;
    graph->frame->counted += more;
  }
  return CudaResult::kSuccess;
}

template <typename Command>
void GraphCommands::Create(const Command& command, std::string_view tail,
                           std::shared_ptr<Frame> frame) {
  if (tables().graphs.contains(command.graph) || !HasDeviceOf(command.graph)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  const std::shared_ptr<Image> image = tables().TakeImage(command.image);
  if (image == nullptr) return Refuse(CudaResult::kInvalidHandle);
  if (!HandlesLeft()) {
    tables().module_bytes -= image->total();
    return;
  }
  auto graph = std::make_shared<Graph>();
  graph->device = DeviceOfHandle(command.graph);
  graph->frame = std::move(frame);
  if (const CudaResult result = Count(image, graph.get()); result != CudaResult::kSuccess) {
    tables().module_bytes -= image->total();
    return Refuse(result);
  }
  ObjectTables::Hold(graph->kernels, &graph->hold);
  for (const auto& partition : graph->partitions) {
    if (partition != nullptr) partition->AddUser();
  }
  if (graph->frame != nullptr) ObjectTables::Hold(graph->kernels, &graph->frame->hold);
  graph->ticket = order().NextControlTicket();
  Task task = NewTask(command, tail);
  task.graph = graph;
  tables().graphs.emplace(command.graph, std::move(graph));
  order().ToControl<Command>(std::move(task));
}

void GraphCommands::On(const cmd::GraphCreate& command, std::string_view tail) {
  Create(command, tail, nullptr);
}

void GraphCommands::On(const cmd::GraphCreateIn& command, std::string_view tail) {
  std::shared_ptr<Frame> frame = FindIn(tables().frames, command.frame);
  if (frame == nullptr) {
    // Otherwise nothing would forget its image.
    if (tables().images.contains(command.image)) tables().DropImage(command.image);
    return Refuse(CudaResult::kInvalidHandle);
  }
  Create(command, tail, std::move(frame));
}

void GraphCommands::On(const cmd::ConditionalCreate& command, std::string_view tail) {
  const auto found = tables().frames.find(command.frame);
  if (!HasDeviceOf(command.frame)) return Refuse(CudaResult::kInvalidHandle);
  if (found == tables().frames.end() && !HandlesLeft()) return;
  const uint64_t most = parts_.limits->max_graph_nodes;
  if (tables().graph_nodes >= most || !tables().leaving_nodes.AtMost(most)) {
    return Refuse(CudaResult::kOutOfMemory);
  }
  ++tables().graph_nodes;
  Task task = NewTask(command, tail);
  if (found != tables().frames.end()) {
    task.frame = found->second;
  } else {
    task.frame = std::make_shared<Frame>();
    task.frame->device = DeviceOfHandle(command.frame);
    tables().frames.emplace(command.frame, task.frame);
  }
  ++task.frame->counted;
  order().ToControl<cmd::ConditionalCreate>(std::move(task));
}

void GraphCommands::On(const cmd::ConditionalDestroy& command, std::string_view tail) {
  const auto found = tables().frames.find(command.frame);
  if (found == tables().frames.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.frame = std::move(found->second);
  tables().frames.erase(found);
  tables().leaving_nodes.Add(task.frame, task.frame->counted);
  tables().graph_nodes -= std::exchange(task.frame->counted, 0);
  tables().Release(&task.frame->hold);
  order().AfterAllIsComplete(&task);
  order().ToControl<cmd::ConditionalDestroy>(std::move(task));
}

void GraphCommands::On(const cmd::GraphDestroy& command, std::string_view tail) {
  const auto found = tables().graphs.find(command.graph);
  if (found == tables().graphs.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.graph = std::move(found->second);
  tables().graphs.erase(found);
  tables().leaving_bytes.Add(task.graph->image, task.graph->image->total());
  tables().leaving_nodes.Add(task.graph, task.graph->nodes.size());
  tables().module_bytes -= task.graph->image->total();
  tables().graph_nodes -= task.graph->nodes.size();
  tables().Release(&task.graph->hold);
  order().AfterAllIsComplete(&task);
  order().ToControl<cmd::GraphDestroy>(std::move(task));
}

void GraphCommands::On(const cmd::GraphLaunch& command, std::string_view tail) {
  Stream* const stream = FindStream(command.stream);
  const std::shared_ptr<Graph> graph = FindIn(tables().graphs, command.graph);
  if (stream == nullptr || graph == nullptr) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.graph = graph;
  order().ToStream<cmd::GraphLaunch>(stream, std::move(task));
}

}  // namespace warpline::worker
