// The state of one thread of the application: its contexts and its default streams.
#ifndef WARPLINE_CLIENT_STUB_CORE_RUNTIME_THREAD_STATE_H_
#define WARPLINE_CLIENT_STUB_CORE_RUNTIME_THREAD_STATE_H_

#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

struct ThreadState {
  Context* current = nullptr;              // The top of the thread's stack of contexts, or nullptr.
  std::vector<Context*>* below = nullptr;  // The rest of the stack. Created when first needed.
  // The per-thread default streams, by device, and the function that releases them at the thread's
  // end. Created when first needed.
  Stream** default_streams = nullptr;
  void (*release_streams)(Stream** default_streams) = nullptr;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool runs_host_calls = false;  // This thread runs the functions that streams call.
  bool answers_faults = false;   // This thread is the library's own and resolves faults.
  // The number of commands that this thread is about to send (MirroredMemory::Work).
  int works = 0;
};

// Lies in the static part of thread-local storage: one load reaches it, also in a library that was
// loaded late.
extern __thread ThreadState t_thread __attribute__((tls_model("initial-exec")));

// These change the thread's stack, and count it among the holders of a green context's context
// (Context::holders), until the thread ends at the latest.

// Makes `context` (may be nullptr) the top of the stack; the former top goes below it.
void PushContext(Context* context);
// Removes the top and returns it; nullptr when the stack is empty.
Context* PopContext();
// Replaces the top with `context`, which may be nullptr.
void SetContext(Context* context);

// Has this thread's state released when the thread ends.
void WatchThreadEnd();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_RUNTIME_THREAD_STATE_H_
