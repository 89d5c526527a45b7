// The output of kernels, and the ways to end them: printf, assert, trap.
#include <algorithm>

#include "setting.h"

namespace conformance {
namespace {

// Redirects a descriptor of this process to a file while it lives, and gives what was written.
class Captured {
 public:
  explicit Captured(int descriptor) : descriptor_(descriptor), kept_(dup(descriptor)) {
    std::fflush(nullptr);
    file_ = std::tmpfile();
    dup2(fileno(file_), descriptor_);
  }
  std::string End() {
    std::fflush(nullptr);
    dup2(kept_, descriptor_);
    close(kept_);
    std::string text;
    char buffer[4096];
    std::rewind(file_);
    for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), file_)) > 0;) text.append(buffer, n);
    std::fclose(file_);
    for (char& c : text) {
      if (c == '\n' || c == '\t') c = '~';
    }
    return text;
  }

 private:
  const int descriptor_, kept_;
  FILE* file_;
};

bool Load(CUmodule* module) { return LoadModule(module, "ptx/output_kernels.ptx"); }

void Expect(const char* check, const std::string& got, const std::string& expected) {
  HOLDS(printf, check, got == expected, "printed '%.200s', expected '%.200s'", got.c_str(),
        expected.c_str());
}

void Printf() {
  CUmodule module = nullptr;
  CUfunction line, forms, threads;
  if (!Begin() || !Load(&module) || !Kernel(&line, module, "print_line") ||
      !Kernel(&forms, module, "print_forms") || !Kernel(&threads, module, "print_threads")) {
    return;
  }
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUdeviceptr returned = 0;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuEventCreate, &event, CU_EVENT_DEFAULT);
  SETUP(cuMemAlloc, &returned, 4);
  int number = 1;
  void* parameters[] = {&number};
  const auto launch = [&](CUstream where) {
    return CU(cuLaunchKernel)(line, 1, 1, 1, 1, 1, 1, 0, where, parameters, nullptr);
  };
  {
    Captured out(STDOUT_FILENO);
    CUresult result = launch(nullptr);
    if (result == CUDA_SUCCESS) result = CU(cuCtxSynchronize)();
    const std::string text = out.End();
    Mark("printf", "launch");
    if (!Setup(result)) return;
    Expect("appears when the context is synchronized", text, "kernel says 1~");
  }
  {
    Captured out(STDOUT_FILENO);
    std::printf("before\n");
    number = 2;
    launch(stream);
    CU(cuStreamSynchronize)(stream);
    std::printf("between\n");
    number = 3;
    launch(stream);
    CU(cuEventRecord)(event, stream);
    CU(cuEventSynchronize)(event);
    std::printf("after\n");
    Expect("in order with the program's own lines", out.End(),
           "before~kernel says 2~between~kernel says 3~after~");
  }
  {
    Captured out(STDOUT_FILENO);
    number = 4;
    launch(nullptr);
    int value = 0;
    CU(cuMemcpyDtoH)(&value, returned, 4);
    Expect("appears at a copy to the host", out.End(), "kernel says 4~");
  }
  {
    Captured out(STDOUT_FILENO);
    void* pointer[] = {&returned};
    CU(cuLaunchKernel)(forms, 1, 1, 1, 1, 1, 1, 0, nullptr, pointer, nullptr);
    CU(cuCtxSynchronize)();
    Expect("every conversion", out.End(), "-7|   42|ff    |2.500|text|c|%|-1234567890123~");
    int value = 0;
    SETUP(cuMemcpyDtoH, &value, returned, 4);
    EQUAL(printf, "gives the number of arguments", value, 7);
  }
  {
    Captured out(STDOUT_FILENO);
    CU(cuLaunchKernel)(threads, 2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
    CU(cuCtxSynchronize)();
    const std::string text = out.End();
    HOLDS(printf, "a line of every thread", std::count(text.begin(), text.end(), '~') == 64,
          "%d lines", static_cast<int>(std::count(text.begin(), text.end(), '~')));
  }
}

void Assert() {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (!Begin() || !Load(&module) || !Kernel(&function, module, "assert_at_three")) return;
  CALL("of 3 threads", CUDA_SUCCESS, cuLaunchKernel, function, 1, 1, 1, 3, 1, 1, 0, nullptr,
       nullptr, nullptr);
  CALL("assertion that holds", CUDA_SUCCESS, cuCtxSynchronize);
  Captured errors(STDERR_FILENO);
  CUresult result = CU(cuLaunchKernel)(function, 1, 1, 1, 4, 1, 1, 0, nullptr, nullptr, nullptr);
  if (result == CUDA_SUCCESS) result = CU(cuCtxSynchronize)();
  const std::string text = errors.End();
  Mark("assert", "assertion that fails");
  Judge(CUDA_ERROR_ASSERT, result);
  HOLDS(assert, "text on standard error",
        text.find("block: [0,0,0], thread: [3,0,0] Assertion `threadIdx.x != 3` failed.") !=
            std::string::npos,
        "printed '%.300s'", text.c_str());
  CUdeviceptr memory = 0;
  CALL("after a failed assertion", CUDA_ERROR_ASSERT, cuMemAlloc, &memory, 256);
  CALL("after a failed assertion", CUDA_ERROR_ASSERT, cuCtxSynchronize);
}

void Trap() {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (!Begin() || !Load(&module) || !Kernel(&function, module, "trap_if")) return;
  int value = 0;
  void* parameters[] = {&value};
  CALL("of a kernel that could trap", CUDA_SUCCESS, cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0,
       nullptr, parameters, nullptr);
  CALL("no trap", CUDA_SUCCESS, cuCtxSynchronize);
  value = 1;
  CALL("of a kernel that traps", CUDA_SUCCESS, cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0,
       nullptr, parameters, nullptr);
  CALL("trap", CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "output", {{"printf", Printf}, {"assert", Assert}, {"trap", Trap}});
}
