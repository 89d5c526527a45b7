// The driver's state in this process, and what every entry point does first.
//
// One Runtime exists from the loading of the library to the end of the process; no destructor runs,
// because libraries of the application call in from exit handlers that run after ours. Nothing
// happens before cuInit (initialization.h): no thread, no connection. After a fork that follows
// cuInit, and once the process's exit has begun, `gate` turns every entry away before it touches a
// lock.
#ifndef WARPLINE_CLIENT_STUB_CORE_RUNTIME_RUNTIME_H_
#define WARPLINE_CLIENT_STUB_CORE_RUNTIME_RUNTIME_H_

#include <atomic>
#include <cstdint>

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

class DeviceMemory;
class HostCalls;
class HostMemory;
class IpcMemory;
class MirroredMemory;
class Session;
class SharedHostMemory;
class VirtualMemory;

// The wire's number of the legacy default stream, on the first device.
inline constexpr uint64_t kLegacyStream = 1;

// Thread-safe. Plain members are set before `gate` opens and constant afterwards.
struct Runtime {
  // What an entry that needs the device returns: CUDA_SUCCESS between a successful cuInit and exit,
  // CUDA_ERROR_NOT_INITIALIZED before it and in the child of a fork, CUDA_ERROR_DEINITIALIZED once
  // exit has begun.
  std::atomic<CUresult> gate{CUDA_ERROR_NOT_INITIALIZED};

  Session* session = nullptr;
  // Parts of it that calls use all the time.
  const SessionTerms* terms = nullptr;
  Commands* commands = nullptr;
  SessionStatus* status = nullptr;
  VirtualMemory* virtual_memory = nullptr;
  IpcMemory* ipc_memory = nullptr;
  DeviceMemory* memory = nullptr;
  HostMemory* host_memory = nullptr;
  MirroredMemory* mirrored = nullptr;
  SharedHostMemory* shared_host_memory = nullptr;
  HostCalls* host_calls = nullptr;
  bool launch_blocking = false;
  // Captures under way (captures.h).
  std::atomic<int> captures{0};
  // Set where a legacy stream does not come before all others: with the first non-blocking stream,
  // and where there are several devices.
  std::atomic<bool> legacy_overtaken{false};

  // By number; of the first `device_count`.
  Device devices[kMaxSessionDevices];
  uint32_t device_count = 0;

  // Numbers for the wire; those below 16 are the protocol's.
  std::atomic<uint64_t> next_number{16};
  std::atomic<uint64_t> next_context_id{1};

  ContextTable contexts;
  StreamTable streams;
  EventTable events;
  ModuleTable modules;
  LibraryTable libraries;
  KernelTable kernels;
  MemoryPoolTable pools;

  uint64_t NewNumber() { return next_number.fetch_add(1, std::memory_order_relaxed); }
  // Of an object that belongs to a device.
  uint64_t NewNumber(const Device& device) { return HandleOnDevice(device.number, NewNumber()); }

  bool several_devices() const { return device_count > 1; }
  // The device whose part of the arena holds `address`; nullptr outside of all.
  Device* DeviceAt(uint64_t address) {
    const uint64_t number =
        DeviceOfAddress(address, terms->arena_base, terms->arena_bytes, device_count);
    return number < device_count ? &devices[number] : nullptr;
  }
};

// Leaves a static object's destructor out.
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

// The process's environment, read at the first call.
const Environment& environment();

// ---- What entry points begin with.

// For calls that need cuInit. None may be made by a function that a stream calls.
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

// The error that every call returns once the session is lost; CUDA_SUCCESS until then.
inline CUresult SessionError() {
  const CudaResult error = runtime().status->error();
  // The text of a failed assertion comes with its error.
  if (error != CudaResult::kSuccess) runtime().status->WriteOutput();
  return ToCu(error);
}

// What a wait returns that the completion board answered: what the server's answer would have been.
inline CUresult WaitedFor() {
  WARPLINE_TRY(SessionError());
  return ToCu(runtime().status->TakeDeferred());
}

// For calls that create, use or destroy something on the device.
inline CUresult Enter() {
  WARPLINE_TRY(EnterContext());
  return SessionError();
}

// For calls whose handle names its context, which need not be current, nor any other.
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

// CUDA_SUCCESS for a command that was sent; for number 0 what the session was lost with, or that
// the server does not know such a command.
inline CUresult SentAs(uint64_t seq) {
  if (seq != 0) return CUDA_SUCCESS;
  const CUresult error = SessionError();
  return error == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : error;
}

inline CUresult CheckDevice(CUdevice device) {
  // Negative ones are large.
  return static_cast<uint32_t>(device) < runtime().device_count ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_DEVICE;
}

// That of the thread's context; the first one for a thread without a context.
inline Device& CurrentDevice() {
  return t_thread.current != nullptr ? *t_thread.current->device : runtime().devices[0];
}

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_RUNTIME_RUNTIME_H_
