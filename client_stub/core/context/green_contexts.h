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
// The error for such a number: CUDA_ERROR_CONTEXT_IS_DESTROYED if it was a handle, and otherwise
// CUDA_ERROR_INVALID_CONTEXT.
CUresult NoGreenContext(CUgreenCtx handle);

// Works like cuGreenCtxCreate. Waits for the server.
CUresult CreateGreenContext(CUdevResourceDesc descriptor, CUdevice device, CUgreenCtx* green);

// Destroys a green context with its streams. Returns its device, whose primary context the caller
// releases; nullptr when the handle names no green context, or none any more.
//
// Threads whose stacks hold its context keep one that is destroyed. Its slot serves for another
// green context once no stack holds it.
const Device* DestroyGreenContext(CUgreenCtx handle);

// Destroys all green contexts of a device whose primary context ends.
void DestroyGreenContextsOf(const Device& device);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXT_GREEN_CONTEXTS_H_
