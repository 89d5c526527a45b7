#include "server/device/cuda/libraries/cublas_library.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "proto/adapters/library_call.h"
#include "server/device/cuda/libraries/cublas_status.h"
#include "server/device/cuda/libraries/library_driver.h"
#include "server/device/cuda/libraries/lt_functions.h"

namespace warpline::device {
namespace {

// The library's functions. Written by LoadCublas(), before any thread calls them.
struct Functions {
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*version)(void*, int*) = nullptr;
  int (*set_stream)(void*, CUstream) = nullptr;
  int (*set_workspace)(void*, void*, size_t) = nullptr;
  int (*set_pointer_mode)(void*, int) = nullptr;
  int (*set_atomics_mode)(void*, int) = nullptr;
  int (*set_math_mode)(void*, int) = nullptr;
  std::array<void*, 256> by_number{};
  bool loaded = false;
};
Functions functions;

// Returns whether the function has a result besides its operands. The client wants it in device
// memory in either pointer mode; such functions have no scalars.
bool HasResult(const CublasCall& call) {
  const LibraryFunction* const function = FindLibraryFunction(call.function);
  return function != nullptr && function->kinds.find('r') != std::string_view::npos;
}

// The scalars of a call, where the library may read them: NVIDIA's code loads a complex number of
// 16 bytes at once, and faults where it is not aligned.
class Scalars {
 public:
  explicit Scalars(const CublasCall& call) : call_(call) {}

  // Returns the scalar of a slot. Called at most kMost times.
  const void* At(uint32_t slot) {
    if ((call_.modes & LibraryModes::kPointersToDevice) != 0) {
      return reinterpret_cast<const void*>(call_.values[slot]);
    }
    Scalar* const scalar = &scalars_[count_++];
    std::memcpy(scalar, &call_.values[slot], sizeof(*scalar));
    return scalar;
  }

 private:
  static constexpr size_t kMost = 4;
  struct alignas(16) Scalar {
    std::array<uint64_t, 2> words;
  };

  const CublasCall& call_;
  std::array<Scalar, kMost> scalars_;
  size_t count_ = 0;
};

// Calls the function with the values as its arguments, by its own prototype.
int CallByPrototype(const CublasCall& call, void* handle) {
  const absl::Span<const uint64_t> v = call.values;
  void* const function = functions.by_number[call.function];
  Scalars scalars(call);
  switch (call.function) {
#define WARPLINE_THUNK(number, name, types, arguments) \
  case number:                                         \
    return reinterpret_cast<int(*) types>(function) arguments;
#include "proto/adapters/cublas_thunks.inc"
#undef WARPLINE_THUNK
    default:
      return kNotSupported;
  }
}

CudaResult ResultOf(int status) {
  switch (status) {
    case kSuccess:
      return CudaResult::kSuccess;
    case kAllocFailed:
      return CudaResult::kOutOfMemory;
    case kInvalidValue:
      return CudaResult::kInvalidValue;
    case kArchMismatch:
    case kNotSupported:
      return CudaResult::kNotSupported;
    default:
      return CudaResult::kUnknown;
  }
}

bool FindFunctions(void* library) {
  bool all = FindFunction(library, "cublasCreate_v2", &functions.create) &&
             FindFunction(library, "cublasDestroy_v2", &functions.destroy) &&
             FindFunction(library, "cublasGetVersion_v2", &functions.version) &&
             FindFunction(library, "cublasSetStream_v2", &functions.set_stream) &&
             FindFunction(library, "cublasSetWorkspace_v2", &functions.set_workspace) &&
             FindFunction(library, "cublasSetPointerMode_v2", &functions.set_pointer_mode) &&
             FindFunction(library, "cublasSetAtomicsMode", &functions.set_atomics_mode) &&
             FindFunction(library, "cublasSetMathMode", &functions.set_math_mode);
#define WARPLINE_THUNK(number, name, types, arguments) \
  static_assert(number < 256);                         \
  all = all && FindFunction(library, #name, &functions.by_number[number]);
#include "proto/adapters/cublas_thunks.inc"
#undef WARPLINE_THUNK
  return all;
}

}  // namespace

absl::Status LoadCublas(const std::vector<std::string>& folders, const std::string& table) {
  const absl::Status loaded = LoadLibraryTable(table);
  if (!loaded.ok()) return loaded;
  std::string why = "no folder is given";
  for (const std::string& folder : folders) {
    const std::string path = absl::StrCat(folder, "/libcublas.so.13");
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      why = dlerror();
      continue;
    }
    functions.loaded = FindFunctions(library);
    // cuBLAS brings cuBLASLt with it.
    if (!lt::LoadLt(library)) LogWarning(path, " has no cuBLASLt");
    if (functions.loaded) return absl::OkStatus();
    why = absl::StrCat(path, " lacks functions");
  }
  return absl::NotFoundError(why);
}

