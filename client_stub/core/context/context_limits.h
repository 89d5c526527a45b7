// The limits of a context. All contexts of the process share those of the server's one.
#ifndef WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_LIMITS_H_
#define WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_LIMITS_H_

#include <cstddef>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Gives a new context what the device answers for limits that it does not let the server ask.
void InitializeLimits(Context* context);

// As cuCtxGetLimit and cuCtxSetLimit. Stacks, the printf FIFO and the malloc heap take memory of
// the device beside the session's quota, and so the server bounds them: CUDA_ERROR_INVALID_VALUE
// for a larger stack, CUDA_ERROR_OUT_OF_MEMORY for the others.
CUresult GetLimit(Context* context, CUlimit limit, size_t* value);
CUresult SetLimit(Context* context, CUlimit limit, size_t value);

// Gives those of a device that were set the values back that they had at first.
void ResetLimits(const Device& device);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_LIMITS_H_
