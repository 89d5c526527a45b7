// Finds contexts by their handles: the primary contexts and those that the application creates. All
// share the session.
#ifndef WARPLINE_CLIENT_STUB_CORE_RUNTIME_CONTEXTS_H_
#define WARPLINE_CLIENT_STUB_CORE_RUNTIME_CONTEXTS_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Returns nullptr for a number that is no context's handle.
Context* FindContext(CUcontext handle);
// Works like FindContext(), but nullptr stands for the thread's current context.
Context* ContextOrCurrent(CUcontext handle);

// Whether a context may be created with these flags.
bool ValidContextFlags(unsigned int flags);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_RUNTIME_CONTEXTS_H_
