// Two devices in one program: kernels on both, copies from one to the other, an event of one that
// the other waits for, a kernel that reads its neighbour's memory, and memory of a pool that is
// shared with the neighbour. With fewer than two devices there is nothing to check, and it says so.
#include <vector>

#include "check.h"

namespace {

constexpr int kThreads = 256;

__device__ unsigned g_step;  // Each device has its own.

__global__ void Count(unsigned* out, unsigned first, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = first + i * g_step;
}

__global__ void AddFrom(unsigned* out, const unsigned* neighbours, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += neighbours[i];
}

unsigned Blocks(unsigned n) { return (n + kThreads - 1) / kThreads; }

struct Side {
  int device;
  unsigned step;
  unsigned* memory;
  cudaStream_t stream;
  cudaEvent_t done;
};

void Prepare(Side* side, int device, unsigned n) {
  side->device = device;
  side->step = device == 0 ? 3 : 5;
  CUDA_CHECK(cudaSetDevice(device));
  CUDA_CHECK(cudaMalloc(&side->memory, n * sizeof(unsigned)));
  CUDA_CHECK(cudaStreamCreateWithFlags(&side->stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaEventCreateWithFlags(&side->done, cudaEventDisableTiming));
  CUDA_CHECK(cudaMemcpyToSymbol(g_step, &side->step, sizeof(unsigned)));
}

void Release(const Side& side) {
  CUDA_CHECK(cudaSetDevice(side.device));
  CUDA_CHECK(cudaEventDestroy(side.done));
  CUDA_CHECK(cudaStreamDestroy(side.stream));
  CUDA_CHECK(cudaFree(side.memory));
}

void Fill(const Side& side, unsigned first, unsigned n) {
  CUDA_CHECK(cudaSetDevice(side.device));
  Count<<<Blocks(n), kThreads, 0, side.stream>>>(side.memory, first, n);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaEventRecord(side.done, side.stream));
}

// Checks that word i of `memory` is first + i * step.
void ExpectCount(const char* what, const unsigned* memory, unsigned first, unsigned step,
                 unsigned n) {
  std::vector<unsigned> words(n);
  CUDA_CHECK(cudaMemcpy(words.data(), memory, n * sizeof(unsigned), cudaMemcpyDefault));
  unsigned wrong = 0;
  for (unsigned i = 0; i < n; ++i) wrong += words[i] != first + i * step ? 1 : 0;
  examples::Expect(wrong == 0, "%s: %u of %u words are wrong", what, wrong, n);
}

void CopyBetween(const Side& from, const Side& to, unsigned n) {
  Fill(from, 100, n);
  CUDA_CHECK(cudaSetDevice(to.device));
  CUDA_CHECK(cudaStreamWaitEvent(to.stream, from.done, 0));
  CUDA_CHECK(cudaMemcpyPeerAsync(to.memory, to.device, from.memory, from.device,
                                 n * sizeof(unsigned), to.stream));
  CUDA_CHECK(cudaStreamSynchronize(to.stream));
  ExpectCount("peer copy", to.memory, 100, from.step, n);
  Fill(from, 200, n);
  CUDA_CHECK(cudaStreamSynchronize(from.stream));
  CUDA_CHECK(cudaMemcpyPeer(to.memory, to.device, from.memory, from.device, n * sizeof(unsigned)));
  ExpectCount("synchronous peer copy", to.memory, 200, from.step, n);
}

// Runs a kernel on `reader` that reads memory of `owner`, once that has written it.
void ReadNeighbour(const Side& owner, const Side& reader, const unsigned* owners, unsigned n) {
  CUDA_CHECK(cudaSetDevice(reader.device));
  CUDA_CHECK(cudaStreamWaitEvent(reader.stream, owner.done, 0));
  AddFrom<<<Blocks(n), kThreads, 0, reader.stream>>>(reader.memory, owners, n);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaStreamSynchronize(reader.stream));
}

void ShareMemory(const Side& owner, const Side& reader, unsigned n) {
  CUDA_CHECK(cudaSetDevice(reader.device));
  CUDA_CHECK(cudaDeviceEnablePeerAccess(owner.device, 0));
  examples::Expect(cudaDeviceEnablePeerAccess(owner.device, 0) == cudaErrorPeerAccessAlreadyEnabled,
                   "peer access could be enabled twice");
  cudaGetLastError();
  Fill(reader, 1000, n);
  Fill(owner, 7, n);
  ReadNeighbour(owner, reader, owner.memory, n);
  ExpectCount("neighbour's memory", reader.memory, 1007, owner.step + reader.step, n);

  cudaMemPool_t pool;
  CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool, owner.device));
  cudaMemAccessDesc access = {};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = reader.device;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  CUDA_CHECK(cudaMemPoolSetAccess(pool, &access, 1));
  CUDA_CHECK(cudaSetDevice(owner.device));
  unsigned* pooled;
  CUDA_CHECK(cudaMallocAsync(&pooled, n * sizeof(unsigned), owner.stream));
  Count<<<Blocks(n), kThreads, 0, owner.stream>>>(pooled, 9, n);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaEventRecord(owner.done, owner.stream));
  ReadNeighbour(owner, reader, pooled, n);
  ExpectCount("neighbour's pool", reader.memory, 1016, 2 * owner.step + reader.step, n);
  CUDA_CHECK(cudaSetDevice(owner.device));
  CUDA_CHECK(cudaFreeAsync(pooled, owner.stream));
  CUDA_CHECK(cudaStreamSynchronize(owner.stream));
  CUDA_CHECK(cudaSetDevice(reader.device));
  CUDA_CHECK(cudaDeviceDisablePeerAccess(owner.device));
}

// Checks what belongs to a device: pointers tell whose they are, and streams record no other
// device's events.
void CheckOwnership(const Side& first, const Side& second) {
  for (const Side* side : {&first, &second}) {
    cudaPointerAttributes attributes;
    CUDA_CHECK(cudaPointerGetAttributes(&attributes, side->memory));
    examples::Expect(attributes.device == side->device, "a pointer of device %d says %d",
                     side->device, attributes.device);
  }
  CUDA_CHECK(cudaSetDevice(first.device));
  examples::Expect(cudaEventRecord(first.done, second.stream) == cudaErrorInvalidResourceHandle,
                   "a stream recorded another device's event");
  cudaGetLastError();
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "two_devices", "what crosses from one device to another");
  const auto n = static_cast<unsigned>(options.Number("words", 100000, "of each device's memory"));
  options.Finish();
  if (n < 1) examples::Fail("--words must be at least 1");

  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  if (count < 2) return examples::Report("skipped: %d device", count);
  Side first, second;
  Prepare(&first, 0, n);
  Prepare(&second, 1, n);
  // Works on both at once.
  Fill(first, 1, n);
  Fill(second, 2, n);
  for (const Side* side : {&first, &second}) {
    CUDA_CHECK(cudaSetDevice(side->device));
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  ExpectCount("first device", first.memory, 1, first.step, n);
  ExpectCount("second device", second.memory, 2, second.step, n);
  CopyBetween(first, second, n);
  CopyBetween(second, first, n);
  CheckOwnership(first, second);
  int reaches = 0;
  CUDA_CHECK(cudaDeviceCanAccessPeer(&reaches, 1, 0));
  if (reaches != 0) ShareMemory(first, second, n);
  Release(first);
  Release(second);
  return examples::Report("%d devices, %u words each, peers: %s", count, n,
                          reaches != 0 ? "yes" : "no");
}
