#include "client_stub/core/runtime/contexts.h"

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"

namespace warpline::stub {

Context* FindContext(CUcontext handle) { return runtime().contexts.Find(NumberOf(handle)); }

Context* ContextOrCurrent(CUcontext handle) {
  return handle == nullptr ? t_thread.current : FindContext(handle);
}

bool ValidContextFlags(unsigned int flags) {
  if ((flags & ~static_cast<unsigned int>(CU_CTX_FLAGS_MASK)) != 0) return false;
  const unsigned int schedule = flags & CU_CTX_SCHED_MASK;
  return schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN ||
         schedule == CU_CTX_SCHED_YIELD || schedule == CU_CTX_SCHED_BLOCKING_SYNC;
}

}  // namespace warpline::stub
