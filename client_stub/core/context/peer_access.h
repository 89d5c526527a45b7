// Which contexts were given access to the memory of others, as applications ask.
#ifndef WARPLINE_CLIENT_STUB_CORE_CONTEXT_PEER_ACCESS_H_
#define WARPLINE_CLIENT_STUB_CORE_CONTEXT_PEER_ACCESS_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// As cuCtxEnablePeerAccess and cuCtxDisablePeerAccess. Devices that are able to access each other's
// memory always do, so this is no more than what was asked for.
CUresult EnablePeerAccess(const Context* context, const Context* peer);
CUresult DisablePeerAccess(const Context* context, const Context* peer);
bool HasPeerAccess(const Context* context, const Context* peer);

// At the end of `context`: what it and others enabled.
void ForgetPeerAccess(const Context* context);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXT_PEER_ACCESS_H_
