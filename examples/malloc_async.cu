// Stream-ordered allocation: cudaMallocAsync and cudaFreeAsync on several streams, reuse within a
// stream, and memory handed from one stream to another by events.
#include <vector>

#include "check.h"

namespace {

constexpr int kStreams = 3;

__global__ void Fill(unsigned* memory, int words, unsigned tag) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < words) memory[i] = tag ^ (i * 2654435761u);
}

// Counts words that differ from what Fill wrote.
__global__ void Count(const unsigned* memory, int words, unsigned tag, unsigned* wrong) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < words && memory[i] != (tag ^ (i * 2654435761u))) atomicAdd(wrong, 1u);
}

int Blocks(int words) { return (words + 255) / 256; }

unsigned* Take(int words, cudaStream_t stream) {
  unsigned* memory;
  CUDA_CHECK(cudaMallocAsync(&memory, words * sizeof(unsigned), stream));
  return memory;
}

// Takes, fills, checks and gives back memory on one stream, without any wait in between.
void OwnStreamRound(int round, cudaStream_t* streams, unsigned* wrong) {
  for (int s = 0; s < kStreams; ++s) {
    const int words = 1000 + 7919 * ((round * kStreams + s) % 5);
    const unsigned tag = 77u * round + s;
    unsigned* memory = Take(words, streams[s]);
    Fill<<<Blocks(words), 256, 0, streams[s]>>>(memory, words, tag);
    Count<<<Blocks(words), 256, 0, streams[s]>>>(memory, words, tag, wrong);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaFreeAsync(memory, streams[s]));
  }
}

// Takes and fills memory on one stream, checks it and gives it back on the next one, in the order
// that events set. The taking stream goes on at once with other memory.
void HandOverRound(int round, cudaStream_t* streams, cudaEvent_t* events, unsigned* wrong) {
  const int words = 5000;
  for (int s = 0; s < kStreams; ++s) {
    const cudaStream_t from = streams[s], to = streams[(s + 1) % kStreams];
    const unsigned tag = 1000u + 13u * round + s;
    unsigned* memory = Take(words, from);
    Fill<<<Blocks(words), 256, 0, from>>>(memory, words, tag);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaEventRecord(events[s], from));
    CUDA_CHECK(cudaStreamWaitEvent(to, events[s], 0));
    Count<<<Blocks(words), 256, 0, to>>>(memory, words, tag, wrong);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaFreeAsync(memory, to));

    unsigned* other = Take(words, from);
    Fill<<<Blocks(words), 256, 0, from>>>(other, words, ~tag);
    Count<<<Blocks(words), 256, 0, from>>>(other, words, ~tag, wrong);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaFreeAsync(other, from));
  }
}

// Uses the other ways to give memory back: cudaFree of stream-ordered memory after a synchronize,
// and cudaFreeAsync of cudaMalloc's memory.
void MixedFree(cudaStream_t stream, unsigned* wrong) {
  const int words = 4096;
  unsigned* memory = Take(words, stream);
  Fill<<<Blocks(words), 256, 0, stream>>>(memory, words, 5);
  Count<<<Blocks(words), 256, 0, stream>>>(memory, words, 5, wrong);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CUDA_CHECK(cudaFree(memory));

  CUDA_CHECK(cudaMalloc(&memory, words * sizeof(unsigned)));
  Fill<<<Blocks(words), 256, 0, stream>>>(memory, words, 6);
  Count<<<Blocks(words), 256, 0, stream>>>(memory, words, 6, wrong);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaFreeAsync(memory, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

// Says how often memory given back on a stream is the next that the stream gets: native CUDA does
// so nearly always, but promises nothing, so it is a figure and not a check.
int CountReuse(cudaStream_t stream, int rounds) {
  int reused = 0;
  for (int i = 0; i < rounds; ++i) {
    unsigned* first = Take(4096, stream);
    CUDA_CHECK(cudaFreeAsync(first, stream));
    unsigned* second = Take(4096, stream);
    CUDA_CHECK(cudaFreeAsync(second, stream));
    if (first == second) ++reused;
  }
  CUDA_CHECK(cudaStreamSynchronize(stream));
  return reused;
}

// Memory of many allocations alive at once must not overlap.
void CheckManyAlive(cudaStream_t stream, int count, unsigned* wrong) {
  std::vector<unsigned*> memory(count);
  for (int i = 0; i < count; ++i) {
    memory[i] = Take(300 + i, stream);
    Fill<<<Blocks(300 + i), 256, 0, stream>>>(memory[i], 300 + i, i);
  }
  for (int i = 0; i < count; ++i) {
    Count<<<Blocks(300 + i), 256, 0, stream>>>(memory[i], 300 + i, i, wrong);
    CUDA_CHECK(cudaFreeAsync(memory[i], stream));
  }
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "malloc_async", "stream-ordered allocation");
  const int rounds = static_cast<int>(options.Number("rounds", 10, "rounds over all streams"));
  const int alive = static_cast<int>(options.Number("alive", 50, "allocations alive at once"));
  options.Finish();

  int supported = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  examples::Expect(supported == 1, "the device says that it has no memory pools");
  unsigned* wrong;
  cudaStream_t streams[kStreams];
  cudaEvent_t events[kStreams];
  CUDA_CHECK(cudaMalloc(&wrong, sizeof(unsigned)));
  CUDA_CHECK(cudaMemset(wrong, 0, sizeof(unsigned)));
  for (int s = 0; s < kStreams; ++s) {
    CUDA_CHECK(cudaStreamCreate(&streams[s]));
    CUDA_CHECK(cudaEventCreateWithFlags(&events[s], cudaEventDisableTiming));
  }
  for (int round = 0; round < rounds; ++round) {
    OwnStreamRound(round, streams, wrong);
    HandOverRound(round, streams, events, wrong);
  }
  CUDA_CHECK(cudaDeviceSynchronize());
  MixedFree(streams[0], wrong);
  CheckManyAlive(streams[1], alive, wrong);
  const int reused = CountReuse(streams[2], rounds);

  unsigned total_wrong;
  CUDA_CHECK(cudaMemcpy(&total_wrong, wrong, sizeof(unsigned), cudaMemcpyDeviceToHost));
  examples::Expect(total_wrong == 0, "%u words are wrong", total_wrong);
  for (int s = 0; s < kStreams; ++s) {
    CUDA_CHECK(cudaStreamDestroy(streams[s]));
    CUDA_CHECK(cudaEventDestroy(events[s]));
  }
  CUDA_CHECK(cudaFree(wrong));
  return examples::Report("%d rounds on %d streams, memory reused %d of %d times", rounds, kStreams,
                          reused, rounds);
}
