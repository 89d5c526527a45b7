// The driver's state in this process, and the checks with which every entry point begins.
//
// One Runtime exists from the loading of the library to the end of the process; no destructor runs,
// because libraries of the application call in from exit handlers that run after ours. Nothing
// happens before cuInit (initialization.h): no thread, no connection. After a fork that follows
// cuInit, and once the process's exit has begun, `gate` turns every entry away before it touches a
// lock.
//
// An entry point checks its caller, finds its objects and sends a command:
//
//   CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream) {
//     Stream* stream;
//     WARPLINE_TRY(EnterOn(hStream, DefaultStream::kLegacy, &stream));  // stream/streams.h
//     Event* const event = FindEvent(hEvent);
//     if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
//     return RecordEvent(event, stream);  // Ends in runtime().commands->Send().
//   }
#ifndef WARPLINE_CLIENT_STUB_CORE_RUNTIME_RUNTIME_H_
#define WARPLINE_CLIENT_STUB_CORE_RUNTIME_RUNTIME_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/base/environment.h"
#include "client_stub/core/runtime/device.h"
#include "client_stub/core/runtime/objects.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/session/commands.h"
#include "client_stub/session/session_status.h"
#include "client_stub/session/session_terms.h"
#include "proto/devices.h"

namespace warpline::stub {

class BulkCopies;
class CheckedRanges;
class DeviceMemory;
class HostCalls;
class HostMemory;
class IpcMemory;
class MirroredMemory;
class PinnedMemory;
class RegisteredMemory;
class Session;
class SharedHostMemory;
class TierWatch;
class VirtualMemory;

// Thread-safe. Plain members are set before `gate` opens and constant afterwards.
struct Runtime {
  // The value that an entry that needs the device returns: CUDA_SUCCESS between a successful cuInit
  // and exit, CUDA_ERROR_NOT_INITIALIZED before it and in the child of a fork,
  // CUDA_ERROR_DEINITIALIZED once exit has begun.
  std::atomic<CUresult> gate{CUDA_ERROR_NOT_INITIALIZED};

  Session* session = nullptr;
  // The parts of the session that calls use all the time.
  const SessionTerms* terms = nullptr;
  Commands* commands = nullptr;
  SessionStatus* status = nullptr;
  VirtualMemory* virtual_memory = nullptr;
  IpcMemory* ipc_memory = nullptr;
  DeviceMemory* memory = nullptr;
  HostMemory* host_memory = nullptr;
  MirroredMemory* mirrored = nullptr;
  SharedHostMemory* shared_host_memory = nullptr;
  RegisteredMemory* registered = nullptr;
  PinnedMemory* pinned = nullptr;
  BulkCopies* bulk_copies = nullptr;
  HostCalls* host_calls = nullptr;
  CheckedRanges* checked_ranges = nullptr;  // nullptr unless kernels check their accesses.
  TierWatch* tier_watch = nullptr;          // nullptr unless the session is of the guarded tier.
  // Called with the error of a lost session, each time that a call returns it.
  void (*explain)(CudaResult) = nullptr;
  bool launch_blocking = false;
  // How long a call that synchronizes waits for the device (Environment::wait_limit).
  absl::Duration wait_limit = absl::InfiniteDuration();
  // The number of captures under way (captures.h).
  std::atomic<int> captures{0};
  // Set when a legacy stream does not come before all other streams: with the first non-blocking
  // stream, and when there are several devices.
  std::atomic<bool> legacy_overtaken{false};
  // Set when something other than a call of this driver can see what the device writes: with the
  // first page-locked memory that host and device share, and the first memory that several
  // processes share. Synchronous calls wait from then on wherever they wait with NVIDIA's driver.
  std::atomic<bool> seen_without_calls{false};
  // Set with the first memory that several processes share (BeginSharing()).
  std::atomic<bool> shared_with_processes{false};
  // The latest command of any stream, also of destroyed ones, of Notice::kNoticed.
  std::atomic<uint64_t> last_noticed{0};
  // The latest command that was said to be complete though it may not be (SeemsComplete()).
  std::atomic<uint64_t> last_seemed{0};
  // The number of the latest command of streams that were destroyed before they were complete.
  std::atomic<uint64_t> last_of_destroyed_streams{0};

