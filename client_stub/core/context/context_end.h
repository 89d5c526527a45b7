// Ending a context ends everything that was created in it.
#ifndef WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_END_H_
#define WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_END_H_

#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Frees and unloads everything that was created in the context.
void ReleaseContents(Context* context);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_END_H_
