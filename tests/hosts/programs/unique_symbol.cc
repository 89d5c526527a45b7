// Exports a symbol with the name of one of protobuf's that is unique in a process, whatever its
// loader was told.
#include <cstdio>

#include "workload.h"

namespace google::protobuf::internal {

struct ShutdownData {
  static ShutdownData* get() {
    static ShutdownData* data = reinterpret_cast<ShutdownData*>(0x10);  // It must not be touched.
    return data;
  }
};

template <typename T>
struct ExplicitlyConstructed {
  static T value;
};
template <typename T>
T ExplicitlyConstructed<T>::value;

}  // namespace google::protobuf::internal

int main() {
  using google::protobuf::internal::ShutdownData;
  if (ShutdownData::get() != reinterpret_cast<ShutdownData*>(0x10)) return 1;
  if (RunWorkload(3) != 0) return 1;
  if (ShutdownData::get() != reinterpret_cast<ShutdownData*>(0x10)) {
    return WorkloadFailed("our unique symbol was written", 0);
  }
  std::puts("host: ok");
  return 0;
}
