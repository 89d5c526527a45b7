// Memory and events that the processes of one lease share (ipc_memory.h). Recording a shared event
// waits for the work that it records: a process that hears of the record finds it complete, and
// streams of different workers need no way to wait for each other
// (docs/decisions/0013-shared-memory-and-events.md).
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/memory/ipc_memory.h"
#include "client_stub/core/memory/shared_descriptor.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/streams.h"
#include "client_stub/session/session.h"

using namespace warpline::stub;

namespace {

constexpr size_t kTokenBytes = 16;

// The 64 bytes of CUDA's handles. The magic also tells what kind of object they stand for.
struct Content {
  char magic[8];
  char token[kTokenBytes];
  uint64_t chunk_bytes;
  uint64_t offset;
  uint64_t bytes;
  // For memory, the UUID of its device; for a pointer, the pool's token.
  char from[kTokenBytes];
};
static_assert(sizeof(Content) == CU_IPC_HANDLE_SIZE);
static_assert(sizeof(Content) == sizeof(CUmemPoolPtrExportData));

constexpr char kMemory[8] = {'W', 'L', '-', 'm', 'e', 'm', 'o', 'r'};
constexpr char kEvent[8] = {'W', 'L', '-', 'e', 'v', 'e', 'n', 't'};
constexpr char kPointer[8] = {'W', 'L', '-', 'p', 'o', 'i', 'n', 't'};

template <typename Handle>
void Write(const char (&magic)[8], const OfferedAllocation& offered, const std::string& from,
           Handle* handle) {
  Content content = {};
  std::copy(std::begin(magic), std::end(magic), content.magic);
  std::memcpy(content.token, offered.token.data(), std::min(offered.token.size(), kTokenBytes));
  content.chunk_bytes = offered.chunk_bytes;
  content.offset = offered.offset;
  content.bytes = offered.bytes;
  std::memcpy(content.from, from.data(), std::min(from.size(), kTokenBytes));
  std::memcpy(handle, &content, sizeof(content));
}

template <typename Handle>
bool Read(const char (&magic)[8], const Handle& handle, OfferedAllocation* offered,
          std::string* from) {
  Content content;
  std::memcpy(&content, &handle, sizeof(content));
  if (!std::equal(std::begin(magic), std::end(magic), content.magic)) return false;
  *offered = {std::string(content.token, kTokenBytes), content.chunk_bytes, content.offset,
              content.bytes, 0};
  from->assign(content.from, kTokenBytes);
  return true;
}

std::string UuidOf(uint32_t device) {
  const auto& uuid = runtime().devices[device].remote->uuid;
  return std::string(uuid.begin(), uuid.end());
}

// Gets a token that stands for nothing but the event of this number; for 0, for nothing at all.
CUresult NewToken(uint64_t event, std::string* token) {
  SharedMemory shared;
  WARPLINE_TRY(ToCu(runtime().session->memory().Share({.event = event}, &shared)));
  *token = shared.token;
  return CUDA_SUCCESS;
}

CUresult CheckToken(const std::string& token) {
  return ToCu(runtime().session->memory().OpenShared(token, 0, 0));
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  WARPLINE_TRY(Enter());
  DeviceMemory::Range range;
  if (pHandle == nullptr || !runtime().memory->Find(dptr, &range) || !range.ipc_capable) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  OfferedAllocation offered;
  WARPLINE_TRY(BeginSharing());
  WARPLINE_TRY(
      ToCu(runtime().ipc_memory->Offer(range.device, range.base, range.bytes, range.id, &offered)));
  Write(kMemory, offered, UuidOf(range.device), pHandle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle,
                                       unsigned int Flags) {
  WARPLINE_TRY(Enter());
  OfferedAllocation offered;
  std::string from;
  if (pdptr == nullptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
      !Read(kMemory, handle, &offered, &from)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::array<uint8_t, kTokenBytes> uuid;
  std::copy(from.begin(), from.end(), uuid.begin());
  if (!FindDeviceOf(*runtime().terms, uuid, &offered.device)) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address;
  WARPLINE_TRY(BeginSharing());
  WARPLINE_TRY(ToCu(runtime().ipc_memory->Open(offered, &address)));
  *pdptr = address;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(Enter());
  WARPLINE_TRY(AwaitWorkBeforeFree(CurrentDevice()));
  return ToCu(runtime().ipc_memory->Close(dptr));
}

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent handle) {
  WARPLINE_TRY(Enter());
  if (pHandle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Event* event = FindEvent(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((event->flags & CU_EVENT_INTERPROCESS) == 0) return CUDA_ERROR_INVALID_HANDLE;
  OfferedAllocation offered;
  WARPLINE_TRY(NewToken(event->wire, &offered.token));
  event->shared.store(true);
  // Waits for earlier records.
  WARPLINE_TRY(SynchronizeEvent(event));
  Write(kEvent, offered, {}, pHandle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle) {
  WARPLINE_TRY(Enter());
  OfferedAllocation offered;
  std::string from;
  if (phEvent == nullptr || !Read(kEvent, handle, &offered, &from)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WARPLINE_TRY(CheckToken(offered.token));
  WARPLINE_TRY(
      CreateEvent(CurrentOwner(), CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, phEvent));
  FindEvent(*phEvent)->shared.store(true);
  return CUDA_SUCCESS;
}

// --- Memory pools.

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool handle,
                                                  CUmemAllocationHandleType handleType,
                                                  unsigned long long flags) {
  WARPLINE_TRY(EnterInitialized());
  MemoryPool* pool = runtime().pools.Find(NumberOf(handle));
  if (pool == nullptr || handle_out == nullptr || flags != 0 ||
      handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      pool->handle_types != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || pool->imported) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WARPLINE_TRY(BeginSharing());
  SharedDescriptor what;
  what.kind = SharedDescriptor::Kind::kPool;
  what.device = pool->device->remote->uuid;
  what.token = pool->share_token();
  if (what.token.empty()) {
    WARPLINE_TRY(NewToken(0, &what.token));
    what.token = pool->SetShareToken(what.token);
  }
  warpline::UniqueFd end, descriptor;
  if (!MakeSharedDescriptor(what, &end, &descriptor)) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(handle_out) = descriptor.Release();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                                    CUmemAllocationHandleType handleType,
                                                    unsigned long long flags) {
  WARPLINE_TRY(EnterInitialized());
  SharedDescriptor what;
  if (pool_out == nullptr || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !ReadSharedDescriptor(static_cast<int>(reinterpret_cast<intptr_t>(handle)), &what) ||
      what.kind != SharedDescriptor::Kind::kPool) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint32_t device;
  if (!FindDeviceOf(*runtime().terms, what.device, &device)) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(CheckToken(what.token));
  WARPLINE_TRY(BeginSharing());
  const uint64_t number = runtime().pools.Add([&](MemoryPool& pool, uint64_t pool_number) {
    pool.handle = HandleOf<CUmemoryPool>(pool_number);
    pool.device = &runtime().devices[device];
    pool.shared_with = 0;
    pool.max_bytes = 0;
    pool.handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    pool.imported = true;
    pool.ResetShareToken(what.token);
  });
  if (number == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *pool_out = HandleOf<CUmemoryPool>(number);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
  WARPLINE_TRY(EnterInitialized());
  DeviceMemory::Range range;
  if (shareData_out == nullptr || !runtime().memory->Find(ptr, &range) || range.base != ptr ||
      range.pool == nullptr ||
      range.pool->handle_types != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WARPLINE_TRY(SessionError());
  OfferedAllocation offered;
  WARPLINE_TRY(
      ToCu(runtime().ipc_memory->Offer(range.device, range.base, range.bytes, range.id, &offered)));
  Write(kPointer, offered, range.pool->share_token(), shareData_out);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool handle,
                                        CUmemPoolPtrExportData* shareData) {
  WARPLINE_TRY(EnterInitialized());
  MemoryPool* pool = runtime().pools.Find(NumberOf(handle));
  OfferedAllocation offered;
  std::string from;
  if (ptr_out == nullptr || shareData == nullptr || pool == nullptr || !pool->imported ||
      !Read(kPointer, *shareData, &offered, &from) || from != pool->share_token()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  offered.device = pool->device->number;
  uint64_t address;
  WARPLINE_TRY(ToCu(runtime().ipc_memory->Open(offered, &address)));
  *ptr_out = address;
  return CUDA_SUCCESS;
}

}  // extern "C"
