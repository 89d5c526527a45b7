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
struct Lane {
  cudaStream_t stream = nullptr;
  unsigned* words = nullptr;     // Device.
  unsigned* snapshots[2] = {};   // Device, by the round's parity.
  cudaEvent_t finished[2] = {};  // The round of this parity is done.
  unsigned* pinned = nullptr;    // Host.
  std::vector<unsigned> mirror, mirrored_snapshots[2];
  std::mt19937 random;
};

Settings g_settings;
std::vector<Lane> g_lanes;
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

void Open(Lane* lane, unsigned seed) {
  const size_t bytes = g_settings.words * sizeof(unsigned);
  lane->random.seed(seed);
  CUDA_CHECK(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaMalloc(&lane->words, bytes));
  CUDA_CHECK(cudaMallocHost(&lane->pinned, bytes));
  CUDA_CHECK(cudaMemsetAsync(lane->words, 0, bytes, lane->stream));
  lane->mirror.assign(g_settings.words, 0);
  for (int parity = 0; parity < 2; ++parity) {
    CUDA_CHECK(cudaMalloc(&lane->snapshots[parity], bytes));
    CUDA_CHECK(cudaMemsetAsync(lane->snapshots[parity], 0, bytes, lane->stream));
    CUDA_CHECK(cudaEventCreateWithFlags(&lane->finished[parity], cudaEventDisableTiming));
    CUDA_CHECK(cudaEventRecord(lane->finished[parity], lane->stream));
    lane->mirrored_snapshots[parity].assign(g_settings.words, 0);
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

// Does one random operation on the lane's words, and on their mirror.
void Operate(Lane* lane) {
  const int n = g_settings.words;
  const size_t bytes = n * sizeof(unsigned);
  const unsigned a = lane->random() | 1, b = lane->random();
  const int from = static_cast<int>(lane->random() % (n / 2)), count = n / 4;
  switch (lane->random() % 9) {
    case 0:
    case 1:
      Mix<<<Blocks(n), 128, 0, lane->stream>>>(lane->words, a, b, n);
      CUDA_CHECK_LAUNCH();
      MixMirror(&lane->mirror, a, b);
      break;
    case 2:
      CUDA_CHECK(cudaMemsetAsync(lane->words + from, b & 0xff, count * 4, lane->stream));
      for (int i = 0; i < count; ++i) lane->mirror[from + i] = (b & 0xff) * 0x01010101u;
      break;
    case 3: {  // Copies from pageable memory, which may go at once.
      std::vector<unsigned> source(count);
      for (int i = 0; i < count; ++i) source[i] = lane->mirror[from + i] = a + i * b;
      CUDA_CHECK(cudaMemcpyAsync(lane->words + from, source.data(), count * 4,
                                 cudaMemcpyHostToDevice, lane->stream));
      break;
    }
    case 4: {  // Copies from pinned memory, once its former use is over.
      CUDA_CHECK(cudaStreamSynchronize(lane->stream));
      for (int i = 0; i < count; ++i) lane->pinned[i] = lane->mirror[from + i] = b ^ (i * a);
      CUDA_CHECK(cudaMemcpyAsync(lane->words + from, lane->pinned, count * 4,
                                 cudaMemcpyHostToDevice, lane->stream));
      break;
    }
    case 5: {  // Goes through memory of the stream's own.
      unsigned* other = nullptr;
      CUDA_CHECK(cudaMallocAsync(&other, bytes, lane->stream));
      CUDA_CHECK(
          cudaMemcpyAsync(other, lane->words, bytes, cudaMemcpyDeviceToDevice, lane->stream));
      Mix<<<Blocks(n), 128, 0, lane->stream>>>(other, a, b, n);
      CUDA_CHECK_LAUNCH();
      CUDA_CHECK(
          cudaMemcpyAsync(lane->words, other, bytes, cudaMemcpyDeviceToDevice, lane->stream));
      CUDA_CHECK(cudaFreeAsync(other, lane->stream));
      MixMirror(&lane->mirror, a, b);
      break;
    }
    case 6: {  // Goes through memory that is freed while the work is in flight.
      unsigned* other = nullptr;
      CUDA_CHECK(cudaMalloc(&other, bytes));
      CUDA_CHECK(
          cudaMemcpyAsync(other, lane->words, bytes, cudaMemcpyDeviceToDevice, lane->stream));
      Mix<<<Blocks(n), 128, 0, lane->stream>>>(other, a, b, n);
      CUDA_CHECK_LAUNCH();
      CUDA_CHECK(
          cudaMemcpyAsync(lane->words, other, bytes, cudaMemcpyDeviceToDevice, lane->stream));
      CUDA_CHECK(cudaFree(other));
      MixMirror(&lane->mirror, a, b);
      break;
    }
    case 7: {  // Reads back and compares at once.
      CUDA_CHECK(
          cudaMemcpyAsync(lane->pinned, lane->words, bytes, cudaMemcpyDeviceToHost, lane->stream));
      CUDA_CHECK(cudaStreamSynchronize(lane->stream));
      Compare(lane->mirror, lane->pinned, "read back");
      break;
    }
    default: {  // Takes a detour over a second stream that does not outlive the operation.
      cudaStream_t detour = nullptr;
      cudaEvent_t there = nullptr, back = nullptr;
      CUDA_CHECK(cudaStreamCreateWithFlags(&detour, cudaStreamNonBlocking));
      CUDA_CHECK(cudaEventCreate(&there));
      CUDA_CHECK(cudaEventCreateWithFlags(&back, cudaEventDisableTiming));
      CUDA_CHECK(cudaEventRecord(there, lane->stream));
      CUDA_CHECK(cudaStreamWaitEvent(detour, there, 0));
      Mix<<<Blocks(n), 128, 0, detour>>>(lane->words, a, b, n);
      CUDA_CHECK_LAUNCH();
      CUDA_CHECK(cudaEventRecord(back, detour));
      CUDA_CHECK(cudaStreamWaitEvent(lane->stream, back, 0));
      const cudaError_t state = cudaEventQuery(back);
      if (state != cudaSuccess && state != cudaErrorNotReady) CUDA_CHECK(state);
      if (state == cudaErrorNotReady) cudaGetLastError();
      CUDA_CHECK(cudaStreamDestroy(detour));
      CUDA_CHECK(cudaEventDestroy(there));
      CUDA_CHECK(cudaEventDestroy(back));
      MixMirror(&lane->mirror, a, b);
      break;
    }
  }
  ++g_operations;
}

void Round(int index, int round) {
  Lane& lane = g_lanes[index];
  const int n = g_settings.words, now = round % 2, before = 1 - now;
  for (int i = 0; i < g_settings.operations; ++i) Operate(&lane);
  Lane& source = g_lanes[SourceOf(index, round)];
  CUDA_CHECK(cudaStreamWaitEvent(lane.stream, source.finished[before], 0));
  Absorb<<<Blocks(n), 128, 0, lane.stream>>>(lane.words, source.snapshots[before], n);
  CUDA_CHECK_LAUNCH();
  for (int i = 0; i < n; ++i) {
    lane.mirror[i] ^= source.mirrored_snapshots[before][n - 1 - i] * 2654435761u;
  }
  // The stream that read the snapshot that is overwritten now did so in the round before.
  if (round > 0) {
    const Lane& reader = g_lanes[ReaderOf(index, round - 1)];
    CUDA_CHECK(cudaStreamWaitEvent(lane.stream, reader.finished[before], 0));
  }
  CUDA_CHECK(cudaMemcpyAsync(lane.snapshots[now], lane.words, n * 4, cudaMemcpyDeviceToDevice,
                             lane.stream));
  lane.mirrored_snapshots[now] = lane.mirror;
}

void Work(int thread) {
  CUDA_CHECK(cudaSetDevice(0));
  for (int round = 0; round < g_settings.rounds; ++round) {
    for (int i = thread; i < g_settings.streams; i += g_settings.threads) Round(i, round);
    pthread_barrier_wait(&g_barrier);
    // The events are recorded apart from the round: until here others still wait for what they
    // meant before.
    for (int i = thread; i < g_settings.streams; i += g_settings.threads) {
      CUDA_CHECK(cudaEventRecord(g_lanes[i].finished[round % 2], g_lanes[i].stream));
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

  g_lanes.resize(g_settings.streams);
  for (int i = 0; i < g_settings.streams; ++i) Open(&g_lanes[i], g_settings.seed * 1000 + i);
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
        cudaMemcpy(words.data(), g_lanes[i].words, words.size() * 4, cudaMemcpyDeviceToHost));
    Compare(g_lanes[i].mirror, words.data(), ("stream " + std::to_string(i)).c_str());
    for (const unsigned word : words) checksum = (checksum ^ word) * 1099511628211ull;
    examples::Expect(true, "stream %d", i);
  }
  return examples::Report("checksum %016llx, %lld operations, %d threads, %d streams",
                          static_cast<unsigned long long>(checksum), g_operations.load(),
                          g_settings.threads, g_settings.streams);
}
