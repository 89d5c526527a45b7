#include "client_stub/core/context/context_end.h"

#include "client_stub/core/context/context_limits.h"
#include "client_stub/core/context/green_contexts.h"
#include "client_stub/core/context/peer_access.h"
#include "client_stub/core/copy/arrays.h"
#include "client_stub/core/copy/textures.h"
#include "client_stub/core/graph/graph_memory.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/module/modules.h"
#include "client_stub/core/pinned/pinned_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/events.h"
#include "client_stub/core/stream/streams.h"
#include "client_stub/private_tables/export_tables.h"

namespace warpline::stub {

void ReleaseContents(Context* context) {
  Runtime& r = runtime();
  AwaitWorkBeforeFree(*context->device);
  if (context->primary) DestroyGreenContextsOf(*context->device);
  ForgetContext(context->handle);
  ForgetPeerAccess(context);
  r.pinned->EndAllOf(context);
  r.mirrored->FreeAllOf(context);
  ForgetGraphMemoryOf(context);
  r.memory->FreeAllOf(context);
  DestroyTexturesOf(context);
  DestroyArraysOf(context);
  DestroyEventsOf(context);
  DestroyStreamsOf(context);
  UnloadModulesOf(context);
  // A device's contexts share the server's one context. Libraries are loaded anew after the end of
  // the primary context, because that is the one that programs reset.
  if (!context->primary) return;
  ResetLibraries(*context->device);
  ResetLimits(*context->device);
}

bool ReleasePrimary(const Device& device) {
  Context* const context = device.primary;
  int references = context->references.load();
  do {
    if (references == 0) return false;
  } while (!context->references.compare_exchange_weak(references, references - 1));
  if (references == 1 && !context->was_reset) ReleaseContents(context);
  return true;
}

}  // namespace warpline::stub
