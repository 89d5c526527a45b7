#include "server/worker/executors/graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/graph_definition.h"
#include "server/worker/executors/launch_attributes.h"
#include "server/worker/executors/partition.h"

namespace warpline::worker {
namespace {

using device::GraphNode;

template <typename Command>
Command Fields(const GraphStep& step) {
  Command command;
  std::memcpy(&command, step.fields.data(), sizeof(command));
  return command;
}

absl::Span<const std::byte> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

template <typename Command>
void SetGeometry(const Command& command, device::LaunchConfig* config) {
  config->grid = {command.grid_x, command.grid_y, command.grid_z};
  config->block = {command.block_x, command.block_y, command.block_z};
  config->dynamic_shared_bytes = command.dynamic_shared_bytes;
}

struct Finders {
  const FindKernel& kernel;
  const FindPartition& partition;
};

CudaResult SetKernel(uint64_t handle, const FindKernel& find, Graph* graph) {
  graph->kernels.back() = find(handle);
  return graph->kernels.back() == nullptr ? CudaResult::kInvalidHandle : CudaResult::kSuccess;
}

CudaResult ReadLaunch(const GraphStep& step, const Finders& find, GraphNode* node, Graph* graph) {
  node->kind = GraphNode::Kind::kLaunch;
  std::string_view rest = step.tail;
  uint64_t kernel;
  uint64_t partition;
  if (step.command == static_cast<uint32_t>(CommandId::kLaunch)) {
    const auto command = Fields<cmd::Launch>(step);
    SetGeometry(command, &node->config);
    kernel = command.kernel;
    partition = command.stream;
  } else {
    const auto command = Fields<cmd::LaunchEx>(step);
    SetGeometry(command, &node->config);
    node->config.cooperative = command.cooperative != 0;
    if (!TakeAttributes(&rest, command.attribute_count, &node->config)) {
      return CudaResult::kInvalidValue;
    }
    kernel = command.kernel;
    partition = command.stream;
  }
  node->params = Bytes(rest);
  if (partition != 0) {
    graph->partitions.back() = find.partition(partition);
    if (graph->partitions.back() == nullptr) return CudaResult::kInvalidHandle;
  }
  return SetKernel(kernel, find.kernel, graph);
}

CudaResult ReadMemset(const GraphStep& step, GraphNode* node) {
  node->kind = GraphNode::Kind::kMemset;
  if (step.command == static_cast<uint32_t>(CommandId::kMemset)) {
    const auto command = Fields<cmd::Memset>(step);
    node->dst = {command.dst, 0, 0};
    node->value = command.value;
    node->width = command.width;
    node->columns = command.count;
    node->rows = 1;
  } else {
    const auto command = Fields<cmd::MemsetRows>(step);
    node->dst = {command.dst, command.pitch, 0};
    node->value = command.value;
    node->width = command.width;
    node->columns = command.columns;
    node->rows = command.rows;
  }
  const bool known = node->width == 1 || node->width == 2 || node->width == 4;
  return known && node->columns > 0 && node->rows > 0 ? CudaResult::kSuccess
                                                      : CudaResult::kInvalidValue;
}

CudaResult ReadCopy(const GraphStep& step, GraphNode* node) {
  node->kind = GraphNode::Kind::kCopy;
  if (step.command == static_cast<uint32_t>(CommandId::kCopyOnDevice)) {
    const auto command = Fields<cmd::CopyOnDevice>(step);
    node->dst = {command.dst, command.bytes, command.bytes};
    node->src = {command.src, command.bytes, command.bytes};
    node->extent = {command.bytes, 1, 1};
  } else {
    const auto command = Fields<cmd::CopyBoxOnDevice>(step);
    node->dst = {command.dst, command.dst_pitch, command.dst_slice};
    node->src = {command.src, command.src_pitch, command.src_slice};
    node->extent = {command.width, command.height, command.depth};
  }
  uint64_t span;
  return BoxSpan(node->dst, node->extent, &span) && BoxSpan(node->src, node->extent, &span)
             ? CudaResult::kSuccess
             : CudaResult::kInvalidValue;
}

CudaResult ReadMemOps(const GraphStep& step, GraphNode* node) {
  node->kind = GraphNode::Kind::kMemOps;
  const size_t count = step.tail.size() / sizeof(device::MemOp);
  if (count == 0 || step.tail.size() % sizeof(device::MemOp) != 0 || count > device::kMaxMemOps) {
    return CudaResult::kInvalidValue;
  }
  node->operations.resize(count);
  std::memcpy(node->operations.data(), step.tail.data(), step.tail.size());
  return CudaResult::kSuccess;
}

CudaResult ReadConditional(const GraphStep& step, const Graph& graph, GraphNode* node) {
  if (graph.frame == nullptr) return CudaResult::kInvalidValue;
  const auto conditional = Fields<ConditionalStep>(step);
  node->kind = GraphNode::Kind::kConditional;
  node->conditional = conditional.conditional;
  node->type = conditional.type;
  node->bodies = conditional.bodies;
  return node->bodies > 0 ? CudaResult::kSuccess : CudaResult::kInvalidValue;
}

CudaResult ReadStep(const GraphStep& step, const Finders& find, GraphNode* node, Graph* graph) {
  if (step.command == kConditionalStep) return ReadConditional(step, *graph, node);
  switch (static_cast<CommandId>(step.command)) {
    case CommandId::kLaunch:
    case CommandId::kLaunchEx:
      return ReadLaunch(step, find, node, graph);
    case CommandId::kMemset:
    case CommandId::kMemsetRows:
      return ReadMemset(step, node);
    case CommandId::kCopyOnDevice:
    case CommandId::kCopyBoxOnDevice:
      return ReadCopy(step, node);
    case CommandId::kStreamMemOps:
      return ReadMemOps(step, node);
    default:
      return step.command == 0 ? CudaResult::kSuccess : CudaResult::kInvalidValue;
  }
}

CudaResult Issue(device::Context* context, const GraphNode& node, device::StreamId stream) {
  switch (node.kind) {
    case GraphNode::Kind::kNothing:
      return CudaResult::kSuccess;
    case GraphNode::Kind::kLaunch:
      return context->Launch(node.kernel, node.config, node.params, stream);
    case GraphNode::Kind::kMemset:
      if (node.rows == 1) {
        return context->Memset(node.dst.address, node.value, static_cast<int>(node.width),
                               node.columns, stream);
      }
      return context->MemsetRows(node.dst.address, node.dst.pitch, node.value,
                                 static_cast<int>(node.width), node.columns, node.rows, stream);
    case GraphNode::Kind::kCopy:
      if (node.extent.height == 1 && node.extent.depth == 1) {
        return context->CopyOnDevice(node.dst.address, node.src.address, node.extent.width, stream);
      }
      return context->CopyBoxOnDevice(node.dst, node.src, node.extent, stream);
    case GraphNode::Kind::kMemOps:
      return context->MemOps(node.operations, stream);
    case GraphNode::Kind::kConditional:
      return CudaResult::kNotSupported;
  }
  return CudaResult::kInvalidValue;
}

// A node is in a body that exists, and comes after nodes of the same body.
bool InItsBody(const Graph& graph, const GraphNode& node, uint64_t bodies) {
  return node.body < bodies &&
         std::all_of(node.after.begin(), node.after.end(),
                     [&](uint32_t place) { return graph.nodes[place].body == node.body; });
}

// Fills the frame with the nodes, unless it has them already, and makes a graph of it to launch.
CudaResult MakeOfFrame(device::Context* context, Graph* graph) {
  Frame& frame = *graph->frame;
  if (!frame.created) return CudaResult::kInvalidHandle;
  for (const GraphNode& node : graph->nodes) {
    // The driver believes that the number is valid, so it is checked here.
    if (node.kind == GraphNode::Kind::kConditional &&
        !frame.conditionals.contains(node.conditional)) {
      return CudaResult::kInvalidValue;
    }
  }
  ContentHash definition;
  if (!HashContent(graph->image->bytes(), &definition)) return CudaResult::kUnknown;
  // The client's numbers of kernels may have come to mean other kernels.
  std::vector<std::shared_ptr<Module>> modules;
  for (const auto& kernel : graph->kernels) {
    modules.push_back(kernel == nullptr ? nullptr : kernel->module);
  }
  if (!frame.filled) {
    frame.filled = true;
    frame.modules = modules;
    frame.definition = definition;
    frame.result = context->FillFrame(frame.id, graph->nodes);
  }
  if (frame.result != CudaResult::kSuccess) return frame.result;
  // The device's graph keeps its nodes for good.
  if (frame.definition != definition || frame.modules != modules) {
    return CudaResult::kNotSupported;
  }
  const CudaResult result = context->CreateGraphOf(frame.id, &graph->id);
  graph->native = result == CudaResult::kSuccess;
  return result;
}

}  // namespace

CudaResult ParseGraph(std::shared_ptr<const Image> image, const FindKernel& find,
                      const FindPartition& find_partition, size_t max_nodes, Graph* graph) {
  std::string_view rest = image->bytes();
  if (rest.empty() || rest.size() > kMaxGraphDefinitionBytes) return CudaResult::kInvalidValue;
  GraphStep step;
  uint64_t bodies = 1;
  while (!rest.empty()) {
    if (graph->nodes.size() + bodies > max_nodes) return CudaResult::kOutOfMemory;
    if (!TakeGraphStep(&rest, static_cast<uint32_t>(graph->nodes.size()), &step)) {
      return CudaResult::kInvalidValue;
    }
    GraphNode node;
    node.after = std::move(step.after);
    node.body = step.body;
    if (!InItsBody(*graph, node, bodies)) return CudaResult::kInvalidValue;
    graph->kernels.emplace_back();
    graph->partitions.emplace_back();
    const CudaResult result = ReadStep(step, {find, find_partition}, &node, graph);
    if (result != CudaResult::kSuccess) return result;
    bodies += node.bodies;
    if (bodies > kMaxGraphBodies) return CudaResult::kOutOfMemory;
    graph->nodes.push_back(std::move(node));
  }
  graph->image = std::move(image);
  return CudaResult::kSuccess;
}

CudaResult MakeGraph(device::Context* context, LaunchGate* gate, Graph* graph) {
  bool one_device = true;
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const Kernel* const kernel = graph->kernels[i].get();
    if (kernel == nullptr) continue;
    if (kernel->result != CudaResult::kSuccess) return kernel->result;
    // The driver reads as many bytes as the kernel has.
    device::GraphNode& node = graph->nodes[i];
    if (node.params.size() != kernel->param_bytes) return CudaResult::kInvalidValue;
    node.kernel = kernel->id;
    if (kernel->added != nullptr) {
      std::string& params = graph->params_with_added.emplace_back(
          reinterpret_cast<const char*>(node.params.data()), node.params.size());
      // A graph may be launched on any stream.
      kernel->added->AddTo(&params, node.config, /*stop=*/0);
      node.params = {reinterpret_cast<const std::byte*>(params.data()), params.size()};
    }
    // A frame keeps its nodes longer than the graphs that are made of it keep partitions.
    const Partition* const partition = graph->partitions[i].get();
    if (partition != nullptr && graph->frame == nullptr) {
      if (partition->device != graph->device) return CudaResult::kInvalidHandle;
      if (partition->result != CudaResult::kSuccess) return partition->result;
      graph->nodes[i].partition = partition->id;
    }
    graph->prints |= kernel->module->prints;
    one_device &= kernel->module->device == graph->device;
  }
  if (graph->frame != nullptr) {
    if (!one_device || graph->frame->device != graph->device) return CudaResult::kNotSupported;
    return gate->With(graph->kernels, [&] { return MakeOfFrame(context, graph); });
  }
  if (!one_device) return CudaResult::kSuccess;
  const CudaResult result =
      gate->With(graph->kernels, [&] { return context->CreateGraph(graph->nodes, &graph->id); });
  graph->native = result == CudaResult::kSuccess;
  return result == CudaResult::kNotSupported ? CudaResult::kSuccess : result;
}

CudaResult LaunchGraph(const Graph& graph, LaunchGate* gate, const EnterDevice& enter) {
  if (graph.result != CudaResult::kSuccess) return graph.result;
  device::Context* context = nullptr;
  device::StreamId stream{};
  if (graph.native) {
    const CudaResult result = enter(graph.device, &context, &stream);
    return result == CudaResult::kSuccess ? context->LaunchGraph(graph.id, stream) : result;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Kernel* const kernel = graph.kernels[i].get();
    const uint32_t device = kernel == nullptr ? graph.device : kernel->module->device;
    CudaResult result = enter(device, &context, &stream);
    if (result == CudaResult::kSuccess) {
      result = gate->With({&graph.kernels[i], 1},
                          [&] { return Issue(context, graph.nodes[i], stream); });
    }
    if (result != CudaResult::kSuccess) return result;
  }
  return CudaResult::kSuccess;
}

}  // namespace warpline::worker
