// Managed memory and managed variables: one pointer for host code and kernels.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "setting.h"

__managed__ unsigned managed_counter = 5;
__managed__ unsigned managed_table[5000];
__device__ unsigned plain_variable = 3;

namespace conformance {
namespace {

constexpr unsigned kWords = 1 << 18;
constexpr size_t kBytes = kWords * sizeof(unsigned);

__global__ void Affine(unsigned* out, const unsigned* in, unsigned a, unsigned b, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * in[i] + b;
}

__global__ void CountUp(unsigned times) {
  for (unsigned i = 0; i < times; ++i) atomicAdd(&managed_counter, 1u);
  for (unsigned i = threadIdx.x; i < 5000; i += blockDim.x) managed_table[i] += i;
}

__global__ void FollowList(unsigned** list, unsigned* sum) {
  for (int i = 0; list[i] != nullptr; ++i) *sum += *list[i];
}

unsigned WrongWords(const unsigned* words, unsigned first, unsigned step) {
  unsigned wrong = 0;
  for (unsigned i = 0; i < kWords; ++i) wrong += words[i] != first + i * step;
  return wrong;
}

unsigned* Managed(unsigned flags = CU_MEM_ATTACH_GLOBAL) {
  CUdeviceptr memory = 0;
  Mark("cuMemAllocManaged", "setup");
  if (!Setup(CU(cuMemAllocManaged)(&memory, kBytes, flags))) return nullptr;
  return reinterpret_cast<unsigned*>(memory);
}

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

void Double(unsigned* words, cudaStream_t stream = nullptr) {
  Affine<<<kWords / 256, 256, 0, stream>>>(words, words, 2, 0, kWords);
}

void Allocated() {
  if (!Begin()) return;
  CUdeviceptr memory = 0;
  CALL("1 MiB", CUDA_SUCCESS, cuMemAllocManaged, &memory, kBytes, CU_MEM_ATTACH_GLOBAL);
  auto* words = reinterpret_cast<unsigned*>(memory);
  for (unsigned i = 0; i < kWords; ++i) words[i] = i;
  Affine<<<kWords / 256, 256>>>(words, words, 3, 5, kWords);
  SETUP(cuCtxSynchronize);
  unsigned wrong = WrongWords(words, 5, 3);
  HOLDS(cuMemAllocManaged, "kernels read and write it", wrong == 0, "%u wrong words", wrong);
  // A few words here and there, round after round.
  wrong = 0;
  for (unsigned round = 1; round <= 5; ++round) {
    words[round * 10000] = round;
    Affine<<<kWords / 256, 256>>>(words, words, 1, 1, kWords);
    CU(cuCtxSynchronize)();
    wrong += words[round * 10000] != round + 1;
    wrong += words[kWords - 1] != 5 + (kWords - 1) * 3 + round;
  }
  HOLDS(cuMemAllocManaged, "rounds of single words", wrong == 0, "%u wrong", wrong);
  CALL("no size", CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, &memory, 0, CU_MEM_ATTACH_GLOBAL);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, nullptr, kBytes,
       CU_MEM_ATTACH_GLOBAL);
  CALL("no flags", CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, &memory, kBytes, 0);
  CALL("attached to one stream", CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, &memory, kBytes,
       CU_MEM_ATTACH_SINGLE);
  CUdeviceptr base = 0;
  size_t size = 0;
  CALL("managed", CUDA_SUCCESS, cuMemGetAddressRange, &base, &size, Address(words + 10));
  EQUAL(cuMemGetAddressRange, "base of managed memory", base, Address(words));
  EQUAL(cuMemGetAddressRange, "size of managed memory", size, kBytes);
  CALL("managed", CUDA_SUCCESS, cuMemFree, Address(words));
  CALL("managed, twice", CUDA_ERROR_INVALID_VALUE, cuMemFree, Address(words));
}

template <typename T>
T Attribute(CUpointer_attribute id, const char* name, CUdeviceptr address) {
  T value = {};
  CALL(name, CUDA_SUCCESS, cuPointerGetAttribute, &value, id, address);
  return value;
}

void Attributes() {
  if (!Begin()) return;
  unsigned* words = Managed();
  if (words == nullptr) return;
  const CUdeviceptr inside = Address(words) + 40;
  EQUAL(cuPointerGetAttribute, "is managed",
        Attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, "IS_MANAGED, managed", inside) & 0xff,
        1);
  EQUAL(cuPointerGetAttribute, "managed memory on the device",
        Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, "DEVICE_POINTER, managed", inside),
        inside);
  EQUAL(cuPointerGetAttribute, "managed memory on the host",
        Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_HOST_POINTER, "HOST_POINTER, managed", inside),
        inside);
  EQUAL(cuPointerGetAttribute, "managed memory's start",
        Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "RANGE_START_ADDR, managed",
                            inside),
        Address(words));
  EQUAL(cuPointerGetAttribute, "managed memory's size",
        Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, "RANGE_SIZE, managed", inside),
        kBytes);
  cudaPointerAttributes attributes = {};
  HOLDS(cudaPointerGetAttributes, "works on managed memory",
        cudaPointerGetAttributes(&attributes, words) == cudaSuccess, "fails");
  EQUAL(cudaPointerGetAttributes, "managed memory", attributes.type, cudaMemoryTypeManaged);
  HOLDS(cudaPointerGetAttributes, "both pointers",
        attributes.devicePointer == words && attributes.hostPointer == words, "%p and %p",
        attributes.devicePointer, attributes.hostPointer);
  int value = 0;
  CALL("managed memory", CUDA_SUCCESS, cuDeviceGetAttribute, &value,
       CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0);
  EQUAL(cuDeviceGetAttribute, "has managed memory", value, 1);
}

