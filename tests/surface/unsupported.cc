// Calls every function of libcuda.so.1 that is not supported, with nothing and with garbage: each
// gives its documented error and the session goes on.
#include <cstdint>

#include "tests/surface/surface.h"

namespace {

struct Unsupported {
  const char* symbol;
  CUresult error;
};

constexpr Unsupported kUnsupported[] = {
#define WARPLINE_UNSUPPORTED(symbol, error) {#symbol, error},
#include "client_stub/shim/unsupported.inc"
#undef WARPLINE_UNSUPPORTED
};

// As many arguments as any of the calls has; a call with fewer does not look at the rest.
using Call = CUresult (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

CUresult CallWith(const char* symbol, uint64_t x) {
  const auto call = reinterpret_cast<Call>(surface::Symbol(symbol));
  if (call == nullptr) return static_cast<CUresult>(-1);
  return call(x, x, x, x, x, x, x, x, x, x, x, x);
}

}  // namespace

int main() {
  // This holds before cuInit, too.
  for (const uint64_t argument : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, 0x4141414141414141u}) {
    for (const Unsupported& call : kUnsupported) {
      const CUresult got = CallWith(call.symbol, argument);
      if (got != call.error) surface::Fail(call.symbol, "garbage", got);
    }
    if (!surface::Computes()) surface::Fail("the computation", "afterwards", 0);
  }
  std::printf("%zu functions, %d failures\n", std::size(kUnsupported), surface::g_failures);
  return surface::g_failures == 0 ? 0 : 1;
}
