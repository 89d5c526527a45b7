#include "client_stub/core/runtime.h"

#include "client_stub/core/environment.h"

namespace warpline::stub {

constinit NoDestructor<Runtime> internal::g_runtime;

const Environment& environment() {
  static const Environment* const read = new Environment(ReadEnvironment());
  return *read;
}

}  // namespace warpline::stub
