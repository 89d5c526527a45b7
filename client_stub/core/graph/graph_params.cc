#include "client_stub/core/graph/graph_params.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "client_stub/core/launch/launch.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/runtime/contexts.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/events.h"

namespace warpline::stub {
namespace {

template <typename Params>
SharedNodeParams Share(Params params) {
  return std::make_shared<const GraphNodeParams>(std::move(params));
}

// A wire attribute is {u32 id, u32 0, 64 bytes of value}.
constexpr size_t kWireAttributeBytes = 72;

std::vector<CUlaunchAttribute> ValuesOf(const LaunchAttributes& attributes) {
  std::vector<CUlaunchAttribute> values;
  for (size_t at = 0; at + kWireAttributeBytes <= attributes.wire.size();
       at += kWireAttributeBytes) {
    CUlaunchAttribute value = {};
    uint32_t id;
    std::memcpy(&id, attributes.wire.data() + at, sizeof(id));
    value.id = static_cast<CUlaunchAttributeID>(id);
    std::memcpy(&value.value, attributes.wire.data() + at + 8, sizeof(value.value));
    values.push_back(value);
  }
  if (attributes.cooperative) {
    CUlaunchAttribute value = {};
    value.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    value.value.cooperative = 1;
    values.push_back(value);
  }
  return values;
}

// These two attributes ask for an order of kernels in a stream. In a graph the edges give the
// order.
bool IsOfStreams(const CUlaunchAttribute& attribute) {
  return attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION ||
         attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
}

uint64_t PartitionOf(const Context* context) {
  return context == nullptr || context->green == nullptr ? 0 : context->green->partition;
}

// The pointers point into the object's own buffer.
SharedNodeParams ShareKernel(KernelNodeParams params) {
  auto shared = std::make_shared<GraphNodeParams>(std::move(params));
  auto& node = std::get<KernelNodeParams>(*shared);
  node.pointers.clear();
  for (const Kernel::Parameter& parameter : node.kernel->parameters) {
    node.pointers.push_back(node.packed.data() + parameter.offset);
  }
  return shared;
}

CUresult Remake(const KernelNodeParams& from, const std::vector<CUlaunchAttribute>& values,
                uint64_t partition, SharedNodeParams* made) {
  KernelNodeParams node;
  node.kernel = from.kernel;
  node.launch = from.launch;
  node.packed = from.packed;
  node.partition = partition;
  node.values = values;
  WARPLINE_TRY(
      ReadLaunchAttributes(values.data(), static_cast<unsigned>(values.size()), &node.attributes));
  *made = ShareKernel(std::move(node));
  return CUDA_SUCCESS;
}

}  // namespace

SharedNodeParams MakeKernelNode(Kernel* kernel, const LaunchGeometry& launch,
                                const LaunchAttributes* attributes, std::string_view packed,
                                const Context* context) {
  KernelNodeParams node;
  node.kernel = kernel;
  node.partition = PartitionOf(context);
  node.launch = launch;
  node.packed = std::string(packed);
  if (attributes != nullptr) {
    node.values = ValuesOf(*attributes);
    std::erase_if(node.values, IsOfStreams);
    if (ReadLaunchAttributes(node.values.data(), static_cast<unsigned>(node.values.size()),
                             &node.attributes) != CUDA_SUCCESS) {
      node.attributes = {};
    }
  }
  return ShareKernel(std::move(node));
}

CUresult WithAttributes(const KernelNodeParams& from, const std::vector<CUlaunchAttribute>& values,
                        SharedNodeParams* made) {
  return Remake(from, values, from.partition, made);
}

CUresult KeepSettings(const KernelNodeParams& former, SharedNodeParams* node) {
  if (former.values.empty() && former.partition == 0) return CUDA_SUCCESS;
  const SharedNodeParams read = *node;
  const auto& params = std::get<KernelNodeParams>(*read);
  return Remake(params, former.values, params.partition != 0 ? params.partition : former.partition,
                node);
}

CUresult ReadKernelNode(const CUDA_KERNEL_NODE_PARAMS_v3& from, SharedNodeParams* made) {
  if (from.func == nullptr && from.kern == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t handle = from.func != nullptr ? NumberOf(from.func) : NumberOf(from.kern);
  Kernel* kernel;
  // With a function the context says nothing.
  const Context* const context = from.func != nullptr ? nullptr : ContextOrCurrent(from.ctx);
  if (from.func == nullptr && from.ctx != nullptr) {
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    WARPLINE_TRY(FindKernelOn(handle, context->device, &kernel));
  } else {
    WARPLINE_TRY(FindFunction(handle, &kernel));
  }
  if (context != nullptr && context->green != nullptr && !context->alive()) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  if (from.kernelParams != nullptr && from.extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  KernelNodeParams node;
  node.kernel = kernel;
  node.partition = PartitionOf(context);
  node.launch = {{from.gridDimX, from.gridDimY, from.gridDimZ},
                 {from.blockDimX, from.blockDimY, from.blockDimZ},
                 from.sharedMemBytes};
  WARPLINE_TRY(CheckLaunch(node.launch, kernel->device->limits, kernel->limits()));
  node.packed.resize(kernel->parameter_bytes);
  if (kernel->parameter_bytes != 0) {
    WARPLINE_TRY(PackParameters(*kernel, from.kernelParams, from.extra, node.packed.data()));
  }
  *made = ShareKernel(std::move(node));
  return CUDA_SUCCESS;
}

CUresult ReadMemcpyNode(const CUDA_MEMCPY3D& from, CUcontext context, SharedNodeParams* made) {
  if (context != nullptr && FindContext(context) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (from.reserved0 != nullptr || from.reserved1 != nullptr || from.srcLOD != 0 ||
      from.dstLOD != 0 || from.WidthInBytes == 0 || from.Height == 0 || from.Depth == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *made = Share(MemcpyNodeParams{from, context});
  return CUDA_SUCCESS;
}

CUresult ReadMemsetNode(const CUDA_MEMSET_NODE_PARAMS_v2& from, SharedNodeParams* made) {
  if (from.ctx != nullptr && FindContext(from.ctx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const unsigned int size = from.elementSize;
  uint64_t row;
  if ((size != 1 && size != 2 && size != 4) || from.width == 0 || from.height == 0 ||
      from.dst % size != 0 || __builtin_mul_overflow(from.width, size, &row) ||
      (from.height > 1 && (from.pitch < row || from.pitch % size != 0)) ||
      !runtime().memory->Contains(from.dst, row)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *made = Share(from);
  return CUDA_SUCCESS;
}

CUresult ReadHostNode(const CUDA_HOST_NODE_PARAMS_v2& from, SharedNodeParams* made) {
  if (from.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *made = Share(from);
  return CUDA_SUCCESS;
}

CUresult ReadBatchMemOpNode(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& from, SharedNodeParams* made) {
  // cuda.h requires fewer than 256 operations.
  if (from.paramArray == nullptr || from.count == 0 || from.count > 255 || from.flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (from.ctx != nullptr && FindContext(from.ctx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *made = Share(
      BatchMemOpNodeParams{from.ctx, {from.paramArray, from.paramArray + from.count}, from.flags});
  return CUDA_SUCCESS;
}

CUresult ReadEventNode(CUevent event, bool record, SharedNodeParams* made) {
  if (FindEvent(event) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *made = record ? Share(EventRecordNodeParams{event}) : Share(EventWaitNodeParams{event});
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS_v3 GiveKernelNode(const KernelNodeParams& node) {
  CUDA_KERNEL_NODE_PARAMS_v3 given = {};
  given.func = FunctionOf(node.kernel);
  given.gridDimX = node.launch.grid[0];
  given.gridDimY = node.launch.grid[1];
  given.gridDimZ = node.launch.grid[2];
  given.blockDimX = node.launch.block[0];
  given.blockDimY = node.launch.block[1];
  given.blockDimZ = node.launch.block[2];
  given.sharedMemBytes = node.launch.dynamic_shared_bytes;
  // The application only reads the parameters through it.
  given.kernelParams = node.pointers.empty() ? nullptr : const_cast<void**>(node.pointers.data());
  return given;
}

CUDA_MEMCPY3D LinearCopy(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from,
                         uint64_t bytes) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = from_type;
  copy.dstMemoryType = to_type;
  if (from_type == CU_MEMORYTYPE_HOST) {
    copy.srcHost = reinterpret_cast<const void*>(from);
  } else {
    copy.srcDevice = from;
  }
  if (to_type == CU_MEMORYTYPE_HOST) {
    copy.dstHost = reinterpret_cast<void*>(to);
  } else {
    copy.dstDevice = to;
  }
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

}  // namespace warpline::stub
