// kinds [--held] N: uses the kind of memory with this number once, and prints "works", or the error
// that refused it. Data comes from the host, is changed by a kernel, and is checked on the host
// again. Where memory is shared, another process changes it as well. Without a number it lists the
// kinds: `NAME<tab>bytes that it asks to copy<tab>processes`.
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "../../examples/check.h"
#include "../../examples/held.h"

namespace {

// More than a copy that travels in a command, and no multiple of a page.
constexpr size_t kWords = 300000;
constexpr size_t kBytes = kWords * sizeof(unsigned);
constexpr size_t kConstantWords = 3000;
constexpr size_t kMapped = size_t{2} << 20;
constexpr unsigned kStep = 1000003;

__device__ unsigned g_variable[kWords];
__managed__ unsigned g_managed[kWords];
__constant__ unsigned g_constant[kConstantWords];

__global__ void Add(unsigned* words, size_t count, unsigned step) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    words[i] += step;
  }
}

__global__ void AddToVariable(unsigned step) {
  for (size_t i = threadIdx.x; i < kWords; i += blockDim.x) g_variable[i] += step;
}

__global__ void AddConstant(unsigned* words) {
  for (size_t i = threadIdx.x; i < kConstantWords; i += blockDim.x) words[i] += g_constant[i];
}

// The fate of a kind: "works", or the name of an error.
using Verdict = std::string;

Verdict Works() { return "works"; }
Verdict Wrong() { return "WRONG DATA"; }

// Returns the error's name from the function that it is used in.
#define TRY(call)                      \
  do {                                 \
    const cudaError_t result = (call); \
    if (result != cudaSuccess) {       \
      (void)cudaGetLastError();        \
      return cudaGetErrorName(result); \
    }                                  \
  } while (false)

std::string NameOf(CUresult result);

#define TRY_DRIVER(name, ...)                                           \
  do {                                                                  \
    const CUresult result = Entry<decltype(&name)>(#name)(__VA_ARGS__); \
    if (result != CUDA_SUCCESS) return NameOf(result);                  \
  } while (false)

template <typename F>
F Entry(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how;
  CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how));
  if (found == nullptr) examples::Fail("the driver has no %s", name);
  return reinterpret_cast<F>(found);
}

std::string NameOf(CUresult result) {
  const char* name = nullptr;
  Entry<decltype(&cuGetErrorName)>("cuGetErrorName")(result, &name);
  return name == nullptr ? "an unknown error" : name;
}

unsigned Pattern(size_t i) { return static_cast<unsigned>(i * 2654435761u); }

void Fill(unsigned* words, size_t count = kWords) {
  for (size_t i = 0; i < count; ++i) words[i] = Pattern(i);
}

bool Holds(const unsigned* words, unsigned steps, size_t count = kWords) {
  for (size_t i = 0; i < count; ++i) {
    if (words[i] != Pattern(i) + steps * kStep) return false;
  }
  return true;
}

cudaError_t RunAdd(unsigned* words) {
  Add<<<64, 256>>>(words, kWords, kStep);
  const cudaError_t launched = cudaGetLastError();
  return launched != cudaSuccess ? launched : cudaDeviceSynchronize();
}

// Copies from host memory to the device's, has a kernel change it there, and copies back.
Verdict RoundTrip(unsigned* host, unsigned* device) {
  Fill(host);
  TRY(cudaMemcpy(device, host, kBytes, cudaMemcpyDefault));
  std::memset(host, 0, kBytes);
  TRY(RunAdd(device));
  TRY(cudaMemcpy(host, device, kBytes, cudaMemcpyDefault));
  return Holds(host, 1) ? Works() : Wrong();
}

// Has the kernel change memory that the host sees, at the address that the device has for it.
Verdict Visible(unsigned* host, unsigned* device) {
  Fill(host);
  TRY(RunAdd(device));
  if (!Holds(host, 1)) return Wrong();
  Fill(host);
  TRY(RunAdd(device));
  TRY(RunAdd(device));
  return Holds(host, 2) ? Works() : Wrong();
}

// The device memory that copies of host memory go to, for the whole run.
unsigned* Target() {
  static unsigned* const target = [] {
    unsigned* made = nullptr;
    CUDA_CHECK(cudaMalloc(&made, kBytes));
    return made;
  }();
  return target;
}

// --- Host memory.

Verdict Pageable() {
  std::vector<unsigned> host(kWords);
  return RoundTrip(host.data(), Target());
}

Verdict PageLocked() {
  unsigned* host = nullptr;
  TRY(cudaMallocHost(&host, kBytes));
  const Verdict verdict = RoundTrip(host, Target());
  TRY(cudaFreeHost(host));
  return verdict;
}

