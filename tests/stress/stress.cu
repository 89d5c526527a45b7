// Many threads on many streams: kernels, copies, memsets, allocations, and events from each stream
// to others, in a random but seeded order. Every operation is also done to a mirror on the host, so
// the end shows a wrong word whatever the timing was; the checksum is the same natively and
// remotely.
//
// Each round, every stream works on its own words and then reads a snapshot that another stream, of
// another thread as a rule, made in the round before. Events alone order that: a reader waits for
// the snapshot's event, and a writer waits for the event of the stream that read the one it
// overwrites. Threads meet once a round on the host, because a wait sees only events that were
// recorded before it.
#include <cuda_runtime.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../examples/check.h"

namespace {

using examples::Fail;

__global__ void Mix(unsigned* words, unsigned a, unsigned b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) words[i] = words[i] * a + b + i;
}

__global__ void Absorb(unsigned* words, const unsigned* others, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) words[i] ^= others[n - 1 - i] * 2654435761u;
}

struct Settings {
  int threads, streams, rounds, operations, words;
  unsigned seed;
};

// What one stream owns. Only one thread uses it, except that others read the snapshots of the round
// before.
struct Chain {
  cudaStream_t stream = nullptr;
  unsigned* words = nullptr;     // Device.
  unsigned* snapshots[2] = {};   // Device, by the round's parity.
  cudaEvent_t finished[2] = {};  // The round of this parity is done.
  unsigned* pinned = nullptr;    // Host.
  std::vector<unsigned> mirror, mirrored_snapshots[2];
  std::mt19937 random;
};

Settings g_settings;
std::vector<Chain> g_chains;
pthread_barrier_t g_barrier;
std::atomic<long long> g_operations{0};

int Blocks(int n) { return (n + 127) / 128; }

// Returns the stream whose snapshot `reader` absorbs in a round: the same for all threads.
int SourceOf(int reader, int round) {
  const int n = g_settings.streams;
  return (reader + 1 + (round * 7 + static_cast<int>(g_settings.seed % 5)) % (n - 1)) % n;
}
int ReaderOf(int source, int round) {
  for (int reader = 0; reader < g_settings.streams; ++reader) {
    if (SourceOf(reader, round) == source) return reader;
  }
  return source;
}

void Open(Chain* chain, unsigned seed) {
  const size_t bytes = g_settings.words * sizeof(unsigned);
  chain->random.seed(seed);
  CUDA_CHECK(cudaStreamCreateWithFlags(&chain->stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaMalloc(&chain->words, bytes));
  CUDA_CHECK(cudaMallocHost(&chain->pinned, bytes));
  CUDA_CHECK(cudaMemsetAsync(chain->words, 0, bytes, chain->stream));
  chain->mirror.assign(g_settings.words, 0);
  for (int parity = 0; parity < 2; ++parity) {
    CUDA_CHECK(cudaMalloc(&chain->snapshots[parity], bytes));
    CUDA_CHECK(cudaMemsetAsync(chain->snapshots[parity], 0, bytes, chain->stream));
    CUDA_CHECK(cudaEventCreateWithFlags(&chain->finished[parity], cudaEventDisableTiming));
    CUDA_CHECK(cudaEventRecord(chain->finished[parity], chain->stream));
    chain->mirrored_snapshots[parity].assign(g_settings.words, 0);
  }
}

void MixMirror(std::vector<unsigned>* words, unsigned a, unsigned b) {
  for (size_t i = 0; i < words->size(); ++i) {
    (*words)[i] = (*words)[i] * a + b + static_cast<unsigned>(i);
  }
}

void Compare(const std::vector<unsigned>& expected, const unsigned* got, const char* what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (got[i] != expected[i]) {
      Fail("%s: word %zu is %08x, expected %08x", what, i, got[i], expected[i]);
    }
  }
}

