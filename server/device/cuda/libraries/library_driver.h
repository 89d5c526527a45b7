// The driver as NVIDIA's libraries see it in a worker that many sessions share.
//
// A library expects a process of its own: it allocates memory, loads code when it is first wanted,
// and waits. Here each of these would stop the kernels of all sessions. So the library finds a
// libcuda.so.1 of ours (library_table.c), whose entries are the driver's own functions but for
// those that allocate, load, launch and wait.
//
//   LoadLibraryTable(path);              // Before the driver is loaded, and before the library.
//   FillLibraryTable(api, driver);       // When the driver has been loaded.
//   { LibraryScope scope(moments, stream, native); cublasSgemm(...); }
//
// Outside of a LibraryScope, as when handles are made before the first session, the entries are the
// driver's.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LIBRARY_DRIVER_H_
#define WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LIBRARY_DRIVER_H_

#include <cuda.h>

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/device/cuda/shared/quiet_moments.h"
#include "server/device/cuda/shared/session_stream.h"

namespace warpline::device {

// Loads the table at `path`, and has LoadDriver() find the driver nevertheless. Called once in a
// process that has not loaded the driver. NOT_FOUND when there is no driver or no table.
absl::Status LoadLibraryTable(const std::string& path);

// Fills the table, if there is one, from the driver behind the dlopen() handle.
void FillLibraryTable(void* driver);

// While it lives, the calling thread's calls of the driver are those of one call of a library. They
// put kernels, fills and copies on the stream and nowhere else, and load code at quiet moments.
// They neither allocate nor wait. One at a time on a thread.
class LibraryScope {
 public:
  // `stream` is borrowed, and `native` is its driver's stream, which stays for the scope's time.
  LibraryScope(QuietMoments* moments, SessionStream* stream, CUstream native);
  ~LibraryScope();
  LibraryScope(const LibraryScope&) = delete;
  LibraryScope& operator=(const LibraryScope&) = delete;

  // The first error of a call that was refused or failed, or CUDA_SUCCESS.
  CUresult error() const { return error_; }

  // Makes a call of the driver that launches a kernel on the stream.
  CUresult Launch(absl::FunctionRef<CUresult(CUstream stream)> launch);

  // The operations that the call has put on the stream.
  uint32_t operations() const { return operations_; }

  // --- For the table's functions
  static LibraryScope* Current();
  QuietMoments* moments() const { return moments_; }
  SessionStream* stream() const { return stream_; }
  CUstream native() const { return native_; }
  // Kernels that are loaded for the call count against a bound of the process, since a program
  // could choose all that the library has. They are never unloaded.
  void BoundLoads() { bounds_loads_ = true; }
  // Returns whether the call may load another kernel.
  bool MayLoad() const;
  // Counts an operation that is about to be put on the stream. Returns false when the call has put
  // too many there: the driver would stop the thread.
  bool Count() { return ++operations_ <= kMostOperations; }
  CUresult Note(CUresult result) {
    if (error_ == CUDA_SUCCESS) error_ = result;
    return result;
  }

 private:
  static constexpr uint32_t kMostOperations = 256;

  QuietMoments* const moments_;
  SessionStream* const stream_;
  const CUstream native_;
  CUresult error_ = CUDA_SUCCESS;
  uint32_t operations_ = 0;
  bool bounds_loads_ = false;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_LIBRARIES_LIBRARY_DRIVER_H_