  // Indexed by number; the first `device_count` are in use.
  Device devices[kMaxSessionDevices];
  uint32_t device_count = 0;

  // The next number for the wire; numbers below 16 belong to the protocol.
  std::atomic<uint64_t> next_number{16};
  std::atomic<uint64_t> next_context_id{1};

  ContextTable contexts;
  GreenContextTable green_contexts;
  StreamTable streams;
  EventTable events;
  ModuleTable modules;
  LibraryTable libraries;
  KernelTable kernels;
  MemoryPoolTable pools;

  uint64_t NewNumber() { return next_number.fetch_add(1, std::memory_order_relaxed); }
  // Returns a number for an object that belongs to a device.
  uint64_t NewNumber(const Device& device) { return HandleOnDevice(device.number, NewNumber()); }

  bool several_devices() const { return device_count > 1; }
  // Returns the device whose part of the arena holds `address`; nullptr outside all parts.
  Device* DeviceAt(uint64_t address) {
    const uint64_t number =
        DeviceOfAddress(address, terms->arena_base, terms->arena_bytes, device_count);
    return number < device_count ? &devices[number] : nullptr;
  }
};

// Holds a static object whose destructor never runs.
template <typename T>
union NoDestructor {
  constexpr NoDestructor() : value() {}
  ~NoDestructor() {}
  T value;
};

namespace internal {
extern NoDestructor<Runtime> g_runtime;
}  // namespace internal

inline Runtime& runtime() { return internal::g_runtime.value; }

// Returns the process's environment, which is read at the first call.
const Environment& environment();

// ---- Checks with which entry points begin.

// For calls that need cuInit. A function that a stream calls may make none of them.
inline CUresult EnterInitialized() {
  if (t_thread.runs_host_calls) return CUDA_ERROR_NOT_PERMITTED;
  return runtime().gate.load(std::memory_order_acquire);
}

// For calls that need a current context but ask nothing of the device.
inline CUresult EnterContext() {
  WARPLINE_TRY(EnterInitialized());
  const Context* context = t_thread.current;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return context->alive() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

// Returns the error that every call returns once the session is lost; CUDA_SUCCESS until then.
inline CUresult SessionError() {
  const CudaResult error = runtime().status->error();
  // The text of a failed assertion comes with its error.
  if (error != CudaResult::kSuccess) {
    runtime().status->WriteOutput();
    if (runtime().explain != nullptr) runtime().explain(error);
  }
  return ToCu(error);
}

// Returns the result of a wait that the completion board answered: the one that the server would
// have given.
inline CUresult WaitedFor() {
  WARPLINE_TRY(SessionError());
  return ToCu(runtime().status->TakeDeferred());
}

// For calls that create, use or destroy something on the device.
inline CUresult Enter() {
  WARPLINE_TRY(EnterContext());
  return SessionError();
}

// For calls whose handle names its context. That context need not be current, and no other need be.
inline CUresult EnterObject() {
  WARPLINE_TRY(EnterInitialized());
  const Context* context = t_thread.current;
  if (context != nullptr && !context->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return SessionError();
}

// For calls that release something: once exit has begun they find everything released.
inline bool Exiting() {
  return runtime().gate.load(std::memory_order_relaxed) == CUDA_ERROR_DEINITIALIZED;
}

// Returns CUDA_SUCCESS for a command that was sent. For number 0 it returns the error with which
// the session was lost, or CUDA_ERROR_NOT_SUPPORTED where the server does not know the command.
inline CUresult SentAs(uint64_t seq) {
  if (seq != 0) return CUDA_SUCCESS;
  const CUresult error = SessionError();
  return error == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : error;
}

inline CUresult CheckDevice(CUdevice device) {
  // Negative numbers become large ones.
  return static_cast<uint32_t>(device) < runtime().device_count ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_DEVICE;
}

// Returns the device of the thread's context; the first device for a thread without a context.
inline Device& CurrentDevice() {
  return t_thread.current != nullptr ? *t_thread.current->device : runtime().devices[0];
}

// Returns the context that owns what is made in `context`, but for streams: the primary context for
// a green context's.
inline Context* OwnerOf(Context* context) {
  return context->green != nullptr ? context->device->primary : context;
}
// Does so for the thread's current context, which there must be.
inline Context* CurrentOwner() { return OwnerOf(t_thread.current); }

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_RUNTIME_RUNTIME_H_
