#include "server/worker/executors/jit_options.h"

#include "proto/wire.h"

namespace warpline::worker {
namespace {

// The CUjit_options whose value is a number and means something to the server: register and thread
// bounds, optimization, target, fallback, debug and line information, verbosity, caching, position
// independence, blocks per multiprocessor, most threads, overriding directives.
constexpr uint64_t kJitOptions = 1ull << 0 | 1ull << 1 | 0x7full << 7 | 1ull << 14 | 0xfull << 30;
constexpr size_t kMaxOptions = 64;

}  // namespace

bool ReadJitOptions(std::string_view bytes, std::vector<device::JitOption>* options) {
  device::JitOption option;
  while (!bytes.empty()) {
    const bool known = TakeStruct(&bytes, &option) && option.id < 64 &&
                       options->size() < kMaxOptions && (kJitOptions >> option.id & 1) != 0;
    if (!known) return false;
    options->push_back(option);
  }
  return true;
}

}  // namespace warpline::worker
