// The session's memory handles, and where they are mapped.
//
// The server hands over the chunks of handles and takes them back; the session's commands map them
// into the arena. What is given back must not be mapped anywhere. This class makes sure of it, in
// the process that has the mappings.
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

// Thread-safe. No lock is held during a call to the device.
class VirtualMemory {
 public:
  // The `contexts` of the session's devices are borrowed. A handle belongs to the device that its
  // highest byte names, wherever it is mapped.
  explicit VirtualMemory(std::vector<device::Context*> contexts) : contexts_(std::move(contexts)) {}
  explicit VirtualMemory(device::Context* context)
      : VirtualMemory(std::vector<device::Context*>{context}) {}

  // Called by the server: adds another chunk to those that `handle` has. If the journal had the
  // handle mapped, it is mapped again as soon as it is complete, and an error of that is returned.
  // kInvalidValue for a device that does not exist.
  CudaResult Hold(uint64_t handle, uint64_t bytes, UniqueFd fd);
  // Called by the server: forgets the handle. kIllegalState while it is mapped or about to be
  // unmapped.
  CudaResult Drop(uint64_t handle);
  // Called by the server while nothing of the session is in flight: unmaps the handle's chunks and
  // closes them. Its mappings stay, and Hold() maps them again. kInvalidValue for a handle that is
  // not held.
  CudaResult Release(uint64_t handle);

  // Called by the client: maps all of a handle, which has `bytes`, at `va`. kInvalidValue when the
  // handle is not held in that size, or when something is mapped there.
  CudaResult Map(uint64_t va, uint64_t bytes, uint64_t handle, uint32_t access);
  // Sets the access of the mapping at `va`. kInvalidValue when nothing is mapped there, or for an
  // unknown access.
  CudaResult SetAccess(uint64_t va, uint32_t access);
  // Unmapping takes two steps, because work that is still running may use the mapping: after the
  // first, it no longer exists for the client, and the second undoes it. kInvalidValue when nothing
  // is mapped there.
  CudaResult BeginUnmap(uint64_t va);
  CudaResult FinishUnmap(uint64_t va);

  // While the content of a journal is made again, handles may be mapped before they are held.
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
    device::Context* context = nullptr;  // That of the handle's device.
    device::MemoryAccess access = device::MemoryAccess::kNone;
    // The sizes of the chunks on the device; none while the mapping waits for its handle, which
    // is released or not made again yet.
    std::vector<uint64_t> chunks;
    bool leaving = false;
  };

  static CudaResult MapChunks(uint64_t va, const Handle& handle, device::MemoryAccess access);
  // Returns null when there is no such device.
  device::Context* ContextOf(uint64_t handle) const;
  bool Overlaps(uint64_t va, uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Handle> Find(uint64_t handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::vector<device::Context*> contexts_;

  mutable Mutex mu_;
  bool restoring_ ABSL_GUARDED_BY(mu_) = false;
  // Shared with the threads that are mapping one. A handle does not change once it is mapped.
  std::map<uint64_t, std::shared_ptr<Handle>> handles_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Mapping> mappings_ ABSL_GUARDED_BY(mu_);  // By address.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MEMORY_VIRTUAL_MEMORY_H_