void Copies() {
  if (!Begin()) return;
  unsigned *words = Managed(), *other = Managed();
  CUdeviceptr linear = 0;
  if (words == nullptr || other == nullptr) return;
  SETUP(cuMemAlloc, &linear, kBytes);
  std::vector<unsigned> plain(kWords);
  for (unsigned i = 0; i < kWords; ++i) words[i] = i;
  CALL("managed to managed", CUDA_SUCCESS, cuMemcpy, Address(other), Address(words), kBytes);
  unsigned wrong = WrongWords(other, 0, 1);
  HOLDS(cuMemcpy, "managed to managed arrives", wrong == 0, "%u wrong words", wrong);
  Double(other);
  CALL("managed to plain", CUDA_SUCCESS, cuMemcpyDtoH, plain.data(), Address(other), kBytes);
  wrong = WrongWords(plain.data(), 0, 2);
  HOLDS(cuMemcpyDtoH, "managed to plain arrives", wrong == 0, "%u wrong words", wrong);
  other[9] = 1;
  CALL("managed to linear", CUDA_SUCCESS, cuMemcpyHtoD, linear, other, kBytes);
  CALL("linear to plain", CUDA_SUCCESS, cuMemcpyDtoH, plain.data(), linear, kBytes);
  EQUAL(cuMemcpyHtoD, "managed to linear arrives", plain[9], 1u);
  plain[11] = 2;
  CALL("plain to managed", CUDA_SUCCESS, cuMemcpyHtoD, Address(words), plain.data(), kBytes);
  EQUAL(cuMemcpyHtoD, "plain to managed arrives", words[11], 2u);
  CALL("a part of managed memory", CUDA_SUCCESS, cuMemsetD8, Address(words) + 4, 1, 4);
  CU(cuCtxSynchronize)();
  HOLDS(cuMemsetD8, "a part of managed memory is set",
        words[1] == 0x01010101u && words[0] == 0 && words[2] == 4, "%x %x %x", words[0], words[1],
        words[2]);
}

