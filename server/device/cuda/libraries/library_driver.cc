#include "server/device/cuda/libraries/library_driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/elf/library_walk.h"
#include "common/log/log.h"
#include "common/mutex.h"

namespace warpline::device {
namespace {

// The driver's functions behind ours.
struct Real {
  decltype(&cuGetProcAddress) p_cuGetProcAddress = nullptr;
  decltype(&cuLaunchKernel) p_cuLaunchKernel = nullptr;
  decltype(&cuLaunchKernelEx) p_cuLaunchKernelEx = nullptr;
  decltype(&cuLaunchCooperativeKernel) p_cuLaunchCooperativeKernel = nullptr;
  decltype(&cuLibraryLoadData) p_cuLibraryLoadData = nullptr;
  decltype(&cuModuleLoadData) p_cuModuleLoadData = nullptr;
  decltype(&cuModuleLoadDataEx) p_cuModuleLoadDataEx = nullptr;
  decltype(&cuModuleLoadFatBinary) p_cuModuleLoadFatBinary = nullptr;
  decltype(&cuKernelGetFunction) p_cuKernelGetFunction = nullptr;
  decltype(&cuFuncLoad) p_cuFuncLoad = nullptr;
  decltype(&cuStreamCreate) p_cuStreamCreate = nullptr;
  decltype(&cuStreamCreateWithPriority) p_cuStreamCreateWithPriority = nullptr;
};

// Written before the first library calls anything, by FillLibraryTable().
Real real;
void** table = nullptr;
const char* const* names = nullptr;
uint32_t count = 0;

thread_local LibraryScope* current = nullptr;

// Handles that stay as long as the process. Thread-safe.
class KnownHandles {
 public:
  bool Has(const void* handle) {
    MutexLock lock(&mu_);
    return known_.contains(handle);
  }
  void Add(const void* handle) {
    MutexLock lock(&mu_);
    known_.insert(handle);
  }

 private:
  Mutex mu_;
  absl::flat_hash_set<const void*> known_ ABSL_GUARDED_BY(mu_);
};

// Kernels whose code is on the device.
KnownHandles& loaded_kernels() {
  static auto* const kernels = new KnownHandles;
  return *kernels;
}

// Streams that a library has made for itself. It forks some calls to them, and joins them to the
// call's stream by events. All that goes to the call's own stream instead: the library's streams
// would make sessions wait for each other.
KnownHandles& library_streams() {
  static auto* const streams = new KnownHandles;
  return *streams;
}

CUresult Refuse(const char* name, CUresult why) {
  static std::atomic<int> said{0};
  constexpr int kMostLines = 100;
  LibraryScope* const scope = LibraryScope::Current();
  if (said.fetch_add(1) < kMostLines) {
    LogWarning("a library called ", name, ", which would stop other sessions: refused");
  }
  return scope->Note(why);
}

// Returns the stream for an operation of the current scope that names `stream`; null for one that
// is not the call's.
CUstream StreamFor(CUstream stream) {
  LibraryScope* const scope = LibraryScope::Current();
  const bool is_its = stream == scope->native() || library_streams().Has(stream);
  return is_its ? scope->native() : nullptr;
}

// Makes a call that waits for all running kernels, at a moment at which there are none.
CUresult Quietly(absl::FunctionRef<CUresult()> call) {
  LibraryScope* const scope = LibraryScope::Current();
  return scope == nullptr ? call() : scope->Note(scope->moments()->At(call));
}

// Says that a call of a bounded scope loads no further kernel.
CUresult RefuseLoad() {
  return Refuse("for one more kernel of its choice", CUDA_ERROR_OUT_OF_MEMORY);
}

// Loads the kernel's code, unless it is there; the driver would load it at the launch. The handle
// is a CUfunction or a CUkernel.
CUresult Load(CUfunction function) {
  if (loaded_kernels().Has(function)) return CUDA_SUCCESS;
  LibraryScope* const scope = LibraryScope::Current();
  if (scope != nullptr && !scope->MayLoad()) return RefuseLoad();
  const CUresult result = Quietly([&] {
    CUfunction found = nullptr;
    const CUresult as_kernel =
        real.p_cuKernelGetFunction(&found, reinterpret_cast<CUkernel>(function));
    if (as_kernel == CUDA_SUCCESS) return real.p_cuFuncLoad(found);
    return real.p_cuFuncLoad(function);
  });
  if (result == CUDA_SUCCESS) loaded_kernels().Add(function);
  return result;
}

// Launches on the session's stream.
CUresult LaunchOn(CUfunction function, CUstream stream,
                  absl::FunctionRef<CUresult(CUstream stream)> launch) {
  LibraryScope* const scope = LibraryScope::Current();
  if (scope == nullptr) return launch(stream);
  const CUstream to = StreamFor(stream);
  if (to == nullptr) return Refuse("a launch on another stream", CUDA_ERROR_NOT_SUPPORTED);
  const CUresult loaded = Load(function);
  if (loaded != CUDA_SUCCESS) return loaded;
  return scope->Launch(launch);
}

// --- The table's own functions

CUresult LaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared_bytes, CUstream stream, void** params,
                      void** extra) {
  return LaunchOn(f, stream, [&](CUstream to) {
    return real.p_cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared_bytes, to, params, extra);
  });
}

