// Tries to run code that no operator vetted, in each way that the driver has, and prints the result
// of each: "NAME: CUresult". The rows named "control" are the vetted code itself.
//
//   unvetted GOOD.ptx OTHER.ptx      texts with a kernel `fill(unsigned long long at, unsigned
//   value)`
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace {

// A function of libcuda.so.1 by the name that cuda.h gives it.
template <typename Function>
Function* Find(const char* symbol) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = library == nullptr ? nullptr : dlsym(library, symbol);
  if (found == nullptr) {
    std::printf("unvetted: no %s\n", symbol);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

#define TEXT(x) #x
#define SYMBOL(x) TEXT(x)
#define CALL(fn, ...) Find<decltype(fn)>(SYMBOL(fn))(__VA_ARGS__)

// Code of the program itself, which is in its fatbin.
__global__ void Own(unsigned* at) { *at = 1; }

CUdeviceptr g_memory;

void Row(const char* name, CUresult result) {
  std::printf("%s: %d\n", name, static_cast<int>(result));
  std::fflush(stdout);
}

std::string Read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

CUresult Run(CUfunction function) {
  unsigned value = 42, got = 0;
  void* parameters[] = {&g_memory, &value};
  if (CUresult result = CALL(cuMemsetD32, g_memory, 0, 1); result != CUDA_SUCCESS) return result;
  CUresult result =
      CALL(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  if (result == CUDA_SUCCESS) result = CALL(cuMemcpyDtoH, &got, g_memory, 4);
  return result == CUDA_SUCCESS && got != value ? CUDA_ERROR_UNKNOWN : result;
}

CUresult RunModule(CUmodule module) {
  CUfunction function;
  const CUresult result = CALL(cuModuleGetFunction, &function, module, "fill");
  return result == CUDA_SUCCESS ? Run(function) : result;
}

CUresult RunText(const std::string& text) {
  CUmodule module;
  const CUresult result = CALL(cuModuleLoadData, &module, text.c_str());
  return result == CUDA_SUCCESS ? RunModule(module) : result;
}

CUresult RunWithOptions(const std::string& text) {
  CUmodule module;
  CUjit_option option = CU_JIT_MAX_REGISTERS;
  void* value = reinterpret_cast<void*>(32);
  const CUresult result = CALL(cuModuleLoadDataEx, &module, text.c_str(), 1, &option, &value);
  return result == CUDA_SUCCESS ? RunModule(module) : result;
}

CUresult RunLibrary(const std::string& text) {
  CUlibrary library;
  CUkernel kernel;
  CUresult result =
      CALL(cuLibraryLoadData, &library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == CUDA_SUCCESS) result = CALL(cuLibraryGetKernel, &kernel, library, "fill");
  return result == CUDA_SUCCESS ? Run(reinterpret_cast<CUfunction>(kernel)) : result;
}

CUresult RunFile(const std::string& text) {
  const char* const folder = std::getenv("TMPDIR");
  const std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/unvetted.ptx";
  std::ofstream(path, std::ios::binary) << text;
  CUmodule module;
  const CUresult result = CALL(cuModuleLoad, &module, path.c_str());
  return result == CUDA_SUCCESS ? RunModule(module) : result;
}

CUresult RunLinked(std::string text) {
  CUlinkState state;
  CUresult result = CALL(cuLinkCreate, 0, nullptr, nullptr, &state);
  if (result != CUDA_SUCCESS) return result;
  void* code = nullptr;
  size_t bytes = 0;
  result = CALL(cuLinkAddData, state, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "text", 0,
                nullptr, nullptr);
  if (result == CUDA_SUCCESS) result = CALL(cuLinkComplete, state, &code, &bytes);
  CUmodule module;
  if (result == CUDA_SUCCESS) result = CALL(cuModuleLoadData, &module, code);
  if (result == CUDA_SUCCESS) result = RunModule(module);
  CALL(cuLinkDestroy, state);
  return result;
}

CUresult RunGraph(const std::string& text) {
  CUmodule module;
  CUfunction function;
  CUresult result = CALL(cuModuleLoadData, &module, text.c_str());
  if (result == CUDA_SUCCESS) result = CALL(cuModuleGetFunction, &function, module, "fill");
  if (result != CUDA_SUCCESS) return result;
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode node;
  unsigned value = 42, got = 0;
  void* parameters[] = {&g_memory, &value};
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = function;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters;
  result = CALL(cuMemsetD32, g_memory, 0, 1);
  if (result == CUDA_SUCCESS) result = CALL(cuGraphCreate, &graph, 0);
  if (result == CUDA_SUCCESS) {
    result = CALL(cuGraphAddKernelNode, &node, graph, nullptr, 0, &kernel);
  }
  if (result == CUDA_SUCCESS) result = CALL(cuGraphInstantiate, &exec, graph, 0);
  if (result == CUDA_SUCCESS) result = CALL(cuGraphLaunch, exec, nullptr);
  if (result == CUDA_SUCCESS) result = CALL(cuCtxSynchronize);
  if (result == CUDA_SUCCESS) result = CALL(cuMemcpyDtoH, &got, g_memory, 4);
  return result == CUDA_SUCCESS && got != value ? CUDA_ERROR_UNKNOWN : result;
}

CUresult RunOwn() {
  Own<<<1, 1>>>(reinterpret_cast<unsigned*>(g_memory));
  const cudaError_t launched = cudaGetLastError();
  if (launched != cudaSuccess) return static_cast<CUresult>(launched);
  return static_cast<CUresult>(cudaDeviceSynchronize());
}

}  // namespace

int main(int, char** arguments) {
  const std::string good = Read(arguments[1]), other = Read(arguments[2]);
  CUdevice device;
  CUcontext context;
  if (CALL(cuInit, 0) != CUDA_SUCCESS || CALL(cuDeviceGet, &device, 0) != CUDA_SUCCESS ||
      CALL(cuDevicePrimaryCtxRetain, &context, device) != CUDA_SUCCESS ||
      CALL(cuCtxSetCurrent, context) != CUDA_SUCCESS ||
      CALL(cuMemAlloc, &g_memory, 4096) != CUDA_SUCCESS) {
    std::printf("unvetted: no device\n");
    return 1;
  }
  Row("control text", RunText(good));
  Row("control options", RunWithOptions(good));
  Row("control library", RunLibrary(good));
  Row("control file", RunFile(good));
  Row("control graph", RunGraph(good));
  std::string changed = good;
  changed[changed.find("// a comment") + 3] = 'A';
  Row("a letter of a comment is another", RunText(changed));
  Row("a line more", RunText(good + "\n"));
  Row("an end less", RunText(good.substr(0, good.size() - 1)));
  Row("another text", RunText(other));
  Row("another text with options", RunWithOptions(other));
  Row("another text as a library", RunLibrary(other));
  Row("another text from a file", RunFile(other));
  Row("another text in a graph", RunGraph(other));
  Row("a changed text as a library", RunLibrary(changed));
  Row("a changed text in a graph", RunGraph(changed));
  Row("a changed text with options", RunWithOptions(changed));
  Row("linked of another text", RunLinked(other));
  Row("linked of the vetted text", RunLinked(good));
  Row("the program's own kernel", RunOwn());
  // Refusals do no harm to vetted code.
  Row("control at the end", RunText(good));
  return 0;
}