// Memory that is attached to the host stays there while kernels run.
void Attached() {
  if (!Begin()) return;
  unsigned *mine = Managed(CU_MEM_ATTACH_HOST), *words = Managed();
  CUstream stream = nullptr;
  if (mine == nullptr || words == nullptr) return;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  for (unsigned i = 0; i < kWords; ++i) mine[i] = words[i] = i;
  Double(words, stream);
  mine[5] = 50;
  CU(cuStreamSynchronize)(stream);
  EQUAL(cuMemAllocManaged, "the host's own", mine[5], 50u);
  CALL("to a stream", CUDA_SUCCESS, cuStreamAttachMemAsync, stream, Address(mine), 0,
       CU_MEM_ATTACH_SINGLE);
  CU(cuStreamSynchronize)(stream);
  Double(mine, stream);
  CU(cuStreamSynchronize)(stream);
  HOLDS(cuStreamAttachMemAsync, "kernels of the stream use it", mine[5] == 100 && mine[6] == 12,
        "%u and %u", mine[5], mine[6]);
  CALL("to all", CUDA_SUCCESS, cuStreamAttachMemAsync, stream, Address(mine), 0,
       CU_MEM_ATTACH_GLOBAL);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, stream, Address(mine), 0,
       9);
  CUdeviceptr linear = 0;
  SETUP(cuMemAlloc, &linear, 4096);
  CALL("memory that is not managed", CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, stream,
       linear, 0, CU_MEM_ATTACH_GLOBAL);
}

