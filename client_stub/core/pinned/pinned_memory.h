// How page-locked host memory is allocated and freed, and how the devices come to it.
//
// Where client and worker share a host, memory from cuMemHostAlloc is shared and the devices reach
// it at once. Elsewhere it is this process's own, at addresses of the arena behind which no device
// has memory: the host's alone (host_memory.h). It costs no device memory, and copies treat it as
// any host memory. When a device needs it, Give() puts device memory behind the addresses; from
// then on the two mirror each other (mirrored_memory.h), and the pointer is good on both sides.
//
// A device needs what its kernels are told of. So this class looks for addresses, as aligned words
// of eight bytes, in what leaves this process: parameters of kernels, bytes of small copies to a
// device, and pages of mirrored memory. Memory that is registered, or for which the arena has no
// addresses, gets another address on the devices: such words are replaced in parameters, and left
// alone elsewhere.
//
//   std::string own;
//   if (pinned->watches()) WARPLINE_TRY(pinned->BeforeLaunch(&parameters, &own));
//   ...  // Sends the parameters.
#ifndef WARPLINE_CLIENT_STUB_CORE_PINNED_PINNED_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_PINNED_PINNED_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/memory/address_ranges.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/memory/host_memory.h"
#include "client_stub/core/memory/shared_host_memory.h"
#include "client_stub/core/memory/virtual_memory.h"
#include "client_stub/core/registered/registered_memory.h"
#include "client_stub/session/session_terms.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. One exists in each process. No function may be called by a thread that has a
// HostMemory::Use.
class PinnedMemory {
 public:
  // Copies of more bytes are not searched for addresses.
  static constexpr uint64_t kMostSearched = 64u << 10;

  // All are borrowed and live as long as the process.
  struct Parts {
    const SessionTerms* terms = nullptr;
    HostMemory* host = nullptr;
    SharedHostMemory* shared = nullptr;
    RegisteredMemory* registered = nullptr;
    MirroredMemory* mirrored = nullptr;
    DeviceMemory* memory = nullptr;
    VirtualMemory* addresses = nullptr;
  };
  explicit PinnedMemory(const Parts& parts);

  // Works like cuMemHostAlloc with valid flags; gives nullptr for 0 bytes. CUDA_ERROR_OUT_OF_MEMORY
  // when the server's host or this one has no memory left.
  CUresult Allocate(uint64_t bytes, unsigned int flags, void** memory);
  // Frees or unregisters the range that starts at `base`. Waits for work that may use it.
  // CUDA_ERROR_INVALID_VALUE when there is none.
  CUresult End(void* base);
  // Ends all that was allocated or registered in a context.
  void EndAllOf(const Context* context);

  // Gives the devices the range that starts at `base`, if they do not have it, and returns the
  // address that they have it at. CUDA_ERROR_OUT_OF_MEMORY when the quota has no room for it,
  // CUDA_ERROR_NOT_SUPPORTED for registered memory that cannot be mirrored.
  CUresult Give(void* base, uint64_t* device);
  // Makes `*address` the devices' if it is one of page-locked memory.
  CUresult GiveAt(uint64_t* address);

  // Logs, once, that a kernel may have used page-locked memory which no device has, if that can be
  // the reason for the session's error.
  void Explain(CudaResult error);

  // Returns true while there is memory to look for.
  bool watches() const {
    return parts_.host->hosts_in_arena() + parts_.host->apart() != 0 ||
           parts_.mirrored->any_apart();
  }
  // Called with the parameters of a kernel. Where words have to be replaced, `*packed` refers to
  // `*own` afterwards.
  CUresult BeforeLaunch(std::string_view* packed, std::string* own);
  // Called before bytes are copied to a device, at `to`.
  CUresult BeforeCopy(uint64_t to, std::string_view bytes) {
    const bool search = parts_.host->hosts_in_arena() != 0 && bytes.size() <= kMostSearched;
    return search ? GiveNamed(to, bytes) : CUDA_SUCCESS;
  }
  // Returns true once mirrored memory that holds addresses was sent. GiveNoted() gives these
  // ranges.
  bool noted() const { return any_noted_.load(std::memory_order_acquire); }
  CUresult GiveNoted();

 private:
  // Addresses that were reserved together, and what is allocated there.
  struct Segment {
    uint64_t bytes = 0;
    uint32_t device = 0;
    bool given = false;   // The devices have all of it.
    bool shared = false;  // It is for several small allocations.
    AddressRanges free;
    std::map<uint64_t, uint64_t> allocated;  // Address to bytes.
  };
  using Segments = std::map<uint64_t, Segment>;  // By address.

  // At most one thread gives or ends memory. It may wait for work meanwhile, without mu_.
  class Changing {
   public:
    explicit Changing(PinnedMemory* memory);
    ~Changing();
    Changing(const Changing&) = delete;
    Changing& operator=(const Changing&) = delete;

   private:
    PinnedMemory* const memory_;
  };

  CUresult AllocateShared(uint64_t bytes, unsigned int flags, void** memory);
  // CUDA_ERROR_NOT_SUPPORTED when the arena has no addresses for it.
  CUresult AllocateInArena(uint64_t bytes, unsigned int flags, void** memory);
  bool TakeAddresses(uint32_t device, uint64_t bytes, uint64_t* address);
  void ReturnAddresses(uint64_t address, uint64_t bytes);
  Segments::iterator SegmentOf(uint64_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  CUresult GiveApart(void* base, uint64_t* device);
  CUresult GiveSegment(uint64_t address);
  CUresult PutMemoryBehind(uint64_t address, const Segment& segment);
  void TakeMemoryAway(uint64_t address, const Segment& segment);
  void EndMapping(const HostMemory::Range& range);
  CUresult GiveNamed(uint64_t to, std::string_view bytes);
  // Keeps the addresses in pages that mirrored memory sends, for GiveNoted().
  void Note(uint64_t to, std::string_view bytes);

  const Parts parts_;
  const uint64_t most_reserved_;  // Other allocations need addresses, too.

  Mutex mu_;
  CondVar changed_;
  bool changing_ ABSL_GUARDED_BY(mu_) = false;
  Segments segments_ ABSL_GUARDED_BY(mu_);
  uint64_t reserved_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<uint64_t> noted_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> any_noted_{false};
  std::atomic<bool> explained_{false};
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_PINNED_PINNED_MEMORY_H_
