// Objects of the application that must live as long as a graph that uses them; graphs hold
// references to them. When the last reference goes, the application's function is called.
#ifndef WARPLINE_CLIENT_STUB_CORE_GRAPH_USER_OBJECTS_H_
#define WARPLINE_CLIENT_STUB_CORE_GRAPH_USER_OBJECTS_H_

#include <cstdint>

#include "client_stub/core/base/cuda_api.h"

namespace warpline::stub {

struct UserObject {
  CUuserObject handle = nullptr;
  void* data = nullptr;
  CUhostFn destroy = nullptr;
  uint64_t references = 0;
};

// All functions here are called with GraphMutex() held.
UserObject* FindUserObject(CUuserObject handle);
// Returns nullptr when there are too many.
UserObject* CreateUserObject(void* data, CUhostFn destroy, uint64_t references);
void RetainUserObject(UserObject* object, uint64_t count);
// A `count` above the number of references releases all. The application's function is called
// later, on a thread of this driver.
void ReleaseUserObject(UserObject* object, uint64_t count);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_GRAPH_USER_OBJECTS_H_
