#include "client_stub/core/context/peer_access.h"

#include <set>
#include <utility>

#include "client_stub/core/runtime/device.h"
#include "common/mutex.h"

namespace warpline::stub {
namespace {

using Access =
    std::pair<const Context*, const Context*>;  // The first may access the second's memory.

struct Peers {
  Mutex mu;
  std::set<Access> enabled ABSL_GUARDED_BY(mu);
};

Peers& peers() {
  static Peers* const made = new Peers;
  return *made;
}

}  // namespace

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

void ForgetPeerAccess(const Context* context) {
  MutexLock lock(&peers().mu);
  std::erase_if(peers().enabled, [context](const Access& access) {
    return access.first == context || access.second == context;
  });
}

}  // namespace warpline::stub
