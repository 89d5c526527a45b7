// Green contexts: some of a device's multiprocessors, with streams and a context of their own.
//
// A green context keeps its device's primary context, to which everything belongs that is made
// while the green context's context is current, but for streams.
#ifndef WARPLINE_CLIENT_STUB_CORE_CONTEXT_GREEN_CONTEXTS_H_
#define WARPLINE_CLIENT_STUB_CORE_CONTEXT_GREEN_CONTEXTS_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/device.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Returns nullptr for a number that is no green context's handle.
GreenContext* FindGreenContext(CUgreenCtx handle);

// Works like cuGreenCtxCreate. Waits for the server.
CUresult CreateGreenContext(CUdevResourceDesc descriptor, CUdevice device, CUgreenCtx* green);

// Destroys a green context with its streams; the caller releases the primary context. Returns false
// when it was destroyed before.
bool DestroyGreenContext(GreenContext* green);

// Destroys all green contexts of a device whose primary context ends.
void DestroyGreenContextsOf(const Device& device);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXT_GREEN_CONTEXTS_H_