// The second of two launches of a graph must see what the host wrote in between.
void InGraphs() {
  if (!Begin()) return;
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  unsigned* words = Managed();
  if (words == nullptr) return;
  for (unsigned i = 0; i < kWords; ++i) words[i] = i;
  SETUP(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  Double(words, stream);
  words[1] = 100;
  SETUP(cuStreamEndCapture, stream, &graph);
  EQUAL(cuMemAllocManaged, "a capture leaves it with the host", words[1], 100u);
  SETUP(cuGraphInstantiateWithFlags, &executable, graph, 0);
  unsigned wrong = 0;
  for (unsigned round = 1; round <= 4; ++round) {
    words[1] = round;
    CU(cuGraphLaunch)(executable, stream);
    CU(cuStreamSynchronize)(stream);
    wrong += words[1] != 2 * round;
    wrong += words[kWords - 1] != (kWords - 1) << round;
  }
  HOLDS(cuGraphLaunch, "managed memory, written between launches", wrong == 0, "%u wrong", wrong);
  CALL("executable", CUDA_SUCCESS, cuGraphExecDestroy, executable);
  CALL("graph", CUDA_SUCCESS, cuGraphDestroy, graph);
  CALL("1 MiB", CUDA_SUCCESS, cuMemFree, Address(words));
}

int RangeWord(CUmem_range_attribute attribute, const void* at, size_t bytes) {
  int value = 77;
  CALL("a word", CUDA_SUCCESS, cuMemRangeGetAttribute, &value, sizeof(value), attribute,
       Address(at), bytes);
  return value;
}

constexpr CUmemLocation kOnDevice = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
constexpr CUmemLocation kOnHost = {CU_MEM_LOCATION_TYPE_HOST, 0};

void Advised() {
  if (!Begin()) return;
  unsigned* words = Managed();
  CUdeviceptr linear = 0;
  if (words == nullptr) return;
  SETUP(cuMemAlloc, &linear, 4096);
  const size_t half = kBytes / 2;
  EQUAL(cuMemRangeGetAttribute, "no advice at first",
        RangeWord(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, words, kBytes), 0);
  EQUAL(cuMemRangeGetAttribute, "no place at first",
        RangeWord(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, words, kBytes), CU_DEVICE_INVALID);
  EQUAL(cuMemRangeGetAttribute, "no prefetch at first",
        RangeWord(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, words, kBytes), CU_DEVICE_INVALID);
  CALL("read mostly", CUDA_SUCCESS, cuMemAdvise, Address(words), half,
       CU_MEM_ADVISE_SET_READ_MOSTLY, kOnDevice);
  EQUAL(cuMemAdvise, "half is read mostly",
        RangeWord(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, words, half), 1);
  EQUAL(cuMemAdvise, "not all is read mostly",
        RangeWord(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, words, kBytes), 0);
  CALL("read mostly no more", CUDA_SUCCESS, cuMemAdvise, Address(words), kBytes,
       CU_MEM_ADVISE_UNSET_READ_MOSTLY, kOnDevice);
  EQUAL(cuMemAdvise, "nothing is read mostly",
        RangeWord(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, words, half), 0);
  CALL("prefers the device", CUDA_SUCCESS, cuMemAdvise, Address(words), kBytes,
       CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kOnDevice);
  EQUAL(cuMemAdvise, "the device is preferred",
        RangeWord(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, words, kBytes), 0);
  EQUAL(cuMemAdvise, "type of the preferred place",
        RangeWord(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, words, kBytes),
        CU_MEM_LOCATION_TYPE_DEVICE);
  CALL("prefers the host", CUDA_SUCCESS, cuMemAdvise, Address(words), kBytes,
       CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kOnHost);
  EQUAL(cuMemAdvise, "the host is preferred",
        RangeWord(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, words, kBytes), CU_DEVICE_CPU);
  CALL("prefers nothing", CUDA_SUCCESS, cuMemAdvise, Address(words), kBytes,
       CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, kOnDevice);
  CALL("accessed by the device", CUDA_SUCCESS, cuMemAdvise, Address(words), kBytes,
       CU_MEM_ADVISE_SET_ACCESSED_BY, kOnDevice);
  int devices[3] = {77, 77, 77}, read_mostly = 77;
  void* data[] = {devices, &read_mostly};
  size_t sizes[] = {sizeof(devices), sizeof(read_mostly)};
  CUmem_range_attribute attributes[] = {CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                        CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY};
  CALL("two", CUDA_SUCCESS, cuMemRangeGetAttributes, data, sizes, attributes, 2, Address(words),
       kBytes);
  HOLDS(cuMemRangeGetAttributes, "who accesses it",
        devices[0] == 0 && devices[1] == CU_DEVICE_INVALID && devices[2] == CU_DEVICE_INVALID &&
            read_mostly == 0,
        "%d %d %d, %d", devices[0], devices[1], devices[2], read_mostly);
  CALL("of one, no size", CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, devices, 3,
       CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, Address(words), kBytes);
  CALL("unknown", CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, devices, 4,
       static_cast<CUmem_range_attribute>(99), Address(words), kBytes);
  CALL("of no managed memory", CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute, devices, 4,
       CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, linear, 4096);
  CALL("of no managed memory", CUDA_ERROR_INVALID_VALUE, cuMemAdvise, linear, 4096,
       CU_MEM_ADVISE_SET_READ_MOSTLY, kOnDevice);
  CALL("no size", CUDA_ERROR_INVALID_VALUE, cuMemAdvise, Address(words), 0,
       CU_MEM_ADVISE_SET_READ_MOSTLY, kOnDevice);
  CALL("unknown", CUDA_ERROR_INVALID_VALUE, cuMemAdvise, Address(words), kBytes,
       static_cast<CUmem_advise>(99), kOnDevice);
  CALL("no such device", CUDA_ERROR_INVALID_VALUE, cuMemAdvise, Address(words), kBytes,
       CU_MEM_ADVISE_SET_ACCESSED_BY, CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, 4711});
}

