#include "server/gpu_server/memory/away_memory.h"

#include <algorithm>

namespace warpline::server {

uint64_t AwayMemory::held_bytes() const {
  return static_cast<uint64_t>(std::count(used.begin(), used.end(), true)) * SwapSpace::kGranule;
}

}  // namespace warpline::server
