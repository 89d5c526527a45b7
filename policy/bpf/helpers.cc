#include "policy/bpf/helpers.h"

#include <atomic>
#include <cstdint>

#include "policy/bpf/map.h"

namespace warpline::policy::bpf {
namespace {

// The verifier has seen that the first two arguments are a map and a key of it.
Map* MapOf(const uint64_t* arguments) { return reinterpret_cast<Map*>(arguments[0]); }
const void* KeyOf(const uint64_t* arguments) { return reinterpret_cast<const void*>(arguments[1]); }

}  // namespace

uint64_t MapLookup(void* /*self*/, const uint64_t* arguments) {
  return reinterpret_cast<uint64_t>(MapOf(arguments)->Find(KeyOf(arguments)));
}

uint64_t MapAdd(void* /*self*/, const uint64_t* arguments) {
  Map* map = MapOf(arguments);
  const uint64_t cell = arguments[2];
  if (cell >= map->shape().value_cells) return 0;
  Map::Cell* cells = map->FindOrAdd(KeyOf(arguments));
  if (cells == nullptr) return 0;
  return cells[cell].fetch_add(arguments[3], std::memory_order_relaxed) + arguments[3];
}

}  // namespace warpline::policy::bpf
