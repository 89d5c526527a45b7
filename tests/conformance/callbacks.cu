// Host functions in the order of a stream.
#include <atomic>

#include "setting.h"

namespace conformance {
namespace {

std::atomic<int> g_calls{0};
std::atomic<int> g_status{-1};
std::atomic<int> g_inside{-1};
std::atomic<int> g_allocated{-1};
std::atomic<void*> g_user{nullptr};
std::atomic<CUstream> g_stream{nullptr};

void CUDA_CB OnHost(void* user) {
  ++g_calls;
  g_user = user;
}

// CUDA calls are not allowed in here.
void CUDA_CB CallsDriver(void*) {
  CUdeviceptr memory = 0;
  g_inside = CU(cuStreamQuery)(nullptr);
  g_allocated = CU(cuMemAlloc)(&memory, 256);
}

void CUDA_CB OnStream(CUstream stream, CUresult status, void* user) {
  ++g_calls;
  g_stream = stream;
  g_status = status;
  g_user = user;
}

// What the function sees of memory that an earlier copy wrote, and what a later copy sees of the
// function's own writes.
struct Seen {
  unsigned* pinned;
  unsigned value;
};

void CUDA_CB ReadsAndWrites(void* user) {
  Seen* seen = static_cast<Seen*>(user);
  seen->value = *seen->pinned;
  *seen->pinned = 4321;
}

void HostFunctions() {
  if (!Begin()) return;
  CUstream stream = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  int mark = 0;
  CALL("on a stream", CUDA_SUCCESS, cuLaunchHostFunc, stream, OnHost, &mark);
  CALL("after a host function", CUDA_SUCCESS, cuStreamSynchronize, stream);
  EQUAL(cuLaunchHostFunc, "was called once", g_calls.load(), 1);
  HOLDS(cuLaunchHostFunc, "with its argument", g_user.load() == &mark, "another one");
  CALL("legacy stream", CUDA_SUCCESS, cuLaunchHostFunc, nullptr, OnHost, nullptr);
  CALL("per-thread stream", CUDA_SUCCESS, cuLaunchHostFunc, CU_STREAM_PER_THREAD, OnHost, nullptr);
  CALL("after two more", CUDA_SUCCESS, cuCtxSynchronize);
  EQUAL(cuLaunchHostFunc, "were called too", g_calls.load(), 3);
  CALL("no function", CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc, stream, nullptr, nullptr);
  CALL("that calls CUDA", CUDA_SUCCESS, cuLaunchHostFunc, stream, CallsDriver, nullptr);
  SETUP(cuStreamSynchronize, stream);
  EQUAL(cuLaunchHostFunc, "CUDA calls inside it are not permitted", g_allocated.load(),
        CUDA_ERROR_NOT_PERMITTED);
  for (int i = 0; i < 100; ++i) SETUP(cuLaunchHostFunc, stream, OnHost, nullptr);
  SETUP(cuStreamSynchronize, stream);
  EQUAL(cuLaunchHostFunc, "100 were called", g_calls.load(), 103);
}

void Order() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction busy = nullptr;
  if (!LoadModule(&module) || !Kernel(&busy, module, "busy")) return;
  CUstream stream = nullptr;
  CUdeviceptr word = 0, out = 0;
  void* pinned = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuMemAllocHost, &pinned, 4);
  SETUP(cuMemAlloc, &word, 4);
  SETUP(cuMemAlloc, &out, 4);
  Seen seen = {static_cast<unsigned*>(pinned), 0};
  *seen.pinned = 0;
  unsigned iterations = BusyIterations();
  void* parameters[] = {&iterations, &out};
  SETUP(cuLaunchKernel, busy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  SETUP(cuMemsetD32Async, word, 1234, 1, stream);
  SETUP(cuMemcpyDtoHAsync, pinned, word, 4, stream);
  CALL("between copies", CUDA_SUCCESS, cuLaunchHostFunc, stream, ReadsAndWrites, &seen);
  SETUP(cuMemcpyHtoDAsync, word, pinned, 4, stream);
  SETUP(cuStreamSynchronize, stream);
  unsigned value = 0;
  SETUP(cuMemcpyDtoH, &value, word, 4);
  EQUAL(cuLaunchHostFunc, "sees the copy before it", seen.value, 1234u);
  EQUAL(cuLaunchHostFunc, "is seen by the copy behind it", value, 4321u);
}

void Callbacks() {
  if (!Begin()) return;
  CUstream stream = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  int mark = 0;
  CALL("on a stream", CUDA_SUCCESS, cuStreamAddCallback, stream, OnStream, &mark, 0);
  CALL("after a callback", CUDA_SUCCESS, cuStreamSynchronize, stream);
  EQUAL(cuStreamAddCallback, "was called once", g_calls.load(), 1);
  EQUAL(cuStreamAddCallback, "with success", g_status.load(), CUDA_SUCCESS);
  HOLDS(cuStreamAddCallback, "with its argument", g_user.load() == &mark, "another one");
  HOLDS(cuStreamAddCallback, "with its stream", g_stream.load() == stream, "another one");
  CALL("flags other than 0", CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback, stream, OnStream,
       nullptr, 1);
  CALL("no function", CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback, stream, nullptr, nullptr, 0);
}

// After a fault a callback is told the error; a host function is not called.
void AfterFault() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction store = nullptr;
  if (!LoadModule(&module) || !Kernel(&store, module, "store")) return;
  CUstream stream = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  CUdeviceptr wild = 0x10;
  unsigned value = 1;
  void* parameters[] = {&wild, &value};
  SETUP(cuLaunchKernel, store, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  CU(cuStreamAddCallback)(stream, OnStream, nullptr, 0);
  CALL("faulted", CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, stream);
  CALL("after a fault", CUDA_ERROR_ILLEGAL_ADDRESS, cuLaunchHostFunc, stream, OnHost, nullptr);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "callbacks",
             {{"host_functions", HostFunctions},
              {"order", Order},
              {"callbacks", Callbacks},
              {"after_fault", AfterFault}});
}
