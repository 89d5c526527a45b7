// The faults that the program `errors` provokes. The expected codes of all cases except the
// undefined ones are those that CUDA 13.0 gives on an H200 (driver 580).
#ifndef WARPLINE_EXAMPLES_ERROR_CASES_H_
#define WARPLINE_EXAMPLES_ERROR_CASES_H_

#include "check.h"

namespace error_cases {

enum class Kind {
  kPlain,   // The context stays usable.
  kSticky,  // The context ends: runs in a process of its own.
  // CUDA leaves open what happens, and the native driver may crash: these run only on request, with
  // --case. The codes are those that a driver should give that checks its handles.
  kUndefined
};

struct Case {
  const char* name;
  Kind kind;
  void (*run)();
};

// Compares the code of one call of a case with the code that it must give.
inline void ExpectCode(cudaError_t got, cudaError_t expected, const char* call) {
  examples::Expect(got == expected, "%s gives %s (%d), expected %s (%d)", call,
                   cudaGetErrorName(got), int(got), cudaGetErrorName(expected), int(expected));
}
#define EXPECT_CODE(call, expected) ::error_cases::ExpectCode((call), (expected), #call)

// An address that no allocation has.
inline void* const kBadAddress = reinterpret_cast<void*>(0x10);

static __global__ void Store(int* address, int value) { *address = value; }
static __global__ void Trap(int* sink) {
  if (*sink == 0) __trap();
  *sink = 1;
}
static __global__ void Nothing() {}
static __global__ void LastWord(int* out) {
  extern __shared__ int words[];
  words[threadIdx.x] = 1;
  *out = words[threadIdx.x];
}

// Does small work that must succeed after a refused call, with no error left over.
inline void ExpectUsable(const char* after) {
  int* memory = nullptr;
  int value = 0;
  cudaError_t code = cudaMalloc(&memory, 256);
  if (code == cudaSuccess) Store<<<1, 1>>>(memory, 4711);
  if (code == cudaSuccess) code = cudaGetLastError();
  if (code == cudaSuccess) code = cudaMemcpy(&value, memory, 4, cudaMemcpyDeviceToHost);
  if (code == cudaSuccess) code = cudaFree(memory);
  examples::Expect(code == cudaSuccess && value == 4711, "after case %s, good work gives %s (%d)",
                   after, cudaGetErrorName(code), int(code));
}

// After a sticky error every later call gives it too.
inline void ExpectSticky(cudaError_t expected) {
  void* memory;
  EXPECT_CODE(cudaDeviceSynchronize(), expected);
  EXPECT_CODE(cudaMalloc(&memory, 256), expected);
  EXPECT_CODE(cudaGetLastError(), expected);
  EXPECT_CODE(cudaStreamSynchronize(nullptr), expected);
  EXPECT_CODE(cudaGetLastError(), expected);
}

inline void GoodWork() {
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  ExpectUsable("good_work");
}

// Sticky ---------------------------------------------------------------------------------------

inline void IllegalAddress() {
  Store<<<1, 1>>>(static_cast<int*>(kBadAddress), 1);
  EXPECT_CODE(cudaGetLastError(), cudaSuccess);
  ExpectSticky(cudaErrorIllegalAddress);
}

inline void Misaligned() {
  char* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, 256));
  Store<<<1, 1>>>(reinterpret_cast<int*>(memory + 2), 1);
  EXPECT_CODE(cudaGetLastError(), cudaSuccess);
  ExpectSticky(cudaErrorMisalignedAddress);
}

inline void TrapInKernel() {
  int* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, 256));
  CUDA_CHECK(cudaMemset(memory, 0, 256));
  Trap<<<1, 32>>>(memory);
  EXPECT_CODE(cudaGetLastError(), cudaSuccess);
  ExpectSticky(cudaErrorLaunchFailure);
}

// Plain ----------------------------------------------------------------------------------------