Verdict Allocated(unsigned flags) {
  unsigned *host = nullptr, *device = nullptr;
  TRY(cudaHostAlloc(&host, kBytes, flags));
  TRY(cudaHostGetDevicePointer(&device, host, 0));
  const Verdict verdict = Visible(host, device);
  TRY(cudaFreeHost(host));
  return verdict;
}

Verdict Mapped() { return Allocated(cudaHostAllocMapped); }
Verdict WriteCombined() { return Allocated(cudaHostAllocMapped | cudaHostAllocWriteCombined); }

Verdict PageLockedAsItIs() {
  unsigned* host = nullptr;
  TRY(cudaMallocHost(&host, kBytes));
  const Verdict verdict = Visible(host, host);
  TRY(cudaFreeHost(host));
  return verdict;
}

unsigned* NewPages() {
  void* const pages =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) examples::Fail("no memory");
  return static_cast<unsigned*>(pages);
}

Verdict Registered() {
  unsigned* const host = NewPages();
  TRY(cudaHostRegister(host, kBytes, cudaHostRegisterDefault));
  const Verdict verdict = RoundTrip(host, Target());
  TRY(cudaHostUnregister(host));
  munmap(host, kBytes);
  return verdict;
}

Verdict RegisteredMapped() {
  unsigned *const host = NewPages(), *device = nullptr;
  TRY(cudaHostRegister(host, kBytes, cudaHostRegisterMapped));
  TRY(cudaHostGetDevicePointer(&device, host, 0));
  const Verdict verdict = Visible(host, device);
  TRY(cudaHostUnregister(host));
  munmap(host, kBytes);
  return verdict;
}

Verdict WaitedFor() {
  unsigned* host = nullptr;
  CUdeviceptr device = 0;
  cudaStream_t stream = nullptr;
  TRY(cudaStreamCreate(&stream));
  TRY(cudaHostAlloc(&host, kBytes, cudaHostAllocMapped));
  TRY_DRIVER(cuMemHostGetDevicePointer, &device, host, 0);
  *host = 1;
  TRY_DRIVER(cuStreamWaitValue32, stream, device, 1, CU_STREAM_WAIT_VALUE_GEQ);
  TRY(cudaStreamSynchronize(stream));
  TRY(cudaFreeHost(host));
  return Works();
}

Verdict HostHandle() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUmemGenericAllocationHandle handle = 0;
  TRY_DRIVER(cuMemCreate, &handle, kMapped, &properties, 0);
  TRY_DRIVER(cuMemRelease, handle);
  return Works();
}

// --- Memory that both have.

Verdict Managed() {
  unsigned* memory = nullptr;
  TRY(cudaMallocManaged(&memory, kBytes));
  const Verdict verdict = Visible(memory, memory);
  TRY(cudaFree(memory));
  return verdict;
}

Verdict ManagedVariable() {
  unsigned* device = nullptr;
  TRY(cudaGetSymbolAddress(reinterpret_cast<void**>(&device), g_managed));
  return Visible(g_managed, device);
}

// --- Memory of the device.

Verdict Device() {
  std::vector<unsigned> host(kWords);
  unsigned* memory = nullptr;
  TRY(cudaMalloc(&memory, kBytes));
  const Verdict verdict = RoundTrip(host.data(), memory);
  TRY(cudaFree(memory));
  return verdict;
}

Verdict InStreamOrder() {
  std::vector<unsigned> host(kWords);
  unsigned* memory = nullptr;
  TRY(cudaMallocAsync(&memory, kBytes, nullptr));
  const Verdict verdict = RoundTrip(host.data(), memory);
  TRY(cudaFreeAsync(memory, nullptr));
  return verdict;
}

CUmemAllocationProp OnDevice() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

// Maps the memory of a handle, for kernels and copies.
Verdict Map(CUmemGenericAllocationHandle handle, CUdeviceptr* address) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  TRY_DRIVER(cuMemAddressReserve, address, kMapped, 0, 0, 0);
  TRY_DRIVER(cuMemMap, *address, kMapped, 0, handle, 0);
  TRY_DRIVER(cuMemSetAccess, *address, kMapped, &access, 1);
  return Works();
}

Verdict Unmap(CUmemGenericAllocationHandle handle, CUdeviceptr address) {
  TRY_DRIVER(cuMemUnmap, address, kMapped);
  TRY_DRIVER(cuMemAddressFree, address, kMapped);
  TRY_DRIVER(cuMemRelease, handle);
  return Works();
}

Verdict Virtual() {
  std::vector<unsigned> host(kWords);
  const CUmemAllocationProp properties = OnDevice();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  TRY_DRIVER(cuMemCreate, &handle, kMapped, &properties, 0);
  Verdict verdict = Map(handle, &address);
  if (verdict == Works()) {
    verdict = RoundTrip(host.data(), reinterpret_cast<unsigned*>(address));
  }
  const Verdict unmapped = Unmap(handle, address);
  return verdict == Works() ? unmapped : verdict;
}

