// NVIDIA's cuBLAS in a worker that many sessions share: loaded before the driver, with handles that
// are made before the first session, because making one stops the kernels of all.
//
//   LoadCublas(folders, table);                // Before the driver is loaded.
//   auto cublas = CublasLibrary::Open(api);   // In the device's context.
//   CudaResult result = cublas->Call(call, moments, stream, native, workspace, &launches);
#ifndef WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_CUBLAS_LIBRARY_H_
#define WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_CUBLAS_LIBRARY_H_

#include <cuda.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/cuda/libraries/address_copies.h"
#include "server/device/cuda/libraries/lt_matmul.h"
#include "server/device/cuda/shared/quiet_moments.h"
#include "server/device/cuda/shared/session_stream.h"

namespace warpline::device {

// Loads NVIDIA's libcublas.so.13 from the first of `folders` that has it, after our table of the
// driver's functions from `table`. Called once, in a process that has not loaded the driver. After
// an error, CublasLibrary::Open() says NOT_FOUND.
absl::Status LoadCublas(const std::vector<std::string>& folders, const std::string& table);

// Memory of the device for one call at a time.
struct CublasWorkspace {
  CUdeviceptr address = 0;
  uint64_t bytes = 0;
};

// A call whose operands have been admitted. `values` are those of the wire, with the addresses that
// the gate gave (proto/adapters/library_call.h).
struct CublasCall {
  uint32_t function = 0;
  uint32_t modes = 0;
  absl::Span<const uint64_t> values;
  // Copied on the stream before the call is made. At most AddressCopies::kMostArrays.
  absl::Span<const AddressCopies::Array> arrays;
};

// Thread-safe.
class CublasLibrary {
 public:
  // The workspace that the library has by itself on Hopper; with less it chooses other kernels.
  static constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;

  // Makes the handles, and calls one function to have the library load what it always needs. The
  // device's context must be current, and no session may have a kernel under way. NOT_FOUND when
  // the library was not loaded.
  static absl::StatusOr<std::unique_ptr<CublasLibrary>> Open(const DriverApi* api);
  ~CublasLibrary();
  CublasLibrary(const CublasLibrary&) = delete;
  CublasLibrary& operator=(const CublasLibrary&) = delete;

  // Returns what cublasGetVersion() says.
  uint32_t version() const { return version_; }

  AddressCopies* addresses() { return addresses_.get(); }

  // Makes the call on the stream, whose driver's stream is `native`. `*launches` gets the number of
  // operations that came of it. Waits for a handle, and where the library loads code, for a quiet
  // moment.
  CudaResult Call(const CublasCall& call, QuietMoments* moments, SessionStream* stream,
                  CUstream native, const CublasWorkspace& workspace, uint32_t* launches);

  // Gets the algorithms for a call of cublasLtMatmul(), whose values have alignments for addresses.
  // Waits for others' searches, and where the library loads code, for a quiet moment.
  CudaResult Algorithms(uint32_t modes, absl::Span<const uint64_t> values, QuietMoments* moments,
                        std::vector<LtAlgorithm>* algorithms);
  // Gets the algorithms that programs can configure for calls with the types of these values.
  // kNotSupported when there are none. Waits as Algorithms() does.
  CudaResult Kinds(absl::Span<const uint64_t> values, QuietMoments* moments,
                   std::vector<LtKind>* kinds);

 private:
  // A cublasHandle_t, and the modes that it has.
  struct Handle {
    void* handle = nullptr;
    uint32_t modes = 0;  // LibraryModes; at first those of a new handle.
  };
  static constexpr int kHandles = 4;

  explicit CublasLibrary(const DriverApi* api) : api_(api) {}
  CudaResult WarmUp();
  Handle* Take();
  void Give(Handle* handle);
  // Gives the handle what it needs for the call. Returns a cublasStatus_t.
  static int Prepare(Handle* handle, const CublasCall& call, CUstream stream,
                     const CublasWorkspace& workspace);

  // Make the call, in a LibraryScope. They return a cublasStatus_t.
  int CopyAddresses(const CublasCall& call);
  int CallBlas(const CublasCall& call, CUstream stream, const CublasWorkspace& workspace);
  int CallLt(const CublasCall& call, CUstream stream, const CublasWorkspace& workspace);

  const DriverApi* const api_;
  void* searcher_ = nullptr;  // The handle with which algorithms are searched.
  LtMatmul lt_;
  uint32_t version_ = 0;
  std::unique_ptr<AddressCopies> addresses_;
  std::array<Handle, kHandles> handles_;  // A thread that has taken one uses it alone.
  Mutex mu_;                              // No other lock is taken under it, and no call made.
  CondVar given_;
  std::vector<Handle*> free_ ABSL_GUARDED_BY(mu_);
};

// Memory of the device outside of every arena, so that no session's kernels reach it: a kernel of
// the library waits for words in it. It is made of handles as chunks are, which stops nobody.
// Thread-safe.
class LibraryMemory {
 public:
  static absl::StatusOr<std::unique_ptr<LibraryMemory>> Make(const DriverApi* api, CUdevice device,
                                                             uint64_t bytes);
  ~LibraryMemory();
  LibraryMemory(const LibraryMemory&) = delete;
  LibraryMemory& operator=(const LibraryMemory&) = delete;

  CublasWorkspace workspace() const { return {address_, bytes_}; }

 private:
  explicit LibraryMemory(const DriverApi* api) : api_(api) {}

  const DriverApi* const api_;
  CUdeviceptr address_ = 0;
  uint64_t bytes_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  bool mapped_ = false;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_CUBLAS_LIBRARY_H_