inline void TooLargeAllocation() {
  void* memory = nullptr;
  EXPECT_CODE(cudaMalloc(&memory, size_t{1} << 46), cudaErrorMemoryAllocation);
  EXPECT_CODE(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_CODE(cudaGetLastError(), cudaSuccess);
  EXPECT_CODE(cudaMallocAsync(&memory, size_t{1} << 46, 0), cudaErrorMemoryAllocation);
}

inline void EmptyAllocation() {
  void* memory = kBadAddress;
  EXPECT_CODE(cudaMalloc(&memory, 0), cudaSuccess);
  examples::Expect(memory == nullptr, "an allocation of 0 bytes gives %p", memory);
  EXPECT_CODE(cudaFree(nullptr), cudaSuccess);
  EXPECT_CODE(cudaMalloc(static_cast<void**>(nullptr), 16), cudaErrorInvalidValue);
}

// A host pointer that is no kernel of this program counts as a bad kernel handle.
inline void MissingKernel() {
  static int not_a_kernel = 0;
  cudaFuncAttributes attributes;
  void* address = nullptr;
  EXPECT_CODE(cudaFuncGetAttributes(&attributes, &not_a_kernel), cudaErrorInvalidResourceHandle);
  EXPECT_CODE(cudaLaunchKernel(&not_a_kernel, dim3(1), dim3(1), nullptr, 0, nullptr),
              cudaErrorInvalidResourceHandle);
  EXPECT_CODE(cudaGetSymbolAddress(&address, not_a_kernel), cudaErrorInvalidSymbol);
}

inline void MissingLibraryKernel() {
  static const char kPtx[] =
      ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry here() { ret; }\n";
  cudaLibrary_t library;
  cudaKernel_t kernel;
  void* address = nullptr;
  size_t size = 0;
  CUDA_CHECK(cudaLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  EXPECT_CODE(cudaLibraryGetKernel(&kernel, library, "not_here"), cudaErrorSymbolNotFound);
  EXPECT_CODE(cudaLibraryGetGlobal(&address, &size, library, "not_here"), cudaErrorSymbolNotFound);
  EXPECT_CODE(cudaLibraryGetKernel(&kernel, library, "here"), cudaSuccess);
  EXPECT_CODE(cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, nullptr), cudaSuccess);
  EXPECT_CODE(cudaDeviceSynchronize(), cudaSuccess);
  CUDA_CHECK(cudaLibraryUnload(library));
}

// Older runtimes gave cudaErrorInvalidConfiguration for these.
inline void Geometry() {
  Nothing<<<1, 2048>>>();
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  Nothing<<<1, dim3(1, 1, 65)>>>();
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  Nothing<<<0, 32>>>();
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  Nothing<<<1, 0>>>();
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  Nothing<<<dim3(1, 70000), 32>>>();
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
}

inline void TooMuchSharedMemory() {
  int* out = nullptr;
  CUDA_CHECK(cudaMalloc(&out, 256));
  LastWord<<<1, 32, 1 << 20>>>(out);
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  // Takes more than 48 KiB without asking for it first.
  LastWord<<<1, 32, 64 << 10>>>(out);
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  CUDA_CHECK(cudaFree(out));
}

inline void WrongFrees() {
  int local = 0;
  char* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, 4096));
  EXPECT_CODE(cudaFree(kBadAddress), cudaErrorInvalidValue);
  EXPECT_CODE(cudaFree(&local), cudaErrorInvalidValue);
  EXPECT_CODE(cudaFree(memory + 256), cudaErrorInvalidValue);
  EXPECT_CODE(cudaFree(memory), cudaSuccess);
  EXPECT_CODE(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_CODE(cudaFreeHost(&local), cudaErrorInvalidValue);
}

