// Remembers which contexts the application gave access to the memory of which others.
#ifndef WARPLINE_CLIENT_STUB_CORE_CONTEXT_PEER_ACCESS_H_
#define WARPLINE_CLIENT_STUB_CORE_CONTEXT_PEER_ACCESS_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Work like cuCtxEnablePeerAccess and cuCtxDisablePeerAccess. Devices that can access each other's
// memory always do, so only the request itself is recorded.
CUresult EnablePeerAccess(const Context* context, const Context* peer);
CUresult DisablePeerAccess(const Context* context, const Context* peer);
bool HasPeerAccess(const Context* context, const Context* peer);

// Forgets, at the end of `context`, what it enabled and what others enabled for it.
void ForgetPeerAccess(const Context* context);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXT_PEER_ACCESS_H_
