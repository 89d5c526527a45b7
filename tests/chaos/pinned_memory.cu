// Has host and device work on memory that both see, in turn: page-locked memory, pages of its heap
// that it registers, and memory that it allocates and frees meanwhile. All of it must outlive a
// change of worker or server. Goes on until it is let go (examples/held.h).
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../examples/held.h"

namespace {

constexpr size_t kWords = size_t{1} << 19;
constexpr size_t kBytes = kWords * sizeof(uint32_t);

#define MUST(call)                                                                                 \
  do {                                                                                             \
    const cudaError_t error = (call);                                                              \
    if (error != cudaSuccess) {                                                                    \
      std::printf("pinned_memory: round %u: %s: %s\n", g_round, #call, cudaGetErrorString(error)); \
      std::fflush(stdout);                                                                         \
      std::_Exit(1);                                                                               \
    }                                                                                              \
  } while (false)

unsigned g_round = 0;

__global__ void Add(uint32_t* words, uint32_t count, uint32_t add) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) words[i] += add;
}

void Launch(uint32_t* words, uint32_t add) {
  Add<<<(kWords + 255) / 256, 256>>>(words, kWords, add);
  MUST(cudaGetLastError());
}

void Check(const uint32_t* words, uint32_t base, const char* what) {
  for (size_t i = 0; i < kWords; ++i) {
    if (words[i] == base + static_cast<uint32_t>(i)) continue;
    std::printf("pinned_memory: round %u: word %zu of %s is %u, expected %u\n", g_round, i, what,
                words[i], base + static_cast<uint32_t>(i));
    std::fflush(stdout);
    std::_Exit(1);
  }
}

void Fill(uint32_t* words) {
  for (size_t i = 0; i < kWords; ++i) words[i] = static_cast<uint32_t>(i);
}

}  // namespace

int main() {
  uint32_t* locked;
  uint32_t* on_device;
  MUST(cudaMallocHost(&locked, kBytes));
  MUST(cudaMalloc(&on_device, kBytes));
  void* heap;
  if (posix_memalign(&heap, 4096, kBytes) != 0) return 1;
  auto* const registered = static_cast<uint32_t*>(heap);
  Fill(locked);
  Fill(registered);
  MUST(cudaHostRegister(registered, kBytes, cudaHostRegisterMapped));
  uint32_t* seen_by_device;
  MUST(cudaHostGetDevicePointer(&seen_by_device, registered, 0));
  std::vector<uint32_t> plain(kWords);
  Fill(plain.data());
  MUST(cudaMemcpy(on_device, plain.data(), kBytes, cudaMemcpyHostToDevice));

  uint32_t locked_base = 0, registered_base = 0, device_base = 0;
  SayThatItGoesOn("pinned_memory");
  while (IsHeld()) {
    ++g_round;
    // The device adds, and then the host does.
    Launch(locked, 3);
    Launch(seen_by_device, 5);
    Launch(on_device, 7);
    MUST(cudaDeviceSynchronize());
    locked_base += 3;
    registered_base += 5;
    device_base += 7;
    Check(locked, locked_base, "page-locked memory");
    Check(registered, registered_base, "registered memory");
    for (size_t i = 0; i < kWords; ++i) locked[i] += 11;
    for (size_t i = 0; i < kWords; ++i) registered[i] += 13;
    locked_base += 11;
    registered_base += 13;
    uint32_t* passing;
    MUST(cudaMallocHost(&passing, kBytes));
    MUST(cudaMemcpyAsync(passing, on_device, kBytes, cudaMemcpyDeviceToHost));
    MUST(cudaStreamSynchronize(nullptr));
    Check(passing, device_base, "memory that was copied to page-locked memory");
    MUST(cudaMemcpy(plain.data(), on_device, kBytes, cudaMemcpyDeviceToHost));
    Check(plain.data(), device_base, "memory that was copied to the heap");
    MUST(cudaFreeHost(passing));
    if (g_round % 2 == 0) usleep(5000);
  }
  MUST(cudaHostUnregister(registered));
  Check(locked, locked_base, "page-locked memory at the end");
  Check(registered, registered_base, "registered memory at the end");
  MUST(cudaFreeHost(locked));
  MUST(cudaFree(on_device));
  std::free(heap);
  std::printf("pinned_memory: ok after %u rounds\n", g_round);
  return 0;
}
