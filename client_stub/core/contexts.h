// Contexts: the primary ones and those that the application creates. All share the session; a
// context's end is the end of what was created in it.
#ifndef WARPLINE_CLIENT_STUB_CORE_CONTEXTS_H_
#define WARPLINE_CLIENT_STUB_CORE_CONTEXTS_H_

#include "client_stub/core/cuda_api.h"
#include "client_stub/core/objects.h"

namespace warpline::stub {

// nullptr for what is no context's handle.
Context* FindContext(CUcontext handle);
// The same, with nullptr standing for the thread's current context.
Context* ContextOrCurrent(CUcontext handle);

// Frees and unloads everything that was created in the context.
void ReleaseContents(Context* context);

// As cuCtxEnablePeerAccess and cuCtxDisablePeerAccess. Devices that are able to access each other's
// memory always do, so this is no more than what was asked for.
CUresult EnablePeerAccess(const Context* context, const Context* peer);
CUresult DisablePeerAccess(const Context* context, const Context* peer);
bool HasPeerAccess(const Context* context, const Context* peer);

// The flags that a context may have been created with.
bool ValidContextFlags(unsigned int flags);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXTS_H_
