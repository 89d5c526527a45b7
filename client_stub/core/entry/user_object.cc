// Objects of the application that graphs keep alive (user_objects.h).
#include <algorithm>
#include <climits>
#include <cstdint>

#include "client_stub/core/graph/graph.h"
#include "client_stub/core/graph/user_objects.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/captures.h"

using namespace warpline::stub;
using warpline::MutexLock;

namespace {

bool ValidCount(unsigned int count) { return count > 0 && count <= INT_MAX; }

}  // namespace

extern "C" {

CUresult CUDAAPI cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy,
                                    unsigned int initialRefcount, unsigned int flags) {
  WARPLINE_TRY(EnterInitialized());
  if (object_out == nullptr || destroy == nullptr || !ValidCount(initialRefcount) ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  MutexLock lock(&GraphMutex());
  const UserObject* const object = CreateUserObject(ptr, destroy, initialRefcount);
  if (object == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *object_out = object->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  UserObject* const found = FindUserObject(object);
  if (found == nullptr || !ValidCount(count)) return CUDA_ERROR_INVALID_VALUE;
  RetainUserObject(found, count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  UserObject* const found = FindUserObject(object);
  if (found == nullptr || !ValidCount(count)) return CUDA_ERROR_INVALID_VALUE;
  ReleaseUserObject(found, count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                         unsigned int flags) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  Graph* const found = FindGraph(graph);
  UserObject* const held = FindUserObject(object);
  if (found == nullptr || held == nullptr || !ValidCount(count) ||
      (flags & ~static_cast<unsigned int>(CU_GRAPH_USER_OBJECT_MOVE)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) RetainUserObject(held, count);
  found->objects[held] += count;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  WARPLINE_TRY(EnterInitialized());
  MutexLock lock(&GraphMutex());
  Graph* const found = FindGraph(graph);
  UserObject* const held = FindUserObject(object);
  if (found == nullptr || held == nullptr || !ValidCount(count)) return CUDA_ERROR_INVALID_VALUE;
  const auto it = found->objects.find(held);
  if (it == found->objects.end()) return CUDA_ERROR_INVALID_VALUE;
  // As with NVIDIA's driver, a count above the graph's references releases all of those and no
  // others.
  const uint64_t released = std::min<uint64_t>(count, it->second);
  it->second -= released;
  if (it->second == 0) found->objects.erase(it);
  ReleaseUserObject(held, released);
  return CUDA_SUCCESS;
}

}  // extern "C"
