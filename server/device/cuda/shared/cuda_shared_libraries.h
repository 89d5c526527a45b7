// The libraries of a context of a shared device.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_LIBRARIES_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_LIBRARIES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/cuda/libraries/cublas_library.h"
#include "server/device/facets/libraries.h"

namespace warpline::device {

// Thread-safe. Calls of several threads are issued one after the other.
class CudaSharedLibraries : public virtual Libraries, protected CudaPart {
 public:
  explicit CudaSharedLibraries(CudaMember* member) : CudaPart(*member) {}
  // REQUIRES: none of its calls is under way on the device.
  ~CudaSharedLibraries() override;

  CudaResult LibraryVersion(uint32_t* version) override;
  uint64_t LibraryMicroseconds(const LibraryCost& cost) override;
  CudaResult CallLibrary(const LibraryRequest& request, StreamId stream,
                         uint32_t* launches) override;
  CudaResult LibraryAlgorithms(uint32_t modes, absl::Span<const uint64_t> values,
                               std::vector<LtAlgorithm>* algorithms) override;
  CudaResult LibraryKinds(absl::Span<const uint64_t> values, std::vector<LtKind>* kinds) override;
  CudaResult LibraryFault() override;

 private:
  // Streams whose calls may be under way at the same time. More streams take turns.
  static constexpr size_t kMostWorkspaces = 4;

  // Memory that one call after the other uses.
  struct Workspace {
    std::unique_ptr<LibraryMemory> memory;
    std::unique_ptr<LibraryMemory> addresses;  // For copies of arrays; made when first needed.
    std::shared_ptr<SessionStream> user;       // The stream of the latest call.
    uint64_t used = 0;                         // The number of that call.
  };

  // Makes memory that the session pays for.
  CudaResult MakeMemory(const LibraryRequest& request, uint64_t bytes,
                        std::unique_ptr<LibraryMemory>* memory);
  // Finds the workspace for a call on the stream, and makes one if there may be more.
  CudaResult FindWorkspace(const LibraryRequest& request, const SessionStream* stream,
                           Workspace** workspace) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Makes the arrays of addresses that the call copies to the workspace's memory, and has `*values`
  // lead to the copies.
  CudaResult PlaceAddresses(const LibraryRequest& request, Workspace* workspace,
                            std::vector<uint64_t>* values,
                            std::vector<AddressCopies::Array>* arrays)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // AddressCopies::TakeWord(), from the first call with addresses on.
  std::atomic<uint32_t*> fault_{nullptr};

  Mutex mu_;  // Held during calls of the driver, and while code is loaded.
  std::vector<Workspace> workspaces_ ABSL_GUARDED_BY(mu_);
  uint64_t calls_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_LIBRARIES_H_
