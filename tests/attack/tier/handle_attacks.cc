// Handles that are a neighbour's, as the neighbour has them. Handles are numbers that mean
// something to their own session only: at most they name an object of the attacker's own. So the
// neighbour, who uses its objects all the while, says whether anything became of it.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/attack/tier/attack.h"

namespace warpline::attack {
namespace {

template <typename Handle>
Handle As(uint64_t number) {
  return reinterpret_cast<Handle>(number);
}

// Makes calls one after another, and notes their results.
class Results {
 public:
  void Add(absl::string_view call, CUresult result) {
    absl::StrAppend(&text_, text_.empty() ? "" : ", ", call, " ", int{result});
  }
  Loot Finish(Home* home) {
    Add("then", home->Wait());
    return Loot{home->ReadMemory(), text_};
  }

 private:
  std::string text_;
};

absl::StatusOr<Loot> Streams(Home* home, const TierTarget& target) {
  const auto stream = As<CUstream>(target.neighbour->stream);
  uint64_t to = home->memory();
  uint32_t words = 16, value = 1;
  Results results;
  results.Add("launch", home->Launch("fill", {&to, &words, &value}, stream));
  results.Add("cuMemsetD32Async", DRIVER(cuMemsetD32Async)(to, 1, words, stream));
  results.Add("cuStreamQuery", DRIVER(cuStreamQuery)(stream));
  results.Add("cuStreamSynchronize", DRIVER(cuStreamSynchronize)(stream));
  results.Add("cuStreamBeginCapture",
              DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  results.Add("cuStreamDestroy", DRIVER(cuStreamDestroy_v2)(stream));
  return results.Finish(home);
}

absl::StatusOr<Loot> Events(Home* home, const TierTarget& target) {
  const auto event = As<CUevent>(target.neighbour->event);
  float milliseconds = 0;
  CUipcEventHandle shared = {};
  Results results;
  results.Add("cuEventQuery", DRIVER(cuEventQuery)(event));
  results.Add("cuEventRecord", DRIVER(cuEventRecord)(event, nullptr));
  results.Add("cuEventRecord on its stream",
              DRIVER(cuEventRecord)(event, As<CUstream>(target.neighbour->stream)));
  results.Add("cuStreamWaitEvent", DRIVER(cuStreamWaitEvent)(nullptr, event, 0));
  results.Add("cuEventElapsedTime", DRIVER(cuEventElapsedTime)(&milliseconds, event, event));
  results.Add("cuIpcGetEventHandle", DRIVER(cuIpcGetEventHandle)(&shared, event));
  results.Add("cuEventDestroy", DRIVER(cuEventDestroy_v2)(event));
  return results.Finish(home);
}

absl::StatusOr<Loot> Modules(Home* home, const TierTarget& target) {
  const NeighbourState& state = *target.neighbour;
  const auto module = As<CUmodule>(state.module);
  const auto library = As<CUlibrary>(state.library);
  CUfunction function = nullptr;
  CUkernel kernel = nullptr;
  CUmodule of_library = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  Results results;
  results.Add("cuModuleGetFunction", DRIVER(cuModuleGetFunction)(&function, module, "triple"));
  results.Add("cuModuleGetGlobal",
              DRIVER(cuModuleGetGlobal_v2)(&address, &bytes, module, "g_secrets"));
  results.Add("cuLibraryGetKernel", DRIVER(cuLibraryGetKernel)(&kernel, library, "triple"));
  results.Add("cuLibraryGetModule", DRIVER(cuLibraryGetModule)(&of_library, library));
  results.Add("cuLibraryGetGlobal",
              DRIVER(cuLibraryGetGlobal)(&address, &bytes, library, "g_secrets"));
  results.Add("cuLibraryUnload", DRIVER(cuLibraryUnload)(library));
  results.Add("cuModuleUnload", DRIVER(cuModuleUnload)(module));
  return results.Finish(home);
}

absl::StatusOr<Loot> Kernels(Home* home, const TierTarget& target) {
  uint64_t there = target.neighbour->memory;
  void* parameters[] = {&there, &there, &there, &there};
  Results results;
  for (const uint64_t number : {target.neighbour->function, target.neighbour->kernel}) {
    const auto function = As<CUfunction>(number);
    int value = 0;
    results.Add("cuFuncGetAttribute",
                DRIVER(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
    results.Add(
        "cuFuncSetAttribute",
        DRIVER(cuFuncSetAttribute)(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0));
    results.Add("cuLaunchKernel", DRIVER(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr,
                                                         parameters, nullptr));
  }
  return results.Finish(home);
}

absl::StatusOr<Loot> Graphs(Home* home, const TierTarget& target) {
  const auto graph = As<CUgraph>(target.neighbour->graph);
  const auto exec = As<CUgraphExec>(target.neighbour->exec);
  CUgraphExec made = nullptr;
  CUgraphNode node = nullptr;
  CUgraph clone = nullptr;
  CUgraphExecUpdateResultInfo info = {};
  size_t nodes = 0;
  Results results;
  results.Add("cuGraphGetNodes", DRIVER(cuGraphGetNodes)(graph, nullptr, &nodes));
  results.Add("cuGraphClone", DRIVER(cuGraphClone)(&clone, graph));
  results.Add("cuGraphInstantiate", DRIVER(cuGraphInstantiateWithFlags)(&made, graph, 0));
  results.Add("cuGraphAddEmptyNode", DRIVER(cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
  results.Add("cuGraphExecUpdate", DRIVER(cuGraphExecUpdate_v2)(exec, graph, &info));
  results.Add("cuGraphLaunch", DRIVER(cuGraphLaunch)(exec, nullptr));
  results.Add("cuGraphExecDestroy", DRIVER(cuGraphExecDestroy)(exec));
  results.Add("cuGraphDestroy", DRIVER(cuGraphDestroy)(graph));
  return results.Finish(home);
}

absl::StatusOr<Loot> Pools(Home* home, const TierTarget& target) {
  const auto pool = As<CUmemoryPool>(target.neighbour->pool);
  CUdeviceptr memory = 0;
  cuuint64_t threshold = 0;
  Results results;
  results.Add("cuMemPoolSetAttribute",
              DRIVER(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  results.Add("cuMemAllocFromPoolAsync",
              DRIVER(cuMemAllocFromPoolAsync)(&memory, 4096, pool, nullptr));
  if (memory != 0) {
    results.Add("a copy from it",
                DRIVER(cuMemcpyDtoDAsync_v2)(home->memory(), memory, 4096, nullptr));
  }
  results.Add("cuMemPoolTrimTo", DRIVER(cuMemPoolTrimTo)(pool, 0));
  results.Add("cuMemPoolDestroy", DRIVER(cuMemPoolDestroy)(pool));
  return results.Finish(home);
}

// Last of all, the context: nothing of the attacker's own works after that.
absl::StatusOr<Loot> Contexts(Home* home, const TierTarget& target) {
  const auto context = As<CUcontext>(target.neighbour->context);
  unsigned version = 0;
  Results results;
  results.Add("cuCtxSetCurrent", DRIVER(cuCtxSetCurrent)(context));
  results.Add("cuCtxGetApiVersion", DRIVER(cuCtxGetApiVersion)(context, &version));
  results.Add("cuCtxSetLimit", DRIVER(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 1 << 20));
  results.Add("cuCtxResetPersistingL2Cache", DRIVER(cuCtxResetPersistingL2Cache)());
  results.Add("cuCtxDestroy", DRIVER(cuCtxDestroy_v2)(context));
  results.Add("cuDevicePrimaryCtxReset", DRIVER(cuDevicePrimaryCtxReset_v2)(0));
  return results.Finish(home);
}

constexpr TierAttack kAttacks[] = {
    {"handles_of_streams", &Streams},   {"handles_of_events", &Events},
    {"handles_of_modules", &Modules},   {"handles_of_kernels", &Kernels},
    {"handles_of_graphs", &Graphs},     {"handles_of_pools", &Pools},
    {"handles_of_contexts", &Contexts},
};

}  // namespace

absl::Span<const TierAttack> HandleAttacks() { return kAttacks; }

}  // namespace warpline::attack