CUresult LaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params, void** extra) {
  return LaunchOn(f, config->hStream, [&](CUstream to) {
    CUlaunchConfig on = *config;
    on.hStream = to;
    return real.p_cuLaunchKernelEx(&on, f, params, extra);
  });
}

CUresult LaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared_bytes, CUstream stream,
                                 void** params) {
  if (LibraryScope::Current() != nullptr) {
    return Refuse("cuLaunchCooperativeKernel", CUDA_ERROR_NOT_SUPPORTED);
  }
  return real.p_cuLaunchCooperativeKernel(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params);
}

CUresult LibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options,
                         void** jit_values, unsigned jit_count, CUlibraryOption* options,
                         void** values, unsigned option_count) {
  return Quietly([&] {
    return real.p_cuLibraryLoadData(library, code, jit_options, jit_values, jit_count, options,
                                    values, option_count);
  });
}

CUresult ModuleLoadData(CUmodule* module, const void* image) {
  return Quietly([&] { return real.p_cuModuleLoadData(module, image); });
}

CUresult ModuleLoadDataEx(CUmodule* module, const void* image, unsigned options,
                          CUjit_option* names_of, void** values) {
  return Quietly(
      [&] { return real.p_cuModuleLoadDataEx(module, image, options, names_of, values); });
}

CUresult ModuleLoadFatBinary(CUmodule* module, const void* image) {
  return Quietly([&] { return real.p_cuModuleLoadFatBinary(module, image); });
}

CUresult KernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (loaded_kernels().Has(kernel)) return real.p_cuKernelGetFunction(function, kernel);
  LibraryScope* const scope = LibraryScope::Current();
  if (scope != nullptr && !scope->MayLoad()) return RefuseLoad();
  const CUresult result = Quietly([&] {
    const CUresult found = real.p_cuKernelGetFunction(function, kernel);
    return found == CUDA_SUCCESS ? real.p_cuFuncLoad(*function) : found;
  });
  if (result == CUDA_SUCCESS) loaded_kernels().Add(kernel);
  return result;
}

CUresult StreamCreate(CUstream* stream, unsigned flags) {
  const CUresult result = real.p_cuStreamCreate(stream, flags);
  if (result == CUDA_SUCCESS) library_streams().Add(*stream);
  return result;
}

CUresult StreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  const CUresult result = real.p_cuStreamCreateWithPriority(stream, flags, priority);
  if (result == CUDA_SUCCESS) library_streams().Add(*stream);
  return result;
}

CUresult GetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult* status);

