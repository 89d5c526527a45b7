// Enumerations of CUDA's interface that applications fill in.
//
//   switch (ValueOf(attribute.id)) { case CU_LAUNCH_ATTRIBUTE_PRIORITY: ...
//
// In C an enumeration holds any int, and an application that is newer than our headers, or wrong,
// gives one that they do not name. In C++ it is undefined to read that as the enumeration.
#ifndef WARPLINE_CLIENT_STUB_CORE_BASE_ENUM_VALUE_H_
#define WARPLINE_CLIENT_STUB_CORE_BASE_ENUM_VALUE_H_

#include <cstring>
#include <type_traits>

namespace warpline::stub {

// The number that lies at `from`, whether or not the enumeration has it.
template <typename Enum>
int ValueOf(const Enum& from) {
  static_assert(std::is_enum_v<Enum> && sizeof(Enum) == sizeof(int));
  int value;
  std::memcpy(&value, &from, sizeof(value));
  return value;
}

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BASE_ENUM_VALUE_H_