inline void WrongCopies() {
  int host[4] = {};
  char* memory = nullptr;
  const size_t size = size_t{4} << 20;
  CUDA_CHECK(cudaMalloc(&memory, size));
  EXPECT_CODE(cudaMemcpy(host, kBadAddress, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_CODE(cudaMemcpy(kBadAddress, host, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_CODE(cudaMemcpy(memory, kBadAddress, 16, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_CODE(cudaMemcpy(nullptr, host, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_CODE(cudaMemcpy(memory, host, 16, static_cast<cudaMemcpyKind>(77)),
              cudaErrorInvalidMemcpyDirection);
  EXPECT_CODE(cudaMemset(kBadAddress, 0, 16), cudaErrorInvalidValue);
  EXPECT_CODE(cudaMemset(memory, 0, size * 2), cudaErrorInvalidValue);
  EXPECT_CODE(cudaMemcpy(memory, host, 0, cudaMemcpyHostToDevice), cudaSuccess);
  CUDA_CHECK(cudaFree(memory));
}

inline void WrongDevice() {
  cudaDeviceProp properties;
  int value = 0;
  EXPECT_CODE(cudaSetDevice(9999), cudaErrorInvalidDevice);
  EXPECT_CODE(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_CODE(cudaGetDeviceProperties(&properties, 9999), cudaErrorInvalidDevice);
  EXPECT_CODE(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(100000), 0),
              cudaErrorInvalidValue);
}

inline void NullHandles() {
  EXPECT_CODE(cudaEventRecord(nullptr, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_CODE(cudaEventQuery(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_CODE(cudaEventDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_CODE(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
}

inline void EventTimes() {
  cudaEvent_t start, stop;
  float elapsed_ms = 0;
  CUDA_CHECK(cudaEventCreate(&start));
  CUDA_CHECK(cudaEventCreate(&stop));
  // Neither event was recorded.
  EXPECT_CODE(cudaEventElapsedTime(&elapsed_ms, start, stop), cudaErrorInvalidResourceHandle);
  CUDA_CHECK(cudaEventDestroy(start));
  CUDA_CHECK(cudaEventDestroy(stop));
}

// Undefined ------------------------------------------------------------------------------------

inline void DestroyedStream() {
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreate(&stream));
  CUDA_CHECK(cudaStreamDestroy(stream));
  EXPECT_CODE(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  Nothing<<<1, 1, 0, stream>>>();
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

inline void DestroyedEvent() {
  cudaEvent_t event;
  CUDA_CHECK(cudaEventCreate(&event));
  CUDA_CHECK(cudaEventDestroy(event));
  EXPECT_CODE(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_CODE(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
}

inline void EventAsStream() {
  cudaEvent_t event;
  cudaStream_t stream;
  CUDA_CHECK(cudaEventCreate(&event));
  CUDA_CHECK(cudaStreamCreate(&stream));
  EXPECT_CODE(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(event)),
              cudaErrorInvalidResourceHandle);
  EXPECT_CODE(cudaEventSynchronize(reinterpret_cast<cudaEvent_t>(stream)),
              cudaErrorInvalidResourceHandle);
  CUDA_CHECK(cudaEventDestroy(event));
  CUDA_CHECK(cudaStreamDestroy(stream));
}

inline void GarbageHandles() {
  EXPECT_CODE(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(0x12345)),
              cudaErrorInvalidResourceHandle);
  EXPECT_CODE(cudaEventQuery(reinterpret_cast<cudaEvent_t>(0x12345)),
              cudaErrorInvalidResourceHandle);
}

inline void FreedAddress() {
  // This is far more than a driver would keep for reuse, so the address should not be mapped.
  int* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, size_t{256} << 20));
  CUDA_CHECK(cudaFree(memory));
  Store<<<1, 1>>>(memory + (size_t{16} << 20), 1);
  EXPECT_CODE(cudaGetLastError(), cudaSuccess);
  ExpectSticky(cudaErrorIllegalAddress);
}

inline void CopyPastTheEnd() {
  static char host[1 << 16];
  char* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, 256));
  EXPECT_CODE(cudaMemcpy(host, memory, size_t{1} << 40, cudaMemcpyDeviceToHost),
              cudaErrorInvalidValue);
  CUDA_CHECK(cudaFree(memory));
}

inline constexpr Case kCases[] = {
    {"good_work", Kind::kPlain, GoodWork},
    {"illegal_address", Kind::kSticky, IllegalAddress},
    {"misaligned", Kind::kSticky, Misaligned},
    {"trap", Kind::kSticky, TrapInKernel},
    {"too_large_allocation", Kind::kPlain, TooLargeAllocation},
    {"empty_allocation", Kind::kPlain, EmptyAllocation},
    {"missing_kernel", Kind::kPlain, MissingKernel},
    {"missing_library_kernel", Kind::kPlain, MissingLibraryKernel},
    {"geometry", Kind::kPlain, Geometry},
    {"too_much_shared_memory", Kind::kPlain, TooMuchSharedMemory},
    {"wrong_frees", Kind::kPlain, WrongFrees},
    {"wrong_copies", Kind::kPlain, WrongCopies},
    {"wrong_device", Kind::kPlain, WrongDevice},
    {"null_handles", Kind::kPlain, NullHandles},
    {"event_times", Kind::kPlain, EventTimes},
    {"destroyed_stream", Kind::kUndefined, DestroyedStream},
    {"destroyed_event", Kind::kUndefined, DestroyedEvent},
    {"event_as_stream", Kind::kUndefined, EventAsStream},
    {"garbage_handles", Kind::kUndefined, GarbageHandles},
    {"freed_address", Kind::kUndefined, FreedAddress},
    {"copy_past_the_end", Kind::kUndefined, CopyPastTheEnd},
};

}  // namespace error_cases

#endif  // WARPLINE_EXAMPLES_ERROR_CASES_H_
