// The runtime API above the driver: the calls of ordinary programs, made through libcudart.
#include <cuda_runtime.h>

#include <numeric>
#include <utility>

#include "setting.h"

namespace conformance {
namespace {

// Names of cudaError_t agree with those of the driver where they mean the same; both are numbers.
bool JudgeRuntime(cudaError_t expected, cudaError_t got) {
  if (got == expected) {
    Line("ok", "");
    return true;
  }
  Line("FAIL",
       (std::string("gives ") + cudaGetErrorName(got) + " (" + std::to_string(int(got)) +
        "), expected " + cudaGetErrorName(expected) + " (" + std::to_string(int(expected)) + ")")
           .c_str());
  return false;
}

#define RUNTIME(check, expected, fn, ...) \
  (Mark(#fn, check), JudgeRuntime(expected, fn(__VA_ARGS__)))

__device__ int g_counter = 11;
__constant__ int g_factors[4] = {1, 10, 100, 1000};

__global__ void AddCounter(int* out) { out[threadIdx.x] += g_counter + g_factors[threadIdx.x % 4]; }

__global__ void Scale(float* data, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= factor;
}

void Devices() {
  int count = 0, device = -1;
  cudaDeviceProp properties;
  RUNTIME("count", cudaSuccess, cudaGetDeviceCount, &count);
  RUNTIME("first", cudaSuccess, cudaSetDevice, 0);
  RUNTIME("current", cudaSuccess, cudaGetDevice, &device);
  EQUAL(cudaGetDevice, "is the one set", device, 0);
  RUNTIME("properties", cudaSuccess, cudaGetDeviceProperties, &properties, 0);
  EQUAL(cudaGetDeviceProperties, "warp", properties.warpSize, 32);
  RUNTIME("past the last", cudaErrorInvalidDevice, cudaSetDevice, count);
  RUNTIME("the error before", cudaErrorInvalidDevice, cudaGetLastError);
  RUNTIME("none", cudaSuccess, cudaGetLastError);
  int value = 0;
  RUNTIME("cooperative launch", cudaSuccess, cudaDeviceGetAttribute, &value,
          cudaDevAttrCooperativeLaunch, 0);
  RUNTIME("version", cudaSuccess, cudaDriverGetVersion, &value);
  RUNTIME("version", cudaSuccess, cudaRuntimeGetVersion, &value);
  RUNTIME("spinning", cudaSuccess, cudaSetDeviceFlags, cudaDeviceScheduleSpin);
  size_t limit = 0;
  RUNTIME("stack", cudaSuccess, cudaDeviceGetLimit, &limit, cudaLimitStackSize);
  RUNTIME("stack", cudaSuccess, cudaDeviceSetLimit, cudaLimitStackSize, 2048);
  RUNTIME("idle", cudaSuccess, cudaDeviceSynchronize);
}

// Gives the address of a text, which has no name that the program could look up.
__global__ void GiveText(const char** out) { *out = "the name of nothing"; }

void Texts() {
  constexpr char kText[] = "the name of nothing";
  const char** out = nullptr;
  const char* text = nullptr;
  if (!RUNTIME("a pointer", cudaSuccess, cudaMalloc, &out, sizeof(*out))) return;
  GiveText<<<1, 1>>>(out);
  RUNTIME("a pointer", cudaSuccess, cudaMemcpy, &text, out, sizeof(text), cudaMemcpyDeviceToHost);
  const auto address = reinterpret_cast<CUdeviceptr>(text);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CALL("a text of a kernel", CUDA_SUCCESS, cuMemGetAddressRange, &base, &bytes, address);
  HOLDS(cuMemGetAddressRange, "holds the text",
        address >= base && address + sizeof(kText) <= base + bytes, "%llx and %zu bytes for %llx",
        base, bytes, address);
  unsigned type = 0;
  CALL("a text of a kernel", CUDA_SUCCESS, cuPointerGetAttribute, &type,
       CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  EQUAL(cuPointerGetAttribute, "a text of a kernel", type, CU_MEMORYTYPE_DEVICE);
  cudaPointerAttributes attributes;
  RUNTIME("a text of a kernel", cudaSuccess, cudaPointerGetAttributes, &attributes, text);
  EQUAL(cudaPointerGetAttributes, "a text of a kernel", attributes.type, cudaMemoryTypeDevice);
  char copy[sizeof(kText)] = {};
  RUNTIME("a text of a kernel", cudaSuccess, cudaMemcpy, copy, text, sizeof(copy),
          cudaMemcpyDeviceToHost);
  HOLDS(cudaMemcpy, "the text is the same", std::strcmp(copy, kText) == 0, "'%.20s'", copy);
  std::memset(copy, 0, sizeof(copy));
  RUNTIME("a text, by address", cudaSuccess, cudaMemcpy, copy, text, sizeof(copy),
          cudaMemcpyDefault);
  HOLDS(cudaMemcpy, "the text by address is the same", std::strcmp(copy, kText) == 0, "'%.20s'",
        copy);
  void* variable = nullptr;
  RUNTIME("counter", cudaSuccess, cudaGetSymbolAddress, &variable, g_counter);
  const auto counter = reinterpret_cast<CUdeviceptr>(variable);
  CALL("a variable", CUDA_SUCCESS, cuMemGetAddressRange, &base, &bytes, counter);
  HOLDS(cuMemGetAddressRange, "holds the variable", counter >= base && counter + 4 <= base + bytes,
        "%llx and %zu bytes for %llx", base, bytes, counter);
  RUNTIME("a pointer", cudaSuccess, cudaFree, out);
}

// The kind of a copy is a hint: an address tells whose memory it is.
void Kinds() {
  constexpr size_t kSize = 4096;
  char *a = nullptr, *b = nullptr;
  std::vector<char> host(kSize, 7), back(kSize);
  if (!RUNTIME("a page", cudaSuccess, cudaMalloc, &a, kSize)) return;
  RUNTIME("a page", cudaSuccess, cudaMalloc, &b, kSize);
  const auto arrived = [&](const char* call) {
    RUNTIME("a page", cudaSuccess, cudaMemcpy, back.data(), b, kSize, cudaMemcpyDeviceToHost);
    Holds(call, "device to device by another name arrives", back == host, "other bytes");
    RUNTIME("a page", cudaSuccess, cudaMemset, b, 0, kSize);
  };
  RUNTIME("a page", cudaSuccess, cudaMemcpy, a, host.data(), kSize, cudaMemcpyHostToDevice);
  RUNTIME("a page", cudaSuccess, cudaMemset, b, 0, kSize);
  for (const auto& [name, kind] : {std::pair{"called host to host", cudaMemcpyHostToHost},
                                   std::pair{"called host to device", cudaMemcpyHostToDevice},
                                   std::pair{"called device to host", cudaMemcpyDeviceToHost},
                                   std::pair{"by address", cudaMemcpyDefault}}) {
    RUNTIME(name, cudaSuccess, cudaMemcpy, b, a, kSize, kind);
    arrived("cudaMemcpy");
    RUNTIME(name, cudaSuccess, cudaMemcpyAsync, b, a, kSize, kind, nullptr);
    arrived("cudaMemcpyAsync");
    RUNTIME(name, cudaSuccess, cudaMemcpy2D, b, 64, a, 64, 64, kSize / 64, kind);
    arrived("cudaMemcpy2D");
  }
  RUNTIME("a page", cudaSuccess, cudaFree, a);
  RUNTIME("a page", cudaSuccess, cudaFree, b);
}

void Symbols() {
  int value = 0, out[8] = {};
  int* memory = nullptr;
  RUNTIME("counter", cudaSuccess, cudaMemcpyFromSymbol, &value, g_counter, 4);
  EQUAL(cudaMemcpyFromSymbol, "first value", value, 11);
  value = 20;
  RUNTIME("counter", cudaSuccess, cudaMemcpyToSymbol, g_counter, &value, 4);
  void* address = nullptr;
  size_t size = 0;
  RUNTIME("factors", cudaSuccess, cudaGetSymbolAddress, &address, g_factors);
  RUNTIME("factors", cudaSuccess, cudaGetSymbolSize, &size, g_factors);
  EQUAL(cudaGetSymbolSize, "factors", size, 16u);
  if (!RUNTIME("8 words", cudaSuccess, cudaMalloc, &memory, sizeof(out))) return;
  RUNTIME("8 words", cudaSuccess, cudaMemset, memory, 0, sizeof(out));
  AddCounter<<<1, 8>>>(memory);
  RUNTIME("after a launch", cudaSuccess, cudaGetLastError);
  RUNTIME("8 words", cudaSuccess, cudaMemcpy, out, memory, sizeof(out), cudaMemcpyDeviceToHost);
  EQUAL(cudaMemcpyToSymbol, "the kernel sees it", out[6], 120);
  RUNTIME("8 words", cudaSuccess, cudaFree, memory);
}

void Work() {
  constexpr int kCount = 10000;
  float* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr, stop = nullptr;
  std::vector<float> host(kCount);
  std::iota(host.begin(), host.end(), 0.0f);
  if (!RUNTIME("40 KB", cudaSuccess, cudaMalloc, &memory, kCount * 4)) return;
  RUNTIME("plain", cudaSuccess, cudaStreamCreate, &stream);
  RUNTIME("start", cudaSuccess, cudaEventCreate, &start);
  RUNTIME("stop", cudaSuccess, cudaEventCreate, &stop);
  RUNTIME("to the device", cudaSuccess, cudaMemcpyAsync, memory, host.data(), kCount * 4,
          cudaMemcpyHostToDevice, stream);
  RUNTIME("start", cudaSuccess, cudaEventRecord, start, stream);
  Scale<<<(kCount + 255) / 256, 256, 0, stream>>>(memory, 2.0f, kCount);
  RUNTIME("stop", cudaSuccess, cudaEventRecord, stop, stream);
  RUNTIME("to the host", cudaSuccess, cudaMemcpyAsync, host.data(), memory, kCount * 4,
          cudaMemcpyDeviceToHost, stream);
  RUNTIME("stream", cudaSuccess, cudaStreamSynchronize, stream);
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += host[i] != 2.0f * i;
  HOLDS(cudaLaunchKernel, "a kernel computes", wrong == 0, "%d wrong words", wrong);
  float ms = -1;
  RUNTIME("around a kernel", cudaSuccess, cudaEventElapsedTime, &ms, start, stop);
  HOLDS(cudaEventElapsedTime, "is not negative", ms >= 0, "%f", ms);
  int blocks = 0;
  RUNTIME("256 threads", cudaSuccess, cudaOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, Scale,
          256, 0);
  cudaFuncAttributes attributes;
  RUNTIME("Scale", cudaSuccess, cudaFuncGetAttributes, &attributes, Scale);
  Scale<<<1, 4096, 0, stream>>>(memory, 2.0f, kCount);
  RUNTIME("too many threads", cudaErrorInvalidValue, cudaGetLastError);
  void* pinned = nullptr;
  RUNTIME("64 KiB", cudaSuccess, cudaMallocHost, &pinned, 65536);
  RUNTIME("64 KiB", cudaSuccess, cudaFreeHost, pinned);
  cudaPointerAttributes pointer;
  RUNTIME("device memory", cudaSuccess, cudaPointerGetAttributes, &pointer, memory);
  EQUAL(cudaPointerGetAttributes, "type of device memory", pointer.type, cudaMemoryTypeDevice);
  RUNTIME("unknown memory", cudaSuccess, cudaPointerGetAttributes, &pointer, host.data());
  EQUAL(cudaPointerGetAttributes, "type of unknown memory", pointer.type,
        cudaMemoryTypeUnregistered);
  void* ordered = nullptr;
  RUNTIME("4 KiB", cudaSuccess, cudaMallocAsync, &ordered, 4096, stream);
  RUNTIME("4 KiB", cudaSuccess, cudaFreeAsync, ordered, stream);
  size_t pitch = 0;
  void* rows = nullptr;
  RUNTIME("100 by 10", cudaSuccess, cudaMallocPitch, &rows, &pitch, 100, 10);
  RUNTIME("100 by 10", cudaSuccess, cudaMemset2D, rows, pitch, 1, 100, 10);
  std::vector<unsigned char> bytes(1000);
  RUNTIME("100 by 10", cudaSuccess, cudaMemcpy2D, bytes.data(), 100, rows, pitch, 100, 10,
          cudaMemcpyDeviceToHost);
  EQUAL(cudaMemcpy2D, "last byte", bytes[999], 1);
  cudaExtent extent = make_cudaExtent(64, 4, 3);
  cudaPitchedPtr box = {};
  RUNTIME("64 by 4 by 3", cudaSuccess, cudaMalloc3D, &box, extent);
  RUNTIME("64 by 4 by 3", cudaSuccess, cudaMemset3D, box, 3, extent);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = box;
  copy.dstPtr = make_cudaPitchedPtr(bytes.data(), 64, 64, 4);
  copy.extent = extent;
  copy.kind = cudaMemcpyDeviceToHost;
  RUNTIME("64 by 4 by 3", cudaSuccess, cudaMemcpy3D, &copy);
  EQUAL(cudaMemcpy3D, "last byte", bytes[64 * 4 * 3 - 1], 3);
  RUNTIME("twice", cudaSuccess, cudaFree, rows);
  RUNTIME("twice", cudaErrorInvalidValue, cudaFree, rows);
  RUNTIME("stop", cudaSuccess, cudaEventDestroy, stop);
  RUNTIME("plain", cudaSuccess, cudaStreamDestroy, stream);
}

void Reset() {
  int* memory = nullptr;
  int value = 77, out[8] = {};
  RUNTIME("before a reset", cudaSuccess, cudaMalloc, &memory, sizeof(out));
  RUNTIME("before a reset", cudaSuccess, cudaMemcpyToSymbol, g_counter, &value, 4);
  RUNTIME("with memory and modules", cudaSuccess, cudaDeviceReset);
  RUNTIME("after a reset", cudaSuccess, cudaMalloc, &memory, sizeof(out));
  RUNTIME("after a reset", cudaSuccess, cudaMemset, memory, 0, sizeof(out));
  AddCounter<<<1, 8>>>(memory);
  RUNTIME("after a reset", cudaSuccess, cudaMemcpy, out, memory, sizeof(out),
          cudaMemcpyDeviceToHost);
  EQUAL(cudaDeviceReset, "variables begin anew", out[0], 12);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "runtime",
             {{"devices", Devices},
              {"symbols", Symbols},
              {"texts", Texts},
              {"kinds", Kinds},
              {"work", Work},
              {"reset", Reset}});
}
