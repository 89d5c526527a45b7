// Copies of many sizes between ordinary memory and the device, by several threads at once, each on
// a stream of its own with kernels in between: every byte is checked. What is copied to the device
// is overwritten on the host as soon as the call returns.
#include <thread>
#include <vector>

#include "check.h"

namespace {

__global__ void AddOne(unsigned char* bytes, size_t count) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) ++bytes[i];
}

unsigned char Pattern(size_t index, unsigned seed) {
  return static_cast<unsigned char>(index * 31 + (index >> 12) * 7 + seed * 13);
}

// Returns the number of wrong bytes.
size_t RunSize(size_t bytes, unsigned seed, bool asynchronous, cudaStream_t stream) {
  std::vector<unsigned char> host(bytes + 2);
  unsigned char* device = nullptr;
  CUDA_CHECK(cudaMallocAsync(&device, bytes + 2, stream));
  // One byte off, so that nothing depends on alignment.
  unsigned char* const source = host.data() + 1;
  unsigned char* const target = device + 1;
  for (size_t i = 0; i < bytes; ++i) source[i] = Pattern(i, seed);
  if (asynchronous) {
    CUDA_CHECK(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, stream));
  } else {
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(target, source, bytes, cudaMemcpyHostToDevice));
  }
  std::memset(host.data(), 0xee, host.size());
  AddOne<<<8, 128, 0, stream>>>(target, bytes);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaMemcpyAsync(source, target, bytes, cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  size_t wrong = host.front() != 0xee || host.back() != 0xee ? 1 : 0;
  for (size_t i = 0; i < bytes; ++i) {
    if (source[i] != static_cast<unsigned char>(Pattern(i, seed) + 1)) ++wrong;
  }
  CUDA_CHECK(cudaFreeAsync(device, stream));
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "pageable_copies",
                            "copies of ordinary memory, both ways, checked byte by byte");
  const long long threads = options.Number("threads", 3, "threads that copy at once");
  const long long most = options.Number("mib", 9, "the largest copy");
  options.Finish();
  const size_t kKiB = 1024;
  std::vector<size_t> sizes = {1,
                               4 * kKiB,
                               16 * kKiB,
                               64 * kKiB + 3,
                               128 * kKiB,
                               512 * kKiB - 1,
                               512 * kKiB,
                               512 * kKiB + 1,
                               1024 * kKiB,
                               5 * 1024 * kKiB + 7,
                               static_cast<size_t>(most) * 1024 * kKiB};
  std::vector<size_t> wrong(static_cast<size_t>(threads));
  std::vector<std::thread> copiers;
  for (size_t t = 0; t < wrong.size(); ++t) {
    copiers.emplace_back([&, t] {
      cudaStream_t stream;
      CUDA_CHECK(cudaStreamCreate(&stream));
      for (size_t i = 0; i < sizes.size(); ++i) {
        // Each thread begins elsewhere, so that large and small copies meet.
        const size_t size = sizes[(i + t * 4) % sizes.size()];
        for (const bool asynchronous : {false, true}) {
          wrong[t] += RunSize(size, static_cast<unsigned>(t * 100 + i), asynchronous, stream);
        }
      }
      CUDA_CHECK(cudaStreamDestroy(stream));
    });
  }
  for (std::thread& copier : copiers) copier.join();
  for (size_t t = 0; t < wrong.size(); ++t) {
    examples::Expect(wrong[t] == 0, "thread %zu: %zu bytes are wrong", t, wrong[t]);
  }
  return examples::Report("%zu sizes up to %lld MiB by %lld threads", sizes.size(), most, threads);
}