// Does one random operation on the chain's words, and on their mirror.
void Operate(Chain* chain) {
  const int n = g_settings.words;
  const size_t bytes = n * sizeof(unsigned);
  const unsigned a = chain->random() | 1, b = chain->random();
  const int from = static_cast<int>(chain->random() % (n / 2)), count = n / 4;
  switch (chain->random() % 9) {
    case 0:
    case 1:
      Mix<<<Blocks(n), 128, 0, chain->stream>>>(chain->words, a, b, n);
      CUDA_CHECK_LAUNCH();
      MixMirror(&chain->mirror, a, b);
      break;
    case 2:
      CUDA_CHECK(cudaMemsetAsync(chain->words + from, b & 0xff, count * 4, chain->stream));
      for (int i = 0; i < count; ++i) chain->mirror[from + i] = (b & 0xff) * 0x01010101u;
      break;
    case 3: {  // Copies from pageable memory, which may go at once.
      std::vector<unsigned> source(count);
      for (int i = 0; i < count; ++i) source[i] = chain->mirror[from + i] = a + i * b;
      CUDA_CHECK(cudaMemcpyAsync(chain->words + from, source.data(), count * 4,
                                 cudaMemcpyHostToDevice, chain->stream));
      break;
    }
    case 4: {  // Copies from pinned memory, once its former use is over.
      CUDA_CHECK(cudaStreamSynchronize(chain->stream));
      for (int i = 0; i < count; ++i) chain->pinned[i] = chain->mirror[from + i] = b ^ (i * a);
      CUDA_CHECK(cudaMemcpyAsync(chain->words + from, chain->pinned, count * 4,
                                 cudaMemcpyHostToDevice, chain->stream));
      break;
    }
    case 5: {  // Goes through memory of the stream's own.
      unsigned* other = nullptr;
      CUDA_CHECK(cudaMallocAsync(&other, bytes, chain->stream));
      CUDA_CHECK(
          cudaMemcpyAsync(other, chain->words, bytes, cudaMemcpyDeviceToDevice, chain->stream));
      Mix<<<Blocks(n), 128, 0, chain->stream>>>(other, a, b, n);
      CUDA_CHECK_LAUNCH();
      CUDA_CHECK(
          cudaMemcpyAsync(chain->words, other, bytes, cudaMemcpyDeviceToDevice, chain->stream));
      CUDA_CHECK(cudaFreeAsync(other, chain->stream));
      MixMirror(&chain->mirror, a, b);
      break;
    }
    case 6: {  // Goes through memory that is freed while the work is in flight.
      unsigned* other = nullptr;
      CUDA_CHECK(cudaMalloc(&other, bytes));
      CUDA_CHECK(
          cudaMemcpyAsync(other, chain->words, bytes, cudaMemcpyDeviceToDevice, chain->stream));
      Mix<<<Blocks(n), 128, 0, chain->stream>>>(other, a, b, n);
      CUDA_CHECK_LAUNCH();
      CUDA_CHECK(
          cudaMemcpyAsync(chain->words, other, bytes, cudaMemcpyDeviceToDevice, chain->stream));
      CUDA_CHECK(cudaFree(other));
      MixMirror(&chain->mirror, a, b);
      break;
    }
    case 7: {  // Reads back and compares at once.
      CUDA_CHECK(cudaMemcpyAsync(chain->pinned, chain->words, bytes, cudaMemcpyDeviceToHost,
                                 chain->stream));
      CUDA_CHECK(cudaStreamSynchronize(chain->stream));
      Compare(chain->mirror, chain->pinned, "read back");
      break;
    }
    default: {  // Takes a detour over a second stream that does not outlive the operation.
      cudaStream_t detour = nullptr;
      cudaEvent_t there = nullptr, back = nullptr;
      CUDA_CHECK(cudaStreamCreateWithFlags(&detour, cudaStreamNonBlocking));
      CUDA_CHECK(cudaEventCreate(&there));
      CUDA_CHECK(cudaEventCreateWithFlags(&back, cudaEventDisableTiming));
      CUDA_CHECK(cudaEventRecord(there, chain->stream));
      CUDA_CHECK(cudaStreamWaitEvent(detour, there, 0));
      Mix<<<Blocks(n), 128, 0, detour>>>(chain->words, a, b, n);
      CUDA_CHECK_LAUNCH();
      CUDA_CHECK(cudaEventRecord(back, detour));
      CUDA_CHECK(cudaStreamWaitEvent(chain->stream, back, 0));
      const cudaError_t state = cudaEventQuery(back);
      if (state != cudaSuccess && state != cudaErrorNotReady) CUDA_CHECK(state);
      if (state == cudaErrorNotReady) cudaGetLastError();
      CUDA_CHECK(cudaStreamDestroy(detour));
      CUDA_CHECK(cudaEventDestroy(there));
      CUDA_CHECK(cudaEventDestroy(back));
      MixMirror(&chain->mirror, a, b);
      break;
    }
  }
  ++g_operations;
}

