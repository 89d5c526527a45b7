// One context with the arenas of two tenants, as a worker has them that serves several: what keeps
// the one from the other is the guard alone.
#ifndef WARPLINE_TESTS_GUARD_TWO_ARENAS_H_
#define WARPLINE_TESTS_GUARD_TWO_ARENAS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "guard/guard.h"
#include "server/device/device.h"

namespace warpline::guard {

// Thread-compatible.
class TwoArenas {
 public:
  static constexpr uint64_t kMiB = 1 << 20;
  static constexpr int kArenaBits = 32;
  static constexpr uint64_t kMemoryBytes = 4 * kMiB;

  // A tenant's arena, and the memory in it.
  struct Tenant {
    uint64_t arena = 0;
    uint64_t memory = 0;   // Of kMemoryBytes
    uint64_t globals = 0;  // In it: where the variables of guarded modules are put
    uint64_t records = 0;  // Likewise their ring of records, which has no room at first
    uint64_t pace = 0;     // The word that the tenant's kernels go by, outside of its arena
    UniqueFd chunk;
  };

  // `backend` is "cpu" or "cuda". UNAVAILABLE without such a device.
  static absl::StatusOr<std::unique_ptr<TwoArenas>> Open(const std::string& backend);
  ~TwoArenas();

  Tenant& attacker() { return attacker_; }
  Tenant& neighbour() { return neighbour_; }
  device::Context& context() { return *context_; }

  // Loads a module as it is, and finds its kernel. NOT_FOUND when the device does not take it.
  absl::StatusOr<device::KernelId> Load(std::string_view text, const std::string& kernel);
  // Loads a guarded module for a tenant.
  absl::StatusOr<device::KernelId> LoadFor(const Tenant& tenant, const GuardedText& guarded,
                                           const std::string& kernel);
  // Runs blocks to their end, which are a row of threads, or one that has the threads of `block`.
  CudaResult Run(device::KernelId kernel, uint32_t threads, uint32_t shared_bytes,
                 absl::Span<const std::byte> params, uint32_t blocks = 1);
  CudaResult RunBlock(device::KernelId kernel, const std::array<uint32_t, 3>& block,
                      absl::Span<const std::byte> params);

  // Launches without waiting. With `asks` the launch has all blocks ask where they begin.
  CudaResult Launch(device::KernelId kernel, uint32_t blocks, const std::array<uint32_t, 3>& block,
                    uint32_t shared_bytes, absl::Span<const std::byte> params, bool asks = false);

  // The same with a kernel of `tenant`'s that is told to stop after a while, and not sooner.
  CudaResult RunAndStop(device::KernelId kernel, const Tenant& tenant,
                        absl::Span<const std::byte> params, uint32_t blocks = 1);

  // Has a kernel of nobody's leave `first` and the numbers after it in the shared memory of all
  // multiprocessors.
  CudaResult LeaveInSharedMemory(uint32_t first);

  CudaResult Write(uint64_t address, absl::Span<const uint32_t> words);
  CudaResult WriteBytes(uint64_t address, std::string_view bytes);
  CudaResult Read(uint64_t address, size_t count, std::vector<uint32_t>* words);

 private:
  TwoArenas() = default;
  absl::Status Map(uint64_t arena, Tenant* tenant);
  absl::Status MapPaceWords(uint64_t address);
  CudaResult Sync(device::StreamId stream = device::kLegacyStream);

  std::unique_ptr<device::Backend> backend_;
  std::unique_ptr<device::ChunkSource> chunks_;
  std::unique_ptr<device::Context> context_;
  UniqueFd pace_words_;
  void* staging_ = nullptr;
  Tenant attacker_;
  Tenant neighbour_;
  struct Places {
    uint64_t arena = 0;
    uint64_t pace = 0;
  };
  std::map<device::KernelId, Places> places_;  // By guarded kernel
};

}  // namespace warpline::guard

#endif  // WARPLINE_TESTS_GUARD_TWO_ARENAS_H_
