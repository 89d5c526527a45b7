#include "server/device/cuda/cuda_graphs.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "server/device/cuda/copy_box.h"
#include "server/device/cuda/native.h"
#include "server/device/cuda/native_mem_ops.h"

namespace warpline::device {
namespace {

// Adds nodes to a graph that is being built.
class GraphBuilder {
 public:
  // Builds for the context with the number `place` in `group`; kernels run in `context`.
  GraphBuilder(const DriverApi* api, CudaGroup* group, uint32_t place, CUcontext context,
               CUgraph graph)
      : api_(api), group_(group), place_(place), context_(context), bodies_({graph}) {}

  CudaResult Add(const GraphNode& from) {
    after_.clear();
    for (const uint32_t index : from.after) {
      if (index >= nodes_.size()) return CudaResult::kInvalidValue;
      after_.push_back(nodes_[index]);
    }
    if (from.body >= bodies_.size()) return CudaResult::kInvalidValue;
    graph_ = bodies_[from.body];
    const CudaResult reached = Reach(from);
    if (reached != CudaResult::kSuccess) return reached;
    CUgraphNode node = nullptr;
    const CUresult result = AddByKind(from, &node);
    nodes_.push_back(node);
    // NOT_SUPPORTED would say that this device has no graphs.
    return result == CUDA_ERROR_NOT_SUPPORTED ? CudaResult::kInvalidValue : ToResult(result);
  }

  std::vector<OutsideSpan> TakeOutside() { return std::move(outside_); }

 private:
  // Finds the memory of a copy or a fill.
  CudaResult Reach(const GraphNode& from) {
    const AddressGate& gate = group_->gate();
    to_.reset();
    from_.reset();
    if (from.kind == GraphNode::Kind::kMemset) {
      uint64_t row;
      if (__builtin_mul_overflow(from.columns, uint64_t{from.width}, &row)) {
        return CudaResult::kInvalidValue;
      }
      // One row needs no pitch.
      to_ = gate.AdmitBox({from.dst.address, from.rows > 1 ? from.dst.pitch : row, 0},
                          {row, from.rows, 1}, MemoryUse::kWrite);
      if (!to_) return CudaResult::kInvalidValue;
    }
    if (from.kind == GraphNode::Kind::kCopy) {
      to_ = gate.AdmitBox(from.dst, from.extent, MemoryUse::kWrite);
      from_ = gate.AdmitBox(from.src, from.extent, MemoryUse::kRead);
      if (!to_ || !from_) return CudaResult::kInvalidValue;
    }
    if (to_) Note(to_->span(), MemoryUse::kWrite);
    if (from_) Note(from_->span(), MemoryUse::kRead);
    // The driver's graphs take memory of other devices for some nodes only.
    return IsForeign(to_) || IsForeign(from_) ? CudaResult::kNotSupported : CudaResult::kSuccess;
  }

  void Note(const GatedSpan& span, MemoryUse use) {
    if (span.kind() != MemoryKind::kArena)
      outside_.push_back({span.named(), span.address(), span.bytes(), use});
  }

  bool IsForeign(const std::optional<GatedBox>& box) const {
    return box && group_->MemberOf(box->span(), place_) != place_;
  }

  CUresult AddByKind(const GraphNode& from, CUgraphNode* node) {
    switch (from.kind) {
      case GraphNode::Kind::kNothing:
        return api_->p_cuGraphAddEmptyNode(node, graph_, after_.data(), after_.size());
      case GraphNode::Kind::kLaunch:
        return AddKernel(from, node);
      case GraphNode::Kind::kMemset:
        return AddMemset(from, node);
      case GraphNode::Kind::kCopy:
        return AddCopy(from, node);
      case GraphNode::Kind::kMemOps:
        return AddMemOps(from, node);
      case GraphNode::Kind::kConditional:
        return AddConditional(from, node);
    }
    return CUDA_ERROR_INVALID_VALUE;
  }

