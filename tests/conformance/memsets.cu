// Memsets of every width, of one and two dimensions.
#include "setting.h"

namespace conformance {
namespace {

constexpr size_t kSize = 16384, kPitch = 256;

// Counts the bytes of `memory` that differ from `expected(i)`.
template <typename F>
size_t Wrong(CUdeviceptr memory, F expected) {
  std::vector<unsigned char> bytes(kSize);
  if (CU(cuMemcpyDtoH)(bytes.data(), memory, kSize) != CUDA_SUCCESS) return kSize;
  size_t wrong = 0;
  for (size_t i = 0; i < kSize; ++i) wrong += bytes[i] != expected(i);
  return wrong;
}

// Returns `width` bytes of `value`, repeated from `at` for `count` elements; 0xee elsewhere.
template <typename T>
size_t WrongLine(CUdeviceptr memory, T value, size_t at, size_t count) {
  unsigned char pattern[sizeof(T)];
  std::memcpy(pattern, &value, sizeof(T));
  return Wrong(memory, [&](size_t i) -> unsigned char {
    return i >= at && i < at + count * sizeof(T) ? pattern[(i - at) % sizeof(T)] : 0xee;
  });
}

template <typename T>
size_t WrongBox(CUdeviceptr memory, T value, size_t width, size_t height) {
  unsigned char pattern[sizeof(T)];
  std::memcpy(pattern, &value, sizeof(T));
  return Wrong(memory, [&](size_t i) -> unsigned char {
    const size_t x = i % kPitch, y = i / kPitch;
    return x < width * sizeof(T) && y < height ? pattern[x % sizeof(T)] : 0xee;
  });
}

#define CHECK_LINE(fn, type, value, ...)                                                          \
  do {                                                                                            \
    const char* const name = #fn;                                                                 \
    SETUP(cuMemsetD8, memory, 0xee, kSize);                                                       \
    SETUP(cuCtxSynchronize);                                                                      \
    CALL_NAMED(name, "1000 elements", CUDA_SUCCESS, fn, memory + 64, value, 1000, ##__VA_ARGS__); \
    SETUP(cuCtxSynchronize);                                                                      \
    const size_t wrong = WrongLine<type>(memory, value, 64, 1000);                                \
    Holds(name, "writes these elements and no others", wrong == 0, "%zu wrong bytes", wrong);     \
    CALL_NAMED(name, "nothing", CUDA_SUCCESS, fn, memory, value, 0, ##__VA_ARGS__);               \
    CALL_NAMED(name, "no such memory", CUDA_ERROR_INVALID_VALUE, fn, kBadAddress, value, 4,       \
               ##__VA_ARGS__);                                                                    \
  } while (false)

#define CHECK_BOX(fn, type, value, ...)                                                           \
  do {                                                                                            \
    const char* const name = #fn;                                                                 \
    SETUP(cuMemsetD8, memory, 0xee, kSize);                                                       \
    SETUP(cuCtxSynchronize);                                                                      \
    CALL_NAMED(name, "20 by 30", CUDA_SUCCESS, fn, memory, kPitch, value, 20, 30, ##__VA_ARGS__); \
    SETUP(cuCtxSynchronize);                                                                      \
    const size_t wrong = WrongBox<type>(memory, value, 20, 30);                                   \
    Holds(name, "writes this box and nothing else", wrong == 0, "%zu wrong bytes", wrong);        \
    CALL_NAMED(name, "no rows", CUDA_SUCCESS, fn, memory, kPitch, value, 20, 0, ##__VA_ARGS__);   \
    CALL_NAMED(name, "no such memory", CUDA_ERROR_INVALID_VALUE, fn, kBadAddress, kPitch, value,  \
               4, 4, ##__VA_ARGS__);                                                              \
  } while (false)

void Lines() {
  if (!Begin()) return;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  SETUP(cuMemAlloc, &memory, kSize);
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  CHECK_LINE(cuMemsetD8, unsigned char, 0xa5);
  CHECK_LINE(cuMemsetD16, unsigned short, 0x1234);
  CHECK_LINE(cuMemsetD32, unsigned, 0xdeadbeef);
  CHECK_LINE(cuMemsetD8Async, unsigned char, 0xa6, stream);
  CHECK_LINE(cuMemsetD16Async, unsigned short, 0x1235, stream);
  CHECK_LINE(cuMemsetD32Async, unsigned, 0xdeadbeee, stream);
  CALL("odd address", CUDA_ERROR_INVALID_VALUE, cuMemsetD16, memory + 1, 1, 4);
  CALL("address no multiple of 4", CUDA_ERROR_INVALID_VALUE, cuMemsetD32, memory + 2, 1, 4);
  CALL("past the end", CUDA_ERROR_INVALID_VALUE, cuMemsetD8, memory, 0, size_t{1} << 40);
  // NVIDIA's driver may crash on an invalid stream; ours must not.
  if (!native()) {
    CALL("wrong stream", CUDA_ERROR_INVALID_HANDLE, cuMemsetD8Async, memory, 0, 4,
         Garbage<CUstream>());
  }
}

void Boxes() {
  if (!Begin()) return;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  SETUP(cuMemAlloc, &memory, kSize);
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  CHECK_BOX(cuMemsetD2D8, unsigned char, 0xa5);
  CHECK_BOX(cuMemsetD2D16, unsigned short, 0x1234);
  CHECK_BOX(cuMemsetD2D32, unsigned, 0xdeadbeef);
  CHECK_BOX(cuMemsetD2D8Async, unsigned char, 0xa6, stream);
  CHECK_BOX(cuMemsetD2D16Async, unsigned short, 0x1235, stream);
  CHECK_BOX(cuMemsetD2D32Async, unsigned, 0xdeadbeee, stream);
  CALL("pitch below the width", CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32, memory, 16, 1, 20, 4);
  CALL("odd pitch", CUDA_ERROR_INVALID_VALUE, cuMemsetD2D16, memory, 255, 1, 20, 4);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "memsets", {{"lines", Lines}, {"boxes", Boxes}});
}
