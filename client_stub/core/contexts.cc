#include "client_stub/core/contexts.h"

#include "client_stub/core/events.h"
#include "client_stub/core/modules.h"
#include "client_stub/core/runtime.h"
#include "client_stub/core/streams.h"
#include "client_stub/private_tables/export_tables.h"

namespace warpline::stub {

void InitializeLimits(Context* context) {
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  context->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0;
  context->limits[CU_LIMIT_SHMEM_SIZE] =
      runtime().session->device().attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN];
  context->limits[CU_LIMIT_CIG_ENABLED] = 0;
}

Context* FindContext(CUcontext handle) { return runtime().contexts.Find(NumberOf(handle)); }

Context* ContextOrCurrent(CUcontext handle) {
  return handle == nullptr ? t_thread.current : FindContext(handle);
}

void ReleaseContents(Context* context) {
  Runtime& r = runtime();
  ForgetContext(context->handle);
  r.memory->FreeAllOf(context);
  DestroyEventsOf(context);
  DestroyStreamsOf(context);
  UnloadModulesOf(context);
}

bool ValidContextFlags(unsigned int flags) {
  if ((flags & ~static_cast<unsigned int>(CU_CTX_FLAGS_MASK)) != 0) return false;
  const unsigned int schedule = flags & CU_CTX_SCHED_MASK;
  return schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN ||
         schedule == CU_CTX_SCHED_YIELD || schedule == CU_CTX_SCHED_BLOCKING_SYNC;
}

}  // namespace warpline::stub