  CUresult AddKernel(const GraphNode& from, CUgraphNode* node) {
    size_t bytes = from.params.size();
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                     const_cast<std::byte*>(from.params.data()),  // The driver only reads it.
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS params = {};
    params.kern = reinterpret_cast<CUkernel>(static_cast<uint64_t>(from.kernel));
    params.ctx = context_;
    if (from.partition != PartitionId{}) {
      const CUresult found = api_->p_cuCtxFromGreenCtx(&params.ctx, Native(from.partition));
      if (found != CUDA_SUCCESS) return found;
    }
    params.gridDimX = from.config.grid[0];
    params.gridDimY = from.config.grid[1];
    params.gridDimZ = from.config.grid[2];
    params.blockDimX = from.config.block[0];
    params.blockDimY = from.config.block[1];
    params.blockDimZ = from.config.block[2];
    params.sharedMemBytes = from.config.dynamic_shared_bytes;
    params.extra = bytes > 0 ? extra : nullptr;
    CUresult result =
        api_->p_cuGraphAddKernelNode(node, graph_, after_.data(), after_.size(), &params);
    if (result != CUDA_SUCCESS) return result;
    for (const LaunchAttribute& attribute : from.config.attributes) {
      // A hint about memory that is not the session's says nothing.
      if (!group_->gate().AdmitsAttribute(attribute)) continue;
      CUkernelNodeAttrValue value;
      static_assert(sizeof(value) == sizeof(attribute.value));
      std::memcpy(&value, attribute.value.data(), sizeof(value));
      result = api_->p_cuGraphKernelNodeSetAttribute(
          *node, static_cast<CUkernelNodeAttrID>(attribute.id), &value);
      if (result != CUDA_SUCCESS) return result;
    }
    if (!from.config.cooperative) return CUDA_SUCCESS;
    CUkernelNodeAttrValue value = {};
    value.cooperative = 1;
    return api_->p_cuGraphKernelNodeSetAttribute(*node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value);
  }

  CUresult AddMemset(const GraphNode& from, CUgraphNode* node) {
    CUDA_MEMSET_NODE_PARAMS params = {};
    params.dst = to_->span().address();
    params.pitch = from.rows > 1 ? from.dst.pitch : 0;
    params.value = from.value;
    params.elementSize = from.width;
    params.width = from.columns;
    params.height = from.rows;
    return api_->p_cuGraphAddMemsetNode(node, graph_, after_.data(), after_.size(), &params,
                                        context_);
  }

  CUresult AddCopy(const GraphNode& from, CUgraphNode* node) {
    CUDA_MEMCPY3D copy = DescribeBox(from.extent);
    SetSource(*from_, from.extent, &copy);
    SetTarget(*to_, from.extent, &copy);
    return api_->p_cuGraphAddMemcpyNode(node, graph_, after_.data(), after_.size(), &copy,
                                        context_);
  }

  CUresult AddMemOps(const GraphNode& from, CUgraphNode* node) {
    std::vector<CUstreamBatchMemOpParams> native;
    const CUresult result = Translate(group_->gate(), from.operations, &native);
    if (result != CUDA_SUCCESS) return result;
    for (const MemOp& op : from.operations) {
      // The gate looks at words as at spans; a barrier has none.
      if (op.kind == MemOp::kBarrier || group_->gate().InArena(op.address, 0)) continue;
      const bool wide = op.kind == MemOp::kWait64 || op.kind == MemOp::kWrite64;
      outside_.push_back(
          {op.address, op.address, wide ? uint64_t{8} : uint64_t{4}, MemoryUse::kWrite});
    }
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {};
    params.ctx = context_;
    params.count = static_cast<unsigned>(native.size());
    params.paramArray = native.data();
    return api_->p_cuGraphAddBatchMemOpNode(node, graph_, after_.data(), after_.size(), &params);
  }

  CUresult AddConditional(const GraphNode& from, CUgraphNode* node) {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = from.conditional;
    params.conditional.type = static_cast<CUgraphConditionalNodeType>(from.type);
    params.conditional.size = from.bodies;
    params.conditional.ctx = context_;
    const CUresult result =
        api_->p_cuGraphAddNode(node, graph_, after_.data(), nullptr, after_.size(), &params);
    if (result != CUDA_SUCCESS) return result;
    const CUgraph* const made = params.conditional.phGraph_out;
    bodies_.insert(bodies_.end(), made, made + from.bodies);
    return CUDA_SUCCESS;
  }

