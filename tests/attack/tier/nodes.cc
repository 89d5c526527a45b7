#include "tests/attack/tier/nodes.h"

namespace warpline::attack {
namespace {

constexpr uint32_t kValue = 7;

CUDA_MEMCPY3D CopyOf(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = copy.srcPitch = copy.dstPitch = bytes;
  copy.Height = copy.Depth = copy.srcHeight = copy.dstHeight = 1;
  return copy;
}

CUDA_MEMSET_NODE_PARAMS SetOf(CUdeviceptr to, size_t bytes) {
  CUDA_MEMSET_NODE_PARAMS set = {};
  set.dst = to;
  set.value = kValue;
  set.elementSize = sizeof(uint32_t);
  set.width = bytes / sizeof(uint32_t);
  set.height = 1;
  return set;
}

CUcontext Current() {
  CUcontext context = nullptr;
  DRIVER(cuCtxGetCurrent)(&context);
  return context;
}

// The values of a kernel's parameters, for as long as a call needs them.
class KernelNode {
 public:
  KernelNode(const Home& home, CUdeviceptr to, CUdeviceptr from, size_t bytes)
      : from_(from), to_(to), words_(static_cast<uint32_t>(bytes / sizeof(uint32_t))) {
    fields_.func = home.Kernel("copy");
    fields_.gridDimX = fields_.gridDimY = fields_.gridDimZ = 1;
    fields_.blockDimX = 64;
    fields_.blockDimY = fields_.blockDimZ = 1;
    fields_.kernelParams = parameters_;
  }
  const CUDA_KERNEL_NODE_PARAMS_v2* fields() const { return &fields_; }

 private:
  CUdeviceptr from_, to_;
  uint32_t words_;
  void* parameters_[3] = {&from_, &to_, &words_};
  CUDA_KERNEL_NODE_PARAMS_v2 fields_ = {};
};

}  // namespace

CUresult AddCopy(CUgraphNode* node, CUgraph graph, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  const CUDA_MEMCPY3D copy = CopyOf(to, from, bytes);
  return DRIVER(cuGraphAddMemcpyNode)(node, graph, nullptr, 0, &copy, Current());
}

CUresult AddSet(CUgraphNode* node, CUgraph graph, CUdeviceptr to, size_t bytes) {
  const CUDA_MEMSET_NODE_PARAMS set = SetOf(to, bytes);
  return DRIVER(cuGraphAddMemsetNode)(node, graph, nullptr, 0, &set, Current());
}

CUresult AddKernel(CUgraphNode* node, CUgraph graph, const Home& home, CUdeviceptr to,
                   CUdeviceptr from, size_t bytes) {
  const KernelNode kernel(home, to, from, bytes);
  return DRIVER(cuGraphAddKernelNode_v2)(node, graph, nullptr, 0, kernel.fields());
}

CUresult ChangeCopy(CUgraphExec exec, CUgraphNode node, CUdeviceptr to, CUdeviceptr from,
                    size_t bytes) {
  const CUDA_MEMCPY3D copy = CopyOf(to, from, bytes);
  return DRIVER(cuGraphExecMemcpyNodeSetParams)(exec, node, &copy, Current());
}

CUresult ChangeSet(CUgraphExec exec, CUgraphNode node, CUdeviceptr to, size_t bytes) {
  const CUDA_MEMSET_NODE_PARAMS set = SetOf(to, bytes);
  return DRIVER(cuGraphExecMemsetNodeSetParams)(exec, node, &set, Current());
}

CUresult ChangeKernel(CUgraphExec exec, CUgraphNode node, const Home& home, CUdeviceptr to,
                      CUdeviceptr from, size_t bytes) {
  const KernelNode kernel(home, to, from, bytes);
  return DRIVER(cuGraphExecKernelNodeSetParams_v2)(exec, node, kernel.fields());
}

}  // namespace warpline::attack
