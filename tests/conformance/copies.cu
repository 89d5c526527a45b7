// Copies of one dimension, in every direction, synchronous and asynchronous.
#include "setting.h"

namespace conformance {
namespace {

std::vector<unsigned char> Pattern(size_t size, unsigned seed) {
  std::vector<unsigned char> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + seed + (i >> 8));
  return bytes;
}

void Same(const char* call, const char* check, const std::vector<unsigned char>& got,
          const std::vector<unsigned char>& expected) {
  size_t wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) wrong += got[i] != expected[i];
  Holds(call, check, wrong == 0, "%zu wrong bytes of %zu", wrong, expected.size());
}

void Waiting() {
  if (!Begin()) return;
  for (const size_t size : {size_t{1}, size_t{1000}, size_t{70001}, size_t{9000001}}) {
    const std::string name = std::to_string(size) + " bytes";
    const std::vector<unsigned char> source = Pattern(size, 1);
    std::vector<unsigned char> target(size);
    CUdeviceptr a = 0, b = 0;
    SETUP(cuMemAlloc, &a, size);
    SETUP(cuMemAlloc, &b, size);
    CALL(name.c_str(), CUDA_SUCCESS, cuMemcpyHtoD, a, source.data(), size);
    CALL(name.c_str(), CUDA_SUCCESS, cuMemcpyDtoD, b, a, size);
    CALL(name.c_str(), CUDA_SUCCESS, cuMemcpyDtoH, target.data(), b, size);
    Same("cuMemcpyDtoH", (name + " are the same").c_str(), target, source);
    SETUP(cuMemFree, a);
    SETUP(cuMemFree, b);
  }
}

// cuMemcpy derives the direction from the addresses.
void ByAddress() {
  if (!Begin()) return;
  constexpr size_t kSize = 5000;
  const std::vector<unsigned char> source = Pattern(kSize, 2);
  std::vector<unsigned char> target(kSize), middle(kSize);
  CUdeviceptr a = 0, b = 0;
  SETUP(cuMemAlloc, &a, kSize);
  SETUP(cuMemAlloc, &b, kSize);
  const auto host = [](const void* p) { return reinterpret_cast<CUdeviceptr>(p); };
  CALL("host to host", CUDA_SUCCESS, cuMemcpy, host(middle.data()), host(source.data()), kSize);
  CALL("host to device", CUDA_SUCCESS, cuMemcpy, a, host(middle.data()), kSize);
  CALL("device to device", CUDA_SUCCESS, cuMemcpy, b, a, kSize);
  CALL("device to host", CUDA_SUCCESS, cuMemcpy, host(target.data()), b, kSize);
  Same("cuMemcpy", "bytes are the same", target, source);
  CALL("host to device", CUDA_SUCCESS, cuMemcpyAsync, a, host(target.data()), kSize, nullptr);
  CALL("device to host", CUDA_SUCCESS, cuMemcpyAsync, host(middle.data()), a, kSize, nullptr);
  CALL("after both", CUDA_SUCCESS, cuStreamSynchronize, nullptr);
  Same("cuMemcpyAsync", "bytes are the same", middle, source);
  CALL("same device", CUDA_SUCCESS, cuMemcpyPeer, b, g_context, a, g_context, kSize);
  CALL("same device", CUDA_SUCCESS, cuMemcpyPeerAsync, a, g_context, b, g_context, kSize, nullptr);
  CALL("the current context", CUDA_SUCCESS, cuMemcpyPeer, b, nullptr, a, g_context, kSize);
}

