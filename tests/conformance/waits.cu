// What a call leaves behind for somebody that makes no call: the host, which reads memory that a
// kernel writes, sees what it sees with NVIDIA's driver.
#include <unistd.h>

#include <thread>

#include "setting.h"

namespace conformance {
namespace {

constexpr unsigned kWords = 1 << 16;
constexpr size_t kBytes = kWords * sizeof(unsigned);

// A kernel that ends after the host has let it go, in memory that both have.
class HeldKernel {
 public:
  // Returns false after printing a FAIL line, or if host and device have no such memory.
  bool Make() {
    const char* share = std::getenv("WARPLINE_SHARE_MEMORY");
    if ((share != nullptr && std::strcmp(share, "0") == 0) || !Begin() || !LoadModule(&module_) ||
        !Kernel(&function_, module_, "await_word")) {
      return false;
    }
    Mark("cuMemHostAlloc", "setup");
    return Setup(CU(cuMemHostAlloc)(reinterpret_cast<void**>(&words_), 8192, 0));
  }

  bool Launch(CUstream stream) {
    words_[0] = words_[1024] = 0;
    CUdeviceptr flag = reinterpret_cast<CUdeviceptr>(words_);
    CUdeviceptr answer = flag + 4096;
    void* parameters[] = {&flag, &answer};
    Mark("cuLaunchKernel", "setup");
    return Setup(CU(cuLaunchKernel)(function_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }

  void LetGo() { __atomic_store_n(&words_[0], 1u, __ATOMIC_RELEASE); }
  bool ended() const { return __atomic_load_n(&words_[1024], __ATOMIC_ACQUIRE) != 0; }

 private:
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  unsigned* words_ = nullptr;
};

// Makes the call while the kernel runs on `stream`, and lets the kernel go a moment later. A call
// that waits finds it ended, however long the moment is.
#define WAITS(kernel, stream, function, ...)                                             \
  do {                                                                                   \
    if (!(kernel).Launch(stream)) return;                                                \
    std::thread let_go([&] {                                                             \
      usleep(30000);                                                                     \
      (kernel).LetGo();                                                                  \
    });                                                                                  \
    CALL_NAMED(#function, "beside a kernel", CUDA_SUCCESS, function, __VA_ARGS__);       \
    const bool ended = (kernel).ended();                                                 \
    let_go.join();                                                                       \
    Holds(#function, "waits for the kernel", ended, "it returned while the kernel ran"); \
    SETUP(cuCtxSynchronize);                                                             \
  } while (false)

// Makes the call while the kernel runs on a stream that has been destroyed.
#define WAITS_FOR_DESTROYED(kernel, function, ...)                                  \
  do {                                                                              \
    CUstream ended_stream = nullptr;                                                \
    SETUP(cuStreamCreate, &ended_stream, CU_STREAM_NON_BLOCKING);                   \
    if (!(kernel).Launch(ended_stream)) return;                                     \
    CALL("beside its kernel", CUDA_SUCCESS, cuStreamDestroy, ended_stream);         \
    std::thread let_go([&] {                                                        \
      usleep(30000);                                                                \
      (kernel).LetGo();                                                             \
    });                                                                             \
    CALL_NAMED(#function, "after its stream", CUDA_SUCCESS, function, __VA_ARGS__); \
    const bool ended = (kernel).ended();                                            \
    let_go.join();                                                                  \
    Holds(#function, "waits for a destroyed stream", ended, "it returned before");  \
    SETUP(cuCtxSynchronize);                                                        \
  } while (false)

// Makes the call while the kernel runs on `stream`; if it waits, it waits for ever.
#define RETURNS(kernel, stream, function, ...)                                             \
  do {                                                                                     \
    if (!(kernel).Launch(stream)) return;                                                  \
    CALL_NAMED(#function, "returns beside a kernel", CUDA_SUCCESS, function, __VA_ARGS__); \
    (kernel).LetGo();                                                                      \
    SETUP(cuCtxSynchronize);                                                               \
  } while (false)

// Calls that free what a kernel may use wait for the device, whatever the kernel's stream is.
void Frees() {
  HeldKernel kernel;
  if (!kernel.Make()) return;
  CUstream stream = nullptr;
  CUdeviceptr device = 0, managed = 0, more = 0;
  void* host = nullptr;
  void* registered = std::aligned_alloc(4096, 8192);
  CUarray array = nullptr;
  CUmipmappedArray levels = nullptr;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUcontext context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = shape.Height = 64;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  const std::vector<char> image = Image("ptx/kernels.ptx");
  if (!LoadModule(&module)) return;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuMemAlloc, &device, kBytes);
  SETUP(cuMemAlloc, &more, kBytes);
  SETUP(cuMemAllocManaged, &managed, kBytes, CU_MEM_ATTACH_GLOBAL);
  SETUP(cuMemHostAlloc, &host, kBytes, 0);
  SETUP(cuMemHostRegister, registered, 8192, 0);
  SETUP(cuArray3DCreate, &array, &shape);
  SETUP(cuMipmappedArrayCreate, &levels, &shape, 2);
  SETUP(cuLibraryLoadData, &library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  // A library waits once it is loaded in a context.
  CUkernel of_library = nullptr;
  CUfunction function = nullptr;
  SETUP(cuLibraryGetKernel, &of_library, library, "nothing");
  SETUP(cuKernelGetFunction, &function, of_library);
  SETUP(cuCtxCreate, &context, nullptr, 0, g_device);
  SETUP(cuCtxSetCurrent, g_context);
  WAITS(kernel, stream, cuMemFree, device);
  WAITS(kernel, stream, cuMemFree, managed);
  WAITS_FOR_DESTROYED(kernel, cuMemFree, more);
  WAITS(kernel, stream, cuMemFreeHost, host);
  WAITS(kernel, stream, cuMemHostUnregister, registered);
  WAITS(kernel, stream, cuArrayDestroy, array);
  WAITS(kernel, stream, cuMipmappedArrayDestroy, levels);
  WAITS(kernel, stream, cuModuleUnload, module);
  WAITS(kernel, stream, cuLibraryUnload, library);
  WAITS(kernel, stream, cuCtxDestroy, context);
  std::free(registered);
}

// Synchronous calls return when the host sees what they and the work before them have written, and
// so does every copy from page-locked memory to page-locked memory.
void Synchronous() {
  HeldKernel kernel;
  if (!kernel.Make()) return;
  CUstream stream = nullptr;
  CUdeviceptr device = 0;
  void* host = nullptr;
  const std::vector<unsigned> pageable(kWords, 7);
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuMemAlloc, &device, kBytes);
  SETUP(cuMemHostAlloc, &host, kBytes, 0);
  const auto* words = static_cast<const unsigned*>(host);
  const CUdeviceptr locked = reinterpret_cast<CUdeviceptr>(host);
  WAITS(kernel, nullptr, cuMemsetD8, locked, 5, kBytes);
  EQUAL(cuMemsetD8, "page-locked memory", words[kWords - 1], 0x05050505u);
  WAITS(kernel, nullptr, cuMemsetD2D32, locked, 1024, 6, 16, 16);
  EQUAL(cuMemsetD2D32, "page-locked memory", words[15 * 256], 6u);
  WAITS(kernel, nullptr, cuMemcpyHtoD, device, pageable.data(), 1024);
  WAITS(kernel, nullptr, cuMemcpyHtoD, device, pageable.data(), kBytes);
  WAITS(kernel, stream, cuMemcpyAsync, locked + kBytes / 2, locked + 15 * 1024, 64, stream);
  EQUAL(cuMemcpyAsync, "between page-locked memory", words[kWords / 2], 6u);
}

// Calls whose work a stream orders return at once.
void Ordered() {
  HeldKernel kernel;
  if (!kernel.Make()) return;
  CUstream stream = nullptr;
  CUdeviceptr device = 0, first = 0, second = 0;
  void* host = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuMemHostAlloc, &host, kBytes, 0);
  SETUP(cuMemAlloc, &device, kBytes);
  SETUP(cuMemAllocAsync, &first, kBytes, stream);
  SETUP(cuMemAllocAsync, &second, kBytes, stream);
  SETUP(cuStreamSynchronize, stream);
  const CUdeviceptr locked = reinterpret_cast<CUdeviceptr>(host);
  RETURNS(kernel, stream, cuMemFree, first);
  RETURNS(kernel, stream, cuMemFreeAsync, second, stream);
  RETURNS(kernel, stream, cuMemsetD8Async, locked, 5, kBytes, stream);
  RETURNS(kernel, stream, cuMemsetD8Async, device, 5, kBytes, stream);
  RETURNS(kernel, stream, cuMemcpyAsync, device, locked, kBytes, stream);
  RETURNS(kernel, stream, cuMemcpyAsync, locked, device, kBytes, stream);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "waits",
             {{"frees", Frees}, {"synchronous", Synchronous}, {"ordered", Ordered}});
}
