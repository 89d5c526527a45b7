// Small copies between the worker and device memory, on a stream of their own: they wait for no
// other work, and no other work waits for them.
#ifndef WARPLINE_SERVER_WORKER_MEMORY_SMALL_COPIES_H_
#define WARPLINE_SERVER_WORKER_MEMORY_SMALL_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/cuda/cuda_result.h"
#include "server/device/device.h"

namespace warpline::worker {

// Every call waits for the device to have done it, and returns the device's errors. Not
// thread-safe.
class SmallCopies {
 public:
  // `context` is borrowed, and outlives this.
  explicit SmallCopies(device::Context* context) : context_(context) {}
  ~SmallCopies();
  SmallCopies(const SmallCopies&) = delete;
  SmallCopies& operator=(const SmallCopies&) = delete;

  CudaResult Write(uint64_t address, std::string_view bytes);
  // Calls Modules::WriteVariable().
  CudaResult WriteVariable(device::ModuleId module, const std::string& name,
                           std::string_view bytes);
  CudaResult Zero(uint64_t address, uint64_t bytes);
  CudaResult Read(uint64_t address, void* out, size_t bytes);

 private:
  CudaResult Prepare();
  CudaResult Wait();

  device::Context* const context_;
  void* staging_ = nullptr;
  device::EventId event_{};
  device::StreamId stream_{};
  bool ready_ = false;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MEMORY_SMALL_COPIES_H_
