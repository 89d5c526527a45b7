#include "client_stub/core/contexts.h"

#include "client_stub/core/arrays.h"
#include "client_stub/core/context_limits.h"
#include "client_stub/core/events.h"
#include "client_stub/core/modules.h"
#include "client_stub/core/runtime.h"
#include "client_stub/core/streams.h"
#include "client_stub/core/textures.h"
#include "client_stub/private_tables/export_tables.h"

namespace warpline::stub {

Context* FindContext(CUcontext handle) { return runtime().contexts.Find(NumberOf(handle)); }

Context* ContextOrCurrent(CUcontext handle) {
  return handle == nullptr ? t_thread.current : FindContext(handle);
}

void ReleaseContents(Context* context) {
  Runtime& r = runtime();
  ForgetContext(context->handle);
  r.mirrored->FreeAllOf(context);
  r.memory->FreeAllOf(context);
  DestroyTexturesOf(context);
  DestroyArraysOf(context);
  DestroyEventsOf(context);
  DestroyStreamsOf(context);
  UnloadModulesOf(context);
  // Contexts share the server's one: libraries begin anew with the primary one, which is the one
  // that programs reset.
  if (!context->primary) return;
  ResetLibraries();
  ResetLimits();
}

bool ValidContextFlags(unsigned int flags) {
  if ((flags & ~static_cast<unsigned int>(CU_CTX_FLAGS_MASK)) != 0) return false;
  const unsigned int schedule = flags & CU_CTX_SCHED_MASK;
  return schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN ||
         schedule == CU_CTX_SCHED_YIELD || schedule == CU_CTX_SCHED_BLOCKING_SYNC;
}

}  // namespace warpline::stub