void Round(int index, int round) {
  Chain& chain = g_chains[index];
  const int n = g_settings.words, now = round % 2, before = 1 - now;
  for (int i = 0; i < g_settings.operations; ++i) Operate(&chain);
  Chain& source = g_chains[SourceOf(index, round)];
  CUDA_CHECK(cudaStreamWaitEvent(chain.stream, source.finished[before], 0));
  Absorb<<<Blocks(n), 128, 0, chain.stream>>>(chain.words, source.snapshots[before], n);
  CUDA_CHECK_LAUNCH();
  for (int i = 0; i < n; ++i) {
    chain.mirror[i] ^= source.mirrored_snapshots[before][n - 1 - i] * 2654435761u;
  }
  // The stream that read the snapshot that is overwritten now did so in the round before.
  if (round > 0) {
    const Chain& reader = g_chains[ReaderOf(index, round - 1)];
    CUDA_CHECK(cudaStreamWaitEvent(chain.stream, reader.finished[before], 0));
  }
  CUDA_CHECK(cudaMemcpyAsync(chain.snapshots[now], chain.words, n * 4, cudaMemcpyDeviceToDevice,
                             chain.stream));
  chain.mirrored_snapshots[now] = chain.mirror;
}

void Work(int thread) {
  CUDA_CHECK(cudaSetDevice(0));
  for (int round = 0; round < g_settings.rounds; ++round) {
    for (int i = thread; i < g_settings.streams; i += g_settings.threads) Round(i, round);
    pthread_barrier_wait(&g_barrier);
    // The events are recorded apart from the round: until here others still wait for what they
    // meant before.
    for (int i = thread; i < g_settings.streams; i += g_settings.threads) {
      CUDA_CHECK(cudaEventRecord(g_chains[i].finished[round % 2], g_chains[i].stream));
    }
    pthread_barrier_wait(&g_barrier);
  }
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "stress", "many threads, streams and events");
  g_settings.threads = static_cast<int>(options.Number("threads", 16, "host threads"));
  g_settings.streams = static_cast<int>(options.Number("streams", 64, "streams"));
  g_settings.rounds = static_cast<int>(options.Number("rounds", 20, "rounds"));
  g_settings.operations = static_cast<int>(options.Number("operations", 6, "in a round"));
  g_settings.words = static_cast<int>(options.Number("words", 4096, "words of a stream"));
  g_settings.seed = static_cast<unsigned>(options.Number("seed", 1, "of the random order"));
  options.Finish();
  if (g_settings.threads < 1 || g_settings.streams < 2 || g_settings.words < 4) {
    Fail("at least one thread, two streams and four words");
  }

  g_chains.resize(g_settings.streams);
  for (int i = 0; i < g_settings.streams; ++i) Open(&g_chains[i], g_settings.seed * 1000 + i);
  CUDA_CHECK(cudaDeviceSynchronize());
  pthread_barrier_init(&g_barrier, nullptr, static_cast<unsigned>(g_settings.threads));
  std::vector<std::thread> threads;
  for (int i = 0; i < g_settings.threads; ++i) threads.emplace_back(Work, i);
  for (std::thread& thread : threads) thread.join();
  CUDA_CHECK(cudaDeviceSynchronize());

  uint64_t checksum = 14695981039346656037ull;
  std::vector<unsigned> words(g_settings.words);
  for (int i = 0; i < g_settings.streams; ++i) {
    CUDA_CHECK(
        cudaMemcpy(words.data(), g_chains[i].words, words.size() * 4, cudaMemcpyDeviceToHost));
    Compare(g_chains[i].mirror, words.data(), ("stream " + std::to_string(i)).c_str());
    for (const unsigned word : words) checksum = (checksum ^ word) * 1099511628211ull;
    examples::Expect(true, "stream %d", i);
  }
  return examples::Report("checksum %016llx, %lld operations, %d threads, %d streams",
                          static_cast<unsigned long long>(checksum), g_operations.load(),
                          g_settings.threads, g_settings.streams);
}