absl::StatusOr<std::unique_ptr<CublasLibrary>> CublasLibrary::Open(const DriverApi* api) {
  if (!functions.loaded) return absl::NotFoundError("no cuBLAS");
  FillLibraryTable(DriverLibrary());
  auto library = absl::WrapUnique(new CublasLibrary(api));
  auto addresses = AddressCopies::Open(api);
  if (!addresses.ok()) return addresses.status();
  library->addresses_ = *std::move(addresses);
  for (Handle& handle : library->handles_) {
    const int status = functions.create(&handle.handle);
    if (status != kSuccess) return absl::UnavailableError(absl::StrCat("cublasCreate: ", status));
    MutexLock lock(&library->mu_);
    library->free_.push_back(&handle);
  }
  const int status = functions.create(&library->searcher_);
  if (status != kSuccess) return absl::UnavailableError(absl::StrCat("cublasCreate: ", status));
  int version = 0;
  functions.version(library->handles_[0].handle, &version);
  library->version_ = static_cast<uint32_t>(version);
  const CudaResult warm = library->WarmUp();
  if (warm != CudaResult::kSuccess) return StatusFromCudaResult(warm, "cuBLAS");
  return library;
}

CublasLibrary::~CublasLibrary() {
  for (const Handle& handle : handles_) {
    if (handle.handle != nullptr) functions.destroy(handle.handle);
  }
  if (searcher_ != nullptr) functions.destroy(searcher_);
}

// Multiplies two matrices of one element.
CudaResult CublasLibrary::WarmUp() {
  CUdeviceptr memory = 0;
  CUresult result = api_->p_cuMemAlloc_v2(&memory, 4096);
  if (result != CUDA_SUCCESS) return ToResult(result);
  result = api_->p_cuMemsetD8(memory, 0, 4096);
  const float one = 1;
  uint64_t scalar = 0;
  std::memcpy(&scalar, &one, sizeof(one));
  const uint64_t values[] = {
      0, 0, 1, 1, 1, scalar, 0, memory, 1, memory + 256, 1, scalar, 0, memory + 512, 1};
  Handle* const handle = Take();
  const int status = CallByPrototype({1, 0, values, {}}, handle->handle);
  Give(handle);
  if (result == CUDA_SUCCESS) result = api_->p_cuStreamSynchronize(nullptr);
  api_->p_cuMemFree_v2(memory);
  return status == kSuccess ? ToResult(result) : ResultOf(status);
}

CublasLibrary::Handle* CublasLibrary::Take() {
  MutexLock lock(&mu_);
  while (free_.empty()) given_.Wait(&mu_);
  Handle* const handle = free_.back();
  free_.pop_back();
  return handle;
}

void CublasLibrary::Give(Handle* handle) {
  {
    MutexLock lock(&mu_);
    free_.push_back(handle);
  }
  given_.NotifyAll();
}

// Setting a stream takes the workspace away.
int CublasLibrary::Prepare(Handle* handle, const CublasCall& call, CUstream stream,
                           const CublasWorkspace& workspace) {
  void* const native = handle->handle;
  int status = functions.set_stream(native, stream);
  if (status == kSuccess) {
    status = functions.set_workspace(native, reinterpret_cast<void*>(workspace.address),
                                     workspace.bytes);
  }
  uint32_t modes = call.modes;
  if (HasResult(call)) modes |= LibraryModes::kPointersToDevice;
  if (status != kSuccess || modes == handle->modes) return status;
  const bool on_device = (modes & LibraryModes::kPointersToDevice) != 0;
  handle->modes = ~uint32_t{0};  // Until all of them are set.
  status = functions.set_pointer_mode(native, on_device ? 1 : 0);
  if (status == kSuccess) {
    status = functions.set_atomics_mode(native, (modes & LibraryModes::kAtomics) != 0 ? 1 : 0);
  }
  if (status == kSuccess) {
    const uint32_t math = (modes & LibraryModes::kMathMask) >> LibraryModes::kMathShift;
    status = functions.set_math_mode(native, static_cast<int>(math));
  }
  if (status == kSuccess) handle->modes = modes;
  return status;
}

int CublasLibrary::CopyAddresses(const CublasCall& call) {
  if (call.arrays.empty()) return kSuccess;
  const CUresult copied = LibraryScope::Current()->Launch(
      [&](CUstream to) { return addresses_->Copy(call.arrays, to); });
  return copied == CUDA_SUCCESS ? kSuccess : kExecutionFailed;
}

