#include "client_stub/core/graph/user_objects.h"

#include <algorithm>

#include "client_stub/core/base/handle_table.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/host_calls.h"

namespace warpline::stub {
namespace {

struct UserObjectRef {
  UserObject* object = nullptr;
};
using UserObjectTable = HandleTable<UserObjectRef, HandleKind::kUserObject, true>;

UserObjectTable& table() {
  static UserObjectTable* const made = new UserObjectTable;
  return *made;
}

}  // namespace

UserObject* FindUserObject(CUuserObject handle) {
  const UserObjectRef* ref = table().Find(NumberOf(handle));
  return ref == nullptr ? nullptr : ref->object;
}

UserObject* CreateUserObject(void* data, CUhostFn destroy, uint64_t references) {
  UserObject* const object = new UserObject{nullptr, data, destroy, references};
  const uint64_t handle = table().Add([object](UserObjectRef& ref, uint64_t number) {
    ref.object = object;
    object->handle = HandleOf<CUuserObject>(number);
  });
  if (handle != 0) return object;
  delete object;
  return nullptr;
}

void RetainUserObject(UserObject* object, uint64_t count) { object->references += count; }

void ReleaseUserObject(UserObject* object, uint64_t count) {
  object->references -= std::min(count, object->references);
  if (object->references > 0) return;
  table().Remove(NumberOf(object->handle), [](UserObjectRef& ref) { ref.object = nullptr; });
  runtime().host_calls->RunSoon(object->destroy, object->data);
  delete object;
}

}  // namespace warpline::stub
