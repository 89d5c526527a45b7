// The session's executable graphs.
#include <utility>

#include "server/worker/lanes/graph.h"
#include "server/worker/session/session.h"

namespace warpline::worker {

template <typename Command>
void Session::CreateGraph(const Command& command, std::string_view tail,
                          std::shared_ptr<Frame> frame) {
  const auto found = images_.find(command.image);
  if (found == images_.end() || !found->second->complete() || graphs_.contains(command.graph) ||
      !HasDevice(command.graph)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  const std::shared_ptr<Image> image = std::move(found->second);
  images_.erase(found);
  if (!HandlesLeft()) {
    module_bytes_ -= image->total();
    return;
  }
  auto graph = std::make_shared<Graph>();
  graph->device = DeviceOfHandle(command.graph);
  graph->frame = std::move(frame);
  const uint64_t left = limits_.max_graph_nodes - graph_nodes_;
  const CudaResult result = ParseGraph(
      image,
      [this](uint64_t handle) {
        const auto kernel = kernels_.find(handle);
        return kernel == kernels_.end() ? nullptr : kernel->second;
      },
      left, graph.get());
  if (result != CudaResult::kSuccess) {
    module_bytes_ -= image->total();
    return Refuse(result);
  }
  uint64_t more = 0;  // The frame keeps them, however often it is instantiated.
  if (graph->frame != nullptr) {
    uint64_t count = graph->nodes.size();
    for (const device::GraphNode& node : graph->nodes) count += node.bodies;
    more = count > graph->frame->nodes ? count - graph->frame->nodes : 0;
  }
  if (graph->nodes.size() + more > left) {
    module_bytes_ -= image->total();
    return Refuse(CudaResult::kOutOfMemory);
  }
  graph_nodes_ += graph->nodes.size() + more;
  if (graph->frame != nullptr) {
    graph->frame->nodes += more;
    graph->frame->counted += more;
  }
  graph->ticket = control_->appended() + 1;
  Task task = NewTask(command, tail);
  task.graph = graph;
  graphs_.emplace(command.graph, std::move(graph));
  ToControl(std::move(task));
}

void Session::On(const cmd::GraphCreate& command, std::string_view tail) {
  CreateGraph(command, tail, nullptr);
}

void Session::On(const cmd::GraphCreateIn& command, std::string_view tail) {
  const auto frame = frames_.find(command.frame);
  if (frame == frames_.end()) {
    // Its image would be missed by nobody.
    if (images_.contains(command.image)) DropImage(command.image);
    return Refuse(CudaResult::kInvalidHandle);
  }
  CreateGraph(command, tail, frame->second);
}

void Session::On(const cmd::ConditionalCreate& command, std::string_view tail) {
  const auto found = frames_.find(command.frame);
  if (!HasDevice(command.frame)) return Refuse(CudaResult::kInvalidHandle);
  if (found == frames_.end() && !HandlesLeft()) return;
  if (graph_nodes_ >= limits_.max_graph_nodes) return Refuse(CudaResult::kOutOfMemory);
  ++graph_nodes_;
  Task task = NewTask(command, tail);
  task.frame = found != frames_.end() ? found->second : std::make_shared<Frame>();
  if (found == frames_.end()) {
    task.frame->device = DeviceOfHandle(command.frame);
    frames_.emplace(command.frame, task.frame);
  }
  ++task.frame->counted;
  ToControl(std::move(task));
}

void Session::On(const cmd::ConditionalDestroy& command, std::string_view tail) {
  const auto found = frames_.find(command.frame);
  if (found == frames_.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.frame = std::move(found->second);
  frames_.erase(found);
  graph_nodes_ -= std::exchange(task.frame->counted, 0);
  ToControl(std::move(task));
}

void Session::On(const cmd::GraphDestroy& command, std::string_view tail) {
  const auto found = graphs_.find(command.graph);
  if (found == graphs_.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.graph = std::move(found->second);
  graphs_.erase(found);
  module_bytes_ -= task.graph->image->total();
  graph_nodes_ -= task.graph->nodes.size();
  const auto wait_for = [&](const std::shared_ptr<Lane>& lane) {
    if (lane->issued() < lane->appended()) task.after.push_back({lane, lane->appended()});
  };
  for (const auto& [stream, lane] : lanes_) wait_for(lane);
  for (const auto& lane : leaving_) wait_for(lane);
  ToControl(std::move(task));
}

void Session::On(const cmd::GraphLaunch& command, std::string_view tail) {
  const std::shared_ptr<Lane> lane = FindLane(command.stream);
  const auto graph = graphs_.find(command.graph);
  if (lane == nullptr || graph == graphs_.end()) return Refuse(CudaResult::kInvalidHandle);
  Task task = NewTask(command, tail);
  task.graph = graph->second;
  if (control_->issued() < task.graph->ticket) {
    task.after.push_back({control_, task.graph->ticket});
  }
  Enqueue(lane, std::move(task));
}

}  // namespace warpline::worker
