// Copies arrays of device addresses from a session's memory, by a kernel of the server's.
//
// A call such as cublasSgemmBatched() takes its operands' addresses from device memory, which the
// session's kernels can change at any time. So the library gets a copy, in memory that no session
// reaches. Every address in a copy leads to the session's arena: in the place of one that does not,
// or is not aligned, the arena's first address is used, and a word says so.
//
//   auto copies = AddressCopies::Open(api);             // Before the first session.
//   uint32_t* word = (*copies)->TakeWord();             // One for a session.
//   CUresult result = (*copies)->Copy({&array, 1}, stream);
//   ...
//   if (*word != 0) ...                                 // When the stream has come so far.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_ADDRESS_COPIES_H_
#define WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_ADDRESS_COPIES_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mutex.h"
#include "server/device/cuda/driver_api.h"

namespace warpline::device {

// Thread-safe.
class AddressCopies {
 public:
  // A copy takes at most so many arrays.
  static constexpr size_t kMostArrays = 4;
  // There are words for so many sessions.
  static constexpr size_t kWords = 4096;
  // The kernel, in PTX: its parameter is kMostArrays of Array, and row y of the grid copies array
  // y, an address a thread.
  static const char* const kPtx;
  static constexpr unsigned kThreads = 256;

  // The kernel reads it.
  struct Array {
    CUdeviceptr from = 0;
    CUdeviceptr to = 0;
    uint64_t count = 0;
    // An address is at least `first` and at most `last`, and has none of the bits of `odd`.
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t odd = 0;
    // Gets the number of a CUDA error for another address: 700 for one elsewhere, 716 for one that
    // is not aligned. Null for an array whose addresses are not used.
    uint32_t* word = nullptr;
  };

  // Loads the kernel. The device's context must be current, and no session may have a kernel under
  // way.
  static absl::StatusOr<std::unique_ptr<AddressCopies>> Open(const DriverApi* api);
  ~AddressCopies();
  AddressCopies(const AddressCopies&) = delete;
  AddressCopies& operator=(const AddressCopies&) = delete;

  // Returns a word of 0, in memory of the host that the device can write to; nullptr when there is
  // none. It is to be given back when the device writes to it no more.
  uint32_t* TakeWord();
  void GiveWord(uint32_t* word);

  // Launches the kernel. REQUIRES: there is an array, at most kMostArrays, and `stream` is one of
  // the context's.
  CUresult Copy(absl::Span<const Array> arrays, CUstream stream);

 private:
  explicit AddressCopies(const DriverApi* api) : api_(api) {}

  const DriverApi* const api_;
  CUfunction kernel_ = nullptr;  // Unloaded with the context.
  uint32_t* words_ = nullptr;
  Mutex mu_;
  std::vector<uint32_t*> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_ADDRESS_COPIES_H_