int CublasLibrary::CallBlas(const CublasCall& call, CUstream stream,
                            const CublasWorkspace& workspace) {
  Handle* const handle = Take();
  int status = Prepare(handle, call, stream, workspace);
  if (status == kSuccess) status = CopyAddresses(call);
  if (status == kSuccess) status = CallByPrototype(call, handle->handle);
  // The stream and the workspace are the session's, and may be gone before the handle's next call.
  functions.set_stream(handle->handle, nullptr);
  Give(handle);
  return status;
}

// cuBLASLt takes stream and workspace with each call.
int CublasLibrary::CallLt(const CublasCall& call, CUstream stream,
                          const CublasWorkspace& workspace) {
  const std::shared_ptr<const LtPlans> plans =
      lt_.Find(call.values, call.modes, workspace.bytes, searcher_);
  if (plans->status != kSuccess) return plans->status;
  if (call.values[kLtMatmulOwn] != 0) LibraryScope::Current()->BoundLoads();
  const int copied = CopyAddresses(call);
  if (copied != kSuccess) return copied;
  Scalars scalars(call);
  const void* const alpha = scalars.At(kLtMatmulAlpha);
  const void* const beta = scalars.At(kLtMatmulBeta);
  Handle* const handle = Take();
  const int status = LtMatmul::Run(*plans, call.values, call.modes, {alpha, beta}, handle->handle,
                                   stream, {workspace.address, workspace.bytes});
  Give(handle);
  return status;
}

CudaResult CublasLibrary::Algorithms(uint32_t modes, absl::Span<const uint64_t> values,
                                     QuietMoments* moments, std::vector<LtAlgorithm>* algorithms) {
  // It puts nothing on a stream.
  LibraryScope scope(moments, nullptr, nullptr);
  const std::shared_ptr<const LtPlans> plans = lt_.Find(values, modes, kWorkspaceBytes, searcher_);
  algorithms->clear();
  for (const LtPlans::Plan& plan : plans->plans) algorithms->push_back(plan.known);
  return ResultOf(plans->status);
}

CudaResult CublasLibrary::Kinds(absl::Span<const uint64_t> values, QuietMoments* moments,
                                std::vector<LtKind>* kinds) {
  LibraryScope scope(moments, nullptr, nullptr);
  *kinds = *lt_.FindKinds(values, searcher_);
  return kinds->empty() ? CudaResult::kNotSupported : CudaResult::kSuccess;
}

CudaResult CublasLibrary::Call(const CublasCall& call, QuietMoments* moments, SessionStream* stream,
                               CUstream native, const CublasWorkspace& workspace,
                               uint32_t* launches) {
  LibraryScope scope(moments, stream, native);
  const int status = call.function == kLtMatmulNumber ? CallLt(call, native, workspace)
                                                      : CallBlas(call, native, workspace);
  *launches = scope.operations();
  if (status == kSuccess) return CudaResult::kSuccess;
  const CUresult error = scope.error();
  static std::atomic<int> said{0};
  constexpr int kMostLines = 100;
  if (ResultOf(status) == CudaResult::kUnknown && said.fetch_add(1) < kMostLines) {
    LogWarning("cuBLAS function=", call.function, " status=", status,
               " error=", CudaResultName(ToResult(error)));
  }
  return error != CUDA_SUCCESS ? ToResult(error) : ResultOf(status);
}

absl::StatusOr<std::unique_ptr<LibraryMemory>> LibraryMemory::Make(const DriverApi* api,
                                                                   CUdevice device,
                                                                   uint64_t bytes) {
  auto memory = absl::WrapUnique(new LibraryMemory(api));
  CUmemAllocationProp what = {};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  CUmemAccessDesc access = {};
  access.location = what.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUresult result = api->p_cuMemAddressReserve(&memory->address_, bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) {
    memory->bytes_ = bytes;
    result = api->p_cuMemCreate(&memory->handle_, bytes, &what, 0);
  }
  if (result == CUDA_SUCCESS) {
    result = api->p_cuMemMap(memory->address_, bytes, 0, memory->handle_, 0);
    memory->mapped_ = result == CUDA_SUCCESS;
  }
  if (result == CUDA_SUCCESS) result = api->p_cuMemSetAccess(memory->address_, bytes, &access, 1);
  if (result != CUDA_SUCCESS) return StatusFromCudaResult(ToResult(result), "library memory");
  return memory;
}

LibraryMemory::~LibraryMemory() {
  if (mapped_) api_->p_cuMemUnmap(address_, bytes_);
  if (handle_ != 0) api_->p_cuMemRelease(handle_);
  if (bytes_ != 0) api_->p_cuMemAddressFree(address_, bytes_);
}

}  // namespace warpline::device
