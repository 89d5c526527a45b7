// The limits of a context. All contexts of a device share the limits of the server's one context.
#ifndef WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_LIMITS_H_
#define WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_LIMITS_H_

#include <cstddef>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Sets, in a new context, the values that GetLimit() gives for limits that the device does not
// know.
void InitializeLimits(Context* context);

// Work like cuCtxGetLimit and cuCtxSetLimit. Stacks, the printf FIFO and the malloc heap take
// device memory outside the session's quota and are therefore bounded: CUDA_ERROR_INVALID_VALUE for
// a larger stack, CUDA_ERROR_OUT_OF_MEMORY for the others.
CUresult GetLimit(Context* context, CUlimit limit, size_t* value);
CUresult SetLimit(Context* context, CUlimit limit, size_t value);

// Restores the first values of all limits of the device that were set.
void ResetLimits(const Device& device);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_LIMITS_H_
