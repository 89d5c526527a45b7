// The helper functions that any embedder can offer, since they need nothing but the program's maps.
#ifndef WARPLINE_POLICY_BPF_HELPERS_H_
#define WARPLINE_POLICY_BPF_HELPERS_H_

#include <cstdint>

#include "policy/bpf/host_interface.h"

namespace warpline::policy::bpf {

// map_lookup(map, key): the cells of the key's entry, or null.
uint64_t MapLookup(void* self, const uint64_t* arguments);

// map_add(map, key, cell, delta): adds to a cell of the key's entry, which a hash gets if it has
// none, and returns what the cell holds then. 0 if there is no such cell, or no room for the entry.
uint64_t MapAdd(void* self, const uint64_t* arguments);

// Their rows for HostInterface::helpers.
inline constexpr Helper kMapLookup = {
    .number = 1,
    .name = "map_lookup",
    .result = Result::kValueOrNull,
    .arguments = {Argument::kMap, Argument::kKey},
    .call = MapLookup,
};
inline constexpr Helper kMapAdd = {
    .number = 2,
    .name = "map_add",
    .result = Result::kScalar,
    .arguments = {Argument::kMap, Argument::kKey, Argument::kScalar, Argument::kScalar},
    .call = MapAdd,
};

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_HELPERS_H_