// From the host into an array, out of it for the kernel, back into it, and to the host.
Verdict Array() {
  constexpr size_t kWidth = 1000, kHeight = 300, kRow = kWidth * sizeof(unsigned);
  static_assert(kWidth * kHeight == kWords);
  std::vector<unsigned> host(kWords);
  Fill(host.data());
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc words = cudaCreateChannelDesc<unsigned>();
  TRY(cudaMallocArray(&array, &words, kWidth, kHeight));
  TRY(cudaMemcpy2DToArray(array, 0, 0, host.data(), kRow, kRow, kHeight, cudaMemcpyDefault));
  TRY(cudaMemcpy2DFromArray(Target(), kRow, array, 0, 0, kRow, kHeight, cudaMemcpyDefault));
  TRY(RunAdd(Target()));
  TRY(cudaMemcpy2DToArray(array, 0, 0, Target(), kRow, kRow, kHeight, cudaMemcpyDefault));
  host.assign(kWords, 0);
  TRY(cudaMemcpy2DFromArray(host.data(), kRow, array, 0, 0, kRow, kHeight, cudaMemcpyDefault));
  TRY(cudaFreeArray(array));
  return Holds(host.data(), 1) ? Works() : Wrong();
}

Verdict Variable() {
  std::vector<unsigned> host(kWords);
  Fill(host.data());
  TRY(cudaMemcpyToSymbol(g_variable, host.data(), sizeof(g_variable)));
  AddToVariable<<<1, 256>>>(kStep);
  TRY(cudaGetLastError());
  host.assign(kWords, 0);
  TRY(cudaMemcpyFromSymbol(host.data(), g_variable, sizeof(g_variable)));
  return Holds(host.data(), 1) ? Works() : Wrong();
}

Verdict Constant() {
  std::vector<unsigned> host(kConstantWords, kStep);
  TRY(cudaMemcpyToSymbol(g_constant, host.data(), sizeof(g_constant)));
  Fill(host.data(), kConstantWords);
  TRY(cudaMemcpy(Target(), host.data(), sizeof(g_constant), cudaMemcpyDefault));
  AddConstant<<<1, 256>>>(Target());
  TRY(cudaGetLastError());
  TRY(cudaMemcpy(host.data(), Target(), sizeof(g_constant), cudaMemcpyDefault));
  return Holds(host.data(), 1, kConstantWords) ? Works() : Wrong();
}

// --- Memory that two processes share.

struct Order {
  cudaIpcMemHandle_t memory = {};
  bool by_descriptor = false;
};

struct Answer {
  char verdict[64] = {};
};

bool Send(int socket, const Order& order, int descriptor) {
  iovec data = {const_cast<Order*>(&order), sizeof(order)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof(order);
}

bool Receive(int socket, Order* order, int* descriptor) {
  iovec data = {order, sizeof(*order)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, 0) != sizeof(*order)) return false;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  *descriptor = -1;
  if (rights != nullptr) std::memcpy(descriptor, CMSG_DATA(rights), sizeof(int));
  return true;
}

// The other process's end of the socket between both.
int g_other = -1;

Verdict AddByIpc(const Order& order) {
  void* memory = nullptr;
  TRY(cudaIpcOpenMemHandle(&memory, order.memory, cudaIpcMemLazyEnablePeerAccess));
  TRY(RunAdd(static_cast<unsigned*>(memory)));
  TRY(cudaIpcCloseMemHandle(memory));
  return Works();
}

