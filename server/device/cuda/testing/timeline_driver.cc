#include "server/device/cuda/testing/timeline_driver.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace warpline::device {
namespace {

TimelineDriver* g_driver = nullptr;

constexpr unsigned kMultiprocessors = 132;
// Of every green context.
constexpr unsigned kGreenMultiprocessors = 64;

enum Function {
#define WARPLINE_NUMBER(name) kNumber_##name,
  WARPLINE_DRIVER_FUNCTIONS(WARPLINE_NUMBER) WARPLINE_GREEN_FUNCTIONS(WARPLINE_NUMBER)
#undef WARPLINE_NUMBER
};

// The function number N of the table: counts the call, and then does what it has to.
template <int N, typename Pointer>
struct Entry;
template <int N, typename... Args>
struct Entry<N, CUresult (*)(Args...)> {
  static inline const char* name = nullptr;
  static inline CUresult (*behavior)(Args...) = nullptr;
  static CUresult Call(Args... args) {
    if (!g_driver->Enter(name)) return CUDA_ERROR_OUT_OF_MEMORY;
    return behavior == nullptr ? CUDA_SUCCESS : behavior(args...);
  }
};

template <typename Handle>
Handle As(uint64_t id) {
  return reinterpret_cast<Handle>(id);
}
template <typename Handle>
uint64_t IdOf(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

#define WARPLINE_BEHAVE(name, ...) \
  Entry<kNumber_##name, decltype(DriverApi::p_##name)>::behavior = __VA_ARGS__

void BehaveAsContexts() {
  WARPLINE_BEHAVE(cuDeviceGet, [](CUdevice* device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuDevicePrimaryCtxRetain, [](CUcontext* context, CUdevice device) {
    *context = As<CUcontext>(static_cast<uint64_t>(device) + 100);
    g_driver->Make("context");
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuDevicePrimaryCtxRelease,
                  [](CUdevice) { return g_driver->Destroy("context", 0); });
  WARPLINE_BEHAVE(cuCtxGetLimit, [](size_t* value, CUlimit) {
    *value = 1024;
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuDeviceGetDevResource, [](CUdevice, CUdevResource* resource, CUdevResourceType) {
    resource->type = CU_DEV_RESOURCE_TYPE_SM;
    resource->sm.smCount = kMultiprocessors;
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuDevSmResourceSplitByCount,
                  [](CUdevResource* groups, unsigned* count, const CUdevResource*, CUdevResource*,
                     unsigned, unsigned least) {
                    const unsigned most = kMultiprocessors / least;
                    *count = groups == nullptr ? most : std::min(*count, most);
                    for (unsigned i = 0; groups != nullptr && i < *count; ++i) {
                      groups[i].type = CU_DEV_RESOURCE_TYPE_SM;
                      groups[i].sm.smCount = least;
                    }
                    return CUDA_SUCCESS;
                  });
  WARPLINE_BEHAVE(cuGreenCtxGetDevResource,
                  [](CUgreenCtx, CUdevResource* resource, CUdevResourceType) {
                    resource->type = CU_DEV_RESOURCE_TYPE_SM;
                    resource->sm.smCount = kGreenMultiprocessors;
                    return CUDA_SUCCESS;
                  });
  WARPLINE_BEHAVE(cuGreenCtxCreate, [](CUgreenCtx* context, CUdevResourceDesc, CUdevice, unsigned) {
    *context = As<CUgreenCtx>(g_driver->Make("green context"));
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuCtxFromGreenCtx, [](CUcontext* context, CUgreenCtx green) {
    *context = As<CUcontext>(IdOf(green));
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuGreenCtxDestroy, [](CUgreenCtx context) {
    return g_driver->Destroy("green context", IdOf(context));
  });
}

void BehaveAsStreams() {
  WARPLINE_BEHAVE(cuStreamCreateWithPriority, [](CUstream* stream, unsigned, int) {
    *stream = As<CUstream>(g_driver->Make("stream"));
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuGreenCtxStreamCreate, [](CUstream* stream, CUgreenCtx, unsigned, int) {
    *stream = As<CUstream>(g_driver->Make("stream"));
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuStreamDestroy,
                  [](CUstream stream) { return g_driver->Destroy("stream", IdOf(stream)); });
  WARPLINE_BEHAVE(cuStreamQuery, [](CUstream stream) { return g_driver->QueryStream(stream); });
  WARPLINE_BEHAVE(cuStreamSynchronize,
                  [](CUstream stream) { return g_driver->Synchronize(stream); });
  WARPLINE_BEHAVE(cuStreamWaitEvent, [](CUstream stream, CUevent event, unsigned) {
    return g_driver->Wait(stream, event);
  });
  WARPLINE_BEHAVE(cuEventCreate, [](CUevent* event, unsigned) {
    *event = As<CUevent>(g_driver->Make("event"));
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuEventDestroy,
                  [](CUevent event) { return g_driver->Destroy("event", IdOf(event)); });
  WARPLINE_BEHAVE(cuEventRecord,
                  [](CUevent event, CUstream stream) { return g_driver->Record(event, stream); });
  WARPLINE_BEHAVE(cuEventQuery, [](CUevent event) { return g_driver->QueryEvent(event); });
  WARPLINE_BEHAVE(cuMemsetD8Async, [](CUdeviceptr to, unsigned char, size_t, CUstream stream) {
    return g_driver->Issue(stream, to);
  });
  WARPLINE_BEHAVE(cuLaunchKernel, [](CUfunction kernel, unsigned, unsigned, unsigned, unsigned,
                                     unsigned, unsigned, unsigned, CUstream stream, void**,
                                     void**) { return g_driver->Issue(stream, IdOf(kernel)); });
}

void BehaveAsMemory() {
  WARPLINE_BEHAVE(cuMemAddressReserve,
                  [](CUdeviceptr* at, size_t bytes, size_t, CUdeviceptr wanted,
                     unsigned long long) { return g_driver->Reserve(at, bytes, wanted); });
  WARPLINE_BEHAVE(cuMemAddressFree,
                  [](CUdeviceptr at, size_t bytes) { return g_driver->Free(at, bytes); });
  WARPLINE_BEHAVE(cuMemCreate, [](CUmemGenericAllocationHandle* memory, size_t,
                                  const CUmemAllocationProp*, unsigned long long) {
    *memory = g_driver->Make("memory");
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuMemImportFromShareableHandle,
                  [](CUmemGenericAllocationHandle* memory, void*, CUmemAllocationHandleType) {
                    *memory = g_driver->Make("memory");
                    return CUDA_SUCCESS;
                  });
  WARPLINE_BEHAVE(cuMemRelease, [](CUmemGenericAllocationHandle memory) {
    return g_driver->Destroy("memory", memory);
  });
  WARPLINE_BEHAVE(cuMemMap,
                  [](CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle memory,
                     unsigned long long) { return g_driver->Map(at, bytes, memory); });
  WARPLINE_BEHAVE(cuMemUnmap,
                  [](CUdeviceptr at, size_t bytes) { return g_driver->Unmap(at, bytes); });
  WARPLINE_BEHAVE(cuMemSetAccess, [](CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access,
                                     size_t) { return g_driver->SetAccess(at, bytes, access); });
  WARPLINE_BEHAVE(cuMemHostAlloc, [](void** host, size_t bytes, unsigned) {
    *host = std::calloc(1, bytes);
    g_driver->Make("host memory");
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuMemHostRegister, [](void*, size_t, unsigned) {
    g_driver->Stall("locks memory of the host");
    g_driver->Make("locked memory");
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuMemHostUnregister, [](void*) {
    g_driver->Stall("unlocks memory of the host");
    return g_driver->Destroy("locked memory", 0);
  });
  WARPLINE_BEHAVE(cuMemHostGetDevicePointer, [](CUdeviceptr* at, void* host, unsigned) {
    *at = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuMemFreeHost, [](void* host) {
    std::free(host);
    return g_driver->Destroy("host memory", 0);
  });
  // All that is mapped is memory of device 0 for whoever asks.
  WARPLINE_BEHAVE(cuPointerGetAttributes, [](unsigned count, CUpointer_attribute* attributes,
                                             void** answers, CUdeviceptr address) {
    CUdeviceptr start = 0;
    size_t bytes = 0;
    if (!g_driver->FindMapping(address, &start, &bytes)) return CUDA_SUCCESS;
    for (unsigned i = 0; i < count; ++i) {
      switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
          *static_cast<unsigned*>(answers[i]) = CU_MEMORYTYPE_DEVICE;
          break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
          *static_cast<int*>(answers[i]) = 0;
          break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
          *static_cast<CUdeviceptr*>(answers[i]) = start;
          break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
          *static_cast<size_t*>(answers[i]) = bytes;
          break;
        default:
          break;
      }
    }
    return CUDA_SUCCESS;
  });
}

void BehaveAsObjects() {
  WARPLINE_BEHAVE(cuLibraryLoadData, [](CUlibrary* library, const void*, CUjit_option*, void**,
                                        unsigned, CUlibraryOption*, void**, unsigned) {
    g_driver->Stall("changes code");
    *library = As<CUlibrary>(g_driver->Make("library"));
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuLibraryUnload, [](CUlibrary library) {
    g_driver->Stall("changes code");
    return g_driver->Destroy("library", IdOf(library));
  });
  WARPLINE_BEHAVE(cuKernelGetAttribute, [](int* value, CUfunction_attribute, CUkernel, CUdevice) {
    *value = g_driver->local_bytes();
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuKernelGetParamInfo,
                  [](CUkernel, size_t, size_t*, size_t*) { return CUDA_ERROR_INVALID_VALUE; });
  WARPLINE_BEHAVE(cuGraphCreate, [](CUgraph* graph, unsigned) {
    *graph = As<CUgraph>(g_driver->Make("graph"));
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuGraphDestroy,
                  [](CUgraph graph) { return g_driver->Destroy("graph", IdOf(graph)); });
  WARPLINE_BEHAVE(cuGraphInstantiate, [](CUgraphExec* graph, CUgraph, unsigned long long) {
    *graph = As<CUgraphExec>(g_driver->Make("executable graph"));
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuGraphExecDestroy, [](CUgraphExec graph) {
    return g_driver->Destroy("executable graph", IdOf(graph));
  });
  WARPLINE_BEHAVE(cuArray3DCreate, [](CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR*) {
    *array = As<CUarray>(g_driver->Make("array"));
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuArrayDestroy,
                  [](CUarray array) { return g_driver->Destroy("array", IdOf(array)); });
  WARPLINE_BEHAVE(cuMipmappedArrayCreate,
                  [](CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned) {
                    *array = As<CUmipmappedArray>(g_driver->Make("mipmapped array"));
                    return CUDA_SUCCESS;
                  });
  WARPLINE_BEHAVE(cuMipmappedArrayDestroy, [](CUmipmappedArray array) {
    return g_driver->Destroy("mipmapped array", IdOf(array));
  });
  WARPLINE_BEHAVE(cuTexObjectCreate, [](CUtexObject* object, const CUDA_RESOURCE_DESC*,
                                        const CUDA_TEXTURE_DESC*, const CUDA_RESOURCE_VIEW_DESC*) {
    *object = g_driver->Make("texture");
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuTexObjectDestroy,
                  [](CUtexObject object) { return g_driver->Destroy("texture", object); });
  WARPLINE_BEHAVE(cuSurfObjectCreate, [](CUsurfObject* object, const CUDA_RESOURCE_DESC*) {
    *object = g_driver->Make("surface");
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuSurfObjectDestroy,
                  [](CUsurfObject object) { return g_driver->Destroy("surface", object); });
  WARPLINE_BEHAVE(cuLinkCreate, [](unsigned, CUjit_option*, void**, CUlinkState* link) {
    *link = As<CUlinkState>(g_driver->Make("link"));
    return CUDA_SUCCESS;
  });
  WARPLINE_BEHAVE(cuLinkDestroy,
                  [](CUlinkState link) { return g_driver->Destroy("link", IdOf(link)); });
}

#undef WARPLINE_BEHAVE

}  // namespace

TimelineDriver::TimelineDriver() {
  g_driver = this;
#define WARPLINE_ENTER(function)                                                  \
  Entry<kNumber_##function, decltype(DriverApi::p_##function)>::name = #function; \
  api_.p_##function = &Entry<kNumber_##function, decltype(DriverApi::p_##function)>::Call;
  WARPLINE_DRIVER_FUNCTIONS(WARPLINE_ENTER)
  WARPLINE_GREEN_FUNCTIONS(WARPLINE_ENTER)
#undef WARPLINE_ENTER
  BehaveAsContexts();
  BehaveAsStreams();
  BehaveAsMemory();
  BehaveAsObjects();
}

TimelineDriver::~TimelineDriver() { g_driver = nullptr; }

void TimelineDriver::DropGreenContexts() {
#define WARPLINE_DROP(function) api_.p_##function = nullptr;
  WARPLINE_GREEN_FUNCTIONS(WARPLINE_DROP)
#undef WARPLINE_DROP
}

bool TimelineDriver::ComesAfter(uint64_t later, uint64_t earlier) {
  MutexLock lock(&mu_);
  return before_[later].contains(earlier);
}

void TimelineDriver::Complete(uint64_t name) {
  MutexLock lock(&mu_);
  complete_.insert(name);
}

void TimelineDriver::Complete() {
  MutexLock lock(&mu_);
  for (const auto& [operation, before] : before_) complete_.insert(operation);
}

int TimelineDriver::Count(const std::string& name) {
  MutexLock lock(&mu_);
  return counts_[name];
}

int TimelineDriver::Calls() {
  MutexLock lock(&mu_);
  int sum = 0;
  for (const auto& [name, count] : counts_) sum += count;
  return sum;
}

void TimelineDriver::Fail(const std::string& name, int nth) {
  MutexLock lock(&mu_);
  failures_[name] = nth == 0 ? 0 : counts_[name] + nth;
}

std::string TimelineDriver::Live() {
  MutexLock lock(&mu_);
  std::string live;
  for (const auto& [kind, ids] : live_) {
    if (!ids.empty()) absl::StrAppend(&live, live.empty() ? "" : ", ", kind, " ", ids.size());
  }
  for (const auto& [at, bytes] : reserved_) absl::StrAppend(&live, " reserved ", absl::Hex(at));
  for (const auto& [at, mapping] : mappings_) absl::StrAppend(&live, " mapped ", absl::Hex(at));
  return live;
}

std::string TimelineDriver::Misuse() {
  MutexLock lock(&mu_);
  return misuse_;
}

bool TimelineDriver::IsAccessible(uint64_t address, uint64_t bytes) {
  MutexLock lock(&mu_);
  const uint64_t end = address + bytes;
  while (address < end) {
    const auto next = mappings_.upper_bound(address);
    if (next == mappings_.begin()) return false;
    const auto& [at, mapping] = *std::prev(next);
    if (address - at >= mapping.bytes || !mapping.accessible) return false;
    address = at + mapping.bytes;
  }
  return true;
}

int TimelineDriver::Mappings(uint64_t address, uint64_t bytes) {
  MutexLock lock(&mu_);
  return static_cast<int>(
      std::distance(mappings_.lower_bound(address), mappings_.lower_bound(address + bytes)));
}

void TimelineDriver::Occupy(uint64_t address, uint64_t bytes) {
  MutexLock lock(&mu_);
  occupied_[address] = bytes;
}

bool TimelineDriver::Enter(const char* name) {
  MutexLock lock(&mu_);
  const int count = ++counts_[name];
  const auto failure = failures_.find(name);
  return failure == failures_.end() || failure->second == 0 || count < failure->second;
}

// Arrays keep a bit of their ids for themselves.
uint64_t TimelineDriver::Make(const char* kind) {
  MutexLock lock(&mu_);
  const uint64_t id = next_++ << 8;
  live_[kind].insert(id);
  return id;
}

CUresult TimelineDriver::Destroy(const char* kind, uint64_t id) {
  MutexLock lock(&mu_);
  auto& ids = live_[kind];
  const auto found = id == 0 ? ids.begin() : ids.find(id);
  if (found == ids.end()) return Misused(absl::StrCat("destroys no ", kind));
  ids.erase(found);
  return CUDA_SUCCESS;
}

bool TimelineDriver::Exists(const char* kind, uint64_t id) { return live_[kind].contains(id); }

CUresult TimelineDriver::Misused(const std::string& what) {
  absl::StrAppend(&misuse_, what, "\n");
  return CUDA_ERROR_INVALID_VALUE;
}

bool TimelineDriver::AllComplete(const Operations& operations) {
  return std::includes(complete_.begin(), complete_.end(), operations.begin(), operations.end());
}

void TimelineDriver::Stall(const char* what) {
  MutexLock lock(&mu_);
  for (const auto& [operation, before] : before_) {
    if (complete_.count(operation) == 0) {
      (void)Misused(absl::StrCat(what, " while something runs"));
      return;
    }
  }
}

CUresult TimelineDriver::Issue(CUstream stream, uint64_t name) {
  MutexLock lock(&mu_);
  if (stream != CU_STREAM_LEGACY && !Exists("stream", IdOf(stream))) return Misused("issues");
  Operations& before = streams_[stream];
  before_[name] = before;
  before.insert(name);
  return CUDA_SUCCESS;
}

CUresult TimelineDriver::Record(CUevent event, CUstream stream) {
  MutexLock lock(&mu_);
  if (!Exists("event", IdOf(event)) ||
      (stream != CU_STREAM_LEGACY && !Exists("stream", IdOf(stream)))) {
    return Misused("records");
  }
  events_[event] = streams_[stream];
  return CUDA_SUCCESS;
}

CUresult TimelineDriver::Wait(CUstream stream, CUevent event) {
  MutexLock lock(&mu_);
  if (!Exists("event", IdOf(event)) || !Exists("stream", IdOf(stream))) return Misused("waits");
  const Operations& operations = events_[event];
  streams_[stream].insert(operations.begin(), operations.end());
  return CUDA_SUCCESS;
}

CUresult TimelineDriver::QueryStream(CUstream stream) {
  MutexLock lock(&mu_);
  if (!Exists("stream", IdOf(stream))) return Misused("asks a stream");
  return AllComplete(streams_[stream]) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult TimelineDriver::QueryEvent(CUevent event) {
  MutexLock lock(&mu_);
  if (!Exists("event", IdOf(event))) return Misused("asks an event");
  return AllComplete(events_[event]) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult TimelineDriver::Synchronize(CUstream stream) {
  MutexLock lock(&mu_);
  if (!Exists("stream", IdOf(stream))) return Misused("synchronizes");
  const Operations& operations = streams_[stream];
  complete_.insert(operations.begin(), operations.end());
  return CUDA_SUCCESS;
}

CUresult TimelineDriver::Reserve(CUdeviceptr* at, size_t bytes, CUdeviceptr wanted) {
  MutexLock lock(&mu_);
  *at = wanted;
  for (const auto* taken : {&reserved_, &occupied_}) {
    for (const auto& [start, size] : *taken) {
      // The driver then chooses itself.
      if (start < wanted + bytes && wanted < start + size) *at = 0x700000000000;
    }
  }
  reserved_[*at] = bytes;
  return CUDA_SUCCESS;
}

CUresult TimelineDriver::Free(CUdeviceptr at, size_t bytes) {
  MutexLock lock(&mu_);
  const auto found = reserved_.find(at);
  if (found == reserved_.end() || found->second != bytes) return Misused("frees addresses");
  const auto mapped = mappings_.lower_bound(at);
  if (mapped != mappings_.end() && mapped->first < at + bytes) return Misused("frees mapped ones");
  reserved_.erase(found);
  return CUDA_SUCCESS;
}

CUresult TimelineDriver::Map(CUdeviceptr at, size_t bytes, uint64_t memory) {
  MutexLock lock(&mu_);
  if (!Exists("memory", memory)) return Misused("maps no memory");
  auto range = reserved_.upper_bound(at);
  if (range == reserved_.begin() ||
      at + bytes > std::prev(range)->first + std::prev(range)->second) {
    return Misused("maps outside of reservations");
  }
  auto next = mappings_.lower_bound(at);
  if (next != mappings_.end() && next->first < at + bytes) return CUDA_ERROR_INVALID_VALUE;
  if (next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > at) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  mappings_[at] = {bytes, false};
  return CUDA_SUCCESS;
}

CUresult TimelineDriver::Unmap(CUdeviceptr at, size_t bytes) {
  MutexLock lock(&mu_);
  const auto found = mappings_.find(at);
  if (found == mappings_.end() || found->second.bytes != bytes) return Misused("unmaps");
  mappings_.erase(found);
  return CUDA_SUCCESS;
}

CUresult TimelineDriver::SetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access) {
  MutexLock lock(&mu_);
  for (CUdeviceptr next = at; next < at + bytes;) {
    const auto found = mappings_.find(next);
    if (found == mappings_.end()) return Misused("sets access to what is not mapped");
    found->second.accessible = access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    next += found->second.bytes;
  }
  return CUDA_SUCCESS;
}

bool TimelineDriver::FindMapping(CUdeviceptr address, CUdeviceptr* start, size_t* bytes) {
  MutexLock lock(&mu_);
  const auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return false;
  *start = std::prev(next)->first;
  *bytes = std::prev(next)->second.bytes;
  return address - *start < *bytes;
}

}  // namespace warpline::device