void Prefetched() {
  if (!Begin()) return;
  unsigned* words = Managed();
  CUstream stream = nullptr;
  CUdeviceptr linear = 0;
  if (words == nullptr) return;
  SETUP(cuMemAlloc, &linear, 4096);
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  unsigned wrong = 0;
  for (unsigned round = 0; round < 4; ++round) {
    for (unsigned i = 0; i < kWords; ++i) words[i] = i + round;
    CALL("to the device", CUDA_SUCCESS, cuMemPrefetchAsync, Address(words), kBytes, kOnDevice, 0,
         stream);
    Double(words, stream);
    CALL("to the host", CUDA_SUCCESS, cuMemPrefetchAsync, Address(words), kBytes, kOnHost, 0,
         stream);
    // A kernel behind a prefetch counts all the same.
    if (round % 2 == 1) Double(words, stream);
    CU(cuStreamSynchronize)(stream);
    const unsigned factor = round % 2 == 1 ? 4 : 2;
    wrong += WrongWords(words, factor * round, factor);
  }
  HOLDS(cuMemPrefetchAsync, "there and back", wrong == 0, "%u wrong words", wrong);
  EQUAL(cuMemPrefetchAsync, "the last place",
        RangeWord(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, words, kBytes), CU_DEVICE_CPU);
  CALL("no size", CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync, Address(words), 0, kOnDevice, 0,
       stream);
  CALL("flags", CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync, Address(words), kBytes, kOnDevice, 1,
       stream);
  CALL("no such device", CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync, Address(words), kBytes,
       CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, 4711}, 0, stream);
  CALL("no managed memory", CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync, linear, 4096, kOnDevice,
       0, stream);
  HOLDS(cudaMemPrefetchAsync, "of the runtime",
        cudaMemPrefetchAsync(words, kBytes, cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0,
                             stream) == cudaSuccess,
        "fails");
  CUdeviceptr address = Address(words);
  size_t size = kBytes, first = 0;
  CUmemLocation to = kOnDevice;
  for (unsigned i = 0; i < kWords; ++i) words[i] = i;
  CALL("a batch", CUDA_SUCCESS, cuMemPrefetchBatchAsync, &address, &size, 1, &to, &first, 1, 0,
       stream);
  Double(words, stream);
  CU(cuStreamSynchronize)(stream);
  wrong = WrongWords(words, 0, 2);
  HOLDS(cuMemPrefetchBatchAsync, "a batch moves nothing else", wrong == 0, "%u wrong words", wrong);
  CALL("discarded", CUDA_SUCCESS, cuMemDiscardBatchAsync, &address, &size, 1, 0, stream);
  CALL("discarded and prefetched", CUDA_SUCCESS, cuMemDiscardAndPrefetchBatchAsync, &address, &size,
       1, &to, &first, 1, 0, stream);
  CU(cuStreamSynchronize)(stream);
  for (unsigned i = 0; i < kWords; ++i) words[i] = 3 * i;
  Double(words, stream);
  CU(cuStreamSynchronize)(stream);
  wrong = WrongWords(words, 0, 6);
  HOLDS(cuMemDiscardBatchAsync, "written after it", wrong == 0, "%u wrong words", wrong);
  CALL("no batch", CUDA_ERROR_INVALID_VALUE, cuMemPrefetchBatchAsync, &address, &size, 0, &to,
       &first, 1, 0, stream);
  CALL("on the legacy stream", CUDA_ERROR_INVALID_VALUE, cuMemPrefetchBatchAsync, &address, &size,
       1, &to, &first, 1, 0, nullptr);
}

void Variables() {
  if (!Begin()) return;
  EQUAL(cuLibraryGetManaged, "a managed variable's first value", managed_counter, 5u);
  EQUAL(cuLibraryGetManaged, "one without", managed_table[4999], 0u);
  managed_counter = 100;
  managed_table[7] = 1000;
  CountUp<<<1, 32>>>(3);
  CU(cuCtxSynchronize)();
  EQUAL(cuLibraryGetManaged, "host and kernel change it", managed_counter, 196u);
  HOLDS(cuLibraryGetManaged, "a managed array",
        managed_table[7] == 1007 && managed_table[4999] == 4999, "%u and %u", managed_table[7],
        managed_table[4999]);
  // Kernels and copies can use its address.
  Affine<<<1, 32>>>(managed_table, managed_table, 1, 1, 10);
  unsigned out = 0;
  HOLDS(cuLibraryGetManaged, "cudaMemcpy from it",
        cudaMemcpy(&out, &managed_table[9], 4, cudaMemcpyDefault) == cudaSuccess && out == 10, "%u",
        out);
  cudaPointerAttributes attributes = {};
  cudaPointerGetAttributes(&attributes, &managed_counter);
  EQUAL(cudaPointerGetAttributes, "a managed variable", attributes.type, cudaMemoryTypeManaged);
}