Verdict AddByDescriptor(int descriptor) {
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  TRY_DRIVER(cuMemImportFromShareableHandle, &handle,
             reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const Verdict mapped = Map(handle, &address);
  if (mapped != Works()) return mapped;
  TRY(RunAdd(reinterpret_cast<unsigned*>(address)));
  return Unmap(handle, address);
}

[[noreturn]] void ServeOther(int socket) {
  cudaFree(nullptr);  // Begins a session.
  Order order;
  int descriptor = -1;
  while (Receive(socket, &order, &descriptor)) {
    const Verdict verdict = order.by_descriptor ? AddByDescriptor(descriptor) : AddByIpc(order);
    if (descriptor >= 0) close(descriptor);
    Answer answer;
    std::snprintf(answer.verdict, sizeof(answer.verdict), "%s", verdict.c_str());
    if (send(socket, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer)) break;
  }
  std::_Exit(0);
}

Verdict AskOther(const Order& order, int descriptor) {
  Answer answer;
  if (!Send(g_other, order, descriptor) ||
      recv(g_other, &answer, sizeof(answer), 0) != sizeof(answer)) {
    return "the other process has ended";
  }
  return answer.verdict;
}

// Has the other process change memory, beside a kernel of this one.
Verdict Shared(unsigned* memory, const Order& order, int descriptor) {
  std::vector<unsigned> host(kWords);
  Fill(host.data());
  TRY(cudaMemcpy(memory, host.data(), kBytes, cudaMemcpyDefault));
  TRY(RunAdd(memory));
  const Verdict there = AskOther(order, descriptor);
  if (there != Works()) return there;
  TRY(cudaMemcpy(host.data(), memory, kBytes, cudaMemcpyDefault));
  return Holds(host.data(), 2) ? Works() : Wrong();
}

Verdict Ipc() {
  unsigned* memory = nullptr;
  Order order;
  TRY(cudaMalloc(&memory, kMapped));
  TRY(cudaIpcGetMemHandle(&order.memory, memory));
  const Verdict verdict = Shared(memory, order, -1);
  TRY(cudaFree(memory));
  return verdict;
}

Verdict Imported() {
  const CUmemAllocationProp properties = OnDevice();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  int descriptor = -1;
  TRY_DRIVER(cuMemCreate, &handle, kMapped, &properties, 0);
  const Verdict mapped = Map(handle, &address);
  if (mapped != Works()) return mapped;
  TRY_DRIVER(cuMemExportToShareableHandle, &descriptor, handle,
             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  Order order;
  order.by_descriptor = true;
  const Verdict verdict = Shared(reinterpret_cast<unsigned*>(address), order, descriptor);
  close(descriptor);
  const Verdict unmapped = Unmap(handle, address);
  return verdict == Works() ? unmapped : verdict;
}

// --- Memory for other devices and drivers of this host.

Verdict DmaBuf() {
  int descriptor = -1;
  TRY_DRIVER(cuMemGetHandleForAddressRange, &descriptor, reinterpret_cast<CUdeviceptr>(Target()),
             kBytes / 4096 * 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  close(descriptor);
  return Works();
}

Verdict External() {
  const int descriptor = memfd_create("kinds", 0);
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC of = {};
  of.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  of.handle.fd = descriptor;
  of.size = kMapped;
  CUexternalMemory memory = nullptr;
  TRY_DRIVER(cuImportExternalMemory, &memory, &of);
  return Works();
}

// The session has an error afterwards.
Verdict PageableInKernel() {
  std::vector<unsigned> host(kWords);
  return Visible(host.data(), host.data());
}

const struct {
  const char* name;
  Verdict (*use)();
  int copies = 0;  // Those of the whole memory that it asks for between host and device.
  bool shared = false;
} kKinds[] = {
    {"pageable, copied", &Pageable, 2},
    {"page-locked, copied", &PageLocked, 2},
    {"page-locked, given to kernels as it is", &PageLockedAsItIs},
    {"page-locked and mapped", &Mapped},
    {"write-combined and mapped", &WriteCombined},
    {"registered, copied", &Registered, 2},
    {"registered and mapped", &RegisteredMapped},
    {"page-locked, a stream waits for a word of it", &WaitedFor},
    {"host memory under handles", &HostHandle},
    {"managed", &Managed},
    {"managed variables", &ManagedVariable},
    {"device", &Device, 2},
    {"device, in stream order", &InStreamOrder, 2},
    {"device, mapped by the program", &Virtual, 2},
    {"arrays", &Array, 2},
    {"variables of modules", &Variable, 2},
    {"constants of modules", &Constant},
    {"device, of another process (IPC)", &Ipc, 2, true},
    {"device, imported by descriptor", &Imported, 2, true},
    {"dma-buf for a NIC", &DmaBuf},
    {"imported from Vulkan and the like", &External},
    {"pageable, given to kernels", &PageableInKernel},
};

// Starts the other process, before this one has used CUDA.
pid_t StartOther() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) examples::Fail("no socket");
  const pid_t other = fork();
  if (other == 0) {
    close(pair[0]);
    unsetenv("WARPLINE_STAT");  // The first process's bytes are counted.
    ServeOther(pair[1]);
  }
  close(pair[1]);
  g_other = pair[0];
  return other;
}

int List() {
  for (const auto& kind : kKinds) {
    std::printf("%s\t%zu\t%d\n", kind.name, kind.copies * kBytes, kind.shared ? 2 : 1);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool held = argc > 1 && IsHeldFlag(argv[1]);
  if (argc < 2 + held) return List();
  const size_t number = std::strtoul(argv[1 + held], nullptr, 10);
  if (number >= std::size(kKinds)) return 2;
  const auto& kind = kKinds[number];
  const pid_t other = kind.shared ? StartOther() : -1;
  Target();
  if (held) {
    SayThatItGoesOn("kinds");
    (void)AwaitStep();
  }
  std::printf("%s\n", kind.use().c_str());
  if (kind.shared) {
    close(g_other);
    waitpid(other, nullptr, 0);
  }
  return 0;
}
