// Frees memory that a kernel in flight still uses, and at once takes and fills new memory. CUDA
// promises that the kernel still sees its own memory and that the new memory stays as filled.
#include <vector>

#include "check.h"

namespace {

constexpr int kThreads = 256;
constexpr unsigned char kFill = 0xa5;

// Each thread owns `words / kThreads` words. In every pass it checks that its words hold what the
// pass before left, and adds one to each. It is slow on purpose: one block, and every access waits
// for the one before.
__global__ void UseMemory(unsigned* memory, int words, int passes, unsigned tag, unsigned* wrong) {
  unsigned bad = 0;
  for (int i = threadIdx.x; i < words; i += kThreads) memory[i] = tag + i;
  for (int pass = 0; pass < passes; ++pass) {
    for (int i = threadIdx.x; i < words; i += kThreads) {
      volatile unsigned* word = &memory[i];
      const unsigned value = *word;
      if (value != tag + i + pass) ++bad;
      *word = value + 1;
    }
  }
  if (bad != 0) atomicAdd(wrong, bad);
}

__global__ void CountOtherBytes(const unsigned* memory, int words, unsigned expected,
                                unsigned* wrong) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < words && memory[i] != expected) atomicAdd(wrong, 1u);
}

struct Run {
  int words;
  int passes;
  cudaStream_t user;    // Runs the slow kernel.
  cudaStream_t filler;  // Fills the new memory meanwhile.
  unsigned* wrong;      // Device: [0] counts in the kernel in flight, [1] in the new memory.
  int still_running = 0;
};

void Launch(const Run& run, unsigned* memory, int round) {
  UseMemory<<<1, kThreads, 0, run.user>>>(memory, run.words, run.passes, 1000003u * (round + 1),
                                          run.wrong);
  CUDA_CHECK_LAUNCH();
}

void Fill(const Run& run, void* memory, cudaStream_t stream) {
  CUDA_CHECK(cudaMemsetAsync(memory, kFill, run.words * sizeof(unsigned), stream));
}

void Verify(const Run& run, unsigned* memory, cudaStream_t stream) {
  CountOtherBytes<<<(run.words + 255) / 256, 256, 0, stream>>>(memory, run.words,
                                                               0x01010101u * kFill, run.wrong + 1);
  CUDA_CHECK_LAUNCH();
}

// Calls cudaFree on memory in use. CUDA leaves open whether that waits for the kernel.
void FreeRound(Run& run, int round, int replacements) {
  unsigned* memory;
  CUDA_CHECK(cudaMalloc(&memory, run.words * sizeof(unsigned)));
  Launch(run, memory, round);
  CUDA_CHECK(cudaFree(memory));
  if (cudaStreamQuery(run.user) == cudaErrorNotReady) ++run.still_running;
  std::vector<unsigned*> fresh(replacements);
  for (unsigned*& pointer : fresh) {
    CUDA_CHECK(cudaMalloc(&pointer, run.words * sizeof(unsigned)));
    Fill(run, pointer, run.filler);
  }
  CUDA_CHECK(cudaStreamSynchronize(run.filler));
  CUDA_CHECK(cudaStreamSynchronize(run.user));
  for (unsigned* pointer : fresh) Verify(run, pointer, run.filler);
  CUDA_CHECK(cudaStreamSynchronize(run.filler));
  for (unsigned* pointer : fresh) CUDA_CHECK(cudaFree(pointer));
}

// Calls cudaFreeAsync in the kernel's own stream, and takes new memory in that stream and in
// another.
void FreeAsyncRound(Run& run, int round, int replacements) {
  unsigned* memory;
  CUDA_CHECK(cudaMallocAsync(&memory, run.words * sizeof(unsigned), run.user));
  Launch(run, memory, round);
  CUDA_CHECK(cudaFreeAsync(memory, run.user));
  if (cudaStreamQuery(run.user) == cudaErrorNotReady) ++run.still_running;
  std::vector<unsigned*> fresh(replacements);
  for (int i = 0; i < replacements; ++i) {
    const cudaStream_t stream = i % 2 == 0 ? run.filler : run.user;
    CUDA_CHECK(cudaMallocAsync(&fresh[i], run.words * sizeof(unsigned), stream));
    Fill(run, fresh[i], stream);
  }
  CUDA_CHECK(cudaStreamSynchronize(run.filler));
  CUDA_CHECK(cudaStreamSynchronize(run.user));
  for (int i = 0; i < replacements; ++i) {
    const cudaStream_t stream = i % 2 == 0 ? run.filler : run.user;
    Verify(run, fresh[i], stream);
    CUDA_CHECK(cudaFreeAsync(fresh[i], stream));
  }
  CUDA_CHECK(cudaDeviceSynchronize());
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "free_in_flight", "frees memory that a kernel still uses");
  const int rounds = static_cast<int>(options.Number("rounds", 4, "rounds of each way to free"));
  const int kib = static_cast<int>(options.Number("kib", 64, "KiB that the kernel uses"));
  const int passes = static_cast<int>(options.Number("passes", 80, "passes of the kernel over it"));
  const int replacements = static_cast<int>(options.Number("new", 6, "allocations after the free"));
  options.Finish();

  Run run;
  run.words = kib * 256;
  run.passes = passes;
  CUDA_CHECK(cudaStreamCreateWithFlags(&run.user, cudaStreamNonBlocking));
  CUDA_CHECK(cudaStreamCreateWithFlags(&run.filler, cudaStreamNonBlocking));
  CUDA_CHECK(cudaMalloc(&run.wrong, 2 * sizeof(unsigned)));
  CUDA_CHECK(cudaMemset(run.wrong, 0, 2 * sizeof(unsigned)));
  CUDA_CHECK(cudaDeviceSynchronize());
  for (int round = 0; round < rounds; ++round) {
    FreeRound(run, 2 * round, replacements);
    FreeAsyncRound(run, 2 * round + 1, replacements);
  }

  unsigned wrong[2];
  CUDA_CHECK(cudaMemcpy(wrong, run.wrong, sizeof(wrong), cudaMemcpyDeviceToHost));
  examples::Expect(wrong[0] == 0, "the kernel in flight read %u wrong words", wrong[0]);
  examples::Expect(wrong[1] == 0, "the new memory has %u wrong words", wrong[1]);
  CUDA_CHECK(cudaFree(run.wrong));
  CUDA_CHECK(cudaStreamDestroy(run.user));
  CUDA_CHECK(cudaStreamDestroy(run.filler));
  return examples::Report("%d rounds, in %d the kernel was still running after the free",
                          2 * rounds, run.still_running);
}
