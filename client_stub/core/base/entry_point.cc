#include "client_stub/core/base/entry_point.h"

#include <algorithm>
#include <atomic>

#include "client_stub/shim/entry_points.h"

namespace warpline::stub {
namespace {

std::atomic<const warpline_shim*> g_shim{nullptr};

}  // namespace

uint32_t IndexOf(const warpline_shim& shim, std::string_view symbol) {
  const char* const* end = shim.names + shim.count;
  const char* const* found = std::lower_bound(
      shim.names, end, symbol, [](const char* name, std::string_view s) { return name < s; });
  if (found == end || *found != symbol) return shim.count;
  return static_cast<uint32_t>(found - shim.names);
}

void SetShim(const warpline_shim* shim) { g_shim.store(shim, std::memory_order_release); }

void* EntryPoint(const char* name, int cuda_version, uint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  const warpline_shim* shim = g_shim.load(std::memory_order_acquire);
  const char* symbol = ResolveSymbol(name, cuda_version, flags, status);
  if (shim == nullptr || symbol == nullptr) return nullptr;
  const uint32_t index = IndexOf(*shim, symbol);
  return index == shim->count ? nullptr : shim->trampolines[index];
}

}  // namespace warpline::stub
