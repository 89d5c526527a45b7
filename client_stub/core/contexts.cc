#include "client_stub/core/contexts.h"

#include <set>
#include <utility>

#include "client_stub/core/arrays.h"
#include "client_stub/core/context_limits.h"
#include "client_stub/core/events.h"
#include "client_stub/core/modules.h"
#include "client_stub/core/runtime.h"
#include "client_stub/core/streams.h"
#include "client_stub/core/textures.h"
#include "client_stub/private_tables/export_tables.h"
#include "common/mutex.h"

namespace warpline::stub {
namespace {

using Access = std::pair<const Context*, const Context*>;  // Who, to whose memory.

struct Peers {
  Mutex mu;
  std::set<Access> enabled ABSL_GUARDED_BY(mu);
};

Peers& peers() {
  static Peers* const made = new Peers;
  return *made;
}

void ForgetPeerAccess(const Context* context) {
  MutexLock lock(&peers().mu);
  std::erase_if(peers().enabled, [context](const Access& access) {
    return access.first == context || access.second == context;
  });
}

}  // namespace

Context* FindContext(CUcontext handle) { return runtime().contexts.Find(NumberOf(handle)); }

Context* ContextOrCurrent(CUcontext handle) {
  return handle == nullptr ? t_thread.current : FindContext(handle);
}

void ReleaseContents(Context* context) {
  Runtime& r = runtime();
  ForgetContext(context->handle);
  ForgetPeerAccess(context);
  r.mirrored->FreeAllOf(context);
  r.memory->FreeAllOf(context);
  DestroyTexturesOf(context);
  DestroyArraysOf(context);
  DestroyEventsOf(context);
  DestroyStreamsOf(context);
  UnloadModulesOf(context);
  // A device's contexts share the server's one: libraries begin anew with the primary one, which is
  // the one that programs reset.
  if (!context->primary) return;
  ResetLibraries(*context->device);
  ResetLimits(*context->device);
}

CUresult EnablePeerAccess(const Context* context, const Context* peer) {
  if (!context->device->can_access(*peer->device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  MutexLock lock(&peers().mu);
  return peers().enabled.insert({context, peer}).second ? CUDA_SUCCESS
                                                        : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult DisablePeerAccess(const Context* context, const Context* peer) {
  MutexLock lock(&peers().mu);
  return peers().enabled.erase({context, peer}) != 0 ? CUDA_SUCCESS
                                                     : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

bool HasPeerAccess(const Context* context, const Context* peer) {
  MutexLock lock(&peers().mu);
  return peers().enabled.contains({context, peer});
}

bool ValidContextFlags(unsigned int flags) {
  if ((flags & ~static_cast<unsigned int>(CU_CTX_FLAGS_MASK)) != 0) return false;
  const unsigned int schedule = flags & CU_CTX_SCHED_MASK;
  return schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN ||
         schedule == CU_CTX_SCHED_YIELD || schedule == CU_CTX_SCHED_BLOCKING_SYNC;
}

}  // namespace warpline::stub