  const DriverApi* const api_;
  CudaGroup* const group_;
  const uint32_t place_;
  const CUcontext context_;
  std::vector<CUgraph> bodies_;
  CUgraph graph_ = nullptr;  // The graph to which nodes are added now.
  std::vector<CUgraphNode> nodes_;
  std::vector<CUgraphNode> after_;
  std::vector<OutsideSpan> outside_;
  // The memory of the node that is added now.
  std::optional<GatedBox> to_;
  std::optional<GatedBox> from_;
};

}  // namespace

CudaGraphs::~CudaGraphs() {
  for (const GraphId graph : live_graphs_.TakeAll()) {
    Enter();
    api_->p_cuGraphExecDestroy(Native(graph));
  }
  for (const FrameId frame : live_frames_.TakeAll()) {
    Enter();
    api_->p_cuGraphDestroy(Native(frame));
  }
}

CudaResult CudaGraphs::FillFrame(FrameId frame, absl::Span<const GraphNode> nodes) {
  Enter();
  Outside outside;
  outside.removals = gate().removals();
  GraphBuilder builder(api_, group_, place_, NodeContext(), Native(frame));
  for (const GraphNode& node : nodes) {
    const CudaResult result = builder.Add(node);
    if (result != CudaResult::kSuccess) return result;
  }
  outside.spans = builder.TakeOutside();
  if (outside.spans.empty()) return CudaResult::kSuccess;
  MutexLock lock(&mu_);
  frames_[frame] = std::move(outside);
  return CudaResult::kSuccess;
}

CudaResult CudaGraphs::CreateGraphOf(FrameId frame, GraphId* graph) {
  Enter();
  CUgraphExec executable = nullptr;
  const CUresult result = api_->p_cuGraphInstantiate(&executable, Native(frame), 0);
  *graph = static_cast<GraphId>(reinterpret_cast<uint64_t>(executable));
  if (result == CUDA_SUCCESS) live_graphs_.Add(*graph);
  MutexLock lock(&mu_);
  const auto outside = frames_.find(frame);
  if (result == CUDA_SUCCESS && outside != frames_.end()) {
    graphs_[*graph] = outside->second;
    any_outside_.store(true, std::memory_order_release);
  }
  return ToResult(result);
}

bool CudaGraphs::StillAdmitted(GraphId graph) {
  if (!any_outside_.load(std::memory_order_acquire)) return true;
  const uint64_t removals = gate().removals();
  std::vector<OutsideSpan> spans;
  {
    MutexLock lock(&mu_);
    const auto found = graphs_.find(graph);
    if (found == graphs_.end() || found->second.removals == removals) return true;
    spans = found->second.spans;
  }
  for (const OutsideSpan& span : spans) {
    // Another module's variable may have the name by now.
    const auto now = gate().Admit(span.named, span.bytes, span.use);
    if (!now || now->address() != span.address) return false;
  }
  MutexLock lock(&mu_);
  if (const auto found = graphs_.find(graph); found != graphs_.end()) {
    found->second.removals = removals;
  }
  return true;
}

CudaResult CudaGraphs::CreateFrame(FrameId* frame) {
  Enter();
  CUgraph native = nullptr;
  const CUresult result = api_->p_cuGraphCreate(&native, 0);
  *frame = static_cast<FrameId>(reinterpret_cast<uint64_t>(native));
  if (result == CUDA_SUCCESS) live_frames_.Add(*frame);
  return ToResult(result);
}

CudaResult CudaGraphs::AddConditional(FrameId frame, uint32_t first_value, uint32_t flags,
                                      uint64_t* conditional) {
  Enter();
  if (api_->p_cuGraphConditionalHandleCreate == nullptr || api_->p_cuGraphAddNode == nullptr) {
    return CudaResult::kNotSupported;
  }
  CUgraphConditionalHandle handle = 0;
  const CUresult result =
      api_->p_cuGraphConditionalHandleCreate(&handle, Native(frame), context_, first_value, flags);
  *conditional = handle;
  return ToResult(result);
}

CudaResult CudaGraphs::DestroyFrame(FrameId frame) {
  Enter();
  if (!live_frames_.Remove(frame)) return CudaResult::kInvalidHandle;
  {
    MutexLock lock(&mu_);
    frames_.erase(frame);
  }
  return ToResult(api_->p_cuGraphDestroy(Native(frame)));
}

CudaResult CudaGraphs::CreateGraph(absl::Span<const GraphNode> nodes, GraphId* graph) {
  FrameId frame;
  CudaResult result = CudaGraphs::CreateFrame(&frame);
  if (result != CudaResult::kSuccess) return result;
  const absl::Cleanup destroy = [&] { DestroyFrame(frame); };
  result = FillFrame(frame, nodes);
  return result == CudaResult::kSuccess ? CreateGraphOf(frame, graph) : result;
}

CudaResult CudaGraphs::LaunchGraph(GraphId graph, StreamId stream) {
  Enter();
  if (!StillAdmitted(graph)) return CudaResult::kInvalidValue;
  return IssueTo(stream, [&](CUstream on) { return api_->p_cuGraphLaunch(Native(graph), on); },
                 {SharePlanner::kAll, false});
}

CudaResult CudaGraphs::DestroyGraph(GraphId graph) {
  Enter();
  if (!live_graphs_.Remove(graph)) return CudaResult::kInvalidHandle;
  {
    MutexLock lock(&mu_);
    graphs_.erase(graph);
  }
  return ToResult(api_->p_cuGraphExecDestroy(Native(graph)));
}

}  // namespace warpline::device