// A function that is refused in a scope and the driver's own outside. Its arguments are passed on
// as they are.
template <int kPlace>
struct Refused {
  static inline void* real_function = nullptr;
  static inline const char* name = nullptr;
  static inline CUresult why = CUDA_ERROR_NOT_SUPPORTED;
  static CUresult Call(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
    if (LibraryScope::Current() != nullptr) return Refuse(name, why);
    using Function = CUresult (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
    return reinterpret_cast<Function>(real_function)(a, b, c, d, e, f);
  }
};

// A function that puts something on the stream that is its argument `kStream`. In a scope that is
// the call's own. None has more than six arguments.
template <int kPlace, int kStream>
struct OnStream {
  static inline void* real_function = nullptr;
  static CUresult Call(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
    using Function = CUresult (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
    const auto function = reinterpret_cast<Function>(real_function);
    LibraryScope* const scope = LibraryScope::Current();
    if (scope == nullptr) return function(a, b, c, d, e, f);
    uint64_t* const arguments[] = {&a, &b, &c, &d, &e, &f};
    uint64_t* const stream = arguments[kStream];
    const CUstream to = StreamFor(reinterpret_cast<CUstream>(*stream));
    if (to == nullptr) return Refuse("something on another stream", CUDA_ERROR_NOT_SUPPORTED);
    if (!scope->Count()) return Refuse("too many operations", CUDA_ERROR_NOT_SUPPORTED);
    *stream = reinterpret_cast<uint64_t>(to);
    return function(a, b, c, d, e, f);
  }
};

// NAME(function, place of the stream among its arguments)
#define WARPLINE_ON_STREAM(F)  \
  F(cuEventRecord, 1)          \
  F(cuEventRecordWithFlags, 1) \
  F(cuStreamWaitEvent, 0)      \
  F(cuMemsetD8Async, 3)        \
  F(cuMemsetD16Async, 3)       \
  F(cuMemsetD32Async, 3)       \
  F(cuMemsetD2D8Async, 5)      \
  F(cuMemsetD2D16Async, 5)     \
  F(cuMemsetD2D32Async, 5)     \
  F(cuMemcpyAsync, 3)          \
  F(cuMemcpyHtoDAsync_v2, 3)   \
  F(cuMemcpyDtoDAsync_v2, 3)

#define WARPLINE_PLACE(name, stream) kStreamPlaceOf_##name,
enum StreamPlace : int { WARPLINE_ON_STREAM(WARPLINE_PLACE) };
#undef WARPLINE_PLACE

// Functions that allocate, free or wait: NAME(function, error). None has more than six arguments.
#define WARPLINE_REFUSED(F)                                         \
  F(cuMemAlloc_v2, CUDA_ERROR_OUT_OF_MEMORY)                        \
  F(cuMemAllocAsync, CUDA_ERROR_OUT_OF_MEMORY)                      \
  F(cuMemAllocFromPoolAsync, CUDA_ERROR_OUT_OF_MEMORY)              \
  F(cuMemAllocManaged, CUDA_ERROR_OUT_OF_MEMORY)                    \
  F(cuMemAllocHost_v2, CUDA_ERROR_OUT_OF_MEMORY)                    \
  F(cuMemAllocPitch_v2, CUDA_ERROR_OUT_OF_MEMORY)                   \
  F(cuMemHostAlloc, CUDA_ERROR_OUT_OF_MEMORY)                       \
  F(cuMemHostRegister_v2, CUDA_ERROR_NOT_SUPPORTED)                 \
  F(cuMemHostUnregister, CUDA_ERROR_NOT_SUPPORTED)                  \
  F(cuMemFree_v2, CUDA_ERROR_NOT_SUPPORTED)                         \
  F(cuMemFreeAsync, CUDA_ERROR_NOT_SUPPORTED)                       \
  F(cuMemFreeHost, CUDA_ERROR_NOT_SUPPORTED)                        \
  F(cuMemsetD8_v2, CUDA_ERROR_NOT_SUPPORTED)                        \
  F(cuMemsetD16_v2, CUDA_ERROR_NOT_SUPPORTED)                       \
  F(cuMemsetD32_v2, CUDA_ERROR_NOT_SUPPORTED)                       \
  F(cuMemcpy, CUDA_ERROR_NOT_SUPPORTED)                             \
  F(cuMemcpyHtoD_v2, CUDA_ERROR_NOT_SUPPORTED)                      \
  F(cuMemcpyDtoH_v2, CUDA_ERROR_NOT_SUPPORTED)                      \
  F(cuMemcpyDtoD_v2, CUDA_ERROR_NOT_SUPPORTED)                      \
  F(cuMemcpyDtoHAsync_v2, CUDA_ERROR_NOT_SUPPORTED)                 \
  F(cuStreamSynchronize, CUDA_ERROR_NOT_SUPPORTED)                  \
  F(cuEventSynchronize, CUDA_ERROR_NOT_SUPPORTED)                   \
  F(cuCtxSynchronize, CUDA_ERROR_NOT_SUPPORTED)                     \
  F(cuCtxSynchronize_v2, CUDA_ERROR_NOT_SUPPORTED)                  \
  F(cuCtxSetLimit, CUDA_ERROR_NOT_SUPPORTED)                        \
  F(cuLaunchHostFunc, CUDA_ERROR_NOT_SUPPORTED)                     \
  F(cuGraphLaunch, CUDA_ERROR_NOT_SUPPORTED)                        \
  F(cuStreamAddCallback, CUDA_ERROR_NOT_SUPPORTED)                  \
  F(cuLaunchCooperativeKernelMultiDevice, CUDA_ERROR_NOT_SUPPORTED) \
  F(cuModuleUnload, CUDA_ERROR_NOT_SUPPORTED)                       \
  F(cuLibraryUnload, CUDA_ERROR_NOT_SUPPORTED)

#define WARPLINE_PLACE(name, why) kPlaceOf_##name,
enum Place : int { WARPLINE_REFUSED(WARPLINE_PLACE) };
#undef WARPLINE_PLACE

struct Own {
  const char* name;  // The exported symbol.
  void* function;
  void** real;  // Where the driver's goes.
};

template <typename F>
void** At(F* function) {
  return reinterpret_cast<void**>(function);
}

const Own kOwn[] = {
    {"cuGetProcAddress_v2", reinterpret_cast<void*>(&GetProcAddress), At(&real.p_cuGetProcAddress)},
    {"cuLaunchKernel", reinterpret_cast<void*>(&LaunchKernel), At(&real.p_cuLaunchKernel)},
    {"cuLaunchKernelEx", reinterpret_cast<void*>(&LaunchKernelEx), At(&real.p_cuLaunchKernelEx)},
    {"cuLibraryLoadData", reinterpret_cast<void*>(&LibraryLoadData), At(&real.p_cuLibraryLoadData)},
    {"cuModuleLoadData", reinterpret_cast<void*>(&ModuleLoadData), At(&real.p_cuModuleLoadData)},
    {"cuModuleLoadDataEx", reinterpret_cast<void*>(&ModuleLoadDataEx),
     At(&real.p_cuModuleLoadDataEx)},
    {"cuModuleLoadFatBinary", reinterpret_cast<void*>(&ModuleLoadFatBinary),
     At(&real.p_cuModuleLoadFatBinary)},
    {"cuKernelGetFunction", reinterpret_cast<void*>(&KernelGetFunction),
     At(&real.p_cuKernelGetFunction)},
    {"cuStreamCreate", reinterpret_cast<void*>(&StreamCreate), At(&real.p_cuStreamCreate)},
    {"cuStreamCreateWithPriority", reinterpret_cast<void*>(&StreamCreateWithPriority),
     At(&real.p_cuStreamCreateWithPriority)},
    {"cuLaunchCooperativeKernel", reinterpret_cast<void*>(&LaunchCooperativeKernel),
     At(&real.p_cuLaunchCooperativeKernel)},
#define WARPLINE_ROW(name, stream)                                                 \
  {#name, reinterpret_cast<void*>(&OnStream<kStreamPlaceOf_##name, stream>::Call), \
   &OnStream<kStreamPlaceOf_##name, stream>::real_function},
    WARPLINE_ON_STREAM(WARPLINE_ROW)
#undef WARPLINE_ROW
#define WARPLINE_ROW(name, why)                                     \
  {#name, reinterpret_cast<void*>(&Refused<kPlaceOf_##name>::Call), \
   &Refused<kPlaceOf_##name>::real_function},
        WARPLINE_REFUSED(WARPLINE_ROW)
#undef WARPLINE_ROW
};

const Own* FindOwn(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kOwn), std::end(kOwn),
                                         [&](const Own& own) { return name == own.name; });
  return found == std::end(kOwn) ? nullptr : found;
}

// The driver's answer, or ours for the functions that are ours: the library may ask for them by the
// name without the ABI's version.
CUresult GetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult* status) {
  const CUresult result = real.p_cuGetProcAddress(symbol, function, version, flags, status);
  if (result != CUDA_SUCCESS || symbol == nullptr || function == nullptr || *function == nullptr) {
    return result;
  }
  for (const char* const suffix : {"", "_v2"}) {
    const Own* const own = FindOwn(std::string(symbol) + suffix);
    // Another ABI of a function that is ours has another address, and is not given out.
    if (own != nullptr) *function = own->function;
    if (own != nullptr) break;
  }
  return result;
}

}  // namespace

