// Memory that the application's host code and its kernels both use, at one address wherever that is
// possible: managed memory, managed variables, and host memory whose device address was asked for.
//
// Device memory mirrors it (mirror.h). Coherent where CUDA promises it for devices without
// concurrent access: what the host wrote is seen by work that is asked for afterwards, and what the
// device wrote once that work is complete. A touch while work is under way waits for it.
#ifndef WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRRORED_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRRORED_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/managed/mirror.h"
#include "client_stub/core/managed/range_advice.h"
#include "client_stub/core/memory/device_memory.h"
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
    bool managed() const { return kind == Kind::kManaged || kind == Kind::kVariables; }
  };

  // All are borrowed and live as long as the process. `stream`: the wire's number of the ones that
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
  // A managed variable, or a block of them, now also at `*host`: the same address where nothing
  // else is there. The same again for what has been added. Variables that have a page in common
  // become one range.
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

  // cuStreamAttachMemAsync. CUDA_ERROR_INVALID_VALUE for what is not managed.
  CUresult Attach(uint64_t address, uint64_t bytes, unsigned int flags, uint64_t stream);

  // ---- Advice, prefetching and discarding (mirrored_advice.cc), of the pages that hold [address,
  // address + bytes). CUDA_ERROR_INVALID_VALUE for what is not all of one range of managed memory.

  CUresult CheckManaged(uint64_t address, uint64_t bytes) const;
  CUresult Advise(uint64_t address, uint64_t bytes, const std::function<void(Advice*)>& change);
  // What holds for all of them.
  CUresult AdviceOf(uint64_t address, uint64_t bytes, Advice* advice) const;
  // To the device: what is asked for from now on finds the bytes there. To the host: they come once
  // what was asked for so far is complete, unless the device is given more work before.
  CUresult Prefetch(uint64_t address, uint64_t bytes, const CUmemLocation& to);
  // Nobody needs the bytes of its whole pages any more; with `to_host` the host goes on with what
  // it has.
  CUresult Discard(uint64_t address, uint64_t bytes, bool to_host);

  // Has [address, address + bytes) ready for a system call. False when nothing of it was ours.
  bool Touch(uint64_t address, uint64_t bytes, bool write);

 private:
  struct Variable {
    const Module* module;
    Mirror::Extent extent;  // On the device.
  };
  struct Entry {
    Range range;
    std::vector<Variable> variables;  // Of kVariables.
    std::unique_ptr<Mirror> mirror;
    RangeAdvice advice;
  };
  using Entries = std::map<uint64_t, Entry>;
  // Pages of a managed range, as offsets into its mirror.
  struct Pages {
    uint64_t range = 0;  // Its first page.
    uint64_t id = 0;     // Of the range.
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t seq = 0;  // Of a prefetch: what was asked for before it.
  };

  // MirrorLink.
  CUresult Push(uint64_t device, std::string_view bytes) override;
  CUresult Pull(void* to, uint64_t device, uint64_t bytes) override;

  static std::vector<Mirror::Extent> Extents(const std::vector<Variable>& variables);
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
  void AddLocked(const Range& range, uint64_t first_page, uint64_t pages_bytes, Mirror::State state,
                 std::vector<Variable> variables = {}) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Those of kVariables that have pages in [begin, end) of the device.
  std::vector<Entries::iterator> VariablesAt(uint64_t begin, uint64_t end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CUresult GrowVariablesLocked(const std::vector<Entries::iterator>& parts, const Variable& added)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLocked(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Entry* FindHost(uint64_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  const Entry* FindAny(uint64_t address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CUresult Order();

  bool FindPages(uint64_t address, uint64_t bytes, Pages* pages) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BringLater(const Pages& pages) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunPrefetches();
  // Brings some of the first that waits.
  void BringSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SessionTerms& terms_;
  Commands* const commands_;
  SessionStatus* const status_;
  DeviceMemory* const memory_;
  // On the first device. They are non-blocking and past barriers: they wait for no other stream.
  const uint64_t stream_;

  mutable Mutex mu_;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  Entries entries_ ABSL_GUARDED_BY(mu_);  // By the first page of the host.
  // Prefetches to the host that are under way. They count as pages of the host, so that every
  // launch comes by and ends them: its kernels may write what they would bring.
  std::deque<Pages> coming_ ABSL_GUARDED_BY(mu_);
  CondVar any_coming_;
  bool prefetches_ ABSL_GUARDED_BY(mu_) = false;  // Their thread runs.
  std::atomic<bool> any_{false};
  // Bits for devices: those that have their stream, and were pushed to since the latest Order().
  std::atomic<uint32_t> streams_{0};
  std::atomic<uint32_t> pushed_{0};
  std::atomic<int> host_has_{0};  // Ranges of which the host has any page, and prefetches.
  std::atomic<int> apart_{0};     // Ranges with two addresses.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MANAGED_MIRRORED_MEMORY_H_
