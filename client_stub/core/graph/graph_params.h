// The parameters of graph nodes, and how they are read from an application and given back to it.
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_PARAMS_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_PARAMS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/graph/graph_memory.h"
#include "client_stub/core/launch/launch_attributes.h"
#include "client_stub/core/launch/launch_check.h"
#include "client_stub/core/module/kernel.h"

namespace warpline::stub {

struct KernelNodeParams {
  Kernel* kernel = nullptr;
  LaunchGeometry launch;
  LaunchAttributes attributes;
  std::vector<CUlaunchAttribute> values;  // The values that `attributes` was read from.
  std::string packed;                     // The kernel's parameter buffer.
  std::vector<void*> pointers;            // Points to each parameter in `packed`.
  // The partition of the green context in which it runs; 0 for none.
  uint64_t partition = 0;
};

struct MemcpyNodeParams {
  CUDA_MEMCPY3D copy = {};
  CUcontext context = nullptr;
};

struct EventRecordNodeParams {
  CUevent event = nullptr;
};
struct EventWaitNodeParams {
  CUevent event = nullptr;
};

struct MemAllocNodeParams {
  CUDA_MEM_ALLOC_NODE_PARAMS_v2 params = {};
  std::vector<CUmemAccessDesc> access;
  std::shared_ptr<GraphAllocation> memory;
};
struct MemFreeNodeParams {
  CUdeviceptr address = 0;
};

// The node itself holds the bodies.
struct ConditionalNodeParams {
  CUDA_CONDITIONAL_NODE_PARAMS params = {};
};

struct BatchMemOpNodeParams {
  CUcontext context = nullptr;
  std::vector<CUstreamBatchMemOpParams> operations;
  unsigned int flags = 0;
};

// A call of a library's function (proto/adapters/library_call.h). For the application such a node
// is an empty one: CUDA knows no calls that the server makes.
struct LibraryNodeParams {
  uint32_t function = 0;
  uint32_t modes = 0;
  std::vector<uint64_t> values;
};

using GraphNodeParams =
    std::variant<std::monostate, KernelNodeParams, MemcpyNodeParams, CUDA_MEMSET_NODE_PARAMS_v2,
                 CUDA_HOST_NODE_PARAMS_v2, EventRecordNodeParams, EventWaitNodeParams,
                 MemAllocNodeParams, MemFreeNodeParams, BatchMemOpNodeParams, ConditionalNodeParams,
                 LibraryNodeParams>;
using SharedNodeParams = std::shared_ptr<const GraphNodeParams>;

// Makes a kernel node from packed parameters and attributes that have been read, for a context
// (nullptr for any).
SharedNodeParams MakeKernelNode(Kernel* kernel, const LaunchGeometry& launch,
                                const LaunchAttributes* attributes, std::string_view packed,
                                const Context* context);
// Makes the same node with other attributes. Fails as ReadLaunchAttributes() does.
CUresult WithAttributes(const KernelNodeParams& node, const std::vector<CUlaunchAttribute>& values,
                        SharedNodeParams* made);

// Gives a kernel node that was read anew what the node in its place has besides parameters: its
// attributes, and where it runs unless the new parameters say that. Fails in the same way.
CUresult KeepSettings(const KernelNodeParams& former, SharedNodeParams* node);

// Each checks the application's parameters as the corresponding call on a stream would, and fails
// as that call does.
CUresult ReadKernelNode(const CUDA_KERNEL_NODE_PARAMS_v3& from, SharedNodeParams* made);
CUresult ReadMemcpyNode(const CUDA_MEMCPY3D& from, CUcontext context, SharedNodeParams* made);
CUresult ReadMemsetNode(const CUDA_MEMSET_NODE_PARAMS_v2& from, SharedNodeParams* made);
CUresult ReadHostNode(const CUDA_HOST_NODE_PARAMS_v2& from, SharedNodeParams* made);
CUresult ReadBatchMemOpNode(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& from, SharedNodeParams* made);
// Reads an event node: one that records the event if `record`, else one that waits for it.
CUresult ReadEventNode(CUevent event, bool record, SharedNodeParams* made);

// Returns parameters that point into `node`, which the caller keeps.
CUDA_KERNEL_NODE_PARAMS_v3 GiveKernelNode(const KernelNodeParams& node);

// Describes the copy of one run of bytes as cuGraphMemcpyNodeGetParams does.
CUDA_MEMCPY3D LinearCopy(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from,
                         uint64_t bytes);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_GRAPH_PARAMS_H_
