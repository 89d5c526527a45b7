// The driver's objects as this process keeps them, and the tables that hold them.
//
// Objects are never freed while the process lives (handle_table.h); a plain member is set before
// the object's handle becomes valid and does not change afterwards.
#ifndef WARPLINE_CLIENT_STUB_CORE_RUNTIME_OBJECTS_H_
#define WARPLINE_CLIENT_STUB_CORE_RUNTIME_OBJECTS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/base/handle_table.h"
#include "client_stub/core/runtime/memory_pool.h"
#include "common/cuda/sm_path.h"
#include "common/mutex.h"
#include "common/relaxed.h"

namespace warpline::stub {

class CommandRecorder;
class Library;
class Module;
struct Device;
struct GreenContext;
struct Kernel;
struct Stream;

// All contexts of a device share the server's one context. Each has its own handle, flags and
// limits, and owns the objects that end with it. A green context's context owns its streams alone:
// what else is made while it is current belongs to the primary context.
struct Context {
  CUcontext handle = nullptr;
  bool primary = false;
  GreenContext* green = nullptr;  // nullptr for a context with all multiprocessors.
  Device* device = nullptr;
  uint64_t id = 0;
  // A primary context lives while its count of retains is positive, but for the time between a
  // reset, which keeps the count, and the next retain. Any other context has one reference until it
  // is destroyed.
  std::atomic<int> references{1};
  std::atomic<bool> was_reset{false};
  std::atomic<unsigned int> flags{0};
  std::atomic<int> cache_config{CU_FUNC_CACHE_PREFER_NONE};
  std::atomic<uint64_t> limits[CU_LIMIT_MAX] = {};
  // How often the context is in the stacks of threads. It is counted for green contexts' contexts,
  // whose slots serve again once they are destroyed and in no stack.
  std::atomic<int> holders{0};

  // For primary contexts.
  void Retain() {
    references.fetch_add(1);
    was_reset = false;
  }
  bool alive() const {
    return references.load(std::memory_order_relaxed) > 0 &&
           !was_reset.load(std::memory_order_relaxed);
  }
};

// Some of a device's multiprocessors, and the streams that run there. The slot serves again once
// the green context is destroyed, so `Context::green` is only followed while that context is alive.
struct GreenContext {
  CUgreenCtx handle = nullptr;
  uint64_t partition = 0;      // Its number in commands. Never used twice.
  Context* context = nullptr;  // The context that cuCtxFromGreenCtx gives.
  // How its multiprocessors are reached. The path belongs to the descriptor (sm_resources.h).
  const std::vector<SmStep>* path = nullptr;
  uint32_t multiprocessors = 0;
  // Streams that are created from now on come after the work of the default stream so far.
  std::atomic<bool> held{false};
  // The stream that NULL means while the context is current. Created when first needed.
  std::atomic<Stream*> default_stream{nullptr};
};

struct StreamAttributes {
  CUaccessPolicyWindow window = {};
  CUsynchronizationPolicy sync_policy = CU_SYNC_POLICY_AUTO;
  CUlaunchMemSyncDomain domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  CUlaunchMemSyncDomainMap domain_map = {0, 1};
};

// Tells whether the application can notice when a command is complete. It cannot notice a copy to
// the device's own memory whose bytes the call has taken: later commands come after it, and the
// host sees nothing of it. A wait need not ask the server where only such commands are under way.
enum class Notice { kNoticed, kUnnoticed };

// A thread that goes through all streams may meet one that is being destroyed, or made anew in the
// same place.
struct Stream {
  CUstream handle = nullptr;
  Relaxed<uint64_t> wire = 0;  // Its number in commands. Never used twice.
  Relaxed<unsigned int> flags = 0;
  std::atomic<int> priority{0};
  Relaxed<Device*> device = nullptr;
  Relaxed<Context*> context = nullptr;  // nullptr: whichever context of the device is current.
  std::atomic<uint64_t> last_seq{0};    // The latest command sent on it.
  // The latest StreamBarrier, which orders all streams' later work after this one's.
  std::atomic<uint64_t> last_barrier{0};
  std::atomic<uint64_t> capture{0};     // The capture that it is part of (captures.h), or 0.
  CommandRecorder* recorder = nullptr;  // Takes the commands; only for streams without a handle.

  Mutex attributes_mu;
  StreamAttributes attributes ABSL_GUARDED_BY(attributes_mu);

  bool legacy() const { return handle == CU_STREAM_LEGACY; }
  bool blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }

  void NoteSent(uint64_t seq) { Raise(&last_seq, seq); }
  static void Raise(std::atomic<uint64_t>* to, uint64_t seq) {
    uint64_t seen = to->load(std::memory_order_relaxed);
    while (seen < seq && !to->compare_exchange_weak(seen, seq, std::memory_order_release,
                                                    std::memory_order_relaxed)) {
    }
  }
};

struct Event {
  CUevent handle = nullptr;
  uint64_t wire = 0;
  unsigned int flags = 0;
  Context* context = nullptr;
  std::atomic<bool> shared{false};  // Shared with other processes.

  // The number and the stream of the latest record. The number is stored first and loaded last: a
  // reader that meets a record halfway compares the newer number with the older stream, and so says
  // "complete" only if the older record is.
  std::atomic<uint64_t> seq{0};  // 0: never recorded.
  std::atomic<uint64_t> stream{0};
  // The capture in which the latest record was made, or 0.
  std::atomic<uint64_t> capture{0};

  void NoteRecorded(uint64_t on_stream, uint64_t with_seq) {
    seq.store(with_seq, std::memory_order_release);
    stream.store(on_stream, std::memory_order_release);
  }
};

struct ModuleRef {
  Module* module = nullptr;
};

struct LibraryRef {
  Library* library = nullptr;
};

struct KernelRef {
  Kernel* kernel = nullptr;
  // A CUfunction belongs to one device. A library's CUkernel belongs to all: it leads to the kernel
  // as it was first found, on one of them.
  bool bound = false;
};

using ContextTable = HandleTable<Context, HandleKind::kContext, true>;
using StreamTable = HandleTable<Stream, HandleKind::kStream, true>;
using EventTable = HandleTable<Event, HandleKind::kEvent, true>;
using GreenContextTable = HandleTable<GreenContext, HandleKind::kGreenContext, true>;
using ModuleTable = HandleTable<ModuleRef, HandleKind::kModule, true>;
using LibraryTable = HandleTable<LibraryRef, HandleKind::kLibrary, true>;
using KernelTable = HandleTable<KernelRef, HandleKind::kKernel, true>;
using MemoryPoolTable = HandleTable<MemoryPool, HandleKind::kMemoryPool, false>;

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_RUNTIME_OBJECTS_H_