// Kernels follow pointers into other managed memory.
void Pointers() {
  if (!Begin()) return;
  unsigned *a = Managed(), *b = Managed();
  unsigned** list = nullptr;
  cudaMallocManaged(reinterpret_cast<void**>(&list), 4096);
  if (a == nullptr || b == nullptr || list == nullptr) return;
  a[100] = 30;
  b[200] = 12;
  b[0] = 0;
  list[0] = &a[100];
  list[1] = &b[200];
  list[2] = nullptr;
  FollowList<<<1, 1>>>(list, b);
  CU(cuCtxSynchronize)();
  EQUAL(cudaMallocManaged, "pointers in managed memory", b[0], 42u);
  HOLDS(cudaMallocManaged, "is freed", cudaFree(list) == cudaSuccess, "is not");
}

// System calls read and write managed memory, too.
void SystemCalls() {
  if (!Begin()) return;
  unsigned* words = Managed();
  if (words == nullptr) return;
  for (unsigned i = 0; i < kWords; ++i) words[i] = i;
  Double(words);
  CU(cuCtxSynchronize)();
  char path[] = "/tmp/conformance.XXXXXX";
  const int file = mkstemp(path);
  unlink(path);
  const ssize_t written = pwrite(file, words, kBytes, 0);
  EQUAL(cuMemAllocManaged, "write() of what a kernel wrote", written, (ssize_t)kBytes);
  Double(words);
  CU(cuCtxSynchronize)();
  const ssize_t got = pread(file, words, kBytes, 0);
  EQUAL(cuMemAllocManaged, "read() over what a kernel wrote", got, (ssize_t)kBytes);
  const unsigned wrong = WrongWords(words, 0, 2);
  HOLDS(cuMemAllocManaged, "the file's words", wrong == 0, "%u wrong words", wrong);
  Double(words);
  CU(cuCtxSynchronize)();
  EQUAL(cuMemAllocManaged, "and what was read reaches the device", words[kWords - 1],
        (kWords - 1) * 4);
  close(file);
}

