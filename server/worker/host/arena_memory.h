// Fills a session's arena as the server says: with chunks of device memory at the addresses that it
// names, and with sinks around them.
#ifndef WARPLINE_SERVER_WORKER_HOST_ARENA_MEMORY_H_
#define WARPLINE_SERVER_WORKER_HOST_ARENA_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/device/device.h"
#include "server/worker/host/host_windows.h"

namespace warpline::worker {

// Thread-compatible. A range belongs to the device in whose part of the arena it lies; a range that
// does not lie in exactly one part gives kInvalidValue.
class ArenaMemory {
 public:
  // The `contexts` of the session's devices are borrowed; they have reserved [base, base + bytes).
  ArenaMemory(std::vector<device::Context*> contexts, uint64_t base, uint64_t bytes);

  uint64_t base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  const std::vector<device::Context*>& contexts() const { return contexts_; }

  // Programs read and write a little before their first allocation and after their last one. From
  // now on such accesses go to a sink: the first `bytes` of each device's part, unless they are 0
  // or too many, and the granule after what is mapped last.
  void MapSinks(uint64_t bytes);

  // From now on no host memory is mapped: the session's kernels are guarded, and would not reach
  // it.
  void RefuseHost() { maps_host_ = false; }
  // For a device that others share: the session may have one of these windows (borrowed).
  void UseWindows(HostWindows* windows) { windows_ = windows; }

  // For a device that others share: nowhere in the arena does an access fault (Memory::Seal). Any
  // thread may call these two.
  CudaResult Seal();
  bool sealed() const { return sealed_.load(std::memory_order_acquire); }

  // Carry out the server's requests, with their descriptors. Map() maps all of a request or
  // nothing. Unmap() of a sealed arena unseals it: the server sends the session nothing until the
  // memory is mapped again, and the next command needs another Seal().
  CudaResult Map(const warpline_internal::MapMemory& map, const std::vector<UniqueFd>& fds);
  CudaResult Unmap(const warpline_internal::UnmapMemory& unmap);
  CudaResult MapHost(const warpline_internal::HostSegment& segment,
                     const std::vector<UniqueFd>& fds);
  CudaResult Read(const warpline_internal::ReadMemory& read, const std::vector<UniqueFd>& fds);

 private:
  device::Context* ContextOf(uint64_t va, uint64_t bytes) const;
  void MapSinkAt(uint64_t end, device::Context* context);
  CudaResult ShowWindow(const warpline_internal::HostSegment& segment,
                        const std::vector<UniqueFd>& fds);

  const std::vector<device::Context*> contexts_;
  const uint64_t base_;
  const uint64_t bytes_;
  bool sinks_ = false;
  bool maps_host_ = true;
  HostWindows* windows_ = nullptr;
  bool has_window_ = false;
  std::atomic<bool> sealed_{false};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_ARENA_MEMORY_H_
