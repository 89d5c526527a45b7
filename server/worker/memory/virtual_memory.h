// The session's memory handles and where they are mapped.
//
// The server hands over the chunks of handles and takes them back; the session's commands map them
// into the arena. What is given back must be mapped nowhere: that is made sure of here, in the
// process that has the mappings.
#ifndef WARPLINE_SERVER_WORKER_MEMORY_VIRTUAL_MEMORY_H_
#define WARPLINE_SERVER_WORKER_MEMORY_VIRTUAL_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "server/device/device.h"

namespace warpline::worker {

// Thread-safe. No lock is held while the device is asked.
class VirtualMemory {
 public:
  // `contexts` of the session's devices, borrowed. A handle belongs to the one that its highest
  // byte says, wherever it is mapped.
  explicit VirtualMemory(std::vector<device::Context*> contexts) : contexts_(std::move(contexts)) {}
  explicit VirtualMemory(device::Context* context)
      : VirtualMemory(std::vector<device::Context*>{context}) {}

  // The server's: another chunk of `handle`, behind those that it has. Where the journal had the
  // handle mapped, it is mapped again as soon as it is complete, and the error is that of doing so.
  // kInvalidValue for a device that there is none of.
  CudaResult Hold(uint64_t handle, uint64_t bytes, UniqueFd fd);
  // The handle is gone. kIllegalState while it is mapped, or about to be unmapped.
  CudaResult Drop(uint64_t handle);

  // The client's. Maps all of a handle, which has `bytes`, at `va`. kInvalidValue for a handle that
  // is not held in that size, or where something is mapped there.
  CudaResult Map(uint64_t va, uint64_t bytes, uint64_t handle, uint32_t access);
  // Of what was mapped at `va`. kInvalidValue where nothing was, or for an unknown access.
  CudaResult SetAccess(uint64_t va, uint32_t access);
  // Two steps, since what is still running may use the mapping: from the first on it is no more as
  // far as the client is concerned, the second undoes it. kInvalidValue where nothing was mapped.
  CudaResult BeginUnmap(uint64_t va);
  CudaResult FinishUnmap(uint64_t va);

  // While what a journal says is made again, handles may be mapped before they are held.
  void SetRestoring(bool restoring);

  size_t mappings() const;

 private:
  struct Chunk {
    uint64_t bytes;
    UniqueFd fd;
  };
  struct Handle {
    device::Context* context = nullptr;
    std::vector<Chunk> chunks;
    uint64_t bytes = 0;
  };
  struct Mapping {
    uint64_t bytes = 0;
    uint64_t handle = 0;
    device::Context* context = nullptr;  // Of the handle's device.
    device::MemoryAccess access = device::MemoryAccess::kNone;
    // Sizes of the chunks on the device; none while it waits for its handle.
    std::vector<uint64_t> chunks;
    bool leaving = false;
  };

  static CudaResult MapChunks(uint64_t va, const Handle& handle, device::MemoryAccess access);
  // Null where there is no such device.
  device::Context* ContextOf(uint64_t handle) const;
  bool Overlaps(uint64_t va, uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Handle> Find(uint64_t handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::vector<device::Context*> contexts_;

  mutable Mutex mu_;
  bool restoring_ ABSL_GUARDED_BY(mu_) = false;
  // Shared with whoever is mapping one. A handle does not change once it is mapped.
  std::map<uint64_t, std::shared_ptr<Handle>> handles_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Mapping> mappings_ ABSL_GUARDED_BY(mu_);  // By address.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MEMORY_VIRTUAL_MEMORY_H_
