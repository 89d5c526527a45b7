// Copies between device memory and files, for the server.
#ifndef WARPLINE_SERVER_WORKER_MEMORY_FILE_COPIES_H_
#define WARPLINE_SERVER_WORKER_MEMORY_FILE_COPIES_H_

#include <cstdint>

#include "common/cuda/cuda_result.h"
#include "server/device/device.h"

namespace warpline::worker {

// Every copy waits for everything on the legacy stream before it, and until it is done itself.
// Copies return the device's error for memory that is not mapped, and kOperatingSystem when the
// file is too short. Not thread-safe.
class FileCopies {
 public:
  // `context` is borrowed.
  explicit FileCopies(device::Context* context) : context_(context) {}
  ~FileCopies();
  FileCopies(const FileCopies&) = delete;
  FileCopies& operator=(const FileCopies&) = delete;

  // Copies [va, va + bytes) to the file behind `fd` (borrowed), from `offset` on.
  CudaResult ToFile(uint64_t va, uint64_t bytes, int fd, uint64_t offset);
  // Copies the other way.
  CudaResult FromFile(int fd, uint64_t offset, uint64_t va, uint64_t bytes);

 private:
  CudaResult Prepare();
  CudaResult Wait();

  device::Context* const context_;
  void* staging_ = nullptr;
  device::EventId event_{};
  bool ready_ = false;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MEMORY_FILE_COPIES_H_