// Whatever a child process does, the parent's memory stays the parent's.
void Fork() {
  if (!Begin()) return;
  unsigned* words = Managed();
  if (words == nullptr) return;
  for (unsigned i = 0; i < kWords; ++i) words[i] = i;
  Double(words);
  CU(cuCtxSynchronize)();
  const pid_t child = fork();
  if (child == 0) _exit(system("exit 3") == 3 << 8 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EQUAL(cuMemAllocManaged, "a child process", status, 0);
  const unsigned wrong = WrongWords(words, 0, 2);
  HOLDS(cuMemAllocManaged, "the parent's words after a fork", wrong == 0, "%u wrong words", wrong);
}

// Forks a child while pages are on their way, which writes them to a file.
void ForkOfPrefetched() {
  if (!Begin()) return;
  unsigned* words = Managed();
  CUstream stream = nullptr;
  if (words == nullptr) return;
  SETUP(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  const int nothing = open("/dev/null", O_WRONLY);
  int wrong = 0;
  for (unsigned round = 0; round < 30; ++round) {
    words[0] = 1;
    Double(words, stream);
    CU(cuStreamSynchronize)(stream);
    CU(cuMemPrefetchAsync)(Address(words), kBytes, kOnHost, 0, stream);
    usleep(round * 20);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      // The child may get any result, but it must get one.
      _exit(write(nothing, words, kBytes) < -1 ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    wrong += status == 0 ? 0 : 1;
    if (wrong > 0) break;
  }
  close(nothing);
  EQUAL(cuMemPrefetchAsync, "children of a process that prefetches", wrong, 0);
}

void* Sum(void* words) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < kWords; ++i) sum += static_cast<unsigned*>(words)[i];
  return reinterpret_cast<void*>(sum);
}

void Threads() {
  if (!Begin()) return;
  unsigned* words = Managed();
  if (words == nullptr) return;
  unsigned wrong = 0;
  for (unsigned round = 0; round < 5; ++round) {
    for (unsigned i = 0; i < kWords; ++i) words[i] = i;
    Double(words);
    CU(cuCtxSynchronize)();
    pthread_t threads[4];
    for (auto& thread : threads) pthread_create(&thread, nullptr, Sum, words);
    for (auto& thread : threads) {
      void* sum = nullptr;
      pthread_join(thread, &sum);
      wrong += reinterpret_cast<uint64_t>(sum) != uint64_t{kWords} * (kWords - 1);
    }
  }
  HOLDS(cuMemAllocManaged, "four threads read what a kernel wrote", wrong == 0, "%u wrong sums",
        wrong);
}

struct Touch {
  unsigned* words;
  uint64_t sum;
};
void SumLate(void* data) {
  auto* touch = static_cast<Touch*>(data);
  usleep(100000);
  touch->sum = reinterpret_cast<uint64_t>(Sum(touch->words));
  touch->words[0] = 100;
}

// A copy that waits for a host function must not hold up what the function touches.
void HostFunctions() {
  if (!Begin()) return;
  unsigned* words = Managed();
  if (words == nullptr) return;
  CUdeviceptr device = 0;
  CUstream blocking, other;
  SETUP(cuMemAlloc, &device, 4);
  SETUP(cuStreamCreate, &blocking, CU_STREAM_DEFAULT);
  SETUP(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  for (unsigned i = 0; i < kWords; ++i) words[i] = i;
  Double(words, blocking);
  Touch touch = {words, 0};
  CALL("over managed memory", CUDA_SUCCESS, cuLaunchHostFunc, blocking, SumLate, &touch);
  const unsigned value = 7;
  // The legacy stream waits for the blocking one.
  CALL("behind a host function", CUDA_SUCCESS, cuMemcpyHtoD, device, &value, 4);
  Double(words, blocking);
  SETUP(cuCtxSynchronize);
  EQUAL(cuLaunchHostFunc, "touches what a kernel wrote while a copy waits for it", touch.sum,
        uint64_t{kWords} * (kWords - 1));
  EQUAL(cuLaunchHostFunc, "what it wrote is seen by the next kernel", words[0], 200u);
  SETUP(cuStreamDestroy, blocking);
  SETUP(cuStreamDestroy, other);
}

int g_caught = 0;
void Caught(int, siginfo_t* info, void*) {
  ++g_caught;
  mprotect(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(info->si_addr) & ~uintptr_t{4095}),
           4096, PROT_READ | PROT_WRITE);
}

// The application's own faults stay its own, whichever handler came first.
void Handlers() {
  if (!Begin()) return;
  struct sigaction action = {};
  action.sa_sigaction = Caught;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  unsigned* words = Managed();
  if (words == nullptr) return;
  auto* page = static_cast<volatile char*>(
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  words[0] = 21;
  Double(words);
  CU(cuCtxSynchronize)();
  EQUAL(cuMemAllocManaged, "behind an earlier handler", words[0], 42u);
  page[0] = 1;
  EQUAL(cuMemAllocManaged, "an earlier handler gets the program's own faults", g_caught, 1);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "managed",
             {{"allocated", Allocated},
              {"attributes", Attributes},
              {"copies", Copies},
              {"attached", Attached},
              {"in_graphs", InGraphs},
              {"advised", Advised},
              {"prefetched", Prefetched},
              {"variables", Variables},
              {"pointers", Pointers},
              {"system_calls", SystemCalls},
              {"fork", Fork},
              {"fork_of_prefetched", ForkOfPrefetched},
              {"threads", Threads},
              {"host_functions", HostFunctions},
              {"handlers", Handlers}});
}
