#include "client_stub/core/runtime/runtime.h"

#include "client_stub/core/base/environment.h"

namespace warpline::stub {

constinit NoDestructor<Runtime> internal::g_runtime;

const Environment& environment() {
  static const Environment* const read = new Environment(ReadEnvironment());
  return *read;
}

}  // namespace warpline::stub