void NotWaiting() {
  if (!Begin()) return;
  constexpr size_t kSize = 300000;
  const std::vector<unsigned char> source = Pattern(kSize, 3);
  CUstream stream = nullptr;
  CUdeviceptr a = 0, b = 0;
  void* pinned = nullptr;
  std::vector<unsigned char> target(kSize);
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuMemAlloc, &a, kSize);
  SETUP(cuMemAlloc, &b, kSize);
  SETUP(cuMemAllocHost, &pinned, kSize);
  // Pageable memory may be written again as soon as the call returns.
  std::vector<unsigned char> scratch = source;
  CALL("pageable", CUDA_SUCCESS, cuMemcpyHtoDAsync, a, scratch.data(), kSize, stream);
  std::fill(scratch.begin(), scratch.end(), 0);
  CALL("on a stream", CUDA_SUCCESS, cuMemcpyDtoDAsync, b, a, kSize, stream);
  CALL("pinned", CUDA_SUCCESS, cuMemcpyDtoHAsync, pinned, b, kSize, stream);
  CALL("after copies", CUDA_SUCCESS, cuStreamSynchronize, stream);
  std::memcpy(target.data(), pinned, kSize);
  Same("cuMemcpyDtoHAsync", "bytes are the same", target, source);
  std::fill(target.begin(), target.end(), 0);
  CALL("pageable", CUDA_SUCCESS, cuMemcpyDtoHAsync, target.data(), a, kSize, stream);
  CALL("after pageable", CUDA_SUCCESS, cuStreamSynchronize, stream);
  Same("cuMemcpyDtoHAsync", "pageable bytes are the same", target, source);
  // The copy comes after earlier work of its stream.
  CALL("behind a memset", CUDA_SUCCESS, cuMemsetD8Async, a, 0x5a, kSize, stream);
  CALL("behind a memset", CUDA_SUCCESS, cuMemcpyDtoHAsync, pinned, a, kSize, stream);
  CALL("behind a memset", CUDA_SUCCESS, cuStreamSynchronize, stream);
  std::memcpy(target.data(), pinned, kSize);
  Same("cuMemcpyDtoHAsync", "comes after the memset", target,
       std::vector<unsigned char>(kSize, 0x5a));
  // Pinned memory is read when the stream gets there: after the copy that fills it.
  std::memset(pinned, 0, kSize);
  SETUP(cuMemcpyHtoD, a, source.data(), kSize);
  SETUP(cuMemsetD8, b, 0, kSize);
  SETUP(cuCtxSynchronize);
  CALL("fills pinned memory", CUDA_SUCCESS, cuMemcpyDtoHAsync, pinned, a, kSize, stream);
  CALL("from what is being filled", CUDA_SUCCESS, cuMemcpyHtoDAsync, b, pinned, kSize, stream);
  CALL("after both", CUDA_SUCCESS, cuStreamSynchronize, stream);
  SETUP(cuMemcpyDtoH, target.data(), b, kSize);
  Same("cuMemcpyHtoDAsync", "reads pinned memory in the stream's order", target, source);
  CALL_SYMBOL("per-thread default stream", CUDA_SUCCESS, cuMemcpyHtoDAsync,
              "cuMemcpyHtoDAsync_v2_ptsz", a, pinned, kSize, nullptr);
  CALL_SYMBOL("per-thread default stream", CUDA_SUCCESS, cuMemcpyHtoD, "cuMemcpyHtoD_v2_ptds", a,
              pinned, kSize);
  // NVIDIA's driver may crash on an invalid stream; ours must not.
  if (!native()) {
    CALL("wrong stream", CUDA_ERROR_INVALID_HANDLE, cuMemcpyDtoDAsync, b, a, 16,
         Garbage<CUstream>());
  }
}

void Refused() {
  if (!Begin()) return;
  constexpr size_t kSize = 4096;
  unsigned char host[64] = {};
  CUdeviceptr a = 0;
  SETUP(cuMemAlloc, &a, kSize);
  CALL("no such device memory", CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD, kBadAddress, host, 16);
  CALL("no such device memory", CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH, host, kBadAddress, 16);
  CALL("no such device memory", CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD, a, kBadAddress, 16);
  CALL("no host memory", CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD, a, nullptr, 16);
  CALL("no host memory", CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH, nullptr, a, 16);
  CALL("null", CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD, 0, host, 16);
  CALL("nothing", CUDA_SUCCESS, cuMemcpyHtoD, a, host, 0);
  CALL("nothing", CUDA_SUCCESS, cuMemcpyDtoH, host, a, 0);
  CALL("nothing", CUDA_SUCCESS, cuMemcpyDtoD, a, a, 0);
  CALL("nothing, from nowhere", CUDA_SUCCESS, cuMemcpyHtoD, 0, nullptr, 0);
  CALL("far past the end", CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD, a, a, size_t{1} << 40);
  CALL("after refusals", CUDA_SUCCESS, cuMemcpyHtoD, a, host, 16);
}

void Batch() {
  if (!Begin()) return;
  constexpr size_t kSize = 4096;
  const std::vector<unsigned char> source = Pattern(kSize, 4);
  std::vector<unsigned char> target(kSize);
  CUdeviceptr a = 0, b = 0;
  CUstream stream = nullptr;
  SETUP(cuMemAlloc, &a, kSize);
  SETUP(cuMemAlloc, &b, kSize);
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  SETUP(cuMemcpyHtoD, a, source.data(), kSize);
  SETUP(cuMemsetD8, b, 0, kSize);
  SETUP(cuCtxSynchronize);
  CUdeviceptr targets[] = {b, b + 2048}, sources[] = {a, a + 2048};
  size_t sizes[] = {2048, 2048}, from = 0;
  CUmemcpyAttributes attributes = {};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CALL("two copies", CUDA_SUCCESS, cuMemcpyBatchAsync, targets, sources, sizes, 2, &attributes,
       &from, 1, stream);
  CALL("after a batch", CUDA_SUCCESS, cuStreamSynchronize, stream);
  SETUP(cuMemcpyDtoH, target.data(), b, kSize);
  Same("cuMemcpyBatchAsync", "bytes are the same", target, source);
  CALL("no copies", CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync, targets, sources, sizes, 0,
       &attributes, &from, 1, stream);
  CALL("the legacy stream", CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync, targets, sources, sizes,
       2, &attributes, &from, 1, nullptr);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "copies",
             {{"waiting", Waiting},
              {"by_address", ByAddress},
              {"not_waiting", NotWaiting},
              {"refused", Refused},
              {"batch", Batch}});
}
