// Ending a context ends everything that was created in it.
#ifndef WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_END_H_
#define WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_END_H_

#include "client_stub/core/runtime/device.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Waits for the work of the context's device, and frees and unloads everything that was created in
// the context.
void ReleaseContents(Context* context);

// Takes back one retain of a device's primary context, which ends with the last one. Returns false
// when nobody retains it.
bool ReleasePrimary(const Device& device);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_END_H_
