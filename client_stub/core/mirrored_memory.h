// Memory that the application's host code and its kernels both use, at one address wherever that is
// possible: managed memory, managed variables, and host memory whose device address was asked for.
//
// Device memory mirrors it (mirror.h). Coherent where CUDA promises it for devices without
// concurrent access: what the host wrote is seen by work that is asked for afterwards, and what the
// device wrote once that work is complete. A touch while work is under way waits for it.
#ifndef WARPLINE_CLIENT_STUB_CORE_MIRRORED_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_MIRRORED_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "client_stub/core/cuda_api.h"
#include "client_stub/core/device_memory.h"
#include "client_stub/core/mirror.h"
#include "client_stub/session/session.h"
#include "common/mutex.h"
#include "proto/devices.h"

namespace warpline::stub {

// Thread-safe. One exists in a process.
class MirroredMemory : private MirrorLink {
 public:
  enum class Kind { kManaged, kVariables, kMapped, kRegistered };
  struct Range {
    uint64_t host = 0;
    uint64_t device = 0;
    uint64_t bytes = 0;  // As asked for.
    Kind kind = Kind::kManaged;
    unsigned int attached = CU_MEM_ATTACH_GLOBAL;
    uint64_t stream = 0;  // The wire's number, for CU_MEM_ATTACH_SINGLE.
    uint64_t id = 0;
    uint64_t allocation = 0;           // Of the device's side; 0 for variables.
    const Context* context = nullptr;  // Of managed memory.
    const Module* module = nullptr;    // Of variables.
    bool managed() const { return kind == Kind::kManaged || kind == Kind::kVariables; }
  };

  // Both are borrowed and live as long as the process. `stream`: the wire's number of the ones that
  // carry the bytes both ways, on each device one, which are created when first needed.
  MirroredMemory(Session* session, DeviceMemory* memory, uint64_t stream);

  // Memory of a device in the arena, zeroed for the host: kManaged, which is freed with `context`,
  // or kMapped.
  CUresult Allocate(Kind kind, uint32_t device, const Context* context, uint64_t bytes,
                    unsigned int attached, uint64_t* address);
  // What the application has at [host, host + bytes), its own or page-locked memory, from now on
  // also at `*device`, in memory of the device `on`. CUDA_ERROR_NOT_SUPPORTED for memory that other
  // processes or files share. No copy may be on its way there.
  CUresult Register(uint32_t on, uint64_t host, uint64_t bytes, uint64_t* device);
  // Device memory of managed variables, now also at `*host`: the same address where nothing else is
  // there. The same again for what has been added.
  CUresult AddVariables(const Module* module, uint64_t device, uint64_t bytes, uint64_t* host);

  // False until there is the first range.
  bool any() const { return any_.load(std::memory_order_relaxed); }

  // The range that holds a host or device address; false when there is none.
  bool Find(uint64_t address, Range* range) const;
  bool IsManaged(uint64_t address) const;
  // The device's address of host memory that has another one; any other as it is.
  uint64_t ToDevice(uint64_t address) const {
    return apart_.load(std::memory_order_relaxed) == 0 ? address : Translate(address);
  }

  // Ends the range that starts at `host`, after what is under way for kMapped and kRegistered,
  // whose bytes stay valid in the latter. CUDA_ERROR_INVALID_VALUE when there is none of this kind.
  CUresult Free(Kind kind, uint64_t host);
  void FreeAllOf(const Context* context);
  void ForgetVariablesOf(const Module* module);

  // Before any command with which the device may access whatever its work names: a launch.
  CUresult BeforeWork(uint64_t stream) {
    return host_has_.load(std::memory_order_acquire) == 0 ? CUDA_SUCCESS : GiveAll(stream);
  }
  // Before a command that accesses [device, device + bytes) and nothing else.
  CUresult BeforeAccess(uint64_t device, uint64_t bytes) {
    return host_has_.load(std::memory_order_acquire) == 0 ? CUDA_SUCCESS : Give(device, bytes);
  }
  // After a function that a stream called, on its thread: what it wrote is on the device when this
  // returns.
  void AfterHostCall();

  // cuStreamAttachMemAsync and cuMemPrefetchAsync. CUDA_ERROR_INVALID_VALUE for what is not
  // managed.
  CUresult Attach(uint64_t address, uint64_t bytes, unsigned int flags, uint64_t stream);
  CUresult Prefetch(uint64_t address, uint64_t bytes, bool to_device);

  // Has [address, address + bytes) ready for a system call. False when nothing of it was ours.
  bool Touch(uint64_t address, uint64_t bytes, bool write);

 private:
  struct Entry {
    Range range;
    std::unique_ptr<Mirror> mirror;
  };
  using Entries = std::map<uint64_t, Entry>;

  // MirrorLink.
  CUresult Push(uint64_t device, std::string_view bytes) override;
  CUresult Pull(void* to, uint64_t device, uint64_t bytes) override;

  static void Renew();
  static bool OnFault(uint64_t address, bool write, bool host_call);
  bool Resolve(uint64_t address, bool write, bool host_call);
  CUresult GiveAll(uint64_t stream);
  CUresult Give(uint64_t device, uint64_t bytes);
  uint64_t Translate(uint64_t address) const;
  // Returns once everything that was asked for is complete. Reports no earlier error.
  void AwaitWork();

  bool StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The stream of the device whose memory is at `device`. With mu_ held.
  uint64_t StreamFor(uint64_t device);
  uint64_t StreamOn(uint32_t device) const { return HandleOnDevice(device, stream_); }
  void AddLocked(const Range& range, uint64_t first_page, uint64_t pages_bytes, Mirror::State state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLocked(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Entry* FindHost(uint64_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  const Entry* FindAny(uint64_t address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CUresult Order();

  Session* const session_;
  DeviceMemory* const memory_;
  const uint64_t stream_;  // On the first device. Non-blocking: they wait for no other stream.

  mutable Mutex mu_;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  Entries entries_ ABSL_GUARDED_BY(mu_);  // By the first page of the host.
  std::atomic<bool> any_{false};
  // Bits for devices: those that have their stream, and were pushed to since the latest Order().
  std::atomic<uint32_t> streams_{0};
  std::atomic<uint32_t> pushed_{0};
  std::atomic<int> host_has_{0};  // Ranges of which the host has any page.
  std::atomic<int> apart_{0};     // Ranges with two addresses.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MIRRORED_MEMORY_H_
