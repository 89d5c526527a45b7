// Contexts by their handles: the primary ones and those that the application creates. All share the
// session.
#ifndef WARPLINE_CLIENT_STUB_CORE_RUNTIME_CONTEXTS_H_
#define WARPLINE_CLIENT_STUB_CORE_RUNTIME_CONTEXTS_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// nullptr for what is no context's handle.
Context* FindContext(CUcontext handle);
// The same, with nullptr standing for the thread's current context.
Context* ContextOrCurrent(CUcontext handle);

// The flags that a context may have been created with.
bool ValidContextFlags(unsigned int flags);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_RUNTIME_CONTEXTS_H_