absl::Status LoadLibraryTable(const std::string& path) {
  // The loader will know something else by this name from now on.
  const std::string driver = elf::FindLibrary("libcuda.so.1", elf::WalkOptionsHere());
  if (driver.empty()) return absl::NotFoundError("no NVIDIA driver");
  if (access(path.c_str(), R_OK) != 0) return absl::NotFoundError(absl::StrCat("no ", path));
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::UnavailableError(dlerror());
  using Get = uint32_t (*)(void***, const char* const**);
  const Get get = reinterpret_cast<Get>(dlsym(library, "warpline_library_table"));
  if (get == nullptr) return absl::UnavailableError(absl::StrCat(path, " has no table"));
  count = get(&table, &names);
  UseDriverAt(driver);
  return absl::OkStatus();
}

void FillLibraryTable(void* driver) {
  if (table == nullptr) return;
#define WARPLINE_NAME(symbol, error)          \
  Refused<kPlaceOf_##symbol>::name = #symbol; \
  Refused<kPlaceOf_##symbol>::why = error;
  WARPLINE_REFUSED(WARPLINE_NAME)
#undef WARPLINE_NAME
  *At(&real.p_cuFuncLoad) = dlsym(driver, "cuFuncLoad");
  for (uint32_t i = 0; i < count; ++i) {
    void* const function = dlsym(driver, names[i]);
    if (function == nullptr) continue;
    const Own* const own = FindOwn(names[i]);
    if (own != nullptr) *own->real = function;
    table[i] = own != nullptr ? own->function : function;
  }
}

LibraryScope::LibraryScope(QuietMoments* moments, SessionStream* stream, CUstream native)
    : moments_(moments), stream_(stream), native_(native) {
  current = this;
}

LibraryScope::~LibraryScope() { current = nullptr; }

bool LibraryScope::MayLoad() const {
  static std::atomic<int> loaded{0};
  constexpr int kMostLoaded = 1024;
  return !bounds_loads_ || loaded.fetch_add(1) < kMostLoaded;
}

LibraryScope* LibraryScope::Current() { return current; }

// The operation's number is raised for each kernel, so that a look for quiet kernels waits for the
// later ones as well.
CUresult LibraryScope::Launch(absl::FunctionRef<CUresult(CUstream stream)> launch) {
  if (!Count()) return Refuse("too many launches", CUDA_ERROR_NOT_SUPPORTED);
  const QuietMoments::Launch launching(moments_);
  stream_->AddKernel();
  const CUresult result = Note(launch(native_));
  stream_->issued.Increment();
  return result;
}

}  // namespace warpline::device
