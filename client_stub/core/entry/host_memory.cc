// Page-locked host memory. What the application registers is this process's own memory, for copies
// that need not be waited for; where its address on the device is asked for, the device shares its
// pages, or else gets a mirror.
#include "client_stub/core/memory/host_memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/memory/shared_host_memory.h"
#include "client_stub/core/registered/registered_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

constexpr uint64_t kPage = 4096;

uint64_t AddressOf(const HostMemory::Range& range) {
  return reinterpret_cast<uint64_t>(range.base);
}

// Whether the process has all pages of the range, which is not empty.
bool IsMapped(const void* p, uint64_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(p);
  const uint64_t start = address / kPage * kPage;
  if (bytes > ~uint64_t{0} - address) return false;
  // It writes nothing, and fails where nothing is mapped.
  return msync(reinterpret_cast<void*>(start), address + bytes - start, MS_ASYNC) == 0;
}

// Waits for copies into the range that may still be under way.
void AwaitCopies(const HostMemory::Range& range) {
  if (range.last_copy != 0 && !runtime().commands->Retired(kNoStream, range.last_copy)) {
    SynchronizeSession();
  }
}

// Notes the current device as the owner of new host memory at `base`, if `result` is success.
CUresult NoteOwner(void* base, CUresult result) {
  if (result == CUDA_SUCCESS) runtime().host_memory->SetOwner(base, CurrentDevice().number);
  return result;
}

// Allocates memory that host and device share. CUDA_ERROR_NOT_SUPPORTED where there is none.
CUresult AllocateShared(uint64_t bytes, unsigned int flags, void** memory) {
  uint64_t address;
  WARPLINE_TRY(ToCu(runtime().shared_host_memory->Allocate(bytes, &address)));
  *memory = reinterpret_cast<void*>(address);
  runtime().host_memory->Add(*memory, bytes, flags, address, /*shared=*/true);
  // Copies and fills treat it as the device's memory.
  runtime().memory->AddGlobal(CurrentDevice().number, nullptr, address, bytes);
  return CUDA_SUCCESS;
}

// Ends the range's mapping on the device.
void EndMapping(const HostMemory::Range& range) {
  if (range.device == 0) return;
  if (range.shared) {
    // Running work may use it; CUDA waits here, too.
    SynchronizeSession();
    runtime().memory->ForgetGlobal(range.device);
    return runtime().shared_host_memory->Free(range.device);
  }
  if (range.registered && runtime().registered->ToDevice(AddressOf(range)) == range.device) {
    SynchronizeSession();
    runtime().memory->ForgetGlobal(range.device);
    return runtime().registered->GiveBack(AddressOf(range));
  }
  const auto kind = range.kept ? MirroredMemory::Kind::kMapped : MirroredMemory::Kind::kRegistered;
  runtime().mirrored->Free(kind, AddressOf(range));
}

CUresult MapOnDevice(const HostMemory::Range& range, uint64_t* device) {
  AwaitCopies(range);
  const uint32_t on = CurrentDevice().number;
  // A page that has a mirror cannot be shared as well.
  const bool shared =
      range.registered &&
      !runtime().mirrored->HasPages(AddressOf(range) / kPage * kPage,
                                    AddressOf(range) + range.bytes) &&
      ToCu(runtime().registered->Share(AddressOf(range), range.bytes, device)) == CUDA_SUCCESS;
  if (shared) {
    // Copies and fills treat it as the device's memory.
    runtime().memory->AddGlobal(on, nullptr, *device, range.bytes);
  } else {
    WARPLINE_TRY(runtime().mirrored->Register(on, AddressOf(range), range.bytes, device));
  }
  runtime().host_memory->SetDevice(range.base, *device);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  WARPLINE_TRY(EnterUnsafe());
  constexpr unsigned int kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (pp == nullptr || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytesize != 0) {
    const CUresult shared = AllocateShared(bytesize, Flags, pp);
    if (shared != CUDA_ERROR_NOT_SUPPORTED) return NoteOwner(*pp, shared);
  }
  // Memory that the device will be asked about gets one address for both sides; other memory gets a
  // device address when it is asked for.
  if ((Flags & CU_MEMHOSTALLOC_DEVICEMAP) == 0 || bytesize == 0) {
    const CUresult own = runtime().host_memory->Allocate(bytesize, Flags, pp);
    return NoteOwner(*pp, own);
  }
  uint64_t address;
  WARPLINE_TRY(runtime().mirrored->Allocate(MirroredMemory::Kind::kMapped, CurrentDevice().number,
                                            nullptr, bytesize, CU_MEM_ATTACH_GLOBAL, &address));
  *pp = reinterpret_cast<void*>(address);
  runtime().host_memory->Add(*pp, bytesize, Flags, address, /*shared=*/false);
  return NoteOwner(*pp, CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemAllocHost_v2(void** pp, size_t bytesize) {
  return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult CUDAAPI cuMemFreeHost(void* p) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterObjectUnsafe());
  if (p == nullptr) return CUDA_SUCCESS;
  HostMemory::Range range;
  if (!runtime().host_memory->Find(p, &range) || range.base != p || range.registered) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  AwaitCopies(range);
  EndMapping(range);
  return runtime().host_memory->Remove(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  WARPLINE_TRY(Enter());
  HostMemory::Range range;
  if (pFlags == nullptr || !runtime().host_memory->Find(p, &range)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pFlags = range.flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  WARPLINE_TRY(Enter());
  HostMemory::Range range;
  if (pdptr == nullptr || Flags != 0 || !runtime().host_memory->Find(p, &range)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t device = range.device;
  if (device == 0) WARPLINE_TRY(MapOnDevice(range, &device));
  *pdptr = device + (reinterpret_cast<uint64_t>(p) - reinterpret_cast<uint64_t>(range.base));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  WARPLINE_TRY(EnterUnsafe());
  constexpr unsigned int kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                  CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if ((Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (bytesize != 0 && !IsMapped(p, bytesize)) return CUDA_ERROR_INVALID_VALUE;
  return NoteOwner(p, runtime().host_memory->Register(p, bytesize, Flags));
}

CUresult CUDAAPI cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult CUDAAPI cuMemHostUnregister(void* p) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterObjectUnsafe());
  HostMemory::Range range;
  if (!runtime().host_memory->Find(p, &range)) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if (range.base != p || !range.registered) return CUDA_ERROR_INVALID_VALUE;
  AwaitCopies(range);
  EndMapping(range);
  return runtime().host_memory->Remove(p) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

}  // extern "C"
